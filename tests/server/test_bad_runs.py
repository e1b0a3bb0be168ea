"""Bad-input rows of docs/internals/reliability.md that need a run, a stream or both stores, by their ids."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from stepwell import Context, workflow
from stepwell.domain.retry import Retry, backoff_delay
from stepwell.server.listener import settle_objects
from stepwell.store.base import INBOX_MAX
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import PATIENCE, Engines, until
from tests.server import test_bad_input as corpus
from tests.server.served import BEARER, FLOWS, Served, bearer, code, served

END = a("Z", "end")


@pytest.mark.req("X9")
async def test_requests_and_graphs_of_the_corpus_are_refused_on_both_stores(durable_engines: Engines) -> None:
    """BI-A01 to BI-A30 and BI-G01 to BI-G32: their codes are tested beside each row."""
    async with served(durable_engines.new(*FLOWS)) as client:
        posted = [
            *[(body, corpus.JSON) for bodies, _ in corpus.BODIES.values() for body in bodies],
            *[(corpus.start(b"1"), headers) for rows, _ in corpus.HEADERS.values() for headers in rows],
        ]
        paths = [path for rows, _ in corpus.ADDRESSES.values() for path in rows]
        graphs = [graph for rows, _ in corpus.GRAPHS.values() for graph in rows]
        answers = [
            *[await client.post("/api/v1/runs", content=body, headers=headers) for body, headers in posted],
            *[await client.get(f"/api/v1/{path}") for path in paths],
            *[await client.post("/api/v1/graphs", json={"graph": graph}) for graph in graphs],
        ]
        assert {answer.status_code for answer in answers} <= {400, 404, 413, 415, 422}
        assert all(code(answer) for answer in answers)
        await corpus.unharmed(client)


@pytest.mark.req("X9", "G2")
async def test_a_fully_connected_graph_is_refused_quickly(memory_engines: Engines) -> None:
    """BI-G17."""
    nodes = [{"id": str(n), "type": "delay", "data": {"ms": 1}} for n in range(500)]
    edges = [{"source": str(n), "target": str(m)} for n in range(500) for m in range(n)]
    graph = {"nodes": nodes, "edges": edges}
    async with served(memory_engines.new(*FLOWS)) as client:
        began = time.process_time()
        problems = client.app.state.engine.graphs.check(graph)
        seconds = time.process_time() - began
        answer = await client.post("/api/v1/graphs", json={"graph": graph, "name": "bad"})
        await corpus.unharmed(client)

    assert [problem.code for problem in problems] == ["GRAPH_TOO_LARGE"]
    assert seconds < 0.1
    assert code(answer) in ("JSON_TOO_MANY_NODES", "BODY_TOO_LARGE")


@pytest.mark.req("X9", "K5")
@pytest.mark.parametrize("backoff", ["fixed", "linear", "exponential"])
def test_a_backoff_that_overflows_is_capped(backoff: Any) -> None:
    """BI-G21."""
    for failures in (1, 63, 64, 2000, 10**6):
        assert 0 < backoff_delay(1.0, backoff, failures, 60.0) <= 60.0
        assert backoff_delay(1e300, backoff, failures, 60.0) == 60.0
    assert Retry(2001, delay="1s", max_delay="1m").wait_after(2000, ValueError(), 0.5) is not None


MOMENTS = ["9999-01-01T00:00:00Z", "2027-01-01T00:00:00", "2027-02-29T00:00:00Z", "soon", ""]


@pytest.mark.req("X9", "G2")
async def test_a_moment_in_the_past_comes_at_once_and_a_wrong_one_is_refused(memory_engines: Engines) -> None:
    """BI-G23."""
    async with served(memory_engines.new(*FLOWS)) as client:
        for moment in MOMENTS:
            graph = corpus.waiting("delay", until=moment)
            refused = await client.post("/api/v1/graphs", json={"graph": graph, "name": "bad"})
            assert [field["code"] for field in refused.json()["fields"]] == ["TIMESTAMP"], moment
        await corpus.unharmed(client)
        for graph in (
            corpus.waiting("delay", until="2020-01-01T00:00:00Z"),
            chart([START, a("W", "delay", until="{{ctx.input.at}}"), END], "S>W W>Z"),
        ):
            past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
            body = {"graph": graph, "input": {"at": past}}
            run = (await client.post("/api/v1/graphs/test", json=body)).json()["id"]
            assert (await client.ended(run))["status"] == "completed"


@pytest.mark.req("X9", "X5")
async def test_a_called_workflow_that_is_missing_foreign_or_itself_fails_the_run(
    memory_engines: Engines,
) -> None:
    """BI-G27."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url, timeout=60) as olga:
        olga.headers.update(await bearer(engine, "olga", workspace="other"))

        async def failure(caller: httpx.AsyncClient, graph: dict[str, Any]) -> Any:
            started = await caller.post("/api/v1/graphs/test", json={"graph": graph, "input": {}})
            path = f"/api/v1/runs/{started.json()['id']}?wait=30s"
            return (await caller.get(path)).json()["error"]

        missing = await failure(client, corpus.waiting("workflow", workflow="nothing"))
        foreign = await failure(olga, corpus.waiting("workflow", workflow="doubling"))
        itself = corpus.waiting("workflow", workflow="itself")
        await client.post("/api/v1/graphs", json={"graph": itself, "name": "itself"})
        await client.post("/api/v1/graphs/itself/publish")
        deep = await failure(client, corpus.waiting("workflow", workflow="itself"))

    assert (missing["code"], foreign["code"]) == ("UNKNOWN_WORKFLOW", "UNKNOWN_WORKFLOW")
    assert missing["message"].replace("nothing", "doubling") == foreign["message"]
    assert "CALL_DEPTH" in str(deep)


