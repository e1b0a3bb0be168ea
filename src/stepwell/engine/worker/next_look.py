"""NextLook: when to look again for work that is due by time.

Hints are about all kinds of work, so looks that they cause are a second apart.
"""

from __future__ import annotations

import asyncio
from math import inf

from stepwell.system import Clock

_HINT_SECONDS = 1.0


class NextLook:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sooner = asyncio.Event()
        self._looked_at = self._at = -inf

    def hint(self) -> None:
        """Note that something changed, which may be the work that this looks for."""
        self._bring_forward(self._looked_at + _HINT_SECONDS)

    def wake(self) -> None:
        """Look now."""
        self._bring_forward(-inf)

    def begin(self) -> None:
        """Begin a look. Hints that arrive from now on cause the next one."""
        self._looked_at, self._at = self._clock.monotonic(), inf

    async def sleep(self, seconds: float) -> None:
        """Sleep that long, or less if a hint arrives."""
        self._at = min(self._at, self._clock.monotonic() + seconds)
        while (left := self._at - self._clock.monotonic()) > 0:
            self._sooner.clear()
            try:
                async with asyncio.timeout(left):
                    await self._sooner.wait()
            except TimeoutError:
                return

    def _bring_forward(self, at: float) -> None:
        if at < self._at:
            self._at = at
            self._sooner.set()
