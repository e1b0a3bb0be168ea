"""Clock, ids and randomness of the operating system. Everything else receives them as arguments."""

from __future__ import annotations

import os
import random
import time
from typing import Protocol

from stepwell.domain.ids import LeaseId, RunId, WorkerId


class Clock(Protocol):
    """Time of this process. Only memory and SQLite use `time()` for facts; PostgreSQL has its own clock."""

    def time(self) -> float: ...
    def monotonic(self) -> float: ...


class SystemClock:
    # Direct references: they are called several times a step.
    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)


class SystemIds:
    """Ids from the operating system's randomness. Run ids are ordered by time (UUIDv7).

    Run ids of one process are in the order of their creation, even within a millisecond.
    """

    def __init__(self) -> None:
        self._last = 0

    def run_id(self) -> RunId:
        millis = time.time_ns() // 1_000_000
        noise = int.from_bytes(os.urandom(10), "big")
        version_and_variant = (0x7 << 76) | (0x2 << 62)
        value = (millis << 80) | version_and_variant | (noise >> 68 & 0xFFF) << 64 | noise & ((1 << 62) - 1)
        self._last = value = max(value, self._last + 1)
        return RunId(f"{value:032x}")

    def worker_id(self) -> WorkerId:
        return WorkerId(os.urandom(8).hex())

    def lease_id(self) -> LeaseId:
        return LeaseId(os.urandom(16).hex())

    def token(self) -> str:
        return os.urandom(16).hex()

    def jitter(self) -> float:
        return random.random()
