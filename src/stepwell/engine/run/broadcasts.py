"""Broadcasts: how the waits of one activation take broadcast events, in the order of the events.

There is one way in: the store is asked for the events after the run's cursor. A message in the inbox says
only that there is something new, because messages may come in any order; so does a wait that is opened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from stepwell.domain.commit import NewWait, PublishedEvent
from stepwell.domain.cursors import Cursor, cursor_path, just_after, move, shorten, since, written_cursors
from stepwell.domain.messages import event_key
from stepwell.engine.run.calls import WaitCall
from stepwell.engine.run.port import RunParts
from stepwell.errors import StoreError

_log = logging.getLogger("stepwell.engine")
_PAUSE = 0.2  # seconds, when the store does not answer


class EventWaits(Protocol):
    """What broadcasts ask of `Waits`."""

    keys: dict[str, None]  # of messages that were taken

    def open_events(self, name: str = "") -> list[WaitCall]: ...
    def take_event(self, call: WaitCall, event: PublishedEvent) -> None: ...
    def time_out(self, call: WaitCall) -> None: ...


class Broadcasts:
    def __init__(self, run: RunParts, waits: EventWaits) -> None:
        self._run = run
        self._waits = waits
        self._cursors = run.journal.cursors
        self._workspace = run.journal.accepted.workspace
        self._looks: dict[tuple[str, str], bool] = {}  # under way -> to be made once more
        self._overdue: dict[str, WaitCall] = {}  # timed out while a look is under way

    def since(self, name: str, key: str) -> float:
        """The run's cursor: events of this name and key count from here on."""
        return since(self._cursors, name, key, self._run.journal.accepted_at)

    # Looking

    def notify(self, call: WaitCall | None) -> None:
        """A message says that an event came for this wait; None: that wait has taken another."""
        for wait in [call] if call is not None else self._waits.open_events():
            self.look(wait.name, wait.key)

    def look(self, name: str, key: str) -> None:
        """Give the open waits for this name and key the events after the cursor. Until then nothing parks."""
        if (name, key) in self._looks:
            self._looks[name, key] = True
            return
        self._looks[name, key] = False
        self._run.hold()
        self._run.services.runner.spawn(self._look_guarded(name, key))

    async def _look_guarded(self, name: str, key: str) -> None:
        try:
            await self._look(name, key)
        except Exception:
            self._run.abandon()

    async def _look(self, name: str, key: str) -> None:
        run, again = self._run, True
        while again and run.closed is None:
            self._looks[name, key] = False
            await self._read(name, key)
            again = self._looks[name, key]
        del self._looks[name, key]
        run.release_hold()
        if run.closed is None:
            self._end_overdue(name, key)
            run.advance()

    async def _read(self, name: str, key: str) -> None:
        """Page by page, until every wait has its event or there are no more."""
        while waits := self._waiting(name, key):
            # One wait for any key makes its order that of all keys.
            wide = "" if any(not wait.key for wait in waits) else key
            page = await self._page(name, wide, limit=len(waits))
            if page is None:
                return
            for event in page:
                self._offer(event, wide)
            if len(page) < len(waits):
                return
            if any(wait.key == wide for wait in self._waiting(name, key)):
                move(self._cursors, name, wide, just_after(page[-1].at))  # all of the page has been taken

    def _waiting(self, name: str, key: str) -> list[WaitCall]:
        return [wait for wait in self._waits.open_events(name) if wait.key in ("", key)]

    async def _page(self, name: str, key: str, *, limit: int) -> Sequence[PublishedEvent] | None:
        """None: the run was left meanwhile."""
        store, run = self._run.services.store, self._run
        page: Sequence[PublishedEvent] | None = None
        while page is None and run.closed is None:
            try:
                after, where = self.since(name, key), self._workspace
                page = await store.published(name, key, since=after, limit=limit, workspace=where)
            except StoreError as error:  # without this look the run must not park
                _log.warning("published events could not be read: %s", error.message)
                await asyncio.sleep(_PAUSE)
        return None if run.closed is not None else page

    def _offer(self, event: PublishedEvent, wide: str) -> None:
        """To the first open wait that it fits, if the run has not taken it before.

        A read for one key says nothing about earlier events of other keys, so it does not answer a wait for
        any key that was opened meanwhile.
        """
        taken = event.at < self.since(event.name, event.key) or event_key(event.id) in self._waits.keys
        keys = (wide,) if wide else ("", event.key)
        fitting = (wait for wait in self._waits.open_events(event.name) if wait.key in keys)
        if taken or (wait := next(fitting, None)) is None:
            return
        to = just_after(event.at)
        move(self._cursors, wait.name, wait.key, to)
        path = cursor_path(wait.name, wait.key)
        row = NewWait(path=path, kind="cursor", name=wait.name, key=wait.key, since=to)
        self._run.writer.open_wait(replace(row, workspace=self._workspace))
        self._waits.take_event(wait, event)

    # Time

    def defers(self, call: WaitCall) -> bool:
        """An event that came in time wins, so the end waits for a look that is under way."""
        if (call.name, call.key) in self._looks:
            self._overdue[call.path] = call
            return True
        return False

    def _end_overdue(self, name: str, key: str) -> None:
        waiting = self._waits.open_events(name)
        for call in [call for call in self._overdue.values() if (call.name, call.key) == (name, key)]:
            del self._overdue[call.path]
            if call in waiting:
                self._waits.time_out(call)

    # For the next generation

    def carried(self) -> list[Cursor]:
        """The cursors, for a log that is read from here on. They are few: those that moved last."""
        if dropped := [cursor_path(*place) for place in shorten(self._cursors)]:
            self._run.writer.close_waits(dropped)
        return written_cursors(self._cursors)
