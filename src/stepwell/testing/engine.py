"""VirtualEngine: an engine in memory whose time is yours. A three-day sleep takes milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from stepwell.app import Engine
from stepwell.client import RunHandle
from stepwell.domain.commit import NEVER
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.program import Program
from stepwell.domain.steps import StepSpec, describe, spec_of
from stepwell.errors import InvalidRequest
from stepwell.settings import Settings
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import FakeClock

R = TypeVar("R")

# Leases never expire and every wait parks: only the test moves time.
_SETTINGS = Settings(lease_seconds=1e9, heartbeat_seconds=3600, reap_seconds=3600, keep_lease_seconds=1e-6)
_QUIET_PASSES = 3


class VirtualEngine(Engine):
    """`async with VirtualEngine(fulfil) as engine:` gives you an engine in memory with virtual time.

    `advance("3d")` moves time, `settle()` waits until nothing moves, and `outcome(run)` skips time until
    the run has ended. `fake(charge, returns=...)` replaces a step.
    """

    def __init__(
        self,
        *workflows: Program,
        steps: Iterable[Callable[..., Any]] = (),
        queues: Iterable[str] = ("default",),
        store: MemoryStore | None = None,
        clock: FakeClock | None = None,
        replay_always: bool = False,
    ) -> None:
        self.clock = clock or FakeClock()
        self.memory = store or MemoryStore(self.clock.time)
        self._fakes: dict[str, StepSpec] = {}
        self.dead: Callable[[], bool] = lambda: False
        super().__init__(
            self.memory,
            workflows=workflows,
            steps=steps,
            queues=queues,
            settings=_SETTINGS,
            clock=self.clock,
            replay_always=replay_always,
        )

    async def open(self) -> None:
        await super().open()
        if self.worker is not None:
            self.worker.stand_in(self._fakes)

    # Time

    async def settle(self) -> None:
        """Wait until nothing is active and nothing is due, or this engine is dead."""
        quiet = 0
        while quiet < _QUIET_PASSES and not self.dead():
            self._check_works()
            await asyncio.sleep(0)
            busy = self.worker is not None and not self.worker.quiet
            if busy:
                # Steps may do real work (threads, sockets): give them real time.
                await asyncio.sleep(0.0005)
            elif self._next_due() <= self.clock.time() and self.worker is not None:
                self.worker.wake()
                await asyncio.sleep(0.0005)
                busy = True
            quiet = 0 if busy else quiet + 1

    def _check_works(self) -> None:
        """Refuse if the worker is gone: nothing would ever move."""
        if self.worker is None or self._task is None or not self._task.done():
            return
        self.check_usable()
        self.notifier.check()
        raise self._crashed()

    def _crashed(self) -> InvalidRequest:
        return InvalidRequest(
            "the engine has crashed: nothing moves in it",
            hint="continue with another engine on the same store: "
            "VirtualEngine(..., store=engine.memory, clock=engine.clock), then its handle(run.id)",
        )

    def _next_due(self) -> float:
        return self.memory.next_due(self.worker.needs if self.worker is not None else ())

    async def advance(self, duration: Duration) -> None:
        """Move time forward; everything that becomes due meanwhile happens in order and on time."""
        until = self.clock.time() + seconds(duration)
        await self.settle()
        while (due := self._next_due()) <= until and not self.dead():
            self.clock.advance(max(0.0, due - self.clock.time()))
            await self.settle()
        self.clock.advance(until - self.clock.time())
        await self.settle()

    async def skip(self) -> bool:
        """Skip to the next moment at which something is due; False if there is none."""
        due = self._next_due()
        if due != NEVER:
            self.clock.advance(max(0.0, due - self.clock.time()))
            await self.settle()
        return due != NEVER

    async def outcome(self, run: RunHandle[R]) -> R:
        """Return the result of the run; time skips over all its waits."""
        await self.settle()
        while not (await run.status()).terminal:
            if self.dead():
                raise self._crashed()
            if not await self.skip():
                reason = await run.why()
                raise AssertionError(f"run {run.id} cannot end on its own: it {reason.text}")
        return await run.result()

    async def crash(self) -> None:
        """Die like a killed process: nothing is cleaned up, and the store frees what the worker owned."""
        self.check_usable()
        assert self.worker is not None
        assert self._task is not None
        for work in list(self.worker.active.values()):
            work.vanish()
        self._task.cancel()
        await asyncio.wait({self._task})
        await self.memory.deregister(self.worker.id)

    # Steps

    def fake(
        self,
        step: Callable[..., Any],
        *,
        returns: Any = None,
        fails: Iterable[BaseException | type[BaseException]] = (),
        calls: Callable[..., Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Replace a step; the returned list collects the arguments of its calls.

        The first executions raise the errors of `fails`, one each; later ones call `calls` or return
        `returns`.
        """
        original = spec_of(step)
        errors = list(fails)
        recorded: list[tuple[Any, ...]] = []

        def replacement(*args: Any, **kwargs: Any) -> Any:
            recorded.append(args)
            if errors:
                raise errors.pop(0)
            return calls(*args, **kwargs) if calls is not None else returns

        self._fakes[original.name] = replace(
            describe(replacement),
            name=original.name,
            retry=original.retry,
            timeout=original.timeout,
            returns=original.returns,
        )
        return recorded
