"""Saved graphs: drafts, published versions, differences; running runs keep theirs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Engine, InvalidGraph, RunFailed, failpoints, workflow
from stepwell.authoring.graphs.format.diff import diff
from stepwell.domain.commit import WorkerInfo
from stepwell.errors import Conflict, StepwellError, UnknownWorkflow
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.engines import Engines, suspended


@workflow
async def other(ctx: Context, x: Any) -> None:
    pass


def waiting(answer: int, name: str = "saved") -> dict[str, Any]:
    end = a("Z", "end", output={"answer": answer})
    return chart([START, a("H", "approval"), end], "S>H H-approved>Z", name=name)


@pytest.mark.req("G18", "K22")
async def test_a_run_keeps_the_version_it_began_with(engines: Engines) -> None:
    async with engines.new(other) as engine:
        library = engine.library
        await library.create(waiting(1))
        assert await library.publish("saved") == "1"
        old = await library.start("saved", {})
        await suspended(old)

        await library.update("saved", waiting(2))
        assert (await library.about("saved")).changed
        assert await library.publish("saved") == "2"
        assert await library.publish("saved") == "2"
        new = await library.start("saved", {})
        await suspended(new)
        for run in (old, new):
            await run.decide("approved")

        assert await old.result() == {"answer": 1}
        assert await new.result() == {"answer": 2}
        assert (await old.info()).version == "1"


@pytest.mark.req("G19")
async def test_create_read_update_delete(engines: Engines) -> None:
    async with engines.new(other) as engine:
        library = engine.library
        created = await library.create(waiting(1))
        with pytest.raises(Conflict):
            await library.create(waiting(1))
        assert [saved.name for saved in await library.list()] == ["saved"]

        await library.update("saved", waiting(2), expected=created.hash)
        with pytest.raises(Conflict, match="somebody else"):
            await library.update("saved", waiting(3), expected=created.hash)
        assert (await library.get("saved"))["nodes"][2]["data"]["output"] == {"answer": 2}

        await library.delete("saved")
        assert await library.list() == []
        with pytest.raises(UnknownWorkflow):
            await library.get("saved")


@pytest.mark.req("G18")
async def test_a_draft_cannot_be_started_and_a_broken_one_not_saved(memory_engines: Engines) -> None:
    async with memory_engines.new(other) as engine:
        await engine.library.create(waiting(1))

        with pytest.raises(UnknownWorkflow, match="version"):
            await engine.library.start("saved", {})
        with pytest.raises(InvalidGraph):
            await engine.library.update("saved", chart([START, a("A", "nope")], "S>A"))
        assert (await engine.library.get("saved"))["name"] == "saved"


@pytest.mark.req("G18")
async def test_a_difference_names_what_changed(memory_engines: Engines) -> None:
    async with memory_engines.new(other) as engine:
        library = engine.library
        await library.create(waiting(1))
        await library.publish("saved")
        changed = waiting(2)
        changed["nodes"].append(a("N", "set", values={"x": 1}))
        changed["nodes"][1]["position"] = {"x": 500, "y": 5}
        changed["edges"].append({"id": "new", "source": "H", "sourceHandle": "denied", "target": "N"})
        await library.update("saved", changed)

        found = await library.diff("saved", "published")

    assert found["nodes"]["added"] == ["N"]
    assert found["nodes"]["changed"] == {"Z": {"data.output.answer": [1, 2]}}
    assert found["edges"]["added"] == ["new"]


@pytest.mark.req("G18")
@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (0, False), (1, 1.0), ([1, {"a": 0}], [1, {"a": False}])]
)
def test_a_difference_is_one_of_json(before: Any, after: Any) -> None:
    old = chart([START, a("V", "set", values={"x": before})], "S>V")
    new = chart([START, a("V", "set", values={"x": after})], "S>V")

    found = diff(old, new)

    assert repr(found["nodes"]["changed"]) == repr({"V": {"data.values.x": [before, after]}})
    assert diff(old, old)["nodes"]["changed"] == {}


@pytest.mark.req("G18")
def test_a_pinned_null_differs_from_nothing_pinned() -> None:
    old = chart([START, a("V", "set", values={})], "S>V")
    new = chart([START, a("V", "set", values={}, pinned=None)], "S>V")

    assert diff(old, new)["nodes"]["changed"] == {"V": {"data.pinned": [None, None]}}


def caller(name: str, **data: Any) -> dict[str, Any]:
    call = a("W", "workflow", workflow=name, outputVariable="w", **data)
    end = a("Z", "end", output={"w": "{{ctx.w}}"})
    hold = a("D", "wait", event="go", timeoutMs=60_000)
    return chart([START, hold, call, end], "S>D D>W W>Z", name="caller")


@pytest.mark.req("N22", "G18", "K22")
async def test_a_graph_calls_a_published_graph_in_the_version_of_that_moment(engines: Engines) -> None:
    """GC-K14: resolved when the node starts, and recorded."""
    async with engines.new(caller("saved")) as engine:
        await engine.library.create(waiting(1))
        await engine.library.publish("saved")
        run = await engine.start("caller", {})
        await suspended(run)
        await run.event("go")
        child = None
        while child is None:
            waits = (await run.state()).waits.values()
            child = next((engine.handle(w.key) for w in waits if w.what == "child"), None)
            await asyncio.sleep(0.01)
        await engine.library.update("saved", waiting(2))
        await engine.library.publish("saved")
        await suspended(child)

        await child.decide("approved")

        assert await run.result(timeout=60) == {"w": {"answer": 1}}
        assert (await child.info()).version == "1"
        assert (await child.info()).parent == run.id


@pytest.mark.req("N22")
async def test_a_workflow_that_nobody_knows_fails_the_node(memory_engines: Engines) -> None:
    async with memory_engines.new(caller("saved", version=7)) as engine:
        await engine.library.create(waiting(1))
        await engine.library.publish("saved")
        run = await engine.start("caller", {})
        await run.event("go")

        with pytest.raises(RunFailed, match="there is no workflow 'saved' version 7"):
            await run.result(timeout=60)
        assert (await traced(run))["W"].status == "failed"


@pytest.mark.req("N22", "K18")
async def test_a_graph_calls_a_function_that_another_worker_has(durable_engines: Engines) -> None:
    @workflow
    async def far(ctx: Context, x: dict[str, int]) -> int:
        return x["n"] + 1

    other_worker = durable_engines.new(far)
    async with durable_engines.new(caller("far", input={"n": "{{ctx.input.n}}"})) as engine, other_worker:
        run = await engine.start("caller", {"n": 41})
        await run.event("go")

        assert await run.result(timeout=60) == {"w": 42}


@pytest.mark.req("G19")
async def test_of_two_who_save_over_the_same_draft_one_is_told_who_changed_what(engines: Engines) -> None:
    async with engines.new(other) as engine, engines.new(other) as second:
        seen = (await engine.library.create(waiting(0))).hash
        names = ("ana", "joe")

        async def save(library: Any, name: str, answer: int) -> Conflict | None:
            try:
                await library.update("saved", waiting(answer), expected=seen, by=name)
            except Conflict as error:
                return error
            return None

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(save(library, name, answer))
                for library, name, answer in zip((engine.library, second.library), names, (1, 2), strict=True)
            ]

        errors = [task.result() for task in tasks]
        [told] = [error for error in errors if error is not None]
        winner = names[errors.index(None)]
        assert winner in told.message
        assert told.context["nodes"] == "other than yours: Z"
        assert told.context["draft"] == (await engine.library.about("saved")).hash
        assert (await engine.library.about("saved")).by == winner


@pytest.mark.req("G18", "G19")
async def test_those_who_create_and_publish_at_once_do_not_overwrite_one_another(engines: Engines) -> None:
    async with engines.new(other) as engine, engines.new(other) as second:
        libraries = (engine.library, second.library)
        made = await asyncio.gather(
            *(library.create(waiting(i), by=f"u{i}") for i, library in enumerate(libraries)),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in made) == ["Conflict", "SavedGraph"]

        published = await asyncio.gather(*(library.publish("saved") for library in libraries))
        assert published == ["1", "1"], "the same draft is one version"
        with pytest.raises(Conflict, match="changed"):
            await engine.library.publish("saved", expected="another")


@pytest.mark.req("G18", "G19")
async def test_an_engine_without_workflows_runs_what_is_saved(engines: Engines) -> None:
    body = chart([START, a("Z", "end", output={"v": 1})], "S>Z", name="alone")
    async with engines.new() as engine:
        await engine.library.create(body)
        await engine.library.publish("alone")

        run = await engine.library.start("alone", version=1)

        assert await run.result(timeout=60) == {"v": 1}
        assert await (await engine.rerun_from_node(run, "Z")).result(timeout=60) == {"v": 1}


@pytest.mark.req("G18")
async def test_who_gives_up_the_first_start_does_not_keep_the_engine_from_working(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engines.new() as engine:
        await engine.library.create(chart([START, a("Z", "end", output={"x": 1})], "S>Z", name="saved"))
        await engine.library.publish("saved")
        real, asked = engine.store.register, asyncio.Event()

        async def register(worker: WorkerInfo) -> None:
            if not asked.is_set():
                asked.set()
                await asyncio.Event().wait()
            await real(worker)

        monkeypatch.setattr(engine.store, "register", register)
        first = asyncio.ensure_future(engine.library.start("saved", {}))
        await asked.wait()
        first.cancel()

        runs = await asyncio.gather(*[engine.library.start("saved", {}) for _ in range(3)])

        assert [await run.result(20) for run in runs] == [{"x": 1}] * 3
        assert len(await engine.store.list_workers()) == 1


def test_edges_without_an_id_are_compared_by_what_they_join() -> None:
    nodes = [{"id": "S", "type": "start"}, {"id": "A", "type": "delay"}, {"id": "Z", "type": "end"}]
    old = {"nodes": nodes, "edges": [{"source": "S", "target": "A"}, {"source": "A", "target": "Z"}]}
    new = {"nodes": nodes, "edges": [{"source": "S", "target": "A"}, {"source": "S", "target": "Z"}]}

    found = Engine(":memory:").graphs.diff(old, new)["edges"]

    assert (found["added"], found["removed"], found["changed"]) == (["S>>Z>"], ["A>>Z>"], {})


@pytest.mark.parametrize("wrong", [5, {"nodes": {}}, {"nodes": [7]}, {"nodes": [], "edges": "S>Z"}])
def test_what_is_no_graph_is_not_compared(wrong: Any) -> None:
    with pytest.raises(StepwellError) as caught:
        Engine(":memory:").graphs.diff({"nodes": [], "edges": []}, wrong)

    assert caught.value.hint


@pytest.mark.req("G19", "K37")
async def test_a_graph_is_forgotten_at_once_with_its_draft(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engines.new(other) as engine:
        await engine.library.create(waiting(1))
        await engine.library.publish("saved")
        monkeypatch.setattr(failpoints, "hit", failpoints.parse("define.before=raise:2"))

        await engine.library.delete("saved")

        monkeypatch.setattr(failpoints, "hit", None)
        assert await engine.library.list() == []
        assert await engine.store.read_definition("default", "saved") is None


@pytest.mark.req("G18", "K37")
async def test_a_moved_node_is_a_change_of_the_draft_and_no_new_version(engines: Engines) -> None:
    moved = waiting(1)
    moved["nodes"][1]["position"] = {"x": 5, "y": 6}
    async with engines.new(other) as engine:
        created = await engine.library.create(waiting(1))
        await engine.library.publish("saved")

        saved = await engine.library.update("saved", moved, expected=created.hash)

        assert (saved.hash != created.hash, saved.changed) == (True, False)
        assert await engine.library.publish("saved") == "1"
        assert (await engine.library.get("saved"))["nodes"][1]["position"] == {"x": 5, "y": 6}
        with pytest.raises(Conflict):
            await engine.library.update("saved", waiting(2), expected=created.hash)
