"""Archive: whole runs, copied out, restored and removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stepwell.domain.commit import DecidedApproval, InboxRow, LogRow, NewWait, Started
from stepwell.domain.fork.run_copy import (
    DECIDED_COLUMNS,
    RUN_COLUMNS,
    WAIT_COLUMNS,
    Purged,
    Removal,
    RunCopy,
    TicketCopy,
)
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.domain.step_log import LogLineRow
from stepwell.store.base import EVENTS_KEPT_SECONDS, PURGE_PAGE
from stepwell.store.sqlite.session import Session, as_list
from stepwell.store.sqlite.starts import take_numbers

_ALL = 1 << 62


def read_tree(session: Session, run_id: RunId, *, children: bool = True) -> Sequence[RunCopy]:
    """Copy the tree in one read transaction."""
    session.run("begin_read")
    try:
        ids = [row[0] for row in session.rows("tree_ids", run_id)]
        return [_copy(session, member) for member in (ids if children else ids[:1])]
    finally:
        session.run("commit")


def _copy(session: Session, run_id: str) -> RunCopy:
    row = session.row("copy_run", run_id)
    assert row is not None, f"{run_id} is in the tree"
    values = dict(zip(RUN_COLUMNS, row, strict=True))
    return RunCopy(
        **values | {"status": Status(values["status"]), "test": bool(values["test"])},
        log=[LogRow(*event) for event in session.rows("read_log", run_id, 0, _ALL)],
        tickets=[
            TicketCopy(*ticket)._replace(started=bool(ticket[4]), ending=bool(ticket[5]))
            for ticket in session.rows("copy_tickets", run_id)
        ],
        inbox=[InboxRow(*message) for message in session.rows("read_inbox", run_id, 0, _ALL)],
        waits=[
            NewWait(**dict(zip(WAIT_COLUMNS, wait, strict=True)))
            for wait in session.rows("copy_waits", run_id)
        ],
        decided=[
            DecidedApproval(**dict(zip(DECIDED_COLUMNS, row, strict=True)))
            for row in session.rows("copy_decided", run_id)
        ],
        lines=[LogLineRow(*line) for line in session.rows("read_run_lines", run_id, 0, _ALL)],
    )


def restore(session: Session, copies: Sequence[RunCopy], *, starts: bool = False) -> Sequence[Started]:
    wanted = as_list([(copy.id, copy.workspace, copy.key) for copy in copies])
    rows = session.rows("runs_in_the_way", wanted)
    if rows:
        existing = {row[0]: row[1:] for row in rows}
        return [_answer(copy, existing.get(i)) for i, copy in enumerate(copies)]
    disabled = set(session.rows("disabled_workflows")) if starts else set()
    if any((copy.workspace, copy.workflow) in disabled for copy in copies):
        return [Started(copy.id, created=False, disabled=True) for copy in copies]
    for copy in copies:
        write_copy(session, copy)
    return [Started(copy.id, created=True) for copy in copies]


def _answer(copy: RunCopy, existing: tuple[str, str, str, str] | None) -> Started:
    if existing is None:
        return Started(copy.id, created=False)
    same = existing[1:] == (copy.workspace, copy.key, copy.digest)
    return Started(RunId(existing[0]), created=False, conflict=not same)


def write_copy(session: Session, copy: RunCopy) -> None:
    values = [getattr(copy, name) for name in RUN_COLUMNS]
    values[RUN_COLUMNS.index("status")] = copy.status.value
    values[RUN_COLUMNS.index("test")] = int(copy.test)
    [number] = take_numbers(session, [copy])
    session.run("restore_run", *values, number)
    session.many("insert_term", ((copy.id, term, copy.workspace, copy.created_at) for term in copy.terms))
    session.many("insert_event", ((copy.id, row.seq, *row[1:]) for row in copy.log))
    session.many(
        "restore_ticket",
        (
            (
                copy.id,
                copy.workspace,
                "" if t.path else copy.lane,
                *t[:4],
                int(t.started),
                int(t.ending),
                *t[6:],
            )
            for t in copy.tickets
        ),
    )
    session.many("insert_message", ((copy.id, *message) for message in copy.inbox))
    waits = [replace(wait, workspace=copy.workspace) for wait in copy.waits]
    session.many("put_wait", (wait_values(copy.id, wait) for wait in waits))
    decided = [replace(one, workspace=copy.workspace) for one in copy.decided]
    session.many("put_decided", (decided_values(copy.id, one) for one in decided))
    session.many("restore_line", ((copy.id, *line) for line in copy.lines))


def wait_values(run_id: str, wait: NewWait) -> tuple[object, ...]:
    return (run_id, *(getattr(wait, name) for name in WAIT_COLUMNS))


def decided_values(run_id: str, one: DecidedApproval) -> tuple[object, ...]:
    return (run_id, *(getattr(one, name) for name in DECIDED_COLUMNS))


def remove(session: Session, run_id: RunId) -> Removal:
    row = session.row("run_to_remove", run_id)
    if row is None:
        return Removal.UNKNOWN
    if row[0]:
        return Removal.CHILD
    members = session.rows("tree_ends", as_list([run_id]))
    if any(ended_at is None for _, _, ended_at in members):
        return Removal.LIVE
    _drop(session, [member for _, member, _ in members])
    return Removal.REMOVED


def purge(session: Session, older_than: float, *, after: str = "") -> Purged:
    cutoff = session.now - older_than
    page = session.rows("purge_page", after, PURGE_PAGE)
    roots = [
        id for id, _, ended_at, is_root in page if is_root and ended_at is not None and ended_at < cutoff
    ]
    members = session.rows("tree_ends", as_list(roots)) if roots else []
    live = {root for root, _, ended_at in members if ended_at is None or ended_at >= cutoff}
    gone = [member for root, member, _ in members if root not in live]
    _drop(session, gone)
    young = all(created_at >= cutoff for _, created_at, _, _ in page)
    return Purged(len(gone), None if young or len(page) < PURGE_PAGE else RunId(page[-1][0]))


def purge_events(session: Session, older_than: float) -> int:
    cutoff = session.now - max(older_than, EVENTS_KEPT_SECONDS)
    old = session.rows("old_events", cutoff, PURGE_PAGE)
    session.many("delete_published", old)
    return len(old)


def _drop(session: Session, ids: Iterable[str]) -> None:
    rows = [(run_id,) for run_id in ids]
    for name in ("delete_events", "delete_lines", "delete_terms", "delete_decided", "delete_run"):
        session.many(name, rows)
