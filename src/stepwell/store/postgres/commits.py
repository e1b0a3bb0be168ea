"""Commits: what owners write, many runs in one statement.

A batch whose members touch only their own runs is a single statement. One that reaches other runs is a
transaction on connections of its own, in which all tickets are locked first, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import (
    Commit,
    Committed,
    Finish,
    LogRow,
    Message,
    NewEvent,
    NewRun,
    Outcome,
    Park,
    counting,
    cross_run,
)
from stepwell.domain.fence import was_already_written
from stepwell.domain.fork.run_copy import refused_child
from stepwell.domain.search import word_terms
from stepwell.domain.usage import figures_of
from stepwell.store.postgres.archive import decided_values, write_copies
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.messages import PgMessages
from stepwell.store.postgres.notifications import write_notifications
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.pool.packed_text import BETWEEN_ROWS, packed
from stepwell.store.postgres.pool.slots import ConnectionSlots
from stepwell.store.postgres.starts import PgStarts

OUTCOMES = (Outcome.OK, Outcome.WOKEN, Outcome.LOST)
LAST_PATH = chr(1114111)  # sorts after every path
_REFUSED = Committed(Outcome.REFUSED, 0, 0.0)


class PgCommits:
    def __init__(self, db: Database, starts: PgStarts, messages: PgMessages) -> None:
        self._db = db
        self._sql = db.sql
        self._starts = starts
        self._messages = messages

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        # A batch is one transaction for all members. Rows that few commits write have their own statements.
        if cross_run(batch) or counting(batch):
            numbers = await self.numbers_for(batch)
            return await self._commit_split(self._db.reach_slots, batch, numbers)
        return await self._commit_split(self._db.commit_slots, batch, None)

    async def numbers_for(self, batch: Sequence[Commit]) -> dict[str, int]:
        """Numbers for the children that these members start."""
        starts = [run for commit in batch for run in commit.starts]
        return await self._starts.numbers.take(starts) if starts else {}

    async def _commit_split(
        self, slots: ConnectionSlots, batch: Sequence[Commit], numbers: Mapping[str, int] | None
    ) -> list[Committed]:
        """Write it; with `numbers` for their children, members reach other runs.

        Halve a batch with a value that the database cannot hold, until that member is alone."""

        async def work(connection: Connection) -> list[Committed]:
            if numbers is not None:
                return await self.write_reaching(connection, batch, numbers)
            return await self.write_commits(connection, batch)

        try:
            results = await self._db.write("commit", slots, work, single=numbers is None, own_task=True)
        except Refused:
            if len(batch) == 1:
                return [_REFUSED]
            middle = len(batch) // 2
            return [
                *await self._commit_split(slots, batch[:middle], numbers),
                *await self._commit_split(slots, batch[middle:], numbers),
            ]
        for i, commit in enumerate(batch):
            if results[i].outcome is Outcome.LOST and commit.events:
                results[i] = await self.written_before(slots, commit, results[i])
        return results

    async def written_before(self, slots: ConnectionSlots, commit: Commit, lost: Committed) -> Committed:
        """Look into the log: is the commit lost, or was only its answer lost?"""
        last = commit.head + len(commit.events)

        async def work(connection: Connection) -> list[LogRow]:
            rows = await connection.fetch(self._sql["own_events"], commit.run_id, commit.head + 1, last)
            return [LogRow(*row) for row in rows]

        log = await slots.run(work)
        return Committed(Outcome.OK, lost.wakes, log[-1].at) if was_already_written(commit, log) else lost

    async def write_commits(self, connection: Connection, batch: Sequence[Commit]) -> list[Committed]:
        """Write the members' own runs; also part of a transaction that reaches other runs."""
        if not _with_more_than_events(batch):
            rows = await self._commit_events(connection, batch)
        else:
            rows = await self._commit_batch(connection, batch)
        return [Committed(OUTCOMES[verdict], wakes, at) for verdict, wakes, at in rows]

    def _commit_events(self, connection: Connection, batch: Sequence[Commit]) -> Any:
        return connection.fetch(
            self._sql["commit_events"], self._db.now(), *_owned(batch), *_event_rows(batch)
        )

    def _commit_batch(self, connection: Connection, batch: Sequence[Commit]) -> Any:
        return connection.fetch(
            self._sql["commit_batch"],
            self._db.now(),
            *_owned(batch),
            *_endings(batch),
            *_event_rows(batch),
            *_result_rows(batch),
            *_consumed_rows(batch),
            *_wait_rows(batch),
            *_word_rows(batch),
        )

    async def plan_commits(self, connection: Connection) -> None:
        """Run both statements with empty batches, so that the connection has their plans."""
        await self._commit_events(connection, [])
        await self._commit_batch(connection, [])

    async def write_reaching(
        self, connection: Connection, batch: Sequence[Commit], numbers: Mapping[str, int]
    ) -> list[Committed]:
        """Lock own, remote and target tickets in one statement, then write for the accepted members."""
        await connection.fetch(self._sql["lock_tickets"], *_tickets_to_lock(batch))
        results = await self.write_commits(connection, batch)
        written = [
            (commit, result.at)
            for commit, result in zip(batch, results, strict=True)
            if result.outcome is Outcome.OK
        ]
        accepted = [commit for commit, _ in written]
        decided = [
            decided_values(commit.run_id, replace(one, at=at))
            for commit, at in written
            for one in commit.decided
        ]
        if decided:
            await connection.execute(self._sql["write_decided"], *columns(decided, 8))
        figures = [figures_of(one.run_id, one.used, one.marks) for one in counting(accepted)]
        if figures:
            await connection.execute(self._sql["count_figures"], *columns(figures, 7))
        closed = [(commit.run_id, path) for commit in accepted for path in commit.tickets_closed]
        if closed:
            await connection.execute(self._sql["close_remote"], *columns(closed, 2))
        opened = {
            (commit.run_id, new.path): (commit.run_id, new.path, new.queue, new.needs, new.priority, new.seq)
            for commit in accepted
            if not isinstance(commit.then, Finish)  # an end deletes them all
            for new in commit.tickets_opened
        }
        if opened:
            await connection.execute(
                self._sql["open_remote"], self._db.now(), *columns(list(opened.values()), 6)
            )
        people = [row for commit in accepted for row in commit.notifications]
        if people:
            await write_notifications(connection, self._db, people)
        starts: list[NewRun] = [run for commit in accepted for run in commit.starts]
        notices = await self._start_children(connection, starts, numbers) if starts else []
        messages: list[Message] = [message for commit in accepted for message in commit.deliveries]
        if messages or notices:
            await self._messages.write_deliveries(connection, [*messages, *notices])
        if notices:
            woken = Counter(notice.run_id for notice in notices)
            results = [
                replace(r, wakes=r.wakes + woken[c.run_id]) for c, r in zip(batch, results, strict=True)
            ]
        return results

    async def _start_children(
        self, connection: Connection, runs: Sequence[NewRun], numbers: Mapping[str, int]
    ) -> list[Message]:
        """Start children; those of a disabled workflow fail at once. Return the notices for their parents."""
        created = await self._starts.write_starts(connection, runs, numbers)
        missing = [run for run in runs if run.id not in created]
        if not missing:
            return []
        existing = await self._starts.existing_runs(connection, missing)
        refused = await self._starts.disabled(connection, missing, existing)
        now: float = await connection.fetchval(self._sql["now"], self._db.now())
        ends = [refused_child(run, now) for run in missing if run.id in refused]
        await write_copies(connection, self._sql, [copy for copy, _ in ends], numbers)
        return [notice for _, notice in ends if notice is not None]


