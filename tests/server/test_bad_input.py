"""The bad-input rows of docs/internals/reliability.md over HTTP, by their ids.

Each gets its code: never a 5xx, a stack trace or a hang. Nothing is written, and the next request is served.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any

import httpx
import pytest

from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, until
from tests.server.served import FLOWS, TOKEN, Served, assigned, bearer, code, served

JSON = {"Content-Type": "application/json"}
NOBODY = "0" * 32
END = a("Z", "end")
Expected = set[tuple[int, str]]


def start(value: bytes) -> bytes:
    return b'{"workflow": "doubling", "input": ' + value + b"}"


async def unharmed(client: Served) -> None:
    assert (await client.get("/api/v1/runs")).json()["runs"] == []
    assert (await client.get("/api/v1/graphs")).json()["graphs"] == []
    assert (await client.get("/healthz")).status_code == 200


# A: requests

BODIES: dict[str, tuple[list[bytes], Expected]] = {
    "BI-A01": ([b"{workflow}", b"{} {}", b"{'a': 1}"], {(400, "JSON_INVALID")}),
    "BI-A02": ([b""], {(400, "BODY_REQUIRED")}),
    "BI-A03": ([b"[]", b'"x"', b"7", b"null"], {(422, "TYPE_MISMATCH")}),
    "BI-A05": ([b"[" * 100_000, b'{"a":' * 100_000], {(400, "JSON_TOO_DEEP")}),
    "BI-A06": ([start(b"[" + b"1," * 1_000_000 + b"1]")], {(400, "JSON_TOO_MANY_NODES")}),
    "BI-A07": ([start(b'{"a": 1, "a": 2}')], {(400, "JSON_DUPLICATE_KEY")}),
    "BI-A08": ([start(b"NaN"), start(b"Infinity"), start(b"1e999")], {(400, "JSON_NUMBER")}),
    "BI-A09": ([start(b"9007199254740992"), start(b"1" * 30)], {(422, "NUMBER_PRECISION")}),
    "BI-A10": ([start(b"1" * 5000)], {(400, "JSON_NUMBER")}),
    "BI-A11": ([start(b'"\\ud800"')], {(400, "STRING_UNICODE")}),
    "BI-A12": ([b'{"workflow": "a\\u0000b"}'], {(422, "INVALID_INPUT")}),
    "BI-A13": ([b'{"workflow": "\xff"}', start(b"1").decode().encode("utf-16")], {(400, "ENCODING")}),
    "BI-A14": ([b" " * (4 * 1024 * 1024 + 1)], {(413, "BODY_TOO_LARGE")}),
    "BI-A29": ([b'{"workflow": "doubling", "imput": 1}'], {(422, "UNKNOWN_FIELD")}),
    "BI-A30": (
        [b'{"workflow": 7}', b'{"workflow": "doubling", "priority": true}', b'{"workflow": {"a": 1}}'],
        {(422, "TYPE_MISMATCH")},
    ),
}


@pytest.mark.req("X9")
@pytest.mark.parametrize("row", BODIES)
async def test_bad_bodies(memory_engines: Engines, row: str) -> None:
    bodies, expected = BODIES[row]
    async with served(memory_engines.new(*FLOWS)) as client:
        began = time.perf_counter()
        answers = [await client.post("/api/v1/runs", content=body, headers=JSON) for body in bodies]
        seconds = time.perf_counter() - began

        assert {(answer.status_code, code(answer)) for answer in answers} == expected
        assert seconds < 2 * len(bodies) + 2
        await unharmed(client)


HEADERS: dict[str, tuple[list[dict[str, str]], Expected]] = {
    "BI-A04": (
        [{"Content-Type": "text/plain"}, {"Content-Type": "application/xml"}, {}],
        {(415, "CONTENT_TYPE")},
    ),
    "BI-A16": (
        [{**JSON, "Content-Encoding": name} for name in ("gzip", "gzip, gzip", "br", "x")],
        {(415, "CONTENT_ENCODING")},
    ),
    "BI-A28": (
        [{**JSON, "Idempotency-Key": key} for key in ("", "k" * 10_000, "a\tb")],
        {(400, "IDEMPOTENCY_KEY")},
    ),
}


@pytest.mark.req("X9")
@pytest.mark.parametrize("row", HEADERS)
async def test_bad_headers(memory_engines: Engines, row: str) -> None:
    listed, expected = HEADERS[row]
    body = gzip.compress(b" " * 50_000_000) if row == "BI-A16" else start(b"1")
    async with served(memory_engines.new(*FLOWS)) as client:
        answers = [await client.post("/api/v1/runs", content=body, headers=headers) for headers in listed]

        assert {(answer.status_code, code(answer)) for answer in answers} == expected
        await unharmed(client)


ADDRESSES: dict[str, tuple[list[str], Expected]] = {
    "BI-A20": (
        ["runs/..%2f..%2fetc", "/runs", "runs;x", "runs/%5c/x", "runs/x/configs"],
        {(404, "NOT_FOUND")},
    ),
    "BI-A21": (
        [f"runs/{id}" for id in ("abc", "A" * 32, "{" + "0" * 30 + "}", "%D9%A1" * 36, "%252e%252e")],
        {(400, "ID_INVALID")},
    ),
    "BI-A23": (
        ["runs?limit=-1", "runs?limit=1000000000", "runs?limit=abc", "runs?limit=1&limit=2"],
        {(400, "PARAM_INVALID")},
    ),
    "BI-A24": (["runs?cursor=abc", "runs?cursor=!!", "runs?cursor=" + "A" * 400], {(400, "CURSOR_INVALID")}),
    "BI-A25": (["runs?order_by=id;drop table", "runs?sort=size"], {(400, "PARAM_INVALID")}),
}


@pytest.mark.req("X9")
@pytest.mark.parametrize("row", ADDRESSES)
async def test_bad_addresses(memory_engines: Engines, row: str) -> None:
    paths, expected = ADDRESSES[row]
    async with served(memory_engines.new(*FLOWS)) as client:
        answers = [await client.get(f"/api/v1/{path}") for path in paths]

        assert {(answer.status_code, code(answer)) for answer in answers} == expected
        await unharmed(client)


@pytest.mark.req("X9")
async def test_a_request_that_never_ends_is_closed(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BI-A15."""
    monkeypatch.setattr("stepwell.server.json_body._READ_SECONDS", 0.2)
    async with served(memory_engines.new(*FLOWS)) as client:
        answer = await raw(client, b"Content-Length: 50\r\nContent-Type: application/json\r\n\r\n{")

        assert answer.startswith(b"HTTP/1.1 408")
        assert b"BODY_TIMEOUT" in answer
        await unharmed(client)


