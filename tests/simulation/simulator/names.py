"""Clocks and ids of simulated processes: skewed, and the same for the same seed."""

from __future__ import annotations

import asyncio
import random

from stepwell.domain.ids import LeaseId, RunId, WorkerId
from stepwell.testing.clock import BEGIN


class SkewedClock:
    """The wall clock of one process, which is wrong. Its monotonic clock begins anywhere and is right."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew: float, uptime: float) -> None:
        self._loop = loop
        self._skew = skew
        self._uptime = uptime

    def time(self) -> float:
        return BEGIN + self._skew + self._loop.time()

    def monotonic(self) -> float:
        return self._uptime + self._loop.time()


class SeededIds:
    """Random names from a seed; run ids are ordered by time like real ones."""

    def __init__(self, rng: random.Random, loop: asyncio.AbstractEventLoop) -> None:
        self._rng = rng
        self._loop = loop

    def _hex(self, digits: int) -> str:
        return f"{self._rng.getrandbits(digits * 4):0{digits}x}"

    def run_id(self) -> RunId:
        return RunId(f"{int((BEGIN + self._loop.time()) * 1000):012x}{self._hex(20)}")

    def worker_id(self) -> WorkerId:
        return WorkerId(self._hex(16))

    def lease_id(self) -> LeaseId:
        return LeaseId(self._hex(32))

    def token(self) -> str:
        return self._hex(32)

    def jitter(self) -> float:
        return self._rng.random()