def columns(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    """Turn rows into one array per column, as `unnest` takes them."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


def _with_more_than_events(batch: Sequence[Commit]) -> list[Commit]:
    return [
        c
        for c in batch
        if not c.events_only
        and (c.then is not None or not c.events or c.consumed or c.waits_opened or c.waits_closed)
    ]


def _owned(batch: Sequence[Commit]) -> tuple[str, ...]:
    return (
        packed([commit.run_id for commit in batch]),
        packed([commit.lease for commit in batch]),
        ",".join([str(commit.head) for commit in batch]),
        ",".join([str(len(commit.events)) for commit in batch]),
        ",".join(["1" if commit.settled else "0" for commit in batch]),
        ",".join(["" if commit.base is None else str(commit.base) for commit in batch]),
    )


def _endings(batch: Sequence[Commit]) -> list[str]:
    """How each member leaves its ticket: kind (0 keep, 1 park, 2 finish), seen, due at, due in."""
    kinds, seen, due_at, due_in = [], [], [], []
    for commit in batch:
        then = commit.then
        parks = then if isinstance(then, Park) else None
        kinds.append("0" if then is None else "2" if parks is None else "1")
        seen.append("0" if then is None else str(then.seen))
        due_at.append("0" if parks is None else repr(parks.due_at))
        due_in.append("0" if parks is None else repr(parks.due_in))
    return [",".join(column) for column in (kinds, seen, due_at, due_in)]


def _event_rows(batch: Sequence[Commit]) -> tuple[Any, ...]:
    members: list[str] = []
    seqs: list[str] = []
    firsts: list[str] = []
    events: list[NewEvent] = []
    at = 1
    for i, commit in enumerate(batch, 1):
        for seq, event in enumerate(commit.events, commit.head + 1):
            members.append(str(i))
            seqs.append(str(seq))
            firsts.append(str(at))
            events.append(event)
            at += len(event.payload)
    return (
        b"".join([event.payload for event in events]),
        ",".join(members),
        ",".join(seqs),
        packed([event.kind for event in events]),
        # With an extra one: a lone '' would become an empty array. Its row has no member and is dropped.
        packed([event.path for event in events]) + BETWEEN_ROWS,
        ",".join([str(event.attempt) for event in events]),
        ",".join(firsts),
        ",".join([str(len(event.payload)) for event in events]),
    )


def _result_rows(batch: Sequence[Commit]) -> tuple[Any, ...]:
    """The columns of `runs` for members that park or end: outputs and errors in one piece, then the rest."""
    pieces: list[bytes] = []
    rows: list[tuple[str, ...]] = []
    at = 1
    for i, commit in enumerate(batch, 1):
        then = commit.then
        if then is None:
            continue
        output, error = (then.output, then.error) if isinstance(then, Finish) else (None, None)
        lengths = ["" if piece is None else str(len(piece)) for piece in (output, error)]
        ends = "1" if isinstance(then, Finish) else "0"
        rows.append((str(i), then.status, then.where_at, repr(then.started_at), str(at), *lengths, ends))
        pieces += [piece for piece in (output, error) if piece is not None]
        at += len(output or b"") + len(error or b"")
    members, statuses, wheres, *rest = zip(*rows, strict=True) if rows else [()] * 8
    return (
        b"".join(pieces),
        ",".join(members),
        packed(statuses),
        packed(wheres) + BETWEEN_ROWS,  # as above
        *[",".join(column) for column in rest],
    )


def _consumed_rows(batch: Sequence[Commit]) -> list[list[Any]]:
    rows = [(i, commit.run_id, key) for i, commit in enumerate(batch, 1) for key in commit.consumed]
    return columns(rows, 3)


def _wait_rows(batch: Sequence[Commit]) -> list[list[Any]]:
    """Closed waits, then opened ones. A statement may touch a row only once: a wait that is closed again
    is not opened."""
    closed: list[tuple[int, str, str]] = []
    opened: list[tuple[Any, ...]] = []
    for i, commit in enumerate(batch, 1):
        closed += [(i, commit.run_id, path) for path in commit.waits_closed]
        if commit.waits_opened and not isinstance(commit.then, Finish):
            last = {wait.path: wait for wait in commit.waits_opened if wait.path not in commit.waits_closed}
            for wait in last.values():
                seq = wait.opened(commit, 0.0).seq
                opened.append(
                    (
                        *(i, commit.run_id, wait.path, wait.kind, wait.name, wait.key, wait.since),
                        *(wait.workspace, wait.what, seq, wait.timeout),
                    )
                )
    return [*columns(closed, 3), *columns(opened, 11)]


def _word_rows(batch: Sequence[Commit]) -> list[list[Any]]:
    """Return the words by which runs that end with an error are found."""
    rows = [
        (i, term)
        for i, commit in enumerate(batch, 1)
        if isinstance(commit.then, Finish) and commit.then.words
        for term in word_terms(commit.then.words)
    ]
    return columns(rows, 2)


def _tickets_to_lock(batch: Sequence[Commit]) -> tuple[list[str], list[str]]:
    """Runs, and up to which path: the run's own ticket, or its remote steps too."""
    last: dict[str, str] = {}
    for commit in batch:
        widest = LAST_PATH if isinstance(commit.then, Finish) else max(commit.tickets_closed, default="")
        last[commit.run_id] = max(last.get(commit.run_id, ""), widest)
        for message in commit.deliveries:
            last.setdefault(message.run_id, "")
    return list(last), list(last.values())
