"""Draft: what the next commit of a run will write."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stepwell.domain.commit import (
    Commit,
    Finish,
    Message,
    NewEvent,
    NewRun,
    NewTicket,
    NewWait,
    Park,
)
from stepwell.domain.events import SETTLING, Fact, written
from stepwell.domain.ids import LeaseId, RunId

_ROW_BYTES = 200  # of an event, beside its payload


class Draft(msgspec.Struct, eq=False):
    """Most drafts hold events only, so the rest is made when it is first asked for."""

    events: list[NewEvent] = []
    size: int = 0  # about how many bytes
    needed: bool = False  # there is more than the claim itself to write
    settled: bool = False
    base: int | None = None
    dues: dict[str, float] = {}  # path -> seconds after this commit
    then_do: list[Callable[[float], None]] = []  # after it was written, with its time
    _rest: Rest | None = None

    @property
    def rest(self) -> Rest:
        if self._rest is None:
            self._rest = Rest()
        return self._rest

    def add(self, fact: Fact, path: str = "", attempt: int = 0) -> NewEvent:
        event = written(fact, path, attempt)
        self.events.append(event)
        self.size += len(event.payload) + _ROW_BYTES
        self.needed = True
        if event.kind in SETTLING:
            self.settled = True
        return event

    def absorb(self, later: Draft) -> None:
        """Put what was drafted meanwhile behind a draft that was not written."""
        self.events.extend(later.events)
        self.size += later.size
        self.then_do.extend(later.then_do)
        self.dues.update(later.dues)
        self.needed |= later.needed
        self.settled |= later.settled
        self.base = later.base if later.base is not None else self.base
        if later._rest is not None:
            for name in Rest.__struct_fields__:
                getattr(self.rest, name).extend(getattr(later._rest, name))

    def commit(self, run_id: RunId, lease: LeaseId, head: int, then: Park | Finish | None) -> Commit:
        commit = Commit(
            run_id=run_id,
            lease=lease,
            head=head,
            events=self.events,
            settled=self.settled,
            then=then,
            base=self.base,
        )
        if self._rest is not None:
            for name in Rest.__struct_fields__:
                setattr(commit, name, getattr(self._rest, name))
        return commit


class Rest(msgspec.Struct, eq=False):
    """What a commit writes beside its events."""

    consumed: list[str] = []
    waits_opened: list[NewWait] = []
    waits_closed: list[str] = []
    starts: list[NewRun] = []
    deliveries: list[Message] = []
    tickets_opened: list[NewTicket] = []
    tickets_closed: list[str] = []
