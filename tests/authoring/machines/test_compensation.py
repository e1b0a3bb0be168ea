"""Machines undo the steps of all their transitions, over all their checkpoints."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from stepwell import (
    Context,
    Machine,
    Retry,
    RunFailed,
    Status,
    SyncContext,
    step,
    transition,
)
from stepwell.errors import (
    NotRetryable,
    RunTimedOut,
)
from tests.engines import Engines, kinds

UNBOOKED: list[str] = []


def unbook(name: str) -> None:
    UNBOOKED.append(name)


@step(compensate=unbook)
def kept_book(name: str) -> str:
    return name


@dataclass
class Trip:
    booked: list[str] = field(default_factory=list)


@pytest.mark.req("K27", "M5")
async def test_a_machine_undoes_the_steps_of_all_its_transitions(engines: Engines) -> None:
    done: list[str] = []

    async def cancel_booking(result: str) -> None:
        done.append(f"cancel {result}")

    @step(compensate=cancel_booking)
    async def book(what: str) -> str:
        done.append(f"book {what}")
        return what

    class Travel(Machine[Trip]):
        @transition("start", "flown")
        async def fly(self, ctx: Context) -> None:
            self.state = Trip([await ctx.step(book, "flight")])

        @transition("flown", "slept")
        async def sleep(self, ctx: Context) -> None:
            self.state.booked.append(await ctx.step(book, "hotel"))

        @transition("slept", "end")
        async def pay(self, ctx: Context) -> None:
            await ctx.step(book, "taxi")
            raise ValueError("no money")

    async with engines.new(Travel) as engine:
        run = await engine.start(Travel)
        with pytest.raises(RunFailed, match="no money"):
            await run.result()

        booked = ["book flight", "book hotel", "book taxi"]
        assert done == [*booked, "cancel taxi", "cancel hotel", "cancel flight"]
        with pytest.raises(NotRetryable):
            await run.retry()


@pytest.mark.req("K27", "M2")
async def test_a_machine_that_went_around_undoes_every_round(replayed_engines: Engines) -> None:
    UNBOOKED.clear()

    class Rounds(Machine[int]):
        @transition("start", "round")
        async def begin(self, ctx: Context) -> None:
            self.state = 0

        @transition("round", "round", when=lambda state, input: state < 3)
        async def around(self, ctx: Context) -> None:
            await ctx.step(kept_book, f"round {self.state}")
            self.state += 1

        @transition("round", "end")
        async def leave(self, ctx: Context) -> None:
            raise ValueError("no")

    async with replayed_engines.new(Rounds) as engine:
        with pytest.raises(RunFailed):
            await (await engine.start(Rounds)).result()

    assert UNBOOKED == ["round 2", "round 1", "round 0"]


class Keeping(Machine[list[str]], on_failure="hold"):
    @transition("start", "half")
    async def first(self, ctx: Context) -> None:
        self.state.append(await ctx.step(kept_book, "first"))

    @transition("half", "end")
    async def second(self, ctx: Context) -> None:
        self.state.append(await ctx.step(kept_book, "second"))
        raise ValueError("after both")


@pytest.mark.req("K27", "K4")
async def test_a_held_machine_is_undone_over_all_its_checkpoints(engines: Engines) -> None:
    UNBOOKED.clear()
    async with engines.new(Keeping) as engine:
        run = await engine.start(Keeping, None)
        with pytest.raises(RunFailed):
            await run.result()
        assert UNBOOKED == []

        await run.compensate()
        with pytest.raises(RunFailed):
            await run.result()
        assert (await run.state()).has_error

    assert UNBOOKED == ["second", "first"]


@pytest.mark.req("K12", "K27", "M3")
@pytest.mark.parametrize("threaded", [False, True], ids=["async", "thread"])
async def test_a_run_that_times_out_in_a_transition_stays_at_its_place(
    memory_engines: Engines, threaded: bool
) -> None:
    UNBOOKED.clear()
    let_go = threading.Event()

    class Slow(Machine[Trip], timeout=0.1):
        ends = frozenset({"end", "trouble"})

        @transition("start", "booked")
        async def book(self, ctx: Context) -> None:
            await ctx.step(kept_book, "flight")

        if threaded:

            @transition("booked", "end", on_error="trouble")
            def hang(self, ctx: SyncContext) -> None:
                let_go.wait()

        else:

            @transition("booked", "end", retry=Retry(3, delay=0.001, then="trouble"))
            async def wait(self, ctx: Context) -> None:
                await asyncio.Event().wait()

    async with memory_engines.new(Slow) as engine:
        run = await engine.start(Slow)
        with pytest.raises(RunTimedOut):
            await run.result(15)
        let_go.set()

        checkpoint = (await run.state()).checkpoint
        assert checkpoint is not None
        assert (checkpoint.place, checkpoint.version) == ("booked", 1)
        assert "transition_failed" not in await kinds(run)
        assert (await run.status(), UNBOOKED) == (Status.TIMED_OUT, ["flight"])
