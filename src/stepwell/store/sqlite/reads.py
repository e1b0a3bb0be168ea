"""Reads: rows of runs, logs and tickets."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import (
    LogRow,
    RunRow,
    TicketRow,
)
from stepwell.domain.ids import RunId
from stepwell.domain.queues import QueueUse
from stepwell.domain.status import Status
from stepwell.store.sqlite.session import Row, Session, as_list


def read_log(
    session: Session,
    run_id: RunId,
    *,
    after: int = 0,
    limit: int = 1000,
    bytes_max: int | None = None,
    kinds: Sequence[str] = (),
    path: str = "",
) -> Sequence[LogRow]:
    if kinds or path:
        rows = session.rows("read_log_about", run_id, after, limit, as_list(list(kinds)), path)
        return [LogRow(*row) for row in rows]
    if bytes_max is not None:
        rows = session.rows("read_log_within", run_id, after, limit, bytes_max)
        return [LogRow(*row) for row in rows]
    return [LogRow(*row) for row in session.rows("read_log", run_id, after, limit)]


def read_log_end(session: Session, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
    return [LogRow(*row) for row in reversed(session.rows("read_log_end", run_id, count))]


def read_run(session: Session, run_id: RunId) -> RunRow | None:
    row = session.row("read_run", run_id)
    return None if row is None else run_row(row)


def find_run(session: Session, workspace: str, key: str) -> RunId | None:
    row = session.row("find_run", workspace, key)
    return None if row is None else RunId(row[0])


def run_row(row: Row) -> RunRow:
    return RunRow(
        id=row[0],
        workspace=row[1],
        workflow=row[2],
        version=row[3],
        kind=row[4],
        status=Status(row[5]),
        input=row[6],
        output=row[7],
        error=row[8],
        key=row[9],
        parent=row[10],
        root=row[11],
        tags=row[12],
        trigger=row[13],
        where_at=row[14],
        created_at=row[15],
        started_at=row[16],
        ended_at=row[17],
        test=bool(row[18]),
        number=row[19],
        started_by=row[20],
        held=bool(row[21]),
        done=row[22],
        total=row[23],
        input_tokens=row[24],
        output_tokens=row[25],
        cost=row[26],
        owner=row[27],
    )


def read_queues(session: Session, workspace: str, *, now: float) -> Sequence[QueueUse]:
    return [QueueUse(*row) for row in session.rows("read_queues", workspace, now)]


def read_tickets(session: Session, run_id: RunId) -> Sequence[TicketRow]:
    return [_ticket_row(row) for row in session.rows("read_tickets", run_id)]


def _ticket_row(row: Row) -> TicketRow:
    return TicketRow(
        run_id=row[0],
        path=row[1],
        queue=row[2],
        needs=row[3],
        priority=row[4],
        started=bool(row[5]),
        ending=bool(row[6]),
        due_at=row[7],
        owner=row[8],
        lease=row[9],
        head=row[10],
        wakes=row[11],
        losses=row[12],
        lane=row[13],
        held=row[14],
    )


def list_others(session: Session, queues: Sequence[str], needs: Sequence[str]) -> Sequence[TicketRow]:
    first: dict[tuple[str, str], TicketRow] = {}
    for solo, lane, queue, wanted in session.rows("other_kinds", as_list(list(queues)), as_list(list(needs))):
        named = f"first_{'solo' if solo else 'open'}{'_in_lane' if lane else ''}"
        for row in map(_ticket_row, session.rows(named, lane or queue, wanted)):
            there = first.get((row.queue, row.needs), row)
            if row.queue in queues:
                first[row.queue, row.needs] = min(there, row, key=_claim_order)
    return [first[kind] for kind in sorted(first)]


def _claim_order(ticket: TicketRow) -> tuple[bool, int, float, str, str]:
    return (not ticket.started, -ticket.priority, ticket.due_at, ticket.run_id, ticket.path)
