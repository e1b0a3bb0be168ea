"""Claims: tickets for a worker, with the log and the messages it needs to continue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from stepwell.domain.admission import WaitingTicket, select_tickets
from stepwell.domain.commit import (
    ENDING_PRIORITY,
    NEVER,
    Claim,
    ClaimRequest,
    Claims,
    InboxRow,
    LogRow,
)
from stepwell.domain.ids import LeaseId, RunId
from stepwell.domain.lanes import coverage_of, lanes_for
from stepwell.domain.shares import in_turn
from stepwell.store.base import INBOX_READ_MAX
from stepwell.store.sqlite.holds import active_holds
from stepwell.store.sqlite.limits import give_lanes, read_limits, slots_now
from stepwell.store.sqlite.session import Row, Session, as_list

LAST_SEQ = 2**62
FRESH_RANK = 1_099_511_627_776  # the rank of a fresh ticket with priority 0; see schema.sql


class _Group(NamedTuple):
    """Tickets of one queue, kind of work and rank; `due_at` is the earliest of them."""

    queue: str
    needs: str
    rank: int
    due_at: float


class _Ticket(NamedTuple):
    due_at: float
    run_id: str
    path: str
    needs: str
    head: int
    wakes: int
    losses: int
    lost_lease: str
    base: int
    limited: int
    rank: int


class _Open(NamedTuple):
    """Tickets that a worker could take. `registered`: it has a row. `repeated`: these leases have tickets."""

    registered: bool
    repeated: bool
    lanes: bool  # there are tickets with a lane
    limits: bool  # whether limits are set, or something is held
    groups: list[_Group]


def nothing_due(session: Session, request: ClaimRequest) -> Claims | None:
    """The answer of `claim` if there is nothing to take; None: there is."""
    registered, repeated, lanes, _, groups = _open(session, request)
    next_due = min([group.due_at for group in groups], default=NEVER)
    if not registered:
        return Claims([], session.now, None)
    if repeated or lanes or next_due <= session.now:
        return None
    return Claims([], session.now, None if next_due == NEVER else next_due - session.now)


def claim(session: Session, request: ClaimRequest) -> Claims:
    now = session.now
    registered, repeated, lanes, limits, groups = _open(session, request)
    if not registered:
        return Claims((), now, None)
    if repeated:  # the first answer was lost
        rows = session.rows("taken_before", request.worker, as_list(list(request.leases)))
        again = [_Ticket(*row[:-1]) for row in rows]
        return Claims(_with_logs(session, again, [LeaseId(row[-1]) for row in rows]), now, 0.0)
    more = False
    coverage = coverage_of(read_limits(session), active_holds(session)) if limits else None
    if coverage:
        more = give_lanes(session, request, coverage)
        _, _, lanes, _, groups = _open(session, request)
        groups = [group for group in groups if not coverage.covers(group.queue, group.needs)]
    tickets, next_due = _look(session, request, groups)
    next_due = now if more else next_due
    blocked = False
    if lanes:
        tickets, next_due, blocked = _within_limits(session, request, tickets, next_due)
    leases = request.leases[: len(tickets)]
    session.many(
        "take_ticket",
        [(t.run_id, t.path, request.worker, lease) for t, lease in zip(tickets, leases, strict=True)],
    )
    claims = _with_logs(session, tickets, leases)
    return Claims(claims, now, None if next_due == NEVER else max(0.0, next_due - now), blocked)


def _open(session: Session, request: ClaimRequest) -> _Open:
    rows = session.rows(
        "solo_groups" if request.solo else "open_groups",
        *(as_list(list(dict.fromkeys(request.queues))), as_list(list(request.needs))),
        *(request.worker, as_list(list(request.leases))),
    )
    if not rows or rows[0][0] is not None:
        return _Open(False, False, False, False, [])
    *_, repeated, lanes, limits = rows[0]
    return _Open(True, bool(repeated), bool(lanes), bool(limits), [_Group(*row[:4]) for row in rows[1:]])


def _look(session: Session, request: ClaimRequest, groups: Sequence[_Group]) -> tuple[list[_Ticket], float]:
    """The due tickets in order, and when the first of the others will be due."""
    limit = min(request.limit, len(request.leases))
    begun, begun_next = _first_due(session, request, [g for g in groups if _is_started(g.rank)], limit)
    wanted = max(min(request.fresh, limit), limit - len(begun))
    fresh, fresh_next = _first_due(session, request, [g for g in groups if not _is_started(g.rank)], wanted)
    ordered = in_turn(begun, fresh, request.fresh)
    next_due = min([begun_next, fresh_next, *(ticket.due_at for ticket in ordered[limit:])])
    return ordered[:limit], next_due


def _first_due(
    session: Session, request: ClaimRequest, groups: Sequence[_Group], limit: int
) -> tuple[list[_Ticket], float]:
    """At most `limit` tickets of these groups, by rank; and when the first of the others is due."""
    kind = "solo" if request.solo else "open"
    taken: list[_Ticket] = []
    next_due = NEVER
    for _, ranked in groupby(groups, key=lambda group: group.rank):
        candidates: list[_Ticket] = []
        for group in ranked:
            wanted = limit - len(taken)
            if group.due_at > session.now or not wanted:
                next_due = min(next_due, group.due_at)
                continue
            rows = session.rows(f"{kind}_tickets", group.queue, group.needs, group.rank, wanted + 1)
            candidates += [_Ticket(*row) for row in rows]
        candidates.sort()
        due = [ticket for ticket in candidates if ticket.due_at <= session.now]
        due = due[: limit - len(taken)]
        taken += due
        if len(due) < len(candidates):
            next_due = min(next_due, candidates[len(due)].due_at)
    return taken, next_due


def _within_limits(
    session: Session, request: ClaimRequest, unlimited: Sequence[_Ticket], next_due: float
) -> tuple[list[_Ticket], float, bool]:
    """Merge these with the tickets of lanes in one order, as far as the limits allow."""
    kind = "solo" if request.solo else "open"
    limit = min(request.limit, len(request.leases))
    groups = session.rows(f"{kind}_lanes", as_list(list(dict.fromkeys(request.needs))))
    mine = set(lanes_for(request, {lane for lane, _, _ in groups}))
    slots = slots_now(session, mine)
    tickets = {(t.run_id, t.path): t for t in unlimited}
    waiting = [
        WaitingTicket("", *_started_and_priority(t.rank), t.due_at, t.run_id, t.path, False)
        for t in unlimited
    ]
    for lane, needs, rank in groups:
        if lane in mine:
            cleans_up = rank <= -ENDING_PRIORITY
            wanted = 1 if slots.closed(lane) and not cleans_up else limit + 1
            for row in session.rows(f"{kind}_lane_tickets", lane, needs, rank, wanted):
                ticket = _Ticket(*row[4:])
                tickets[ticket.run_id, ticket.path] = ticket
                order = (bool(row[1]), row[2], ticket.due_at, ticket.run_id, ticket.path)
                waiting.append(WaitingTicket(lane, *order, bool(row[3])))
    chosen = select_tickets(waiting, slots, now=session.now, wanted=limit, fresh=request.fresh)
    soonest = session.now if chosen.more else chosen.next_due
    return (
        [tickets[t.run_id, t.path] for t in chosen.tickets],
        min(next_due, soonest),
        chosen.blocked,
    )


def _is_started(rank: int) -> bool:
    return rank < FRESH_RANK // 2


def _started_and_priority(rank: int) -> tuple[bool, int]:
    started = _is_started(rank)
    return started, -rank if started else FRESH_RANK - rank


def _with_logs(session: Session, tickets: Sequence[_Ticket], leases: Sequence[LeaseId]) -> list[Claim]:
    """Read logs and inboxes after the leases were taken: everything `head` and `wakes` count is there."""
    if not tickets:
        return []
    logs: list[list[LogRow]] = [[] for _ in tickets]
    spans = [_span(ticket) for ticket in tickets]
    _read_logs(session, logs, dict(enumerate(spans)))
    shortened = {i: (t.run_id, 1, 1) for i, t in enumerate(tickets) if not t.path and t.base > 1}
    if shortened:  # a later generation: its first event comes before those it replays
        _read_logs(session, logs, shortened)
    claims = []
    for ticket, lease, log in zip(tickets, leases, logs, strict=True):
        if log and not ticket.path:
            log.sort()
            assert log[-1].seq == ticket.head, f"{ticket.run_id}: the log ends at {log[-1].seq}"
        inbox: list[Row] = []
        if ticket.wakes and not ticket.path:
            inbox = session.rows("read_inbox", ticket.run_id, 0, INBOX_READ_MAX)
        claims.append(
            Claim(
                *(RunId(ticket.run_id), ticket.path, ticket.needs, lease, ticket.head, ticket.wakes),
                *(ticket.losses, ticket.lost_lease, log, [InboxRow(*row) for row in inbox]),
                limited=bool(ticket.limited),
            )
        )
    return claims


def _span(ticket: _Ticket) -> tuple[str, int, int]:
    """The events that a claim includes."""
    if ticket.path:
        return (ticket.run_id, ticket.head, ticket.head)
    return (ticket.run_id, ticket.base, LAST_SEQ)


def _read_logs(session: Session, logs: list[list[LogRow]], spans: dict[int, tuple[str, int, int]]) -> None:
    places = list(spans)
    for place, *row in session.rows("claimed_logs", as_list(list(spans.values()))):
        logs[places[place]].append(LogRow(*row))


def reroute(session: Session, run_id: RunId, *, needs: str, to: str) -> bool:
    return session.row("reroute", run_id, needs, to) is not None
