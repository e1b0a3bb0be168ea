"""Places: how many pieces of code run at once, and which is next. Waiting does not count as time of the code.

The code of one owner, a workspace, takes at most `size` places. Another owner always gets a place of its own,
up to a limit for all: endless code of one workspace must not hold up the code of the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

ALL_MAX = 8  # places of all owners together


class Places:
    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: Counter[str] = Counter()  # by owner
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # owners in the order of their turns

    @asynccontextmanager
    async def taken(self, owner: str) -> AsyncIterator[None]:
        """Take a place, as soon as one is free for this owner."""
        if owner not in self._waiting and self._is_free(owner):
            self._taken[owner] += 1
        else:
            await self._turn(owner)
        try:
            yield
        finally:
            self._give_back(owner)

    def _is_free(self, owner: str) -> bool:
        taken = self._taken.total()
        return taken < self._size or (not self._taken[owner] and taken < max(ALL_MAX, self._size))

    async def _turn(self, owner: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(owner)  # it was called up, and is no longer there
            raise

    def _give_back(self, owner: str) -> None:
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]
        self._call_up()

    def _call_up(self) -> None:
        """Give free places to those who wait: one to each owner in turns."""
        for owner in list(self._waiting):
            turns = self._waiting[owner]
            while turns and turns[0].done():
                turns.popleft()  # it was cancelled
            if turns and self._is_free(owner):
                self._taken[owner] += 1
                turns.popleft().set_result(None)
                self._waiting[owner] = self._waiting.pop(owner)  # the others come first now
            if not turns:
                del self._waiting[owner]
