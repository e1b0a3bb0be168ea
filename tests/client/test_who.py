"""Who started, cancelled, retried, signalled and decided, what started a run, and its totals."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any, get_overloads

import pytest

from stepwell import (
    Context,
    Engine,
    Machine,
    RunFailed,
    RunHandle,
    SyncClient,
    step,
    transition,
    workflow,
)
from stepwell.authoring.graphs.format.python_builder import GraphBuilder
from stepwell.client import Client
from stepwell.domain.commit import RunRow
from stepwell.errors import InvalidInput, RunCancelled
from tests.client.test_sync_parity import parameters
from tests.engines import Engines, all_events, suspended, until


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def asking(ctx: Context, n: int) -> Any:
    """Double it, then ask.

    The answer is what comes back.
    """
    await ctx.step(double, n)
    return await ctx.signal("go")


@workflow
async def approving(ctx: Context) -> Any:
    return await ctx.approval(Any)


@workflow
async def listening(ctx: Context) -> Any:
    return await ctx.event("paid")


@workflow(on_failure="hold")
async def failing(ctx: Context) -> None:
    raise ValueError("no luck")


async def cancel_room() -> None: ...


@step(compensate=cancel_room)
async def book_room() -> str:
    return "12"


@workflow(on_failure="hold")
async def booking(ctx: Context) -> None:
    await ctx.step(book_room)
    raise ValueError("no flight")


@workflow
async def parent(ctx: Context) -> int:
    child = await ctx.start(doubling, 2)
    return await child


@workflow
async def doubling(ctx: Context, n: int) -> int:
    return await ctx.step(double, n)


class Order(Machine[dict[str, Any]]):
    ends = ("paid",)

    @transition("start", "paid", wait=True)
    async def pay(self) -> None: ...


async def facts(run: Any, kind: str) -> list[dict[str, Any]]:
    return [event.data for event in await all_events(run) if event.kind == kind]


READS = {
    *(
        "find",
        "runs",
        "counts",
        "histogram",
        "waits",
        "approvals",
        "decided_approvals",
        "workflows",
        "versions",
    ),
    *("definition", "holds", "limits", "start_rates", "workers", "queues", "audit", "export", "handle"),
    *("result", "info", "overview", "status", "why", "log", "events", "logs", "follow_logs", "waiting_for"),
    *("state", "trace", "checkpoints", "documents", "document", "within", "check_usable"),
}


@pytest.mark.req("K38")
def test_every_verb_that_changes_something_takes_who_does_it() -> None:
    verbs = {
        name: get_overloads(verb) or [verb]
        for kind in (Client, RunHandle)
        for name, verb in vars(kind).items()
        if inspect.isfunction(verb) and not name.startswith("_") and name not in READS
    }
    without = {
        name
        for name, overloads in verbs.items()
        if not all("by" in parameters(overload) for overload in overloads)
    }

    assert len(verbs) > 30
    assert without == set()
    assert not [n for n, overloads in verbs.items() if any("user" in parameters(o) for o in overloads)]


@pytest.mark.req("K38")
async def test_a_run_knows_its_number_what_started_it_and_who(engines: Engines) -> None:
    async with engines.new(asking, doubling) as engine:
        first = await engine.start(asking, 1, by="ann", trigger="schedule")
        second, third = await engine.start_many(asking, [1, 2], by="bob")
        other = await engine.start(doubling, 1)

        rows: list[RunRow] = [await run.info() for run in (first, second, third, other)]
        assert [row.number for row in rows] == [1, 2, 3, 1]
        assert [row.started_by for row in rows] == ["ann", "bob", "bob", ""]
        assert [row.trigger for row in rows] == ["schedule", "api", "api", "api"]
        assert {row.number for row in await engine.runs(workflow="asking")} == {1, 2, 3}
        [accepted] = await facts(first, "accepted")
        assert (accepted["by"], accepted["trigger"]) == ("ann", "schedule")


@pytest.mark.req("K38", "K15", "K17")
async def test_a_signal_an_event_and_an_emitted_event_say_who_sent_them(engines: Engines) -> None:
    async with engines.new(asking, listening) as engine:
        signalled = await engine.start(asking, 1)
        emitted, direct = await engine.start(listening), await engine.start(listening)
        await suspended(emitted)
        await suspended(direct)

        await signalled.signal("go", 1, by="ann")
        await direct.event("paid", 2, by="bob")
        await engine.emit("paid", 3, by="cid")
        for run in (signalled, direct, emitted):
            await run.result()

        senders = [(await facts(run, "received"))[0]["by"] for run in (signalled, direct, emitted)]
        assert senders == ["ann", "bob", "cid"]


@pytest.mark.req("K38", "K15")
async def test_a_decision_and_a_trigger_say_who_decided_and_why(engines: Engines) -> None:
    async with engines.new(approving, Order) as engine:
        asked, order = await engine.start(approving), await engine.start(Order)
        await suspended(asked)
        await suspended(order)

        await asked.decide("approved", by="ann", reason="looks fine")
        await order.trigger("pay", by="bob", reason="cash")
        await asked.result()
        await order.result()

        for run, by, reason in ((asked, "ann", "looks fine"), (order, "bob", "cash")):
            [received] = await facts(run, "received")
            assert (received["by"], received["reason"]) == (by, reason)


@pytest.mark.req("K38", "K13")
async def test_a_cancel_says_who_asked_for_it(engines: Engines) -> None:
    async with engines.new(asking) as engine:
        begun = await engine.start(asking, 1)
        await suspended(begun)
        pending = await engine.start(asking, 1, delay="1h")

        await begun.cancel("wrong order", by="ann")
        await pending.cancel(by="bob")
        for run in (begun, pending):
            with pytest.raises(RunCancelled):
                await run.result()

        [requested] = await facts(begun, "cancel_requested")
        [cancelled] = await facts(pending, "cancelled")
        assert (requested["by"], requested["reason"]) == ("ann", "wrong order")
        assert cancelled["by"] == "bob"
        assert (await begun.state()).cancelled_by == "ann"
        assert (await pending.state()).cancelled_by == "bob"


@pytest.mark.req("K38", "K11")
async def test_a_retry_says_who_and_why(engines: Engines) -> None:
    async with engines.new(failing) as engine:
        run = await engine.start(failing)
        with pytest.raises(RunFailed):
            await run.result()

        await run.retry(by="ann", reason="the van is back")
        with pytest.raises(RunFailed):
            await run.result()

        [retried] = await facts(run, "retried")
        assert (retried["by"], retried["reason"]) == ("ann", "the van is back")
        assert (await run.state()).retried_by == "ann"


@pytest.mark.req("K38", "K27")
async def test_a_compensation_says_who_and_why(engines: Engines) -> None:
    async with engines.new(booking) as engine:
        run = await engine.start(booking)
        with pytest.raises(RunFailed):
            await run.result()

        await run.compensate(by="ann", reason="the guest is not coming")
        with pytest.raises(RunFailed):
            await run.result()

        [retried] = await facts(run, "retried")
        assert (retried["undo"], retried["by"], retried["reason"]) == (True, "ann", "the guest is not coming")


@pytest.mark.req("K38")
async def test_what_leaves_no_row_behind_is_said_in_the_python_log(
    memory_engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory_engines.new(doubling) as engine:
        run = await engine.start(doubling, 1)
        await run.result()
        await engine.set_limit("workflow", "doubling", 2)
        with caplog.at_level(logging.INFO, "stepwell.client"):
            await run.delete(by="ann", reason="a slip")
            await engine.drop_limit("workflow", "doubling", by="bob")
            assert engine.worker is not None
            await engine.drain(engine.worker.id, by="cid", reason="old host")
            await engine.drain(engine.worker.id, by="dan")

    assert f"worker {engine.worker.id} was asked to stop by cid: old host" in caplog.text
    assert "dan" not in caplog.text
    assert f"run {run.id} was deleted by ann: a slip" in caplog.text
    assert "was dropped by bob" in caplog.text


@pytest.mark.req("K38", "K26", "K29")
async def test_reruns_forks_imports_and_children_say_what_started_them(engines: Engines) -> None:
    async with engines.new(doubling, parent) as engine:
        run = await engine.start(doubling, 1, by="ann")
        await run.result()
        again = await engine.rerun(run, by="bob", reason="once more")
        later = await engine.rerun_from(run, "double", by="bob")
        fork = await engine.fork(run, at=1, by="cid")
        above = await engine.start(parent)
        await above.result()
        file = await engine.export(run)
        await run.delete(by="dan")
        imported = await engine.import_run(file, by="eve")
        [child] = [row for row in await engine.runs(workflow="doubling") if row.parent]

        rows = [await each.info() for each in (again, later, fork, imported)]
        assert [(row.trigger, row.started_by) for row in rows] == [
            ("rerun", "bob"),
            ("rerun", "bob"),
            ("fork", "cid"),
            ("import", "eve"),
        ]
        assert (child.trigger, child.started_by) == ("child", f"run/{above.id}")
        [accepted] = await facts(again, "accepted")
        assert (accepted["by"], accepted["reason"], accepted["trigger"]) == ("bob", "once more", "rerun")
        assert len({row.number for row in await engine.runs(workflow="doubling")}) == 5


@pytest.mark.req("K38")
async def test_a_test_run_is_marked_by_its_trigger(memory_engines: Engines) -> None:
    graph = GraphBuilder("small")
    graph.node("start") >> graph.node("end")

    async with memory_engines.new() as engine:
        run = await engine.start_graph(graph, test=True, by="ann")
        await run.result()
        row = await run.info()

    assert (row.trigger, row.started_by, row.test) == ("test", "ann", True)


@pytest.mark.req("K38", "K19")
async def test_a_limit_says_who_set_it(engines: Engines) -> None:
    async with engines.new(asking) as engine:
        await engine.set_limit("workflow", "asking", 2, by="ann")

        assert [limit.by for limit in await engine.limits()] == ["ann"]


@pytest.mark.req("K38")
@pytest.mark.parametrize("by", [7, "a\x00b", "x" * 501])
async def test_a_name_that_cannot_be_stored_is_refused_before_anything_is_written(
    memory_engines: Engines, by: Any
) -> None:
    async with memory_engines.new(asking) as engine:
        run = await engine.start(asking, 1)
        for call in (
            lambda: engine.start(asking, 1, by=by),
            lambda: engine.emit("paid", by=by),
            lambda: run.signal("go", by=by),
            lambda: run.cancel(by=by),
        ):
            with pytest.raises(InvalidInput):
                await call()

        assert len(await engine.runs()) == 1


@pytest.mark.req("K38")
async def test_totals_of_a_run_count_steps_and_time_without_its_waits(engines: Engines) -> None:
    async with engines.new(asking) as engine:
        run = await engine.start(asking, 1, by="ann")
        await suspended(run)

        async def has_waited() -> bool:
            return (await run.overview()).elapsed > 0.3

        await until(has_waited)
        waiting = await run.overview()
        await run.signal("go", 5)
        await run.result()
        ended = await run.overview()

    assert (waiting.number, waiting.trigger, waiting.started_by) == (1, "api", "ann")
    assert waiting.steps == 1
    assert waiting.active < 0.3 < waiting.elapsed
    assert waiting.suspended_at is not None
    assert ended.suspended_at == waiting.suspended_at
    assert ended.steps == 1
    assert ended.active < ended.elapsed


@pytest.mark.req("K38")
async def test_steps_are_counted_in_every_style(engines: Engines) -> None:
    graph = GraphBuilder("small")
    graph.node("start") >> graph.node("end")
    async with engines.new(doubling, Order) as engine:
        function, order = await engine.start(doubling, 1), await engine.start(Order)
        drawn = await engine.start_graph(graph)
        await suspended(order)
        await order.trigger("pay")
        for run in (function, order, drawn):
            await run.result()

        assert [(await run.overview()).steps for run in (function, order, drawn)] == [1, 1, 2]
        copy = await engine.rerun_from(function, "double")
        await copy.result()
        assert (await copy.overview()).steps == 1


@pytest.mark.req("K38")
def test_sync_code_says_who_does_it(sqlite: Engines) -> None:
    with SyncClient(engine=Engine(sqlite.database, workflows=[asking])) as client:
        run = client.start(asking, 1, by="ann")
        run.signal("go", 1, by="bob")
        run.result()
        [received] = [event.data for event in run.events() if event.kind == "received"]

        assert received["by"] == "bob"
        assert run.overview().started_by == "ann"


@pytest.mark.req("K38", "K42")
async def test_in_an_encrypted_database_reasons_cannot_be_read(sqlite: Engines) -> None:
    from stepwell.store.payloads import Encryption

    codec = Encryption({"a": b"k" * 32}, current="a")
    async with sqlite.new(failing, codec=codec) as engine:
        run = await engine.start(failing)
        with pytest.raises(RunFailed):
            await run.result()
        await run.retry(by="ann", reason="canary-retry")
        with pytest.raises(RunFailed):
            await run.result()
        await engine.disable(failing, by="ann", reason="canary-disable")
        again = await engine.start_many(failing, [])
        assert again == []
        [info] = await engine.workflows()
        [retried] = await facts(run, "retried")
        assert (info.reason, retried["reason"]) == ("canary-disable", "canary-retry")
    await asyncio.sleep(0)
    with open(str(sqlite.database), "rb") as file:  # noqa: ASYNC230
        assert b"canary" not in file.read()
