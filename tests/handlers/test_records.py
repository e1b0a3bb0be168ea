"""Records in runs of every style: each change happens once, with the record of its step or node."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from stepwell import (
    Context,
    Engine,
    InvalidGraph,
    Machine,
    Record,
    RunFailed,
    StepError,
    create_record,
    delete_record,
    failpoints,
    find_records,
    get_record,
    graph,
    transition,
    update_record,
    workflow,
)
from stepwell.engine.stateless import run_stateless
from stepwell.errors import Conflict, RunEnded
from stepwell.testing import VirtualEngine, crash_everywhere
from tests.engines import Engines

pytestmark = pytest.mark.req("N24")


@workflow
async def fulfil(ctx: Context, number: int) -> list[Any]:
    made = await ctx.step(create_record, "orders", {"number": number, "status": "new"})
    done = await ctx.step(update_record, "orders", made.id, {"status": "done"}, version=made.version)
    found = await ctx.step(find_records, "orders", {"status": "done"})
    same = await ctx.step(get_record, "orders", key=number)
    nobody = await ctx.step(find_records, "orders", {"status": "lost"})
    gone = await ctx.step(delete_record, "orders", made.id, version=2)
    assert same == done
    return [done.version, [record.data for record in found.records], nobody.records, gone]


class Ordering(Machine[dict[str, Any]]):
    ends: ClassVar = {"placed"}

    @transition("start", "placed")
    async def place(self, ctx: Context, number: int) -> None:
        record = await ctx.step(create_record, "orders", {"number": number})
        self.state["id"] = record.id


@workflow
async def counting(ctx: Context, name: str) -> int:
    """Adds one to a record, whatever happens to the worker."""
    await ctx.signal("go")
    for _ in range(2):
        record = await ctx.step(get_record, "orders", key=name)
        await ctx.step(update_record, "orders", record.id, {"count": record.data["count"] + 1})
    await ctx.step(create_record, "orders", {"number": f"{name}-done"})
    return int((await ctx.step(get_record, "orders", key=name)).data["count"])


async def define(engine: Engine) -> None:
    await engine.records.define("orders", key="number", find=["status"])


async def test_a_function_keeps_records(engines: Engines) -> None:
    async with engines.new(fulfil) as engine:
        await define(engine)
        run = await engine.start(fulfil, 7)

        assert await run.result(60) == [2, [{"number": 7, "status": "done"}], [], True]
        assert (await engine.records.collection("orders")).records == 0
        paths = [row.path async for row in run.log() if row.kind == "step_completed"]
        assert paths[:2] == ["0/create_record#1", "0/update_record#1"]


async def test_a_machine_keeps_records(engines: Engines) -> None:
    async with engines.new(Ordering) as engine:
        await define(engine)
        run = await engine.start(Ordering, 7)
        await run.result(60)

        assert [record.data for record in await engine.records.find("orders")] == [{"number": 7}]


async def test_a_refusal_is_an_error_of_the_step(engines: Engines) -> None:
    @workflow
    async def twice(ctx: Context, number: int) -> str:
        await ctx.step(create_record, "orders", {"number": number})
        try:
            await ctx.step(create_record, "orders", {"number": number})
        except StepError as error:
            return error.cause_code
        return ""

    async with engines.new(twice) as engine:
        await define(engine)
        run = await engine.start(twice, 1)

        assert await run.result(60) == "RECORD_EXISTS"
        assert len(await engine.records.find("orders")) == 1


V = "{{ctx.input.v}}"


def record_graph(*nodes: dict[str, Any], output: Any) -> dict[str, Any]:
    """The nodes one after the other; `failed` has the code of the first error."""
    listed = [
        {"id": "start", "type": "start"},
        *({"type": "records", **node, "data": {"collection": "orders", **node["data"]}} for node in nodes),
        {"id": "end", "type": "end", "data": {"output": {"result": output}}},
        {"id": "failed", "type": "end", "data": {"output": {"result": "{{ctx.error.code}}"}}},
    ]
    path = ["start", *(node["id"] for node in nodes), "end"]
    edges: list[dict[str, Any]] = [{"source": one, "target": two} for one, two in pairwise(path)]
    edges += [{"source": node["id"], "target": "failed", "sourceHandle": "error"} for node in nodes]
    return {"nodes": listed, "edges": edges}


def a(name: str, action: str, /, **data: Any) -> dict[str, Any]:
    return {"id": name, "data": {"action": action, "outputVariable": name, **data}}


async def test_a_graph_keeps_records(engines: Engines) -> None:
    body = record_graph(
        a("made", "create", data={"number": "{{ctx.input.number}}", "status": "new"}),
        a(
            "done",
            "update",
            key="{{ctx.input.number}}",
            version="{{ctx.made.version}}",
            data={"status": "done"},
        ),
        a("found", "find", where={"status": "done"}, limit=5),
        a("same", "get", id="{{ctx.made.id}}"),
        a("nobody", "get", id="nobody", optional=True),
        a("gone", "delete", id="{{ctx.made.id}}"),
        output={
            "status": "{{ctx.done.data.status}}",
            "version": "{{ctx.same.version}}",
            "found": "{{ctx.found.records}}",
            "next": "{{ctx.found.next}}",
            "nobody": "{{ctx.nobody}}",
            "gone": "{{ctx.gone}}",
            "changed": "{{ctx.done.updatedAt >= ctx.made.createdAt}}",
        },
    )
    async with engines.new() as engine:
        await define(engine)
        result = (await (await engine.start_graph(body, {"number": 7})).result(60))["result"]

        assert (result["status"], result["version"], result["nobody"], result["gone"]) == (
            "done",
            2,
            None,
            True,
        )
        assert [record["data"]["number"] for record in result["found"]] == [7]
        assert result["changed"] is True
        assert result["next"] == ""
        assert await engine.records.find("orders") == []


@pytest.mark.parametrize(
    ("data", "input", "code"),
    [
        ({"action": "create", "data": {"number": 1}}, {}, "RECORD_EXISTS"),
        ({"action": "create", "data": {"number": [1]}}, {}, "RECORD_INVALID"),
        ({"action": "create", "data": {}}, {}, "RECORD_INVALID"),
        ({"action": "create", "data": "{{ctx.input.text}}"}, {"text": "no object"}, "RECORD_INVALID"),
        ({"action": "create", "collection": "nobody", "data": {}}, {}, "COLLECTION_NOT_FOUND"),
        ({"action": "get", "id": "nobody"}, {}, "RECORD_NOT_FOUND"),
        ({"action": "get", "id": "{{ctx.input.id}}"}, {"id": "../../etc"}, "INVALID_INPUT"),
        ({"action": "get", "id": "{{ctx.input.id}}"}, {"id": 7}, "RECORD_ARGUMENTS"),
        ({"action": "get", "key": "{{ctx.input.key}}"}, {"key": None}, "RECORD_ARGUMENTS"),
        ({"action": "get", "key": "{{ctx.input.key}}"}, {"key": {"$gt": ""}}, "RECORD_INVALID"),
        ({"action": "update", "id": "one", "version": 9, "data": {}}, {}, "RECORD_CHANGED"),
        (
            {"action": "update", "id": "one", "version": V, "data": {}},
            {"v": "1"},
            "RECORD_ARGUMENTS",
        ),
        (
            {"action": "update", "id": "one", "version": V, "data": {}},
            {"v": -1},
            "INVALID_INPUT",
        ),
        ({"action": "delete", "id": "one", "version": 2}, {}, "RECORD_CHANGED"),
        ({"action": "find", "where": {"name": "x"}}, {}, "INVALID_INPUT"),
        ({"action": "find", "where": {"status": "{{ctx.input.s}}"}}, {"s": {"$ne": ""}}, "RECORD_INVALID"),
    ],
)
async def test_what_data_make_wrong_takes_the_error_edge_once(
    memory_engines: Engines, data: dict[str, Any], input: Any, code: str
) -> None:
    body = record_graph({"id": "call", "data": {"outputVariable": "answer", **data}}, output="{{ctx.answer}}")
    async with memory_engines.new() as engine:
        await define(engine)
        await engine.records.create("orders", {"number": 1}, id="one")
        run = await engine.start_graph(body, input)

        assert (await run.result(60))["result"] == code
        failures = [row async for row in run.log() if row.kind == "step_failed"]
        assert len(failures) <= 1, "a mistake is not tried again"
        assert [record.version for record in await engine.records.find("orders")] == [1]


@pytest.mark.parametrize(
    ("data", "code", "field", "named"),
    [
        ({"action": "create"}, "INVALID_DATA", "data", "needs"),
        ({"action": "upsert", "data": {}}, "INVALID_DATA", "action", "'update'"),
        ({"action": "create", "data": {}, "where": {}}, "INVALID_DATA", "where", "takes no"),
        ({"action": "get"}, "INVALID_DATA", "id", "id or key"),
        ({"action": "get", "id": "a", "key": "b"}, "INVALID_DATA", "id", "id or key"),
        ({"action": "find", "limit": 0}, "INVALID_DATA", "limit", ""),
        ({"action": "find", "limit": 5000}, "INVALID_DATA", "limit", ""),
        ({"action": "find", "where": {str(n): 1 for n in range(9)}}, "INVALID_DATA", "where", ""),
        ({"action": "get", "id": "a", "collection": "{{ctx.input.name}}"}, "INVALID_DATA", "collection", ""),
        ({"action": "get", "id": "a", "queue": "other"}, "INVALID_DATA", "queue", ""),
        ({"action": "get", "id": "{{ctx.input.}}"}, "BAD_EXPRESSION", "id", ""),
        ({"action": "get", "id": "a", "colection": "x"}, "INVALID_DATA", "colection", ""),
    ],
)
def test_wrong_configuration_is_found_when_the_graph_is_saved(
    data: dict[str, Any], code: str, field: str, named: str
) -> None:
    body = record_graph({"id": "call", "data": data}, output="")

    with pytest.raises(InvalidGraph) as refused:
        graph(body)

    [problem] = refused.value.problems
    assert (problem.code, problem.node, problem.field) == (code, "call", field)
    assert named in problem.message
    assert problem.suggestion


async def test_a_graph_reads_the_next_page_of_what_it_found(memory_engines: Engines) -> None:
    body = record_graph(
        a("first", "find", limit=2),
        a("second", "find", limit=2, before="{{ctx.first.next}}"),
        output="{{ctx.second}}",
    )
    async with memory_engines.new() as engine:
        await define(engine)
        for number in range(3):
            await engine.records.create("orders", {"number": number})
        run = await engine.start_graph(body, {})
        page = (await run.result(60))["result"]

    assert ([record["data"]["number"] for record in page["records"]], page["next"]) == ([2], "")


async def test_a_node_sees_the_records_of_its_runs_workspace_only(engines: Engines) -> None:
    body = record_graph(a("found", "find"), output="{{ctx.found.records}}")
    async with engines.new() as engine:
        await define(engine)
        await engine.records.create("orders", {"number": 1})
        run = await engine.within("acme").start_graph(body, {})

        assert (await run.result(60))["result"] == "COLLECTION_NOT_FOUND"


@pytest.mark.req("K14", "R2")
async def test_a_change_happens_once_wherever_the_worker_dies() -> None:
    async def story(engine: VirtualEngine, run: Any) -> None:
        with suppress(Conflict):  # after a crash the story is told again
            await define(engine)
            await engine.records.create("orders", {"number": "a", "count": 0}, id="a")
        with suppress(RunEnded):
            await run.signal("go", id="go")

    assert await crash_everywhere(counting, "a", story=story) >= 10


@pytest.mark.req("K14", "R2")
@pytest.mark.parametrize("moment", ["before", "mid", "after", "ambiguous"])
async def test_a_change_whose_commit_breaks_happens_once(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    body = record_graph(a("made", "create", data={"number": 1}), output="{{ctx.made.version}}")
    async with engines.new() as engine:
        await define(engine)
        monkeypatch.setattr(failpoints, "hit", failpoints.parse(f"transact.{moment}=raise"))
        run = await engine.start_graph(body, {})

        assert (await run.result(60))["result"] == 1
        assert len(await engine.records.find("orders")) == 1
        assert (await engine.records.collection("orders")).records == 1


async def test_a_change_cannot_be_sent_to_another_worker(memory_engines: Engines) -> None:
    @workflow
    async def remote(ctx: Context) -> None:
        await ctx.step.on(queue="far")(create_record, "orders", {"number": 1})

    async with memory_engines.new(remote) as engine:
        run = await engine.start(remote)
        with pytest.raises(RunFailed, match="cannot run on queue 'far'"):
            await run.result(60)


async def test_two_runs_that_add_to_one_record_add_twice(engines: Engines) -> None:
    @workflow
    async def add(ctx: Context, name: str) -> int:
        while True:
            record = await ctx.step(get_record, "orders", key=name)
            data = {"count": record.data["count"] + 1}
            try:
                changed = await ctx.step(update_record, "orders", record.id, data, version=record.version)
                return int(changed.data["count"])
            except StepError as error:
                if error.cause_code != "RECORD_CHANGED":
                    raise

    async with engines.new(add) as engine:
        await define(engine)
        await engine.records.create("orders", {"number": "a", "count": 0})
        runs = [await engine.start(add, "a") for _ in range(5)]

        results = await asyncio.gather(*(run.result(60) for run in runs))

        assert sorted(results) == [1, 2, 3, 4, 5]


async def test_a_test_may_fake_the_steps() -> None:
    made = Record(collection="orders", id="x", version=1, data={"number": 7}, created_at=0.0, updated_at=0.0)

    @workflow
    async def make(ctx: Context, number: int) -> str:
        return (await ctx.step(create_record, "orders", {"number": number})).id

    async with VirtualEngine(make) as engine:
        engine.fake(create_record, returns=made)
        assert await engine.outcome(await engine.start(make, 7)) == "x"

    with pytest.raises(RunFailed, match="records are in the database of an engine"):
        await run_stateless(make, 7)
