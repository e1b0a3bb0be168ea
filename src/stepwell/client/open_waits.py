"""Open waits: following a run until it waits at a given place."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from stepwell.client.inbox import read_inbox
from stepwell.domain.commit import LogRow
from stepwell.domain.events import Accepted, read
from stepwell.domain.ids import RunId
from stepwell.domain.messages import HELD
from stepwell.domain.state import OpenWait, RunState, apply
from stepwell.domain.status import Status
from stepwell.store.base import Reading, Store

Pages = AsyncGenerator[Sequence[LogRow], None]

_PAGE = 1000
_OCCURRENCE = re.compile("[#@]")  # `ask#2` is the second one, `take@3` a transition of the third visit


async def first_open_wait(
    store: Store, run_id: RunId, name: str, pages: Pages, if_pending: Callable[[], Awaitable[None]]
) -> OpenWait | None:
    """Follow the pages of a log until the run waits there; None if it ends before.

    `if_pending` is called once if the run has not begun at the second look.
    """
    log, looks = _Log(run_id), 0
    async with aclosing(pages):
        async for page in pages:
            log.take(page)
            wait = log.find(name)
            if wait is not None and not await _is_answered(store, run_id, wait):
                await log.catch_up(store)  # an answer may have moved from the inbox to the log
                if log.find(name) == wait:
                    return wait
            looks += 1
            if looks == 2 and log.state.status is Status.PENDING:
                await if_pending()
    return None


async def _is_answered(store: Store, run_id: RunId, wait: OpenWait) -> bool:
    """Whether a message that may answer the wait is in the inbox."""
    answers = {wait.path, *wait.names, f"event:{wait.name}"}
    messages = await read_inbox(store, run_id)
    return any(message.kind != HELD and message.name in answers for message in messages)


class _Log:
    """A log, folded as far as it was read."""

    def __init__(self, run_id: RunId) -> None:
        self.state = RunState()
        self._run_id = run_id
        self._is_machine = False
        self._seq = 0

    def take(self, rows: Sequence[LogRow]) -> None:
        for row in rows:
            if row.seq <= self._seq:
                continue
            event = read(row, self._run_id)
            apply(self.state, event)
            self._seq = event.seq
            if isinstance(event.fact, Accepted):
                self._is_machine = event.fact.kind == "machine"

    async def catch_up(self, store: Reading) -> None:
        while page := await store.read_log(self._run_id, after=self._seq, limit=_PAGE):
            self.take(page)

    def find(self, name: str) -> OpenWait | None:
        """Return the open wait with that path, else with that name, trigger or node, else at that place."""
        waits = [wait for wait in self.state.waits.values() if wait.what != "retry"]
        matches = [wait for wait in waits if name == wait.path]
        matches = matches or [wait for wait in waits if name in _names(wait)]
        if not matches and self._is_machine and name == self._place():
            matches = waits
        return matches[0] if matches else None

    def _place(self) -> str:
        return self.state.checkpoint.place if self.state.checkpoint is not None else "start"


def _names(wait: OpenWait) -> set[str]:
    below_root = wait.path.partition("/")[2]  # of a node in a graph: `each[1]/ask`
    node = _OCCURRENCE.split(wait.path.rpartition("/")[2])[0]
    return {wait.name, below_root, node, *(choice.name for choice in wait.choices)}
