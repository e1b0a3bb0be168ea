"""Archive: whole runs, copied out, restored and removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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
from stepwell.errors import InvalidInput
from stepwell.store.base import EVENTS_KEPT_SECONDS, PURGE_PAGE
from stepwell.store.postgres.database import Database, roll_back
from stepwell.store.postgres.numbers import PgNumbers
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused

ANY_TIME = float("inf")
ROWS_AT_ONCE = 2000  # in one call: its time must stay far below the statement timeout


class PgArchive:
    def __init__(self, db: Database, numbers: PgNumbers) -> None:
        self._db = db
        self._sql = db.sql
        self._numbers = numbers

    async def read_tree(self, run_id: RunId, *, children: bool = True) -> Sequence[RunCopy]:
        async def work(connection: Connection) -> list[RunCopy]:
            await connection.execute(self._sql["begin_snapshot"])
            try:
                ids = [row[0] for row in await connection.fetch(self._sql["tree_ids"], run_id)]
                return [await self._copy(connection, member) for member in (ids if children else ids[:1])]
            finally:
                await roll_back(connection)

        return await self._db.side_slots.read(work)

    async def _copy(self, connection: Connection, run_id: str) -> RunCopy:
        row = dict(await connection.fetchrow(self._sql["copy_run"], run_id))
        log = await connection.fetch(self._sql["copy_log"], run_id)
        tickets = await connection.fetch(self._sql["copy_tickets"], run_id)
        inbox = await connection.fetch(self._sql["copy_inbox"], run_id)
        waits = await connection.fetch(self._sql["copy_waits"], run_id)
        decided = await connection.fetch(self._sql["copy_decided"], run_id)
        lines = await connection.fetch(self._sql["copy_lines"], run_id)
        return RunCopy(
            **row | {"status": Status(row["status"])},
            log=[LogRow(*event) for event in log],
            tickets=[TicketCopy(*ticket) for ticket in tickets],
            inbox=[InboxRow(*message) for message in inbox],
            waits=[NewWait(**dict(wait)) for wait in waits],
            decided=[DecidedApproval(**dict(row)) for row in decided],
            lines=[LogLineRow(*line) for line in lines],
        )

    async def restore(self, copies: Sequence[RunCopy], *, starts: bool = False) -> Sequence[Started]:
        sent_before = False

        def in_doubt() -> None:
            nonlocal sent_before
            sent_before = True

        numbers = await self._numbers.take(copies)

        async def work(connection: Connection) -> list[Started]:
            answers = await self._in_the_way(connection, copies)
            if answers:
                ours = sent_before and not any(answer.conflict for answer in answers)
                return [answer._replace(created=ours) for answer in answers]
            if starts:
                disabled = {tuple(row) for row in await connection.fetch(self._sql["disabled_workflows"])}
                if any((copy.workspace, copy.workflow) in disabled for copy in copies):
                    return [Started(copy.id, created=False, disabled=True) for copy in copies]
            await write_copies(connection, self._sql, copies, numbers)
            return [Started(copy.id, created=True) for copy in copies]

        try:
            return await self._db.write("restore", self._db.side_slots, work, on_doubt=in_doubt)
        except Refused as error:
            answers = await self._db.side_slots.run(lambda connection: self._in_the_way(connection, copies))
            if answers:  # somebody took an id or a key at the same moment
                return answers
            raise InvalidInput(f"PostgreSQL cannot hold a value of this run: {error}") from error

    async def _in_the_way(self, connection: Connection, copies: Sequence[RunCopy]) -> list[Started]:
        """Answers for runs whose id or key exists; empty if none do."""
        rows = await connection.fetch(
            self._sql["runs_in_the_way"],
            [copy.id for copy in copies],
            [copy.workspace for copy in copies],
            [copy.key for copy in copies],
        )
        existing = {row["i"] - 1: tuple(row)[1:] for row in rows}
        return [_answer(copy, existing.get(i)) for i, copy in enumerate(copies)] if existing else []

    async def remove(self, run_id: RunId) -> Removal:
        async def work(connection: Connection) -> Removal:
            row = await connection.fetchrow(self._sql["run_to_remove"], run_id)
            if row is None:
                return Removal.UNKNOWN
            if row["is_child"]:
                return Removal.CHILD
            gone = await self._remove_trees(connection, [run_id], ANY_TIME)
            return Removal.REMOVED if gone else Removal.LIVE

        return await self._db.write("remove", self._db.side_slots, work, again=False)

    async def purge(self, older_than: float, *, after: str = "") -> Purged:
        async def work(connection: Connection) -> Purged:
            page = await connection.fetch(self._sql["purge_page"], self._db.now(), after, PURGE_PAGE)
            if not page:
                return Purged(0, None)
            cutoff = page[0]["now"] - older_than
            roots = [r["id"] for r in page if r["is_root"] and (r["ended_at"] or ANY_TIME) < cutoff]
            gone = await self._remove_trees(connection, roots, cutoff) if roots else 0
            young = all(row["created_at"] >= cutoff for row in page)
            return Purged(gone, None if young or len(page) < PURGE_PAGE else RunId(page[-1]["id"]))

        return await self._db.write("purge", self._db.side_slots, work)

    async def purge_events(self, older_than: float) -> int:
        age = max(older_than, EVENTS_KEPT_SECONDS)

        async def work(connection: Connection) -> int:
            gone: int = await connection.fetchval(self._sql["purge_events"], self._db.now(), age, PURGE_PAGE)
            return gone

        return await self._db.write("purge", self._db.side_slots, work, single=True)

    async def _remove_trees(self, connection: Connection, roots: Sequence[str], cutoff: float) -> int:
        """Remove the trees of which every run ended before the cutoff and could be locked.

        Roots first: otherwise two callers that meet in one tree would each lock a part, and both skip it.
        """
        roots = await self._lock_ended(connection, roots, cutoff)
        members = await connection.fetch(self._sql["tree_members"], roots)
        locked = {*roots, *await self._lock_ended(connection, [row["id"] for row in members], cutoff)}
        # Look again under the locks: a run that was retried and ended meanwhile may have new children.
        now = await connection.fetch(self._sql["tree_members"], roots)
        free = Counter(row["root"] for row in now if row["id"] not in locked)
        gone = [row["id"] for row in now if row["root"] not in free]
        if gone:
            await connection.execute(self._sql["delete_events"], gone)
            await connection.execute(self._sql["delete_lines"], gone)
            await connection.execute(self._sql["delete_terms"], gone)
            await connection.execute(self._sql["delete_decided"], gone)
            await connection.execute(self._sql["delete_runs"], gone)
        return len(gone)

    async def _lock_ended(self, connection: Connection, ids: Sequence[str], cutoff: float) -> list[str]:
        return [row["id"] for row in await connection.fetch(self._sql["lock_ended"], list(ids), cutoff)]


async def write_copies(
    connection: Connection, sql: Mapping[str, str], copies: Sequence[RunCopy], numbers: Mapping[str, int]
) -> None:
    """Write table by table for all runs: a round trip per run would take most of the time."""
    for name, rows in _rows(copies, numbers).items():
        for start in range(0, len(rows), ROWS_AT_ONCE):
            await connection.executemany(sql[name], rows[start : start + ROWS_AT_ONCE])


def _rows(copies: Sequence[RunCopy], numbers: Mapping[str, int]) -> dict[str, list[tuple[object, ...]]]:
    """The rows to write, by statement."""
    return {
        "restore_run": [(*_run_row(copy), numbers[copy.id]) for copy in copies],
        "restore_event": [(copy.id, *row) for copy in copies for row in copy.log],
        "restore_ticket": [
            (copy.id, copy.workspace, "" if row.path else copy.lane, *row)
            for copy in copies
            for row in copy.tickets
        ],
        "restore_message": [(copy.id, *row) for copy in copies for row in copy.inbox],
        "restore_wait": [
            (copy.id, *(getattr(replace(wait, workspace=copy.workspace), name) for name in WAIT_COLUMNS))
            for copy in copies
            for wait in copy.waits
        ],
        "restore_decided": [
            decided_values(copy.id, replace(one, workspace=copy.workspace))
            for copy in copies
            for one in copy.decided
        ],
        "restore_line": [(copy.id, *line) for copy in copies for line in copy.lines],
        "restore_term": [
            (copy.id, term, copy.workspace, copy.created_at) for copy in copies for term in copy.terms
        ],
    }


def decided_values(run_id: str, one: DecidedApproval) -> tuple[object, ...]:
    return (run_id, *(getattr(one, name) for name in DECIDED_COLUMNS))


def _run_row(copy: RunCopy) -> tuple[object, ...]:
    values = {name: getattr(copy, name) for name in RUN_COLUMNS} | {"status": copy.status.value}
    return tuple(values.values())


def _answer(copy: RunCopy, existing: tuple[str, str, str, str] | None) -> Started:
    if existing is None:
        return Started(copy.id, created=False)
    same = existing[1:] == (copy.workspace, copy.key, copy.digest)
    return Started(RunId(existing[0]), created=False, conflict=not same)