@pytest.mark.req("X9")
async def test_the_signal_after_ten_thousand_is_refused(memory_engines: Engines) -> None:
    """BI-S04."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client:
        run = await client.started("asking", "x")
        await client.waiting(run)
        await client.post(f"/api/v1/runs/{run}/hold")  # it takes no messages
        handle = engine.handle(run)
        for first in range(0, INBOX_MAX, 500):
            await asyncio.gather(*[handle.signal("word", n) for n in range(first, first + 500)])
        full = await client.post(f"/api/v1/runs/{run}/signal", json={"name": "word"})
        other = await client.started("listening", 1)
        served_too = await client.post(f"/api/v1/runs/{other}/signal", json={"name": "word"})

    assert (full.status_code, code(full)) == (429, "SIGNAL_LIMIT")
    assert served_too.status_code == 200


@workflow
async def brief(ctx: Context, text: str) -> str:
    answer = await ctx.approval(str, title=text, timeout="100ms")
    await ctx.signal("go")
    return str(answer)


@pytest.mark.req("X9")
async def test_a_decision_after_its_time_and_a_second_cancel_change_nothing(engines: Engines) -> None:
    """BI-S05, BI-S06."""
    async with served(engines.new(brief, *FLOWS)) as client:
        run = await client.started("brief", "now?")
        path = f"/api/v1/runs/{run}"

        async def over() -> bool:
            waits = (await client.get(f"{path}/waits")).json()
            data = (await client.get(path)).json()
            return bool(data["ended_at"]) or any(wait["what"] == "signal" for wait in waits["waits"])

        await until(over)
        late = await client.post(f"{path}/decide", json={"answer": "yes"})
        waiting = await client.started("listening", 1)
        await client.waiting(waiting)
        cancelled = [(await client.post(f"/api/v1/runs/{waiting}/cancel")) for _ in "12"]
        ended = await client.ended(waiting)

    assert late.status_code == 409
    assert code(late) in ("ALREADY_DECIDED", "RUN_ENDED")
    assert [answer.status_code for answer in cancelled] == [200, 200]
    assert ended["status"] == "cancelled"


@workflow
async def sleeping(ctx: Context, duration: float | str) -> str:
    await ctx.sleep(duration)
    return "awake"


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is in a time zone whose clocks change."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.req("X9")
@pytest.mark.usefixtures("in_berlin")
async def test_timers_of_nothing_of_a_moment_and_of_years(engines: Engines) -> None:
    """BI-S07."""
    engine = engines.new(sleeping, *FLOWS)
    day, over = 86_400, 366 * 86_400 + 1
    async with served(engine) as client:
        short = [await client.started("sleeping", length) for length in (0, 0.001, "1ms")]
        wrong = [await client.started("sleeping", length) for length in (-1, 1e300, "36601d", "soon")]
        long = {length: await client.started("sleeping", length) for length in (220 * day, over)}
        ends = [(await client.ended(run))["status"] for run in short]
        errors = [(await client.ended(run))["error"]["code"] for run in wrong]
        for length, run in long.items():  # 220 days of Berlin are an hour shorter or longer on the wall
            await client.waiting(run)
            row, [wait] = await engine.handle(run).info(), await engine.handle(run).waits()
            assert wait.due_at is not None
            assert 0 <= wait.due_at - row.created_at - length < PATIENCE

    assert ends == ["completed"] * 3
    assert errors == ["INVALID_DEFINITION"] * 4


@pytest.mark.req("X9", "N11")
async def test_delays_of_graphs_of_nothing_of_a_moment_and_of_years(engines: Engines) -> None:
    """BI-S07."""
    year = 365 * 86_400_000
    async with served(engines.new(*FLOWS)) as client:
        for ms in (year + 1, 366 * 86_400_000 + 1, -1):
            body = {"graph": corpus.waiting("delay", ms=ms), "name": "bad"}
            refused = await client.post("/api/v1/graphs", json=body)
            assert (refused.status_code, refused.json()["fields"][0]["code"]) == (422, "DURATION"), ms
        for ms in (0, 1):
            body = {"graph": corpus.waiting("delay", ms=ms), "input": {}}
            run = (await client.post("/api/v1/graphs/test", json=body)).json()["id"]
            assert (await client.ended(run))["status"] == "completed"
        body = {"graph": corpus.waiting("delay", ms=year), "input": {}}
        run = (await client.post("/api/v1/graphs/test", json=body)).json()["id"]
        assert (await client.waiting(run))[0]["what"] == "timer"


# X: files, streams, pages


@pytest.mark.req("X9")
async def test_names_of_documents_are_names_and_not_paths(sqlite: Engines) -> None:
    """BI-X02."""
    names = ["..%2f..%2fetc%2fpasswd", "%252e%252e%252fetc%252fpasswd", "..%5c..%5cwin.ini", "%2e%2e"]
    async with served(sqlite.new(*FLOWS)) as client:
        run = await client.started("doubling", 1)
        await client.ended(run)
        for name in names:
            answer = await client.get(f"/api/v1/runs/{run}/documents/{name}")
            assert answer.status_code == 404, name
            assert code(answer) in ("DOCUMENT_NOT_FOUND", "NOT_FOUND")


@pytest.mark.req("X9", "A3")
async def test_streams_open_for_a_key_in_a_header_only(memory_engines: Engines) -> None:
    """BI-X05, BI-X06, BI-X07."""
    async with served(memory_engines.new(*FLOWS)) as client, httpx.AsyncClient(base_url=client.url) as page:
        run = await client.started("doubling", 1)
        await client.ended(run)
        path = f"/api/v1/runs/{run}/stream"
        for address in (path, f"/api/v1/stream?topics=run:{run}", "/api/v1/stream?topics=runs"):
            assert code(await page.get(address)) == "UNAUTHENTICATED"
            mark = "&" if "?" in address else "?"
            token = BEARER["Authorization"].removeprefix("Bearer ")
            for name in ("t", "token", "key", "access_token"):
                refused = await page.get(f"{address}{mark}{name}={token}", headers=BEARER)
                assert code(refused) == "KEY_IN_URL"
        for last in ("abc", "-1", str(2**63)):
            assert code(await client.get(path, headers={"Last-Event-ID": last})) == "CURSOR_INVALID"
        many = "&".join(["topics=runs"] * 2)
        assert (await client.get(f"/api/v1/stream?{many}")).status_code == 400
        topics = ",".join(f"run:{run}" for _ in range(10_000))
        assert 400 <= (await client.get(f"/api/v1/stream?topics={topics[:40_000]}")).status_code < 500
        await client.get("/healthz")


@pytest.mark.req("X9", "G18")
async def test_the_second_of_two_tabs_is_told_which_nodes_differ(memory_engines: Engines) -> None:
    """BI-X11."""
    async with served(memory_engines.new(*FLOWS)) as client:
        body = {"graph": chart([START, END], "S>Z"), "name": "draft"}
        loaded = (await client.post("/api/v1/graphs", json=body)).headers["etag"]
        mine = {"graph": chart([START, a("Mine", "delay", ms=1), END], "S>Mine Mine>Z")}
        theirs = {"graph": chart([START, a("Theirs", "delay", ms=1), END], "S>Theirs Theirs>Z")}
        headers = {"If-Match": loaded}
        first = await client.put("/api/v1/graphs/draft", json=theirs, headers=headers)
        second = await client.put("/api/v1/graphs/draft", json=mine, headers=headers)

    assert first.status_code == 200
    assert (second.status_code, code(second)) == (409, "CONFLICT")
    assert all(name in second.json()["context"]["nodes"] for name in ("Mine", "Theirs"))


@pytest.mark.req("X9")
async def test_words_of_an_error_are_searched_literally(engines: Engines) -> None:
    """BI-X12."""
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("failing", "card declined 100 percent")
        await client.ended(run)

        async def found(words: str) -> int:
            answer = await client.get("/api/v1/runs", params={"error": words})
            return len(answer.json()["runs"]) if answer.status_code == 200 else answer.status_code

        assert await found("declined card") == 1
        for words in (".*", "%", "_", "'; drop table runs; --", "decl%", "\n[ERROR] forged"):
            assert await found(words) in (0, 400, 422), words
        assert await found("x" * 10_240) in (400, 422)
        assert await found("declined") == 1


# PT-25


def bodies() -> dict[str, bytes]:
    """Bodies that a careless parser spends minutes or gigabytes on."""
    names = [b'"a%d":1' % n for n in range(90_000)]
    twins = [b"".join((b"Ez", b"FY")[n >> bit & 1] for bit in range(16)) for n in range(60_000)]
    return {
        "deep": b"[" * 4_000_000,
        "wide": b"[" + b"1," * 2_000_000 + b"1]",
        "twice at the end": b"{" + b",".join([*names, names[-1]]) + b"}",
        "names with one hash elsewhere": b"{" + b",".join(b'"%s":1' % name for name in twins) + b"}",
        "digits": b"[" + b"1" * 4_000_000 + b"]",
        "escapes": b'["' + b"\\u0041" * 600_000 + b'"]',
        "backslashes": b'["' + b"\\" * 4_000_000 + b'"]',
        "surrogates": b'["' + b"\\ud83d\\ude00" * 300_000 + b'"]',
        "tags": b'{"workflow": "x", "tags": {' + b",".join(b'"t%d":[]' % n for n in range(40_000)) + b"}}",
    }


@pytest.mark.req("X9")
async def test_a_body_for_a_slow_parser_holds_up_nobody_else(memory_engines: Engines) -> None:
    """PT-25: every hostile body is refused in a fraction of a second, so others wait no longer than that."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url, timeout=60) as attacker:
        attacker.headers.update(await bearer(engine, "eve", workspace="other"))

        async def refused_after(body: bytes) -> float:
            began = time.process_time()
            answer = await attacker.post("/api/v1/runs", content=body, headers=corpus.JSON)
            assert 400 <= answer.status_code < 500
            return time.process_time() - began

        for name, body in bodies().items():
            # The least of three: a collection of the whole test process' garbage may fall into one of them.
            seconds = min([await refused_after(body) for _ in range(3)])
            assert seconds < 0.5, (name, seconds)

        async def attack() -> None:
            for body in [*bodies().values()] * 2:
                await attacker.post("/api/v1/runs", content=body, headers=corpus.JSON)

        attacking = asyncio.create_task(attack())
        served_meanwhile = 0
        while not attacking.done():
            run = await client.started("doubling", served_meanwhile)
            assert (await client.ended(run))["output"] == served_meanwhile * 2
            served_meanwhile += 1
        await attacking
        await unhurt(client)

    assert served_meanwhile > 3


