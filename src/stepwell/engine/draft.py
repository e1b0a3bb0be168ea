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


class Draft:
    __slots__ = (
        "base",
        "consumed",
        "deliveries",
        "dues",
        "events",
        "needed",
        "settled",
        "starts",
        "then_do",
        "tickets_closed",
        "tickets_opened",
        "waits_closed",
        "waits_opened",
    )

    def __init__(self) -> None:
        self.events: list[NewEvent] = []
        self.needed = False  # there is more than the claim itself to write
        self.settled = False
        self.consumed: list[str] = []
        self.dues: dict[str, float] = {}  # path -> seconds after this commit
        self.then_do: list[Callable[[float], None]] = []  # after it was written, with its time
        self.waits_opened: list[NewWait] = []
        self.waits_closed: list[str] = []
        self.starts: list[NewRun] = []
        self.deliveries: list[Message] = []
        self.tickets_opened: list[NewTicket] = []
        self.tickets_closed: list[str] = []
        self.base: int | None = None

    def add(self, event: NewEvent) -> None:
        self.events.append(event)
        self.needed = True
        if event.kind in SETTLING:
            self.settled = True

    def absorb(self, later: Draft) -> None:
        """Put what was drafted meanwhile behind a draft that was not written."""
        for name in ("events", "consumed", "then_do", "waits_opened", "waits_closed"):
            getattr(self, name).extend(getattr(later, name))
        for name in ("starts", "deliveries", "tickets_opened", "tickets_closed"):
            getattr(self, name).extend(getattr(later, name))
        self.dues.update(later.dues)
        self.needed |= later.needed
        self.settled |= later.settled
        self.base = later.base if later.base is not None else self.base

    def commit(self, run_id: RunId, lease: LeaseId, head: int, then: Park | Finish | None) -> Commit:
        return Commit(
            run_id=run_id,
            lease=lease,
            head=head,
            events=self.events,
            settled=self.settled,
            consumed=self.consumed,
            then=then,
            base=self.base,
            waits_opened=self.waits_opened,
            waits_closed=self.waits_closed,
            starts=self.starts,
            deliveries=self.deliveries,
            tickets_opened=self.tickets_opened,
            tickets_closed=self.tickets_closed,
        )
