"""Draft: what the next commit of a run will write."""

from __future__ import annotations

from collections.abc import Callable

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
from stepwell.domain.events import SETTLING
from stepwell.domain.ids import LeaseId, RunId

_LISTS = (
    "consumed",
    "waits_opened",
    "waits_closed",
    "starts",
    "deliveries",
    "tickets_opened",
    "tickets_closed",
)


class Draft:
    """Most drafts hold events only, so the rest is made when it is first asked for."""

    __slots__ = ("_rest", "base", "dues", "events", "needed", "settled", "then_do")

    def __init__(self) -> None:
        self.events: list[NewEvent] = []
        self.needed = False  # there is more than the claim itself to write
        self.settled = False
        self.base: int | None = None
        self.dues: dict[str, float] = {}  # path -> seconds after this commit
        self.then_do: list[Callable[[float], None]] = []  # after it was written, with its time
        self._rest: Rest | None = None

    @property
    def rest(self) -> Rest:
        if self._rest is None:
            self._rest = Rest()
        return self._rest

    def add(self, event: NewEvent) -> None:
        self.events.append(event)
        self.needed = True
        if event.kind in SETTLING:
            self.settled = True

    def absorb(self, later: Draft) -> None:
        """Put what was drafted meanwhile behind a draft that was not written."""
        self.events.extend(later.events)
        self.then_do.extend(later.then_do)
        self.dues.update(later.dues)
        self.needed |= later.needed
        self.settled |= later.settled
        self.base = later.base if later.base is not None else self.base
        if later._rest is not None:
            for name in _LISTS:
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
            for name in _LISTS:
                setattr(commit, name, getattr(self._rest, name))
        return commit


class Rest:
    """What a commit writes beside its events."""

    __slots__ = _LISTS

    def __init__(self) -> None:
        self.consumed: list[str] = []
        self.waits_opened: list[NewWait] = []
        self.waits_closed: list[str] = []
        self.starts: list[NewRun] = []
        self.deliveries: list[Message] = []
        self.tickets_opened: list[NewTicket] = []
        self.tickets_closed: list[str] = []
