"""Run a workflow repeatedly, with a crash at each of its commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from stepwell.client import RunHandle
from stepwell.domain.commit import Commit, Committed
from stepwell.domain.new_run import NO_INPUT
from stepwell.domain.program import Program
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.engine import VirtualEngine

T = TypeVar("T")
Story = Callable[[VirtualEngine, RunHandle[Any]], Awaitable[None]]


class CrashingStore(MemoryStore):
    """Counts commits; from the chosen one on, the store ignores its caller as if that had died."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.commits = 0
        self.crash_at = 0
        self.written = False  # whether the commit at the crash still reaches the disk
        self.crashed = False
        self.on_crash: Callable[[], None] = _ignore

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        return await self._counted(partial(super().commit, batch))

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        return await self._counted(partial(super().transact, body, turn))

    async def _counted(self, write: Callable[[], Awaitable[T]]) -> T:
        self.commits += 1
        if self.crashed or self.commits == self.crash_at:
            dying = not self.crashed
            self.crashed = True
            if dying and self.written:
                await write()
            if dying:
                self.on_crash()
            await asyncio.Event().wait()  # a dead caller gets no answer
        return await write()


async def crash_everywhere(
    workflow: Program,
    input: Any = NO_INPUT,
    *,
    story: Story | None = None,
    steps: Sequence[Any] = (),
    also: Sequence[Program] = (),
) -> int:
    """Check that the workflow reaches the same result wherever its worker crashes.

    The workflow runs once without a crash, then twice for each commit: with a crash just before and just
    after it. `story` plays the outside world (signals, decisions) and may be called again after a crash;
    `also` lists the workflows of its children. Returns the number of crashes; raises AssertionError with
    the commit if a result differs.
    """
    expected, commits = await _play([workflow, *also], input, story, steps, crash_at=0, written=False)
    for crash_at in range(1, commits + 1):
        for written in (False, True):
            result, _ = await _play(
                [workflow, *also], input, story, steps, crash_at=crash_at, written=written
            )
            where = f"{'after' if written else 'before'} commit {crash_at}"
            assert result == expected, f"with a crash {where}: {result!r}, without: {expected!r}"
    return commits * 2


async def _play(
    workflows: Sequence[Program],
    input: Any,
    story: Story | None,
    steps: Sequence[Any],
    *,
    crash_at: int,
    written: bool,
) -> tuple[Any, int]:
    clock = FakeClock()
    store = CrashingStore(clock.time)
    store.crash_at, store.written = crash_at, written
    startable: Any = workflows[0]  # every program is startable
    first = VirtualEngine(*workflows, steps=steps, store=store, clock=clock)
    first.dead = lambda: store.crashed
    await first.open()
    run: RunHandle[Any] = await first.start(startable, input)
    try:
        if not await _survived(first, run, story, store):
            await first.crash()
            store.crashed, store.crash_at = False, 0
            first = VirtualEngine(*workflows, steps=steps, store=store, clock=clock)
            await first.open()
            run = first.handle(run.id, startable)
            if story is not None:
                await story(first, run)
        return await first.outcome(run), store.commits
    finally:
        await first.close()


async def _survived(
    engine: VirtualEngine, run: RunHandle[Any], story: Story | None, store: CrashingStore
) -> bool:
    """Play until the run ends or the crash; False after a crash."""
    await engine.settle()
    if story is not None and not store.crashed:
        await _play_story(story, engine, run, store)
        await engine.settle()
    while not store.crashed and not (await run.status()).terminal:
        if not await engine.skip():
            break
    return not store.crashed


async def _play_story(story: Story, engine: VirtualEngine, run: RunHandle[Any], store: CrashingStore) -> None:
    """Play the story until its end or the crash; a dead engine would never answer it."""
    try:
        async with asyncio.timeout(None) as limit:
            store.on_crash = lambda: limit.reschedule(0.0)
            await story(engine, run)
    except Exception:
        if not store.crashed:
            raise
    finally:
        store.on_crash = _ignore


def _ignore() -> None:
    pass