@pytest.fixture
def small_heap() -> None:
    """Keep the objects of earlier tests out of collections, which would stop every request at once."""
    gc.collect()
    gc.freeze()


def heavy_graphs() -> dict[str, dict[str, Any]]:
    """Graphs that take as long to check as any body of that size."""
    sums = {f"v{n}": "{{ctx.input.a + 1}} and {{ctx.input.b}}" for n in range(190)}
    chain = " ".join(f"n{n}>n{n + 1}" for n in range(489))
    return {
        "ten thousand expressions": chart(
            [START, a("A", "set", values={f"v{n}": "{{ctx.input.a + 1}}" for n in range(10_000)}), END],
            "S>A A>Z",
        ),
        "expressions in every node": chart(
            [START, *[a(f"n{n}", "set", values=sums) for n in range(490)], END],
            f"S>n0 {chain} n489>Z",
            maxNodes=500,
        ),
        "a cycle of 400": corpus.ring(400),
        "diamonds": corpus.ACCEPTED["BI-G18"],
        "a chain": corpus.ACCEPTED["BI-G19"],
    }


@pytest.mark.slow
@pytest.mark.req("X9")
@pytest.mark.usefixtures("small_heap")
async def test_a_graph_that_takes_long_to_check_holds_up_nobody_else(memory_engines: Engines) -> None:
    """PT-25: checks run beside the requests of others, whatever they are made for."""
    engine = memory_engines.client()
    settle_objects()  # as a server does: this process has the objects of all tests
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url, timeout=60) as attacker:
        attacker.headers.update(await bearer(engine, "eve", workspace="other"))
        longest = {}
        graphs = heavy_graphs()
        heavy = graphs["ten thousand expressions"]
        requests: dict[str, tuple[str, str, dict[str, Any]]] = {
            name: ("POST", "graphs/validate", {"graph": graph}) for name, graph in graphs.items()
        }
        requests |= {
            "save": ("POST", "graphs", {"graph": heavy, "name": "heavy"}),
            "save again": ("PUT", "graphs/heavy", {"graph": heavy}),
            "publish": ("POST", "graphs/heavy/publish", {}),
            "try": ("POST", "graphs/test", {"graph": heavy, "input": {"a": 1, "b": 2}}),
        }
        for name, (method, path, body) in requests.items():
            address = f"/api/v1/{path}"
            longest[name], answer = await _waits_beside(client, attacker, method, address, json=body)
        run = answer.json()["id"]
        for path in ("steps", "state"):
            longest[path], _ = await _waits_beside(client, attacker, "GET", f"/api/v1/runs/{run}/{path}")

    slow = {name: figures for name, figures in longest.items() if figures[0] > 1.0}
    assert not {
        name: (seconds, wait, count)
        for name, (seconds, wait, count) in slow.items()
        if wait >= seconds / 2 or count <= 2
    }
    assert not {name: seconds for name, (seconds, _, _) in longest.items() if seconds >= 20}


async def _waits_beside(
    client: Served, attacker: httpx.AsyncClient, method: str, path: str, **body: Any
) -> tuple[tuple[float, float, int], httpx.Response]:
    """How long a request took; the longest wait of another caller meanwhile; how many there were."""
    began = time.perf_counter()
    attack = asyncio.create_task(attacker.request(method, path, **body))
    waits = []
    while not attack.done():
        asked = time.perf_counter()
        assert (await client.get("/api/v1/me")).status_code == 200
        waits.append(time.perf_counter() - asked)
    answer = await attack
    assert answer.status_code in (200, 201, 400, 422), answer.text[:300]
    return (time.perf_counter() - began, max(waits), len(waits)), answer


async def unhurt(client: Served) -> None:
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/api/v1/runs?limit=1")).json()["runs"][0]["status"] == "completed"