FRAMING: dict[str, list[bytes]] = {
    "BI-A17": [
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        b"X: a\r\n b\nY\r\n\r\n{}",
        b"Content-Length: -5\r\n\r\n{}",
    ],
    "BI-A18": [b"X-Long: " + b"a" * 70_000 + b"\r\n\r\n", b"X-Bad: a\x00b\r\n\r\n"],
}


@pytest.mark.req("X9")
@pytest.mark.parametrize("row", FRAMING)
async def test_bad_framing(memory_engines: Engines, row: str) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        for lines in FRAMING[row]:
            answer = await raw(client, lines)
            assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431"), answer[:200]
        await unharmed(client)


async def raw(client: Served, rest: bytes) -> bytes:
    """The answer to a POST with these headers and body, until the server closes."""
    port = int(client.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "
    writer.write(head + TOKEN.encode() + b"\r\n" + rest)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


@pytest.mark.req("X9")
async def test_methods_workspaces_keys_and_filters(memory_engines: Engines) -> None:
    """BI-A19, BI-A22, BI-A26, BI-A27."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as other:
        other.headers.update(await bearer(engine, "olga", workspace="other"))
        method = await client.patch("/api/v1/runs", headers={"X-HTTP-Method-Override": "GET"})
        run = await client.started("doubling", 1, headers={"Idempotency-Key": "k"})
        hidden, absent = await other.get(f"/api/v1/runs/{run}"), await other.get(f"/api/v1/runs/{NOBODY}")
        pattern = await client.get("/api/v1/runs?workflow=" + "%25" * 10_240)
        body = {"workflow": "doubling", "input": 2}
        conflict = await client.post("/api/v1/runs", json=body, headers={"Idempotency-Key": "k"})

    assert (code(method), "GET" in method.headers["allow"]) == ("METHOD_NOT_ALLOWED", True)
    assert (code(hidden), code(absent)) == ("RUN_NOT_FOUND", "RUN_NOT_FOUND")
    assert hidden.json()["message"].replace(run, "") == absent.json()["message"].replace(NOBODY, "")
    assert pattern.status_code in (400, 422)
    assert (conflict.status_code, code(conflict)) == (409, "KEY_CONFLICT")


# G: definitions


def loops(depth: int) -> dict[str, Any]:
    nodes = [START, *[a(f"L{n}", "loop", f"L{n - 1}" if n else "", times=1) for n in range(depth)]]
    return chart([*nodes, a("B", "delay", f"L{depth - 1}", ms=1), END], "S>L0 L0>Z")


def ring(count: int) -> dict[str, Any]:
    nodes = [a(f"n{n}", "delay", ms=1) for n in range(count)]
    edges = " ".join(f"n{n}>n{(n + 1) % count}" for n in range(count))
    return chart([START, *nodes, END], f"S>n0 {edges} n0>Z")


def waiting(type: str, **data: Any) -> dict[str, Any]:
    return chart([START, a("W", type, **data), END], "S>W W>Z")


ODD_IDS = ("", "x" * 10_240, "__proto__", "constructor", "..", "a/b", "a\u202eb", "a\tb")
SECRET = "{{secrets.KEY}}"
GRAPHS: dict[str, tuple[list[dict[str, Any]], set[str]]] = {
    "BI-G01": ([chart([], ""), chart([END], "")], {"START_COUNT"}),
    "BI-G02": ([chart([START, a("T", "start"), END], "S>Z T>Z")], {"START_COUNT"}),
    "BI-G03": (
        [chart([START, a("A", "delay", ms=1), a("A", "delay", ms=1), END], "S>A A>Z")],
        {"NODE_ID_DUPLICATE"},
    ),
    "BI-G04": ([chart([START, a(id, "end")], "") for id in ODD_IDS], {"NODE_ID_INVALID"}),
    "BI-G05": (
        [chart([START, END], "S>Z S>nowhere"), chart([START, END], "S>Z S-odd>Z")],
        {"EDGE_UNKNOWN_NODE", "UNKNOWN_HANDLE"},
    ),
    "BI-G06": ([ring(2), ring(400), chart([START, a("A", "delay", ms=1), END], "S>A A>A A>Z")], {"CYCLE"}),
    "BI-G07": ([chart([START, a("U", "delay", ms=1), END], "S>Z")], {"NODE_UNREACHABLE"}),
    "BI-G08": ([waiting("dealy", ms=1)], {"NODE_TYPE"}),
    "BI-G09": ([chart([START, END], "S>Z S>Z")], {"DUPLICATE_EDGE"}),
    "BI-G11": (
        [
            chart(
                [START, a("A", "delay", ms=1), a("J", "join", mode="count", count=count), END],
                "S>A S>J A>J J>Z",
            )
            for count in (5, 0, -1, 1.5, "2")
        ],
        {"JOIN_COUNT_RANGE"},
    ),
    "BI-G13": (
        [chart([START, a("L", "loop", times=1), a("B", "delay", "L", ms=1), END], "S>L B>Z L>Z")],
        {"EDGE_CROSSES_SCOPE"},
    ),
    "BI-G14": ([loops(9)], {"NESTING_TOO_DEEP"}),
    "BI-G16": (
        [chart([START, *[a(f"n{n}", "delay", ms=1) for n in range(5001)]], "")],
        {"GRAPH_TOO_LARGE"},
    ),
    "BI-G20": (
        [
            chart(
                [START, a("R", "retry", maxAttempts=count, delayMs=1), a("B", "delay", "R", ms=1), END],
                "S>R R>Z",
            )
            for count in (-1, 0, 10**9, "3")
        ],
        {"RETRY_POLICY"},
    ),
    "BI-G22": ([waiting("delay", ms=ms) for ms in (-1, 10**15, "soon")], {"DURATION"}),
    "BI-G24": ([waiting("wait_event", event="paid", timeoutMs=ms) for ms in (0, -1)], {"TIMEOUT"}),
    "BI-G26": (
        [
            chart([START, a("V", "set", values={name: 1}), END], "S>V V>Z")
            for name in ("ctx", "secrets", "__x", "a.b")
        ],
        {"VARIABLE_NAME"},
    ),
    "BI-G28": (
        [
            chart([START, a("J", "merge", **data), END], "S>J J>Z")
            for data in ({"strategy": "newest"}, {"strategy": 7}, {"strategy": "custom"})
        ],
        {"INVALID_DATA"},
    ),
    "BI-G29": (
        [chart([START, a("A", "http", url="https://example.com"), END], "S>A A-error>S A>Z")],
        {"EDGE_INTO_START"},
    ),
    "BI-T07": (
        [
            *(
                waiting("set", values={"x": ["a", {"b": f"it is {text}"}]})
                for text in (SECRET, "{{ctx + secrets}}")
            ),
            waiting("transform", expression="secrets.KEY"),
            chart([START, a("Z", "end", output={"x": SECRET})], "S>Z"),
            waiting("notify", channel="mail", to="ann@example.com", subject=SECRET, text="x"),
            chart([START, a("W", "approval", message=SECRET), END], "S>W W-approved>Z"),
            *(
                waiting("http", **{"url": "https://example.com/", **data})
                for data in (
                    {"url": f"https://example.com/{SECRET}"},
                    {"query": {"key": SECRET}},
                    {"headers": {"Authorization": f"Bearer {SECRET}"}},
                    {"method": "POST", "body": {"key": SECRET}},
                )
            ),
            chart(
                [START, a("W", "condition", branches=[{"id": "b", "when": "secrets.KEY == 'x'"}]), END],
                "S>W W-b>Z W-else>Z",
            ),
            chart([START, a("L", "loop", items="secrets.KEYS"), a("B", "delay", "L", ms=1), END], "S>L L>Z"),
            waiting("wait_event", event="paid", key=SECRET),
            waiting("ai", prompt=SECRET),
        ],
        {"SECRET_CONTEXT"},
    ),
}


@pytest.mark.req("X9", "G2")
@pytest.mark.parametrize("row", GRAPHS)
async def test_bad_graphs_are_refused_with_every_problem(memory_engines: Engines, row: str) -> None:
    graphs, expected = GRAPHS[row]
    async with served(memory_engines.new(*FLOWS)) as client:
        for graph in graphs:
            body = {"graph": graph, "name": "bad"}
            saved = await client.post("/api/v1/graphs", json=body)
            checked = await client.post("/api/v1/graphs/validate", json=body)
            tried = await client.post("/api/v1/graphs/test", json={"graph": graph})
            assert {saved.status_code, tried.status_code} == {422}, (graph, saved.text, tried.text)
            assert code(saved) == code(tried)
            codes = {problem["code"] for problem in checked.json()["problems"]}
            assert codes & expected, (str(graph)[:300], codes)
        await unharmed(client)


ACCEPTED: dict[str, dict[str, Any]] = {
    "BI-G10": chart(
        [
            *(START, a("C", "condition", branches=[{"id": "x", "when": "true"}])),
            *(a("A", "delay", ms=0), a("B", "delay", ms=0), a("J", "join"), END),
        ],
        "S>C C-x>A C-else>B A>J B>J J>Z",
    ),
    "BI-G12": chart([START, a("J", "join"), END], "S>J J>Z"),
    "BI-G15": chart([START, a("L", "loop", items="[]"), a("B", "delay", "L", ms=1), END], "S>L L>Z"),
    "BI-G18": chart(
        [START, *[a(f"{side}{n}", "delay", ms=0) for n in range(20) for side in "abj"], END],
        "S>a0 S>b0 "
        + " ".join(f"a{n}>j{n} b{n}>j{n}" for n in range(20))
        + " "
        + " ".join(f"j{n}>a{n + 1} j{n}>b{n + 1}" for n in range(19))
        + " j19>Z",
    ),
    "BI-G19": chart(
        [START, *[a(f"n{n}", "delay", ms=0) for n in range(490)], END],
        "S>n0 " + " ".join(f"n{n}>n{n + 1}" for n in range(489)) + " n489>Z",
        maxNodes=500,
    ),
}


@pytest.mark.req("G2")
@pytest.mark.parametrize("row", ACCEPTED)
async def test_large_but_sound_graphs_are_accepted_quickly(memory_engines: Engines, row: str) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        began = time.perf_counter()
        answer = await client.post("/api/v1/graphs", json={"graph": ACCEPTED[row], "name": "good"})

        assert answer.status_code == 201, answer.text
        assert time.perf_counter() - began < 5


YAML = ["a: &a [x, x]\nb: [*a, *a]", "!!python/object/apply:os.system ['true']", "nodes: []"]


@pytest.mark.req("X9", "X10")
async def test_yaml_is_not_a_format_of_the_server(memory_engines: Engines) -> None:
    """BI-G30: the command line reads YAML with a safe loader, see tests/cli/test_hostile.py."""
    async with served(memory_engines.new(*FLOWS)) as client:
        for text in YAML:
            for kind in ("application/yaml", "text/yaml", "application/json"):
                answer = await client.post("/api/v1/graphs", content=text, headers={"Content-Type": kind})
                expected = (400, "JSON_INVALID") if kind.endswith("json") else (415, "CONTENT_TYPE")
                assert (answer.status_code, code(answer)) == expected
        await unharmed(client)


@pytest.mark.req("X9", "G2")
async def test_a_stale_draft_is_not_published(memory_engines: Engines) -> None:
    """BI-G32."""
    graph = {"graph": chart([START, END], "S>Z"), "name": "hello"}
    async with served(memory_engines.new(*FLOWS)) as client:
        loaded = (await client.post("/api/v1/graphs", json=graph)).headers["etag"]
        changed = {"graph": chart([START, a("D", "delay", ms=1), END], "S>D D>Z")}
        await client.put("/api/v1/graphs/hello", json=changed)
        stale = await client.post("/api/v1/graphs/hello/publish", headers={"If-Match": loaded})
        overwrite = await client.put("/api/v1/graphs/hello", json=changed, headers={"If-Match": loaded})

        assert {stale.status_code, overwrite.status_code} <= {409, 412}
        assert (await client.get("/api/v1/graphs/hello")).json()["versions"] == []


# S: messages


@pytest.mark.req("X9")
async def test_messages_that_do_not_fit(memory_engines: Engines) -> None:
    """BI-S01 to BI-S04, BI-S06."""
    async with served(memory_engines.new(*FLOWS)) as client:
        ended = await client.started("doubling", 1)
        await client.ended(ended)
        late = await client.post(f"/api/v1/runs/{ended}/signal", json={"name": "word"})
        nobody = await client.post(f"/api/v1/runs/{NOBODY}/signal", json={"name": "word"})
        run = await client.started("listening", 2)
        path = f"/api/v1/runs/{run}/signal"
        for _ in range(2):  # the same id counts once
            early = await client.post(path, json={"name": "word", "payload": 1, "id": "one"})
        other = await client.post(path, json={"name": "word", "payload": 9, "id": "one"})
        large = await client.post(path, json={"name": "word", "payload": "x" * (2 * 1024 * 1024 + 1)})
        await client.post(path, json={"name": "word", "payload": 2})
        done = await client.ended(run)
        cancelled = [(await client.post(f"/api/v1/runs/{ended}/cancel")).json() for _ in range(2)]

    assert (late.status_code, code(late)) == (409, "RUN_ENDED")
    assert (nobody.status_code, code(nobody)) == (404, "RUN_NOT_FOUND")
    assert early.status_code == 200
    assert (other.status_code, code(other)) == (409, "MESSAGE_CONFLICT")
    assert (large.status_code, code(large)) == (413, "PAYLOAD_TOO_LARGE")
    assert done["output"] == [1, 2]
    assert cancelled == [{"done": False, "status": "completed"}] * 2


@pytest.mark.req("X9")
async def test_decisions_and_reruns_that_do_not_fit(memory_engines: Engines) -> None:
    """BI-S05, BI-S10."""
    engine = memory_engines.new(*FLOWS, assigned)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as eve:
        eve.headers.update(await bearer(engine, "eve"))
        run = await client.started("assigned", "pay?")
        await client.waiting(run)
        path = f"/api/v1/runs/{run}/decide"
        foreign = await eve.post(path, json={"answer": "yes"})
        await client.post(path, json={"answer": "yes", "by": "bob"})
        await client.ended(run)
        twice = await client.post(path, json={"answer": "no", "by": "bob"})
        failed = await client.started("failing", "x")
        await client.ended(failed)
        missing = await client.post(f"/api/v1/runs/{failed}/rerun-from", json={"step": "nothing"})
        version = await client.post(f"/api/v1/runs/{failed}/rerun", json={"version": "99"})

        async def settled() -> bool:
            return len((await client.get("/api/v1/runs")).json()["runs"]) == 2

        await until(settled)

    assert (foreign.status_code, code(foreign)) == (403, "NOT_ASSIGNED")
    assert twice.status_code == 409
    assert (missing.status_code, code(missing)) == (422, "STEP_NOT_FOUND")
    assert version.status_code in (404, 422)
    assert "Traceback" not in json.dumps([missing.json(), version.json()])
