"""The trace: one shape for all styles, told from the log and the stored definition alone."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from stepwell import (
    Context,
    Machine,
    NodeError,
    NodeResult,
    Permanent,
    Retry,
    RunFailed,
    RunHandle,
    Settings,
    StepContext,
    TraceEntry,
    node,
    step,
    transition,
    workflow,
)
from stepwell.authoring.graphs.history.run_trace import GraphTraceFold
from stepwell.domain.events import Event, read
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import SETTINGS, Engines

QUICK = Retry(attempts=2, delay=0.01)


@step(retry=QUICK)
async def flaky(ctx: StepContext, number: int) -> int:
    ctx.details(rows=number)
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return number


@workflow
async def kid(ctx: Context, number: int) -> int:
    return number


@workflow
async def parent(ctx: Context, number: int) -> int:
    await ctx.step(flaky, number)
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.step(flaky, 1))
        group.create_task(ctx.step(flaky, 2))
    await ctx.sleep(0.01)
    await ctx.run(kid, 3)
    return await ctx.signal("go", int)


class OrderState(BaseModel):
    total: int = 0


class Order(Machine[OrderState]):
    @transition("start", "paid")
    async def pay(self, ctx: Context, state: OrderState) -> None:
        state.total = await ctx.step(flaky, 4)

    @transition("paid", "end")
    async def ship(self, ctx: Context, state: OrderState) -> None:
        pass


def by_path(trace: list[TraceEntry]) -> dict[str, TraceEntry]:
    return {entry.path: entry for entry in trace}


@pytest.mark.req("K38", "G16")
async def test_the_trace_of_a_function_has_its_steps_waits_and_children(engines: Engines) -> None:
    async with engines.new(parent, kid) as engine:
        run = await engine.start(parent, 7)
        await run.waiting_for("go")
        waiting = (await run.trace())[-1]
        assert (waiting.name, waiting.kind, waiting.type, waiting.status) == (
            "go",
            "wait",
            "signal",
            "waiting",
        )
        await run.signal("go", 5)
        await run.result()

        trace = await run.trace()
        assert [entry.order for entry in trace] == list(range(1, 7))
        assert [entry.kind for entry in trace] == ["step", "step", "step", "timer", "child", "wait"]
        assert {entry.status for entry in trace} == {"completed"}
        first, one, two, slept, child, answered = trace
        assert [attempt.number for attempt in first.attempts] == [1, 2]
        failed, done = first.attempts
        assert failed.error is not None
        assert (failed.error.message, failed.error.kind) == ("not yet", "runtime")
        assert done.worker == failed.worker == engine.worker.id if engine.worker else ""
        assert failed.started_at <= failed.ended_at <= done.started_at <= done.ended_at  # type: ignore[operator]
        assert (first.output, first.details) == (7, {"rows": 7})
        assert [(entry.fork, entry.branch, entry.depth) for entry in (one, two)] == [
            (first.path, 0, 1),
            (first.path, 1, 1),
        ]
        assert slept.predecessors == [one.path, two.path]
        assert child.predecessors == [slept.path]
        assert (child.name, child.output) == ("kid", 3)
        assert (await engine.handle(child.child).info()).workflow == "kid"
        assert answered.output == 5


@workflow
async def spread(ctx: Context, number: int) -> int:
    for _ in range(2):
        await ctx.all(ctx.step(kept, number), ctx.step(kept, number))
        await ctx.step(kept, number)
    await ctx.map(kept, [1, 2])
    await ctx.map(kept, [3, 4])
    return len(await ctx.step(kept, number))


@pytest.mark.req("K38")
async def test_forks_and_items_of_a_map_are_branches(memory_engines: Engines) -> None:
    async with memory_engines.new(spread) as engine:
        run = await engine.start(spread, 1)
        await run.result()
        trace = await run.trace()
        places = [(entry.path, entry.fork, entry.branch, entry.depth) for entry in trace]
        assert places == [
            ("0~1/kept#1", "", 0, 1),
            ("0~2/kept#1", "", 1, 1),
            ("0/kept#1", "", None, 0),
            ("0~3/kept#1", "0/kept#1", 0, 1),
            ("0~4/kept#1", "0/kept#1", 1, 1),
            ("0/kept#2", "", None, 0),
            ("0/kept#3[0]", "0/kept#2", 0, 1),
            ("0/kept#3[1]", "0/kept#2", 1, 1),
            ("0/kept#4[0]", "0/kept#3[1]", 0, 1),
            ("0/kept#4[1]", "0/kept#3[1]", 1, 1),
            ("0/kept#5", "", None, 0),
        ]
        assert trace[5].predecessors == ["0~3/kept#1", "0~4/kept#1"]
        assert trace[9].predecessors == ["0/kept#3[0]", "0/kept#3[1]"]
        assert trace[10].predecessors == ["0/kept#4[0]", "0/kept#4[1]"]


@step
async def pays(number: int) -> int:
    if number < 0:
        raise Permanent("no card")
    return number


@workflow
async def paying(ctx: Context, number: int) -> int:
    await ctx.step(kept, number)
    return await ctx.step(pays, BROKEN.pop() if BROKEN else number)


BROKEN: list[int] = []


def paying_graph() -> dict[str, Any]:
    return chart(
        [START, a("A", "trace:work", size="{{ctx.input.size}}"), a("Z", "end", output={"done": True})],
        "S>A A-out>Z A-large>Z",
        name="pays",
    )


@pytest.mark.req("K38", "K39")
async def test_an_attempt_after_a_retry_says_when_it_began_and_who_asked(engines: Engines) -> None:
    BROKEN.append(-1)
    async with engines.new(paying) as engine:
        run = await engine.start(paying, 1)
        with pytest.raises(RunFailed):
            await run.result()
        await run.retry(by="ann")
        assert await run.result() == 1
        [retried] = [event async for event in run.events() if event.kind == "retried"]
        entry = (await run.trace())[1]
        first, second = entry.attempts
        assert (first.by, second.by, entry.by) == ("", "ann", [])
        times = (first.ended_at, second.queued_at, second.started_at, second.ended_at)
        assert list(times) == sorted(times)  # type: ignore[type-var]
        assert second.queued_at == pytest.approx(retried.at.timestamp(), abs=1e-3)


@pytest.mark.req("K38", "K39")
async def test_a_skipped_step_keeps_its_attempts_and_says_who_skipped_it(engines: Engines) -> None:
    BROKEN.append(-1)
    async with engines.new(paying, paying_graph(), nodes=[work]) as engine:
        function = await engine.start(paying, 1)
        graph = await engine.start("pays", {"size": -1})
        for run, path in ((function, "0/pays#1"), (graph, "0/A")):
            with pytest.raises(RunFailed):
                await run.result()
            before = by_path(await run.trace())[path]
            await run.skip(7, by="bob", reason="paid in cash")
            await run.result()
            after = by_path(await run.trace())[path]
            assert after.attempts == before.attempts
            assert (after.status, after.output, after.error, after.by) == ("completed", 7, None, ["bob"])


@workflow
async def asks(ctx: Context, number: int) -> str:
    await ctx.signal("go")
    return await ctx.approval(str, required=2)


class Shop(Machine[OrderState]):
    @transition("start", "end", wait=True)
    async def close(self, ctx: Context) -> None:
        pass


@pytest.mark.req("K38", "K15")
async def test_the_trace_says_who_answered_each_wait(engines: Engines) -> None:
    graph = chart([START, a("P", "approval"), a("Z", "end", output={})], "S>P P-approved>Z", name="asking")
    async with engines.new(asks, Shop, graph) as engine:
        function = await engine.start(asks, 1, delay=0.05)  # the signal is there before it asks
        machine = await engine.start(Shop)
        nodes = await engine.start("asking", {})
        await function.signal("go", by="ann")
        await function.waiting_for("approval")
        await function.decide("approved", by="bob")
        await function.decide("approved", by="cy")
        await machine.waiting_for("close")
        await machine.trigger("close", by="dan")
        await nodes.waiting_for("P")
        await nodes.decide("approved", by="eve")
        answered = []
        for run in (function, machine, nodes):
            await run.result()
            answered += [entry.by for entry in await run.trace() if entry.by]
        assert answered == [["ann"], ["bob", "cy"], ["dan"], ["eve"]]
        waits = [(entry.kind, entry.type, entry.name) for entry in await function.trace()]
        assert waits == [("wait", "signal", "go"), ("wait", "approval", "approval")]


@pytest.mark.req("K38")
async def test_the_trace_of_a_machine_has_its_transitions_with_what_they_did(engines: Engines) -> None:
    async with engines.new(Order) as engine:
        run = await engine.start(Order, OrderState())
        await run.result()
        pay, inner, ship = await run.trace()
        assert (pay.kind, pay.name, pay.status) == ("transition", "pay", "completed")
        assert pay.output == {"source": "start", "target": "paid", "version": 1}
        assert (inner.name, inner.depth, inner.predecessors) == ("flaky", 1, [pay.path])
        assert (ship.name, ship.predecessors) == ("ship", [pay.path])


# Graphs


class Item(BaseModel):
    size: int
    label: str = ""


@node("trace:work", config=Item, handles=("out", "large"))
async def work(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> NodeResult:
    helpers.details(rows=config["size"], model="m")
    if config["size"] < 0:
        raise NodeError("TOO_SMALL", "less than nothing", config=True)
    return NodeResult({"size": config["size"]}, "large" if config["size"] > 5 else "out")


def order_graph() -> dict[str, Any]:
    return chart(
        [
            START,
            a(
                "A",
                "trace:work",
                size="{{ctx.input.size}}",
                label="of {{run.workflow}}",
                title="First",
                outputVariable="a",
            ),
            a("B", "trace:work", size=9),
            a("C", "trace:work", size=1),
            a("X", "trace:work", size=2),
            a("P", "approval", title="Ship it?"),
            a("M", "merge"),
            a("Z", "end", output={"a": "{{ctx.a.size}}"}),
        ],
        "S>A A>B A>C B-large>M B>X C>P P-approved>M M>Z",
        name="orders",
    )


@pytest.mark.req("K38", "G16")
async def test_the_trace_of_a_graph_says_what_each_node_did_and_why(engines: Engines) -> None:
    async with engines.new(order_graph(), nodes=[work]) as engine:
        run = await engine.start("orders", {"size": 3})
        await run.waiting_for("P")
        await _settled(run, "0/B")
        open_ = by_path(await run.trace())
        assert open_["0/P"].status == "waiting"
        join = open_["0/M"]
        assert (join.status, join.predecessors, join.missing) == ("waiting", ["0/B"], ["0/P"])
        await run.decide("approved", path="0/P")
        await run.result()

        entries = by_path(await run.trace())
        first = entries["0/A"]
        assert (first.name, first.kind, first.type, first.title) == ("A", "node", "trace:work", "First")
        assert first.config == {"size": 3, "label": "of orders"}
        assert first.input == {"input": {"size": 3}}
        assert (first.output, first.handles) == ({"size": 3}, ["out"])
        assert first.details == {"rows": 3, "model": "m"}
        assert len(first.attempts) == 1
        assert first.attempts[0].worker == first.worker != ""
        large, small = entries["0/B"], entries["0/C"]
        assert [(one.fork, one.branch, one.depth) for one in (large, small)] == [("0/A", 0, 1), ("0/A", 1, 1)]
        assert large.handles == ["large"]
        assert entries["0/X"].status == "skipped"
        assert sorted(entries["0/M"].predecessors) == ["0/B", "0/P"]
        assert entries["0/M"].depth == 0
        assert [one.order for one in await run.trace()] == sorted(one.order for one in entries.values())


async def _settled(run: RunHandle[Any], path: str) -> None:
    async for event in run.events(follow=True):
        if event.path == path and event.type == "node_completed":
            return


@pytest.mark.req("K38", "G12")
async def test_a_configuration_error_is_told_apart(engines: Engines) -> None:
    async with engines.new(order_graph(), nodes=[work]) as engine:
        run = await engine.start("orders", {"size": -1})
        with pytest.raises(Exception, match="less than nothing"):
            await run.result()
        failed = by_path(await run.trace())["0/A"]
        assert failed.error is not None
        assert (failed.error.code, failed.error.kind) == ("TOO_SMALL", "configuration")
        assert failed.details == {"rows": -1, "model": "m"}


@pytest.mark.req("K38", "G10", "G16")
async def test_each_iteration_of_a_loop_has_its_entries(engines: Engines) -> None:
    nodes = [
        START,
        a("each", "loop", items="[3, 9]", title="Each size"),
        a("A", "trace:work", "each", size="{{loop.item}}"),
        a("I", "set", "each", values={"seen": "{{loop.index}}"}),
        a("Z", "end", output={}),
    ]
    body = chart(nodes, "S>each A>I A-large>I each>Z", name="loops")
    async with engines.new(body, nodes=[work]) as engine:
        run = await engine.start("loops", {})
        await run.result()
        entries = by_path(await run.trace())
        loop = entries["0/each"]
        assert (loop.title, loop.iteration, loop.progress, loop.depth) == ("Each size", None, [2, 2], 0)
        taken = [(entries[f"0/each[{n}]/A"], entries[f"0/each[{n}]/I"]) for n in (0, 1)]
        assert [(first.iteration, second.iteration) for first, second in taken] == [(0, 0), (1, 1)]
        assert [first.config for first, _ in taken] == [{"size": 3}, {"size": 9}]
        assert [first.handles for first, _ in taken] == [["out"], ["large"]]
        assert [second.predecessors for _, second in taken] == [["0/each[0]/A"], ["0/each[1]/A"]]
        assert {first.depth for first, _ in taken} == {1}


@workflow
async def sends_away(ctx: Context, number: int) -> int:
    return await ctx.step.on(queue="far")(flaky, number)


@pytest.mark.req("K38", "F6")
async def test_each_attempt_of_a_remote_step_names_its_worker_and_times(engines: Engines) -> None:
    async with engines.new(sends_away) as engine, engines.new(steps=[flaky], queues=["far"]) as far:
        run = await engine.start(sends_away, 7)
        assert await run.result("30s") == 7
        [entry] = await run.trace()
        assert far.worker is not None
        assert [attempt.worker for attempt in entry.attempts] == [far.worker.id] * 2
        for attempt in entry.attempts:
            times = [attempt.queued_at, attempt.started_at, attempt.ended_at]
            assert times == sorted(times)  # type: ignore[type-var]
        failed, done = entry.attempts
        assert (failed.error.message if failed.error else "", done.error) == ("not yet", None)


READER = """
import sys, msgspec
from stepwell import SyncClient
with SyncClient(sys.argv[1]) as client:
    print(msgspec.json.encode(client.handle(sys.argv[2]).trace()).decode())
