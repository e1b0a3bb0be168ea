"""Admission: which of the waiting tickets may be taken next within the limits.

Pure decisions over what a store counted. The stores call it inside the transaction that takes the tickets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.domain.commit import NEVER, NewRun
from stepwell.domain.lanes import is_child, read_lane
from stepwell.domain.limits import Limit, LimitScope
from stepwell.domain.scope_holds import ScopeHold, covering


class FreeSlots:
    """How much of each limit is left, at one moment."""

    def __init__(
        self,
        table: Iterable[Limit],
        leased: Mapping[str, int],
        resting: Mapping[str, int] | None = None,
        holds: Iterable[ScopeHold] = (),
    ) -> None:
        """Count tickets by lane: `leased` have an owner, `resting` had one and have none now."""
        self._table = {limit.scope: limit for limit in table}
        self._holds = list(holds)
        self._leased = _by_scope(leased)
        roots = {lane: count for lane, count in leased.items() if not read_lane(lane).child}
        self._begun = _by_scope(roots)  # counted by limits that hold for the whole run
        for lane, count in (resting or {}).items():
            if not read_lane(lane).child:
                _count(self._begun, lane, count)

    def limits(self, lane: str) -> list[Limit]:
        """The limits that apply to this lane."""
        limits: list[Limit] = []
        if not lane:
            return limits
        if self._holds:
            place = read_lane(lane)
            stop = covering(self._holds, place.workspace, place.workflow, place.queue)
            if stop is not None:
                limits.append(Limit(kind=stop.kind, workspace=stop.workspace, name=stop.name, limit=0))
        for scope, own, hold in read_lane(lane).scopes():
            limit = self._table.get(scope)
            if limit is None and own is not None:
                limit = Limit(
                    kind=scope.kind, workspace=scope.workspace, name=scope.name, limit=own, hold=hold
                )
            if limit is not None and limit.limit is not None:
                limits.append(limit)
        return limits

    def used(self, limit: Limit) -> int:
        counts = self._begun if limit.hold == "run" else self._leased
        return counts.get(limit.scope, 0)

    def blocking(self, lane: str, *, started: bool) -> Limit | None:
        """The first limit that holds back a ticket of this lane, if there is one."""
        started = started or is_child(lane)
        for limit in self.limits(lane):
            holds_already = started and limit.hold == "run"
            if not holds_already and self.used(limit) >= (limit.limit or 0):
                return limit
        return None

    def closed(self, lane: str) -> bool:
        """Whether no ticket of this lane can be taken, begun or not."""
        return self.blocking(lane, started=True) is not None

    def take(self, lane: str, *, started: bool) -> None:
        if lane:
            _count(self._leased, lane, 1)
            if not started and not is_child(lane):
                _count(self._begun, lane, 1)


def counts_suspended(table: Iterable[Limit], lanes: Iterable[str]) -> bool:
    """Whether a limit of these lanes may hold for the whole run, so that suspended runs must be counted."""
    return any(limit.hold == "run" for limit in table) or any(
        read_lane(lane).key_hold == "run" for lane in lanes
    )


def _by_scope(lanes: Mapping[str, int]) -> dict[LimitScope, int]:
    counts: dict[LimitScope, int] = {}
    for lane, count in lanes.items():
        _count(counts, lane, count)
    return counts


def _count(counts: dict[LimitScope, int], lane: str, count: int) -> None:
    for scope, _, _ in read_lane(lane).scopes():
        counts[scope] = counts.get(scope, 0) + count


# Claims


class WaitingTicket(NamedTuple):
    """A ticket without an owner; its lane is '' if it has none."""

    lane: str
    started: bool
    priority: int
    due_at: float
    run_id: str
    path: str
    ending: bool


class Selection(NamedTuple):
    tickets: Sequence[WaitingTicket]
    next_due: float  # when the first ticket that is not due yet becomes due
    blocked: bool  # some tickets are due and wait for a slot of a limit
    more: bool  # more tickets could be taken at once

    def next_in(self, now: float) -> float | None:
        if self.more:
            return 0.0
        return None if self.next_due == NEVER else self.next_due - now


def select_tickets(
    waiting: Iterable[WaitingTicket], slots: FreeSlots, *, now: float, wanted: int, fresh: int = 0
) -> Selection:
    """Choose the tickets to take: begun before fresh, then by priority and due time. Of the `wanted` places,
    `fresh` go to fresh tickets first.

    FIFO within a lane. A lane whose limit is full does not hold up the others; runs that clean up are
    exempt. A child with a lane counts as begun: otherwise every waiting parent would begin, one after the
    other, before the first of their children could.
    """
    ordered = sorted(waiting, key=_order)
    taken = _take_fresh(ordered, slots, now=now, wanted=min(fresh, wanted)) if fresh else []
    if taken:
        first = set(taken)
        ordered = [ticket for ticket in ordered if ticket not in first]
    next_due, blocked, more = NEVER, False, False
    for ticket in ordered:
        if ticket.due_at > now:
            next_due = min(next_due, ticket.due_at)
        elif not ticket.ending and slots.blocking(ticket.lane, started=ticket.started) is not None:
            blocked = True
        elif len(taken) < wanted:
            slots.take(ticket.lane, started=ticket.started)
            taken.append(ticket)
        else:
            more = True
    return Selection(taken, next_due, blocked, more)


def _take_fresh(
    ordered: Iterable[WaitingTicket], slots: FreeSlots, *, now: float, wanted: int
) -> list[WaitingTicket]:
    taken: list[WaitingTicket] = []
    for ticket in ordered:
        if len(taken) == wanted:
            break
        if ticket.due_at > now or _has_begun(ticket):
            continue
        if ticket.ending or slots.blocking(ticket.lane, started=False) is None:
            slots.take(ticket.lane, started=False)
            taken.append(ticket)
    return taken


def _has_begun(ticket: WaitingTicket) -> bool:
    return ticket.started or is_child(ticket.lane)


def _order(ticket: WaitingTicket) -> tuple[bool, int, float, str, str]:
    return (not _has_begun(ticket), -ticket.priority, ticket.due_at, ticket.run_id, ticket.path)


# Local starts


def requested_lanes(runs: Iterable[NewRun]) -> set[str]:
    """The lanes of runs that their starter wants to own; their limits must be checked first."""
    return {run.lane for run in runs if run.lane and run.wanted}


def clear_blocked_owners(runs: Sequence[NewRun], slots: FreeSlots, *, waiting: bool) -> Sequence[NewRun]:
    """Return the runs, clearing `owner` where the lane is full or an older ticket is waiting.

    `waiting`: a ticket with a lane is due. Whether it shares a limit with these runs is not checked.
    """
    checked: list[NewRun] = []
    for run in runs:
        limited = run.lane and run.at_once
        if limited and not waiting:
            waiting = not run.owner or slots.blocking(run.lane, started=False) is not None
            if not waiting:
                slots.take(run.lane, started=False)
        checked.append(replace(run, owner="") if limited and waiting else run)
    return checked
