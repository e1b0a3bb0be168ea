"""Signals that came and that no wait has taken yet: each name has its queue, and all have one order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from operator import itemgetter

from stepwell.engine.run.journal import Message


class Signals:
    __slots__ = ("_queues", "came")

    def __init__(self) -> None:
        self.came = 0  # so many, taken or not
        self._queues: dict[str, deque[tuple[int, Message]]] = {}

    def add(self, message: Message) -> None:
        self.came += 1
        self._queues.setdefault(message.name, deque()).append((self.came, message))

    def take(self, names: Iterable[str]) -> Message | None:
        """The one of these names that came first: a place of a machine waits for several."""
        queues = [queue for name in names if (queue := self._queues.get(name))]
        return min(queues, key=_came).popleft()[1] if queues else None

    def __iter__(self) -> Iterator[Message]:
        """In the order of their coming, so that those who go on with them keep it."""
        left = sorted((one for queue in self._queues.values() for one in queue), key=itemgetter(0))
        return (message for _, message in left)


def _came(queue: deque[tuple[int, Message]]) -> int:
    return queue[0][0]
