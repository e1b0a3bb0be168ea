"""Waiting until a run waits: by name, trigger, place, node and path; with a limit, and not past its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Context, Machine, RunHandle, step, transition, workflow
from stepwell.errors import InvalidInput, NotWaitingYet, RunEnded, RunNotFound
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import PATIENCE, Engines, suspended


@dataclass
class Draft:
    rounds: int = 0


@workflow
async def publishing(ctx: Context) -> str:
    await ctx.signal("begin")
    await ctx.event("printed", key="7")
    await ctx.approval(bool, name="approve")
    await ctx.sleep(3600)
    return "published"


@workflow
async def rounds(ctx: Context, count: int) -> int:
    for _ in range(count):
        await ctx.approval(bool, name="approve")
    return count


@workflow
async def failing(ctx: Context) -> None:
    raise ValueError("no paper")


class Article(Machine[Draft]):
    @transition("start", "review")
    async def write(self, ctx: Context) -> None:
        self.state.rounds += 1

    @transition("review", "print", wait=True)
    async def accept(self, ctx: Context) -> None: ...

    @transition("review", "start", wait=True)
    async def reject(self, ctx: Context) -> None: ...

    @transition("print", "end")
    async def press(self, ctx: Context) -> None:
        await ctx.signal("paper")


async def path_at(run: RunHandle[Any], name: str) -> str:
    return (await run.waiting_for(name, PATIENCE)).path


@pytest.mark.req("F16")
async def test_function_is_awaited_at_its_signal_event_approval_and_sleep(engines: Engines) -> None:
    async with engines.new(publishing) as engine:
        run = await engine.start(publishing)

        assert (await run.waiting_for("begin", PATIENCE)).what == "signal"
        await run.signal("begin")
        assert (await run.waiting_for("printed", PATIENCE)).key == "7"
        await engine.emit("printed", key="7")
        assert await path_at(run, "approve") == "0/approval:approve#1"
        await run.decide(True)
        assert (await run.waiting_for("0/sleep#1", PATIENCE)).what == "timer"


@pytest.mark.req("F16")
async def test_machine_is_awaited_at_its_triggers_places_and_signals(engines: Engines) -> None:
    async with engines.new(Article) as engine:
        run = await engine.start(Article)

        asked = await run.waiting_for("accept", PATIENCE)
        assert asked.what == "trigger"
        assert await run.waiting_for("review") == asked
        await run.trigger("reject")
        assert (await run.waiting_for("review", PATIENCE)).path != asked.path
        await run.trigger("accept")
        assert (await run.waiting_for("print", PATIENCE)).name == "paper"
        assert (await run.waiting_for("paper")).what == "signal"


@pytest.mark.req("F16")
async def test_graph_is_awaited_at_its_nodes(engines: Engines) -> None:
    nodes = [
        a("L", "loop", times=2),
        a("Ask", "approval", "L"),
        a("W", "wait", mode="event", event="paid"),
        a("D", "delay", ms=3_600_000),
    ]
    body = chart([START, *nodes, a("Z", "end")], "S>L L>W W>D D>Z")
    async with engines.new(body) as engine:
        run = await engine.start("chart", {})

        first = await run.waiting_for("Ask", PATIENCE)
        assert first == await run.waiting_for("L[0]/Ask") == await run.waiting_for("0/L[0]/Ask")
        await run.decide("approved", path=first.path)
        second = await run.waiting_for("Ask", PATIENCE)
        assert second.path != first.path
        await run.decide("approved")
        assert await run.waiting_for("W", PATIENCE) == await run.waiting_for("paid")
        await run.event("paid")
        assert (await run.waiting_for("D", PATIENCE)).what == "timer"


@pytest.mark.req("F16")
async def test_answered_wait_does_not_count_before_the_next_one_opens(engines: Engines) -> None:
    async with engines.new(rounds) as engine:
        run = await engine.start(rounds, 20)

        paths = []
        for _ in range(20):
            wait = await run.waiting_for("approve", PATIENCE)
            paths.append(wait.path)
            await run.decide(True, path=wait.path)

        assert paths == [f"0/approval:approve#{n}" for n in range(1, 21)]
        assert await run.result(PATIENCE) == 20


@pytest.mark.req("F16")
async def test_answer_that_no_worker_has_taken_does_not_count(engines: Engines) -> None:
    async with engines.new(rounds) as engine:
        run = await engine.start(rounds, 2)
        await run.waiting_for("approve", PATIENCE)
        await suspended(run)

    async with engines.client() as client:  # nobody takes the answer
        run = client.handle(run.id)
        assert (await run.waiting_for("approve")).path == "0/approval:approve#1"
        await run.decide(True)
        with pytest.raises(NotWaitingYet):
            await run.waiting_for("approve", 0.05)


@pytest.mark.req("F16")
async def test_run_of_another_process_is_followed(durable_engines: Engines) -> None:
    async with durable_engines.new(publishing) as engine, durable_engines.client() as other:
        run = await engine.start(publishing)
        far = other.handle(run.id)
        waiter = asyncio.create_task(far.waiting_for("approve", PATIENCE))
        await run.signal("begin")
        await run.waiting_for("printed", PATIENCE)
        await engine.emit("printed", key="7")

        assert (await waiter).what == "approval"
        assert not other.notifier.followed


@pytest.mark.req("F16")
async def test_time_limit_reports_what_the_run_does_instead(engines: Engines) -> None:
    async with engines.new(publishing) as engine:
        run = await engine.start(publishing)
        await suspended(run)

        with pytest.raises(TimeoutError) as caught:
            await run.waiting_for("aprove", "50ms")

        error = caught.value
        assert isinstance(error, NotWaitingYet)
        assert error.code == "NOT_WAITING_YET"
        assert "does not wait for 'aprove' after 0.05 s: waits for signal 'begin'" in error.message
        assert error.context == {"waits": "begin"}
        assert not engine.notifier.followed


@pytest.mark.req("F16")
async def test_time_limit_reports_a_step_that_runs(memory_engines: Engines) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @step
    async def typeset() -> None:
        begun.set()
        await go_on.wait()

    @workflow
    async def printing(ctx: Context) -> None:
        await ctx.step(typeset)

    async with memory_engines.new(printing) as engine:
        run = await engine.start(printing)
        await begun.wait()

        with pytest.raises(NotWaitingYet, match="owns it"):
            await run.waiting_for("approve", 0.05)
        go_on.set()


@pytest.mark.req("F16")
async def test_end_before_the_wait_is_an_error_with_its_cause(engines: Engines) -> None:
    async with engines.new(publishing, rounds, failing) as engine:
        done, failed = await engine.start(rounds, 0), await engine.start(failing)
        with pytest.raises(RunEnded, match="before it waited for 'approve': the run is completed"):
            await done.waiting_for("approve", PATIENCE)
        with pytest.raises(RunEnded, match="the run is failed: ValueError: no paper"):
            await failed.waiting_for("approve", PATIENCE)

        cancelled = await engine.start(publishing)
        waiter = asyncio.create_task(cancelled.waiting_for("approve", PATIENCE))
        await cancelled.waiting_for("begin", PATIENCE)
        await cancelled.cancel("out of date")
        with pytest.raises(RunEnded, match="out of date"):
            await waiter


@pytest.mark.req("F16")
async def test_wrong_names_and_unknown_runs_are_refused(memory_engines: Engines) -> None:
    wrong: Any
    async with memory_engines.new(publishing) as engine:
        run = await engine.start(publishing)
        for wrong in ("", 7, None):
            with pytest.raises(InvalidInput, match="the name is"):
                await run.waiting_for(wrong)
        with pytest.raises(RunNotFound):
            await engine.handle("0" * 32).waiting_for("begin")