"""


@pytest.mark.req("K38")
async def test_a_process_without_the_nodes_reads_the_same_trace(durable_engines: Engines) -> None:
    async with durable_engines.new(order_graph(), nodes=[work]) as engine:
        run = await engine.start("orders", {"size": 3})
        await run.waiting_for("P")
        await _settled(run, "0/B")
        await _read_alike(durable_engines, run)
        await run.decide("approved", path="0/P")
        await run.result()
        await _read_alike(durable_engines, run)


async def _read_alike(engines: Engines, run: RunHandle[Any]) -> None:
    here = msgspec.json.decode(msgspec.json.encode(await run.trace()))
    command = [sys.executable, "-c", READER, str(engines.database), run.id]
    told = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == here


@pytest.mark.req("K38")
async def test_a_trace_can_be_folded_commit_by_commit(memory_engines: Engines) -> None:
    graph = order_graph()
    async with memory_engines.new(graph, nodes=[work]) as engine:
        run = await engine.start("orders", {"size": 3})
        await run.waiting_for("P")
        await run.decide("approved", path="0/P")
        await run.result()
        log = [read(row) async for row in run.log()]
        definition = await engine.store.read_definition("default", "orders", (await run.info()).version)
        assert definition is not None
        live, whole = GraphTraceFold(run.id, definition.body), GraphTraceFold(run.id, definition.body)
        for commit in _commits(log):
            live.feed(commit)
            assert [one.order for one in live.entries()] == list(range(1, len(live.entries()) + 1))
        whole.feed(log)
        assert live.entries() == whole.entries() == await run.trace()


def _commits(log: list[Event]) -> list[list[Event]]:
    commits: list[list[Event]] = []
    for event in log:
        if not commits or commits[-1][-1].at != event.at:
            commits.append([])
        commits[-1].append(event)
    return commits


@pytest.mark.req("G13", "K38")
async def test_the_state_of_a_graph_has_input_variables_and_outputs_at_any_point(engines: Engines) -> None:
    async with engines.new(order_graph(), nodes=[work]) as engine:
        run = await engine.start("orders", {"size": 3})
        await run.waiting_for("P")
        await run.decide("approved", path="0/P")
        await run.result()
        [done] = [e.seq async for e in run.events() if e.path == "0/A" and e.kind == "step_completed"]
        before, after, now = await run.state(at=done - 1), await run.state(at=done), await run.state()
        assert before.input == after.input == {"size": 3}
        assert (before.variables, before.nodes) == ({}, {"S": {"size": 3}})
        assert after.variables == {"a": {"size": 3}}
        assert after.nodes == {"S": {"size": 3}, "A": {"size": 3}}
        assert now.nodes["B"] == {"size": 9}


# Details, inputs, sizes


@step
async def talks(ctx: StepContext, size: int) -> str:
    ctx.details(text="x" * size)
    ctx.details(kept=True)
    return "done"


@workflow
async def talk(ctx: Context, size: int) -> str:
    return await ctx.step(talks, size)


@pytest.mark.req("K38")
async def test_details_are_merged_and_capped(engines: Engines) -> None:
    async with engines.new(talk) as engine:
        small, large = await engine.start(talk, 10), await engine.start(talk, 10_000)
        await small.result()
        await large.result()
        [entry] = await small.trace()
        assert entry.details == {"text": "x" * 10, "kept": True}
        [entry] = await large.trace()
        assert entry.details == {"truncated": True, "bytes": 10_023, "names": ["text", "kept"]}
        assert await large.documents() == []


@pytest.mark.req("K38")
async def test_the_arguments_of_steps_are_kept_if_the_settings_say_so(engines: Engines) -> None:
    async with engines.new(talk) as engine:
        run = await engine.start(talk, 10)
        await run.result()
        [entry] = await run.trace()
        assert entry.input is None
    kept = Settings(**{**SETTINGS_OF, "step_inputs": "on"})
    async with engines.new(talk, settings=kept) as engine:
        run = await engine.start(talk, 10)
        await run.result()
        [entry] = await run.trace()
        assert entry.input == [10]


SETTINGS_OF: dict[str, Any] = {name: getattr(SETTINGS, name) for name in Settings.__dataclass_fields__}


@step
async def undo_flight(number: int) -> None:
    pass


@step(compensate=undo_flight)
async def book_flight(number: int) -> int:
    return number


@workflow(on_failure="compensate")
async def trip(ctx: Context, number: int) -> None:
    await ctx.step(book_flight, number)
    raise ValueError("no hotel")


@pytest.mark.req("K38")
async def test_the_trace_says_what_was_undone(engines: Engines) -> None:
    async with engines.new(trip) as engine:
        run = await engine.start(trip, 1)
        with pytest.raises(Exception, match="no hotel"):
            await run.result()
        booked, undone = await run.trace()
        assert booked.compensation == "completed"
        assert undone.compensates == booked.path


@workflow
async def many(ctx: Context, count: int) -> int:
    for number in range(count):
        await ctx.step(kept, number)
    return count


@step
async def kept(number: int) -> str:
    return "x" * 400


@pytest.mark.req("K38")
async def test_a_long_run_is_read_in_pages_without_its_values(memory_engines: Engines) -> None:
    async with memory_engines.new(many) as engine:
        run = await engine.start(many, 9_997)
        await run.result()
        assert len([row async for row in run.log()]) == 10_000
        page = await run.trace(limit=1000, values=False)
        assert len(page) == 1000
        assert len(msgspec.json.encode(page)) < 1_000_000
        after = await run.trace(after=page[-1].order, limit=2, values=False)
        assert [entry.order for entry in after] == [1001, 1002]
