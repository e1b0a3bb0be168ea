"""Graphs under the durable layer: crashes, queues, broadcasts, removal, no store at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import (
    Context,
    Engine,
    NodeError,
    NodeResult,
    RunHandle,
    Status,
    graph,
    node,
    run_stateless,
    workflow,
)
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.history.trace import trace
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.domain import events as ev
from stepwell.errors import (
    AlreadyDecided,
    InvalidInput,
    NotAssigned,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunTimedOut,
    StepNotFound,
)
from stepwell.testing import VirtualEngine, crash_everywhere
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.engines import Engines, all_events, crash, suspended


@node("echo")
async def echo(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> Any:
    return config.get("value", helpers.node)


@node("bad")
async def bad(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> Any:
    return {1, 2}


@node("big")
async def big(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> Any:
    return "x" * 5_000_000


BUILDER = PlanBuilder(NodeRegistry([echo, bad, big]))


def e(id: str, parent: str = "", **data: Any) -> dict[str, Any]:
    return a(id, "echo", parent, outputVariable=id.lower(), **data)


@workflow
async def idle(ctx: Context, x: Any) -> None:
    pass


@pytest.mark.slow
@pytest.mark.req("K4", "G9")
async def test_a_crash_at_every_commit_changes_nothing() -> None:
    """GC-K01, GC-K04, GC-K05: forks, joins, loops, tries, delays and an approval, with a crash everywhere."""
    nodes = [
        START,
        a("F", "fork"),
        e("A"),
        a("L", "loop", items="[1, 2, 3]", mode="parallel", collect="ctx.b", outputVariable="l"),
        e("B", "L", value="{{loop.item * 2}}"),
        a("D", "delay", ms=50),
        a("H", "approval"),
        a("J", "merge", outputVariable="j"),
        e("C"),
        a("Z", "end", output={"l": "{{ctx.l.results}}", "j": "{{ctx.j.arrived}}", "c": "{{ctx.c}}"}),
    ]
    made = graph(chart(nodes, "S>F F>A A>J F>L L>J F>D D>J F>H H-approved>J J>C C>Z"), builder=BUILDER)

    async def approve(engine: VirtualEngine, run: RunHandle[Any]) -> None:
        await engine.settle()
        try:
            await run.decide("approved")
        except (AlreadyDecided, RunEnded):
            pass  # answered before the crash

    survived = await crash_everywhere(made, {}, story=approve)

    assert survived > 8


@pytest.mark.req("K16", "G6")
async def test_a_join_timer_that_ran_out_while_nobody_worked_fires_on_return(
    durable_engines: Engines,
) -> None:
    """GC-K06"""
    nodes = [
        START,
        a("F", "fork"),
        e("A"),
        a("H", "approval"),
        a("J", "merge", mode="timeout", timeoutMs=300),
    ]
    end = a("Z", "end", output={"t": "{{ctx.j.timedOut}}"})
    nodes[-1]["data"]["outputVariable"] = "j"
    body = chart([*nodes, end], "S>F F>A F>H A>J H-approved>J J>Z")
    first = durable_engines.new(body, nodes=[echo])
    await first.open()
    run = await first.start("chart", {})
    await suspended(run)
    await crash(first)

    async with durable_engines.new(body, nodes=[echo]) as engine:
        again = engine.handle(run.id)
        assert await again.result(timeout=20) == {"t": True}
        fired = [e for e in await all_events(again) if e.kind == "timer_fired"]
        assert len(fired) == 1


@pytest.mark.req("G16", "G17", "F6")
async def test_a_node_on_a_queue_is_executed_by_another_worker(durable_engines: Engines) -> None:
    body = chart(
        [START, e("A", queue="gpu", value="{{ctx.input.n}}"), a("Z", "end", output={"a": "{{ctx.a}}"})],
        "S>A A>Z",
    )
    owner = durable_engines.new(body, nodes=[echo])
    async with owner, durable_engines.new(nodes=[echo], queues=["gpu"]) as far:
        run = await owner.start("chart", {"n": 7})

        assert await run.result(timeout=20) == {"a": 7}
        kinds = [event.kind for event in await all_events(run)]
        assert "step_scheduled" in kinds
        told = await traced(run)
        assert owner.worker is not None
        assert far.worker is not None
        assert (told["A"].worker, told["Z"].worker) == (far.worker.id, owner.worker.id)


@pytest.mark.req("G12", "G17")
async def test_a_mistake_of_the_author_is_not_tried_again_on_another_worker(durable_engines: Engines) -> None:
    tries: list[int] = []

    @node("wrong")
    async def wrong(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
        tries.append(helpers.attempt)
        raise NodeError("E", "as told", config=True)

    body = chart([START, a("A", "wrong", queue="gpu", retry={"delayMs": 1}), a("Z", "end")], "S>A A>Z")
    owner = durable_engines.new(body, nodes=[wrong])
    async with owner, durable_engines.new(nodes=[wrong], queues=["gpu"]) as far:
        run = await owner.start("chart", {})

        with pytest.raises(RunFailed, match="as told"):
            await run.result(timeout=20)
        assert tries == [1]
        assert far.worker is not None
        assert (await traced(run))["A"].worker == far.worker.id


@pytest.mark.req("G17", "K9")
async def test_a_node_on_a_queue_keeps_its_own_retry_policy(durable_engines: Engines) -> None:
    tries: list[int] = []

    @node("fragile")
    async def fragile(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
        tries.append(helpers.attempt)
        raise NodeError("E_ONE" if len(tries) == 1 else "E_TWO")

    policy = {"maxAttempts": 5, "delayMs": 1, "nonRetryable": ["E_TWO"]}
    body = chart([START, a("A", "fragile", queue="gpu", retry=policy), a("Z", "end")], "S>A A>Z")
    owner = durable_engines.new(body, nodes=[fragile])
    async with owner, durable_engines.new(nodes=[fragile], queues=["gpu"]):
        run = await owner.start("chart", {})

        with pytest.raises(RunFailed, match="E_TWO"):
            await run.result(timeout=20)
        assert tries == [1, 2]


@pytest.mark.req("K17", "N11")
async def test_a_broadcast_event_reaches_a_waiting_node(engines: Engines) -> None:
    wait = a("W", "wait", event="paid", key="{{ctx.input.id}}", outputVariable="w")
    body = chart([START, wait, a("Z", "end", output={"w": "{{ctx.w}}"})], "S>W W>Z")
    async with engines.new(body) as engine:
        mine, other = await engine.start("chart", {"id": "a"}), await engine.start("chart", {"id": "b"})
        await suspended(mine)
        await suspended(other)

        await engine.emit("paid", {"sum": 3}, key="a")

        assert await mine.result(timeout=20) == {"w": {"sum": 3}}
        await suspended(other)


@pytest.mark.req("N12", "K15")
async def test_only_those_who_were_asked_decide(engines: Engines) -> None:
    """GC-K27"""
    ask = a("H", "approval", assignees=["{{ctx.input.boss}}", "role:finance"])
    body = chart([START, ask, a("Z", "end", output={"ok": True})], "S>H H-approved>Z")
    async with engines.new(body) as engine:
        runs = [await engine.start("chart", {"boss": "ana"}) for _ in range(2)]
        for run in runs:
            await suspended(run)
            before = await all_events(run)
            for who in ({"by": "eve"}, {"by": "eve", "roles": ["sales"]}, {}):
                with pytest.raises(NotAssigned, match="to ana, role:finance"):
                    await run.decide("approved", **who)
            assert await all_events(run) == before

        await runs[0].decide("approved", by="ana")
        await runs[1].decide("approved", by="joe", roles=["finance"])

        assert [await run.result(timeout=60) for run in runs] == [{"ok": True}] * 2


@pytest.mark.req("G11", "K28")
async def test_a_retry_container_between_two_attempts_is_running_and_says_when(engines: Engines) -> None:
    @node("breaks")
    async def breaks(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
        raise NodeError("E")

    box = a("R", "retry", maxAttempts=2, delayMs=3_600_000)
    body = chart([START, box, a("A", "breaks", "R", retry={"maxAttempts": 1}), a("Z", "end")], "S>R R>Z")
    async with engines.new(body, nodes=[breaks]) as engine:
        run = await engine.start("chart", {})
        reason = await run.why()
        while reason.code != "retry":
            await asyncio.sleep(0.01)
            reason = await run.why()

        assert "0/R is tried again at" in reason.text
        assert "(attempt 2)" in reason.text
        assert await run.status() is Status.RUNNING
        assert (await run.state()).status is Status.RUNNING


@pytest.mark.req("G12")
@pytest.mark.parametrize(("type", "code"), [("bad", "OUTPUT_NOT_JSON"), ("big", "OUTPUT_TOO_LARGE")])
async def test_an_output_that_cannot_be_kept_fails_the_node(
    memory_engines: Engines, type: str, code: str
) -> None:
    """GC-K20, GC-K21"""
    handler = {"bad": bad, "big": big}[type]
    body = chart(
        [
            START,
            a("A", type),
            a("H", "set", values={"c": "{{ctx.error.code}}"}),
            a("Z", "end", output={"c": "{{ctx.c}}"}),
        ],
        "S>A A>Z A-error>H H>Z",
    )
    async with memory_engines.new(body, nodes=[handler]) as engine:
        assert await (await engine.start("chart", {})).result() == {"c": code}


@pytest.mark.req("K18", "N22")
async def test_a_workflow_that_calls_itself_ends_at_the_depth_limit(memory_engines: Engines) -> None:
    """GC-K13"""
    body = chart([START, a("W", "workflow", workflow="deep"), a("Z", "end")], "S>W W>Z", name="deep")
    async with memory_engines.new(body) as engine:
        run = await engine.start("deep", {})
        with pytest.raises(RunFailed):
            await run.result()

        runs = await engine.runs(limit=50)
        assert len(runs) == 11


@pytest.mark.req("N22")
async def test_a_detached_child_lives_on(engines: Engines) -> None:
    """GC-K15"""
    w = a("W", "workflow", workflow="idle", wait=False, outputVariable="w")
    body = chart([START, w, a("Z", "end", output={"w": "{{ctx.w}}"})], "S>W W>Z")
    async with engines.new(idle, body) as engine:
        found = await (await engine.start("chart", {})).result()

        assert await engine.handle(found["w"]["runId"]).result(timeout=20) is None


@pytest.mark.req("G15")
async def test_a_test_run_is_deleted_with_all_its_rows(engines: Engines) -> None:
    async with engines.new(idle, nodes=[echo]) as engine:
        run = await engine.start_graph(chart([START, e("A"), a("Z", "end")], "S>A A>Z"), {}, test=True)
        await run.result()

        await run.delete()

        with pytest.raises(RunNotFound):
            await run.info()
        with pytest.raises(RunNotFound):
            await all_events(run)
        assert await engine.store.read_log(run.id) == []


@pytest.mark.req("K23")
async def test_a_graph_runs_without_a_store() -> None:
    made = graph(
        chart(
            [START, e("A", value="{{ctx.input.n + 1}}"), a("Z", "end", output={"a": "{{ctx.a}}"})], "S>A A>Z"
        ),
        builder=BUILDER,
    )

    assert await run_stateless(made, {"n": 1}) == {"a": 2}


@pytest.mark.req("K23", "N22")
async def test_without_a_store_only_the_workflows_that_were_given_are_known() -> None:
    call = a("W", "workflow", workflow="idle")
    made = graph(chart([START, call, a("Z", "end", output={"ok": True})], "S>W W>Z"), builder=BUILDER)

    assert await run_stateless(made, {}, workflows=[idle]) == {"ok": True}
    with pytest.raises(RunFailed, match="there is no workflow 'idle'"):
        await run_stateless(made, {})


@pytest.mark.req("K26")
async def test_a_graph_is_rerun_with_the_same_or_another_input(engines: Engines) -> None:
    body = chart(
        [START, e("A", value="{{ctx.input.n}}"), a("Z", "end", output={"a": "{{ctx.a}}"})], "S>A A>Z"
    )
    async with engines.new(body, nodes=[echo]) as engine:
        run = await engine.start("chart", {"n": 1})
        assert await run.result() == {"a": 1}

        assert await (await engine.rerun(run)).result() == {"a": 1}
        assert await (await engine.rerun(run, input={"n": 2})).result() == {"a": 2}


def test_engines_take_graphs_by_type() -> None:
    assert isinstance(Engine(":memory:", workflows=[chart([START, a("Z", "end")], "S>Z")]), Engine)


@pytest.mark.req("K26")
async def test_a_graph_is_rerun_from_a_node_and_keeps_its_siblings(engines: Engines) -> None:
    """GC-K24: a causal cut, not a prefix of the log."""
    done: list[str] = []

    @node("tell")
    async def tell(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
        done.append(helpers.node)
        return str(helpers.node)

    t = [a(id, "tell", outputVariable=id.lower()) for id in ("A", "B", "C")]
    end = a("Z", "end", output={"c": "{{ctx.c}}", "b": "{{ctx.b}}"})
    body = chart([START, a("F", "fork"), *t, a("J", "merge"), end], "S>F F>A A>C F>B C>J B>J J>Z")
    async with engines.new(body, nodes=[tell]) as engine:
        run = await engine.start("chart", {})
        await run.result()
        done.clear()

        again = await engine.rerun_from_node(run, "A")

        assert await again.result(timeout=20) == {"c": "C", "b": "B"}
        assert done == ["A", "C"]


@pytest.mark.req("K26")
async def test_a_fork_with_an_edited_output_does_what_follows_from_it_again(engines: Engines) -> None:
    done: list[str] = []

    @node("tell", handles=("out", "other"))
    async def tell(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
        done.append(helpers.node)
        return f"{ctx.get('a', '')}{helpers.node}"

    t = [a(id, "tell", outputVariable=id.lower()) for id in ("A", "B", "C", "D")]
    end = a(
        "Z", "end", output={"c": "{{default(ctx?.c, 0)}}", "b": "{{ctx.b}}", "d": "{{default(ctx?.d, 0)}}"}
    )
    edges = "S>F F>A A>C A-other>D F>B C>J D>J B>J J>Z"
    body = chart([START, a("F", "fork"), *t, a("J", "merge"), end], edges)
    async with engines.new(body, nodes=[tell]) as engine:
        run = await engine.start("chart", {})
        assert await run.result() == {"c": "AC", "b": "B", "d": 0}
        before = await all_events(run)
        last = before[-1].seq
        done.clear()

        forked = await engine.fork(run, at=last, outputs={"A": "x"})
        assert await forked.result(timeout=60) == {"c": "xC", "b": "B", "d": 0}
        assert done == ["C"]

        forked = await engine.fork(run, at=last, outputs={"A": NodeResult("y", "other"), "B": 5})
        assert await forked.result(timeout=60) == {"c": 0, "b": 5, "d": "yD"}
        assert done == ["C", "D"]

        with pytest.raises(InvalidInput, match="J is of type merge"):
            await engine.fork(run, at=last, outputs={"J": 1})
        with pytest.raises(StepNotFound):
            await engine.fork(run, at=last, outputs={"Q": 1})
        assert await all_events(run) == before


@pytest.mark.req("K26")
async def test_a_rerun_from_inside_a_loop_keeps_the_iterations_before(memory_engines: Engines) -> None:
    done: list[str] = []

    @node("tell")
    async def tell(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> int:
        done.append(helpers.key.partition("/")[2])
        return int(ctx["loop"]["item"]) if "loop" in ctx else 0

    loop = a("L", "loop", items="[1, 2, 3]", collect="ctx.a", outputVariable="l")
    nodes = [START, loop, a("A", "tell", "L", outputVariable="a"), a("X", "tell")]
    body = chart([*nodes, a("Z", "end", output={"r": "{{ctx.l.results}}"})], "S>L L>X X>Z")
    async with memory_engines.new(body, nodes=[tell]) as engine:
        run = await engine.start_graph(body, {})
        await run.result()
        done.clear()

        again = await engine.rerun_from_node(run, "L[1]/A")

        assert await again.result(timeout=20) == {"r": [1, 2, 3]}
        assert done == ["0/L[1]/A", "0/L[2]/A", "0/X"]


@pytest.mark.req("K11", "K12", "G15")
async def test_a_graph_out_of_time_is_sent_on_and_has_its_time_again() -> None:
    tries: list[str] = []

    @node("away")
    async def away(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
        tries.append(helpers.node)
        if helpers.node == "B" and tries.count("B") < 6:
            raise NodeError("E_NET", "no network")
        return str(helpers.node)

    retry = {"maxAttempts": 20, "delayMs": 600_000, "maxDelayMs": 600_000, "backoff": "fixed"}
    nodes = [START, a("A", "away"), a("B", "away", outputVariable="b", retry=retry)]
    body = chart([*nodes, a("Z", "end", output={"b": "{{ctx.b}}"})], "S>A A>B B>Z")
    body["settings"] = {"maxExecutionMs": 2_100_000}
    builder = PlanBuilder(NodeRegistry([away]))
    made = graph(body, builder=builder)
    async with VirtualEngine(made) as engine:
        run = await engine.start(made, {})
        with pytest.raises(RunTimedOut):
            await engine.outcome(run)
        assert tries == ["A", *["B"] * 4]

        await engine.advance("1d")
        await run.retry()

        assert await engine.outcome(run) == {"b": "B"}
        assert tries == ["A", *["B"] * 6]
        told = trace(builder.build(body), run.id, [ev.read(row) async for row in run.log()])
        assert told.by_path()["B"].status == "completed"
