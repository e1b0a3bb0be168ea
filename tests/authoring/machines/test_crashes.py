"""Machines come to the same end wherever their worker crashes."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Machine, Retry, RunHandle, step, transition, workflow
from stepwell.errors import Conflict
from stepwell.testing import VirtualEngine, crash_everywhere
from stepwell.testing.clock import FakeClock
from stepwell.testing.crashes import CrashingStore
from tests.authoring.machines.approvals import Review


async def review(engine: VirtualEngine, run: RunHandle[Any]) -> None:
    """Clicks through the review, whatever was clicked before the crash."""
    for name, payload in (("submit", None), ("approve", {"by": "ana"}), ("publish", None)):
        await engine.settle()
        if engine.dead():
            return
        try:
            await run.trigger(name, payload, by="ana")
        except Conflict:
            continue
    await engine.settle()


@pytest.mark.req("M3", "M4", "R2")
async def test_a_review_survives_a_crash_at_every_commit() -> None:
    assert await crash_everywhere(Review, None, story=review) >= 8


@workflow
async def double(ctx: Context, n: int) -> int:
    return n * 2


@step
async def add(n: int, m: int) -> int:
    return n + m


class Busy(Machine[dict[str, Any]]):
    """Inner steps, a child, a long sleep, an attempt that fails and a place for errors."""

    ends = frozenset({"done"})

    @transition("start", "work")
    async def open(self, ctx: Context, n: int) -> None:
        self.state = {"n": n, "trail": ["open"]}

    @transition("work", "broken", retry=Retry(2, delay="1s"))
    async def compute(self, ctx: Context) -> None:
        self.state["trail"].append("compute")
        first = await ctx.step(add, self.state["n"], 1)
        both = await ctx.all(ctx.step(add, first, 1), ctx.run(double, first))
        await ctx.sleep("3d")
        self.state["n"] = await ctx.step(add, *both)
        if ctx.attempt == 1:
            raise ValueError("not yet")

    @transition("broken", "never", on_error="mended")
    async def fail(self, ctx: Context) -> None:
        self.state["trail"].append("fail")
        raise ValueError("always")

    @transition(["mended", "never"], "done")
    async def finish(self, ctx: Context) -> None:
        self.state["trail"].append(f"finish: {self.error.message if self.error else ''}")


class Hopeless(Machine[dict[str, Any]]):
    @transition("start", "middle")
    async def open(self, ctx: Context) -> None: ...

    @transition("middle", "end", retry=Retry(2, delay="1s"))
    async def fail(self, ctx: Context) -> None:
        raise ValueError(f"attempt {ctx.attempt}")


@pytest.mark.req("M5", "K9", "R2")
async def test_the_last_attempt_is_the_last_also_when_its_worker_dies_right_behind_it() -> None:
    """The failure may be in the log and the end of the run not: the next owner ends it, and tries nothing."""
    commits = 0
    crashed = True
    while crashed:
        commits += 1
        clock = FakeClock()
        store = CrashingStore(clock.time)
        store.crash_at, store.written = commits, True
        first = VirtualEngine(Hopeless, store=store, clock=clock)
        first.dead = lambda store=store: store.crashed  # type: ignore[misc]  # the store of this round
        await first.open()
        run = await first.start(Hopeless)
        await first.settle()
        while not store.crashed and await first.skip():
            pass
        crashed, store.crashed = store.crashed, False
        if crashed:
            await first.crash()
            async with VirtualEngine(Hopeless, store=store, clock=clock) as second:
                await second.advance("1m")
        failed = [row for row in await store.read_log(run.id, after=0, limit=100) if row.kind == "failed"]
        await first.close()

        assert [b'"attempt 2"' in row.payload for row in failed] == [True], f"crash after commit {commits}"
    assert commits > 4


async def nothing(engine: VirtualEngine, run: RunHandle[Any]) -> None:
    await engine.settle()


@pytest.mark.req("M3", "M5", "M9", "R2")
async def test_a_busy_machine_survives_a_crash_at_every_commit() -> None:
    async with VirtualEngine(Busy, double) as engine:
        result = await engine.outcome(await engine.start(Busy, 1))

    assert result == {"n": 7, "trail": ["open", "compute", "finish: always"]}
    assert await crash_everywhere(Busy, 1, story=nothing, also=[double]) >= 10


@pytest.mark.req("M9", "K13")
async def test_cleanup_goes_on_after_a_crash_in_it() -> None:
    """The cancel is in the log, the first half of the cleanup too: the second owner does the rest."""
    cleaned: list[int] = []

    @step
    async def clean(n: int) -> None:
        cleaned.append(n)

    class Tidy(Machine[dict[str, int]]):
        @transition("start", "end")
        async def work(self, ctx: Context) -> None:
            try:
                await ctx.step(add, 1, 1)
                await ctx.sleep("3d")
            finally:
                await ctx.step(clean, 1)
                await ctx.sleep("1h")
                await ctx.step(clean, 2)

    first = VirtualEngine(Tidy)
    await first.open()
    run = await first.start(Tidy)
    await first.settle()
    await run.cancel()
    await first.settle()
    assert cleaned == [1]
    await first.crash()
    async with VirtualEngine(Tidy, store=first.memory, clock=first.clock) as second:
        again = second.handle(run.id)
        while not (await again.status()).terminal:
            assert await second.skip()
        assert await again.status() == "cancelled"
    assert cleaned == [1, 2]
    await first.close()
