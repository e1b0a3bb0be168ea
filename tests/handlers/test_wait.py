"""`wait` nodes that look at a record, a query or a service until a condition holds."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Engine, InvalidGraph, RunHandle, graph
from stepwell.domain.status import Status
from stepwell.outbound.request import OutboundRules
from stepwell.testing import VirtualEngine
from tests.engines import Engines, reaches, suspended
from tests.outbound.listener import Listener, answered, listening

pytestmark = pytest.mark.req("N11")


def waiting_graph(data: dict[str, Any], *, timeout_edge: bool = False) -> dict[str, Any]:
    """Waits, and ends with what was seen; `error` has the code of what went wrong."""
    ends = {"out": "{{ctx.seen}}", "error": "{{ctx.error.code}}"}
    if timeout_edge:
        ends["timeout"] = "too late"
    wait = {"mode": "condition", "pollMs": 1000, "outputVariable": "seen", **data}
    return {
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "wait", "type": "wait", "data": wait},
            *({"id": name, "type": "end", "data": {"output": {"result": out}}} for name, out in ends.items()),
        ],
        "edges": [
            {"source": "start", "target": "wait"},
            *({"source": "wait", "target": name, "sourceHandle": name} for name in ends),
        ],
    }


JSON = "Content-Type: application/json"
TRUE = {"condition": "true"}
READY = {
    "records": {"action": "get", "collection": "orders", "key": "{{ctx.input.number}}", "optional": True},
    "condition": "answer != null && answer.data.status == 'ready'",
}


async def result(run: RunHandle[Any]) -> Any:
    return (await run.result(60))["result"]


async def log_of(run: RunHandle[Any]) -> list[str]:
    return [row.kind async for row in run.log()]


async def test_a_run_waits_for_a_record(engines: Engines) -> None:
    async with engines.new() as engine:
        await engine.records.define("orders", key="number")
        run = await engine.start_graph(waiting_graph(READY), {"number": 7})
        await suspended(run)
        record = await engine.records.create("orders", {"number": 7, "status": "new"})
        await engine.records.update("orders", record.id, {"status": "ready"})

        seen = await result(run)

        assert (seen["id"], seen["version"], seen["data"]["status"]) == (record.id, 2, "ready")


@pytest.mark.req("N11", "K31")
async def test_a_day_of_looking_in_vain_writes_nothing() -> None:
    async with VirtualEngine() as engine:
        await engine.records.define("orders", key="number")
        run = await engine.start_graph(waiting_graph({**READY, "pollMs": 60_000}), {"number": 7})
        await engine.advance("1m")
        before = await log_of(run)

        await engine.advance("12h")
        after = await log_of(run)
        await engine.records.create("orders", {"number": 7, "status": "ready"})
        await engine.advance("2m")

        assert after == before, "720 looks"
        assert (await engine.outcome(run))["result"]["version"] == 1
        assert len(await log_of(run)) <= len(before) + 8


async def test_it_looks_at_most_once_an_interval(memory_engines: Engines) -> None:
    looks: list[float] = []

    def say(request: bytes, writer: asyncio.StreamWriter) -> None:
        looks.append(asyncio.get_running_loop().time())
        done = b"true" if len(looks) == 4 else b"false"
        writer.write(answered(b'{"done": %s}' % done, "200 OK", JSON))

    async with listening(say) as listener, outside(memory_engines, listener) as engine:
        run = await engine.start_graph(waiting_graph(asking(listener)), {})

        seen = await result(run)

    assert seen["body"] == {"done": True}
    gaps = [two - one for one, two in pairwise(looks)]
    assert len(looks) == 4
    assert min(gaps) >= 0.95


def outside(engines: Engines, listener: Listener) -> Engine:
    return engines.new(outbound=OutboundRules.of(["127.0.0.1"], [listener.port]))


def asking(listener: Listener, **data: Any) -> dict[str, Any]:
    return {
        "http": {"url": f"http://127.0.0.1:{listener.port}/job", **data},
        "condition": "answer.status == 200 && answer.body.done",
    }


async def test_a_service_that_is_down_for_a_moment_is_asked_again(memory_engines: Engines) -> None:
    def say(request: bytes, writer: asyncio.StreamWriter) -> None:
        if len(listener.requests) < 3:
            writer.write(answered(b"", "503 Service Unavailable"))
        else:
            writer.write(answered(b'{"done": true}', "200 OK", JSON))

    async with listening(say) as listener, outside(memory_engines, listener) as engine:
        run = await engine.start_graph(waiting_graph(asking(listener)), {})

        assert (await result(run))["body"] == {"done": True}
        assert len(listener.requests) == 3
        assert "step_failed" not in await log_of(run)


async def test_a_refusal_ends_the_wait(memory_engines: Engines) -> None:
    def say(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answered(b"no", "403 Forbidden"))

    async with listening(say) as listener, outside(memory_engines, listener) as engine:
        run = await engine.start_graph(waiting_graph(asking(listener)), {})

        assert await result(run) == "HTTP_403"
        assert len(listener.requests) == 1


async def test_a_run_waits_for_rows(durable_engines: Engines, tmp_path: Path) -> None:
    shop = apsw.Connection(str(tmp_path / "shop.db"))
    shop.execute("CREATE TABLE job (id integer PRIMARY KEY, state text)")
    query = {"connection": "shop", "sql": "SELECT id FROM job WHERE state = :s", "params": {"s": "done"}}
    body = waiting_graph({"query": query, "condition": "answer.count > 0"})
    async with durable_engines.new(connections={"shop": f"sqlite:{tmp_path / 'shop.db'}"}) as engine:
        run = await engine.start_graph(body, {})
        await suspended(run)
        shop.execute("INSERT INTO job VALUES (3, 'done')")

        assert (await result(run))["rows"] == [{"id": 3}]


@pytest.mark.parametrize("edge", [True, False])
async def test_a_wait_that_takes_too_long_ends(edge: bool) -> None:
    body = waiting_graph({**READY, "timeoutMs": 5000}, timeout_edge=edge)
    async with VirtualEngine() as engine:
        await engine.records.define("orders", key="number")
        run = await engine.start_graph(body, {"number": 7})
        await engine.advance("10s")

        if edge:
            assert (await engine.outcome(run))["result"] == "too late"
        else:
            assert (await engine.outcome(run))["result"] == "WAIT_TIMEOUT"


async def test_a_wait_can_be_cancelled(engines: Engines) -> None:
    async with engines.new() as engine:
        await engine.records.define("orders", key="number")
        run = await engine.start_graph(waiting_graph(READY), {"number": 7})
        await suspended(run)
        await run.cancel()

        await reaches(run, Status.CANCELLED)


@pytest.mark.req("K1", "N11")
async def test_another_engine_goes_on_looking(durable_engines: Engines) -> None:
    body = waiting_graph({**READY, "pollMs": 3000})
    async with durable_engines.new() as engine:
        await engine.records.define("orders", key="number")
        run = await engine.start_graph(body, {"number": 7})
        await suspended(run)
    async with durable_engines.new() as engine:
        _ = engine.graphs
        await engine.records.create("orders", {"number": 7, "status": "ready"})
        await engine._begin_to_work()

        assert (await result(engine.handle(run.id)))["data"]["status"] == "ready"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({**READY, "condition": "answer.data.stat == 'x'"}, "EXPRESSION_ERROR"),
        ({**READY, "condition": "'yes'"}, "EXPRESSION_ERROR"),
        (
            {"records": {"action": "get", "collection": "orders", "id": "no"}, **TRUE},
            "RECORD_NOT_FOUND",
        ),
        (
            {"records": {"action": "find", "collection": "nobody"}, **TRUE},
            "COLLECTION_NOT_FOUND",
        ),
        (
            {"records": {"action": "find", "collection": "orders", "where": {"x": 1}}, **TRUE},
            "INVALID_INPUT",
        ),
        ({"query": {"connection": "none", "sql": "SELECT 1"}, **TRUE}, "SQL_CONNECTION"),
        ({"http": {"url": "http://127.0.0.1/"}, **TRUE}, "SSRF_BLOCKED"),
        ({"http": {"url": "http://169.254.169.254/latest"}, **TRUE}, "SSRF_BLOCKED"),
    ],
)
async def test_a_mistake_ends_the_wait_at_once(
    memory_engines: Engines, data: dict[str, Any], code: str
) -> None:
    async with memory_engines.new() as engine:
        await engine.records.define("orders", key="number")
        await engine.records.create("orders", {"number": 7})
        run = await engine.start_graph(waiting_graph(data), {"number": 7})

        assert await result(run) == code


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (
            {"records": {"action": "create", "collection": "orders", "data": {}}, **TRUE},
            "may only read",
        ),
        (
            {"records": {"action": "delete", "collection": "orders", "id": "x"}, **TRUE},
            "may only read",
        ),
        (
            {"query": {"connection": "a", "sql": "SELECT 1", "readOnly": False}, **TRUE},
            "may only read",
        ),
        ({"http": {"url": "https://a.example/", "method": "POST"}, **TRUE}, "may only read"),
        ({**READY, "http": {"url": "https://a.example/"}}, "at most one"),
        ({**READY, "mode": "event", "event": "x"}, "at most one"),
        ({"http": {"url": "https://a.example/"}}, "needs condition"),
        ({"http": {"url": "https://{{ctx.input.host}}/"}, **TRUE}, "http.url"),
        ({"http": {"url": "ftp://a.example/"}, **TRUE}, "http.url"),
        ({"http": {"url": "https://a.example/", "retry": {}}, **TRUE}, "retry"),
        ({"query": {"connection": "a", "sql": "SELECT 1; SELECT 2"}, **TRUE}, "query.sql"),
        ({"query": {"connection": "a", "sql": "SELECT :x"}, **TRUE}, "query.params"),
        ({**READY, "pollMs": 10}, "pollMs"),
        ({**READY, "condition": "answer ="}, "condition"),
    ],
)
def test_what_cannot_be_waited_for_is_found_when_the_graph_is_saved(data: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidGraph) as refused:
        graph(waiting_graph(data))

    assert field in f"{refused.value}"
    assert "wait" in f"{refused.value}"
