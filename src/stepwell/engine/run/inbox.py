"""Inbox: which messages the owner of a run has seen, and the signals that no wait has taken yet."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from stepwell.domain.commit import Claim, InboxRow
from stepwell.engine.run.journal import ReceivedMessage
from stepwell.engine.run.services import Services
from stepwell.store.base import INBOX_READ_MAX


class Signals:
    __slots__ = ("_queues", "came")

    def __init__(self) -> None:
        self.came = 0  # how many came, taken or not
        self._queues: dict[str, deque[tuple[int, ReceivedMessage]]] = {}

    def add(self, message: ReceivedMessage) -> None:
        self.came += 1
        self._queues.setdefault(message.name, deque()).append((self.came, message))

    def take(self, names: Iterable[str]) -> ReceivedMessage | None:
        """The one of these names that came first: a place of a machine waits for several."""
        queues = [queue for name in names if (queue := self._queues.get(name))]
        return min(queues, key=_came).popleft()[1] if queues else None

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """In the order in which they came; the next generation keeps it."""
        left = sorted((one for queue in self._queues.values() for one in queue), key=itemgetter(0))
        return (message for _, message in left)


def _came(queue: deque[tuple[int, ReceivedMessage]]) -> int:
    return queue[0][0]


_log = logging.getLogger("stepwell.engine")
_PAUSE = 0.2  # seconds, when the store does not answer


class InboxReader:
    def __init__(self, services: Services, claim: Claim, take: Callable[[Sequence[InboxRow]], None]) -> None:
        self._services = services
        self._run_id = claim.run_id
        self._take = take
        self._last_n = claim.inbox[-1].n if claim.inbox else 0
        # A full inbox was read in part: then only what was read counts as seen.
        self.seen = self._last_n if len(claim.inbox) >= INBOX_READ_MAX else claim.wakes
        self.reading = False

    def close(self) -> None:
        """The activation has ended: it no longer hears of messages."""
        self._take = _unheard

    def look(self, wakes: int) -> None:
        """Read on if `wakes`, the count of deliveries, says that there is more than we have seen."""
        if wakes > self.seen and not self.reading:
            self.reading = True
            self._services.runner.spawn(self._read(wakes))

    async def _read(self, wakes: int) -> None:
        rows: Sequence[InboxRow] = ()
        try:
            rows = await self._services.store.read_inbox(self._run_id, after=self._last_n)
        except Exception as error:  # whatever it was, the run must not hang on it
            _log.warning("inbox of run %s not answered: %s", self._run_id, error)
            await asyncio.sleep(_PAUSE)
        else:
            # The count was read before the inbox, so every message that it counts is here; unless the
            # page was full, then the next commit shows that there is more.
            self.seen = rows[-1].n if len(rows) >= INBOX_READ_MAX else max(self.seen, wakes)
            if rows:
                self._last_n = rows[-1].n
                self.seen = max(self.seen, self._last_n)
        self.reading = False
        self._take(rows)


def _unheard(rows: Sequence[InboxRow]) -> None:
    pass
