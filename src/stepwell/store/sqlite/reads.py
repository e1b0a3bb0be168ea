"""Reading: what is shown of runs, logs, tickets and definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.domain.commit import (
    Definition,
    InboxRow,
    LogRow,
    PublishedEvent,
    RunFilter,
    RunRow,
    TicketRow,
)
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.store.base import INBOX_READ_MAX
from stepwell.store.sqlite.session import Row, Session, as_list


def log(session: Session, asked: tuple[RunId, int, int]) -> Sequence[LogRow]:
    return [LogRow(*row) for row in session.rows("read_log", *asked)]


def log_end(session: Session, asked: tuple[RunId, int]) -> Sequence[LogRow]:
    return [LogRow(*row) for row in reversed(session.rows("read_log_end", *asked))]


def inbox(session: Session, asked: tuple[RunId, int]) -> Sequence[InboxRow]:
    return [InboxRow(*row) for row in session.rows("read_inbox", *asked, INBOX_READ_MAX)]


def run(session: Session, run_id: RunId) -> RunRow | None:
    row = session.row("read_run", run_id)
    return None if row is None else _run_row(row)


def find_run(session: Session, asked: tuple[str, str]) -> RunId | None:
    row = session.row("find_run", *asked)
    return None if row is None else RunId(row[0])


def runs(session: Session, filter: RunFilter) -> Sequence[RunRow]:
    values: dict[str, Any] = {
        "workspace": filter.workspace,
        "workflow": filter.workflow,
        "statuses": as_list(list(filter.statuses)),
        "limit": filter.limit,
        "before": filter.before,
        "key": filter.key,
        "parent": filter.parent,
    }
    if filter.key or filter.parent:
        name = "list_runs_narrow"
    else:
        name = "list_runs_before" if filter.before else "list_runs"
    return [_run_row(row) for row in session.rows_named(name, values)]


def _run_row(row: Row) -> RunRow:
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
    )


def tickets(session: Session, run_id: RunId) -> Sequence[TicketRow]:
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
    )


def others(session: Session, asked: tuple[Sequence[str], Sequence[str]]) -> Sequence[TicketRow]:
    queues, needs = asked
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


def published(session: Session, asked: tuple[str, str, float, int]) -> Sequence[PublishedEvent]:
    name, key, since, limit = asked
    if key:
        rows = session.rows("published_by_key", name, since, limit, key)
    else:
        rows = session.rows("published", name, since, limit)
    return [PublishedEvent(*row) for row in rows]


def put_definitions(session: Session, definitions: Sequence[Definition]) -> None:
    for d in definitions:
        values = (d.workspace, d.name, d.version, d.kind, d.hash, d.body, d.input_schema, d.options)
        session.run("delete_definition", *values)
        session.run("insert_definition", *values)


def swap_definition(session: Session, asked: tuple[Definition, str]) -> bool:
    new, expected = asked
    there = definition(session, (new.workspace, new.name, new.version))
    if there != new:
        if ("" if there is None else there.hash) != expected:
            return False
        put_definitions(session, [new])
    return True


def drop_definitions(session: Session, asked: tuple[str, Sequence[str]]) -> int:
    workspace, names = asked
    return len(list(session.rows("drop_definitions", workspace, as_list(list(names)))))


def definition(session: Session, asked: tuple[str, str, str]) -> Definition | None:
    row = session.row("read_definition", *asked)
    return None if row is None else _definition(row)


def definitions(session: Session, workspace: str) -> Sequence[Definition]:
    return [_definition(row) for row in session.rows("list_definitions", workspace)]


def codec_check(session: Session, _: None) -> bytes | None:
    row = session.row("read_codec_check")
    return None if row is None else row[0]


def write_codec_check(session: Session, asked: tuple[bytes, bytes | None]) -> bool:
    return session.row("write_codec_check", *asked) is not None


def _definition(row: Row) -> Definition:
    name, version, kind, hash, body, input_schema, options, workspace = row
    return Definition(
        name=name,
        version=version,
        kind=kind,
        hash=hash,
        body=body,
        input_schema=input_schema,
        options=options,
        workspace=workspace,
    )
