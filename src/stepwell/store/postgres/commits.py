"""Commits: what owners write, many runs in one statement.

A batch whose members touch only their own runs is a single statement. One that reaches other runs
is a transaction on lanes of its own, where all tickets are locked first, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.domain.commit import Commit, Committed, Finish, LogRow, Message, NewEvent, NewRun, Outcome, Park
from stepwell.domain.fence import was_already_written
from stepwell.store.postgres.messages import PostgresDeliveries
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.pool.packing import BETWEEN_ROWS, joined
from stepwell.store.postgres.pool.slots import Lanes
from stepwell.store.postgres.starts import PostgresStarts

OUTCOMES = (Outcome.OK, Outcome.WOKEN, Outcome.LOST)
LAST_PATH = chr(1114111)  # sorts after every path
_REFUSED = Committed(Outcome.REFUSED, 0, 0.0)


class PostgresCommits(PostgresStarts, PostgresDeliveries):
    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        if any(commit.cross_run for commit in batch):  # the others come along: a batch is one transaction
            return await self._commit_split(self._reach_lanes, batch, reaching=True)
        return await self._commit_split(self._commit_lanes, batch, reaching=False)

    async def _commit_split(
        self, lanes: Lanes, batch: Sequence[Commit], *, reaching: bool
    ) -> list[Committed]:
        """Halve a batch that holds a value the database cannot take, until that member is alone."""

        async def work(connection: Connection) -> list[Committed]:
            if reaching:
                return await self._write_reaching(connection, batch)
            return await self._write_commits(connection, batch)

        try:
            results = await self._write("commit", lanes, work, single=not reaching, own_task=True)
        except Refused:
            if len(batch) == 1:
                return [_REFUSED]
            middle = len(batch) // 2
            return [
                *await self._commit_split(lanes, batch[:middle], reaching=reaching),
                *await self._commit_split(lanes, batch[middle:], reaching=reaching),
            ]
        for i, commit in enumerate(batch):
            if results[i].outcome is Outcome.LOST and commit.events:
                results[i] = await self._written_before(lanes, commit, results[i])
        return results

    async def _written_before(self, lanes: Lanes, commit: Commit, lost: Committed) -> Committed:
        """Lost, or our own commit whose answer was lost? The log tells."""
        last = commit.head + len(commit.events)

        async def work(connection: Connection) -> list[LogRow]:
            rows = await connection.fetch(self._sql["recognise"], commit.run_id, commit.head + 1, last)
            return [LogRow(*row) for row in rows]

        log = await lanes.run(work)
        return Committed(Outcome.OK, lost.wakes, log[-1].at) if was_already_written(commit, log) else lost

    async def _write_commits(self, connection: Connection, batch: Sequence[Commit]) -> list[Committed]:
        """The statement for members' own runs; also part of a transaction that reaches out."""
        if all(commit.events and commit.then is None and not _other_rows(commit) for commit in batch):
            rows = await self._commit_events(connection, batch)
        else:
            rows = await self._commit_batch(connection, batch)
        return [Committed(OUTCOMES[verdict], wakes, at) for verdict, wakes, at in rows]

    def _commit_events(self, connection: Connection, batch: Sequence[Commit]) -> Any:
        return connection.fetch(self._sql["commit_events"], self._now(), *_owned(batch), *_event_rows(batch))

    def _commit_batch(self, connection: Connection, batch: Sequence[Commit]) -> Any:
        return connection.fetch(
            self._sql["commit_batch"],
            self._now(),
            *_owned(batch),
            *_endings(batch),
            *_event_rows(batch),
            *_shown_rows(batch),
            *_consumed_rows(batch),
            *_wait_rows(batch),
        )

    async def _plan_commits(self, connection: Connection) -> None:
        """Write nothing: what is kept are the plans."""
        await self._commit_events(connection, [])
        await self._commit_batch(connection, [])

    async def _write_reaching(self, connection: Connection, batch: Sequence[Commit]) -> list[Committed]:
        """Lock own, remote and target tickets in one statement, then write for the good members."""
        await connection.fetch(self._sql["lock_tickets"], *_tickets_to_lock(batch))
        results = await self._write_commits(connection, batch)
        good = [commit for commit, result in zip(batch, results, strict=True) if result.outcome is Outcome.OK]
        closed = [(commit.run_id, path) for commit in good for path in commit.tickets_closed]
        if closed:
            await connection.execute(self._sql["close_remote"], *columns(closed, 2))
        opened = {
            (commit.run_id, new.path): (commit.run_id, new.path, new.queue, new.needs, new.priority, new.seq)
            for commit in good
            if not isinstance(commit.then, Finish)  # an end deletes them all
            for new in commit.tickets_opened
        }
        if opened:
            await connection.execute(
                self._sql["open_remote"], self._now(), *columns(list(opened.values()), 6)
            )
        starts: list[NewRun] = [run for commit in good for run in commit.starts]
        if starts:
            await self._write_starts(connection, starts)
        messages: list[Message] = [message for commit in good for message in commit.deliveries]
        if messages:
            await self._write_deliveries(connection, messages)
        return results


def columns(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    """Rows as one array a column, as `unnest` takes them."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


def _other_rows(commit: Commit) -> bool:
    return bool(commit.consumed or commit.waits_opened or commit.waits_closed)


def _owned(batch: Sequence[Commit]) -> tuple[str, ...]:
    return (
        joined([commit.run_id for commit in batch]),
        joined([commit.lease for commit in batch]),
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
        kinds.append("0" if then is None else "1" if isinstance(then, Park) else "2")
        seen.append("0" if then is None else str(then.seen))
        due_at.append(repr(then.due_at) if isinstance(then, Park) else "0")
        due_in.append(repr(then.due_in) if isinstance(then, Park) else "0")
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
        joined([event.kind for event in events]),
        # With one more at the end: a lone '' would be no element. Its row has no member and is left out.
        joined([event.path for event in events]) + BETWEEN_ROWS,
        ",".join([str(event.attempt) for event in events]),
        ",".join(firsts),
        ",".join([str(len(event.payload)) for event in events]),
    )


def _shown_rows(batch: Sequence[Commit]) -> tuple[Any, ...]:
    """What lists show of members that park or end: outputs and errors in one piece, then the rest."""
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
        joined(statuses),
        joined(wheres) + BETWEEN_ROWS,  # as above
        *[",".join(column) for column in rest],
    )


def _consumed_rows(batch: Sequence[Commit]) -> list[list[Any]]:
    rows = [(i, commit.run_id, key) for i, commit in enumerate(batch, 1) for key in commit.consumed]
    return columns(rows, 3)


def _wait_rows(batch: Sequence[Commit]) -> list[list[Any]]:
    """Closed, then opened ones. No statement may touch a row twice: what is closed again is not opened."""
    closed: list[tuple[int, str, str]] = []
    opened: list[tuple[Any, ...]] = []
    for i, commit in enumerate(batch, 1):
        closed += [(i, commit.run_id, path) for path in commit.waits_closed]
        if commit.waits_opened and not isinstance(commit.then, Finish):
            last = {wait.path: wait for wait in commit.waits_opened if wait.path not in commit.waits_closed}
            opened += [(i, commit.run_id, w.path, w.kind, w.name, w.key, w.since) for w in last.values()]
    return [*columns(closed, 3), *columns(opened, 7)]


def _tickets_to_lock(batch: Sequence[Commit]) -> tuple[list[str], list[str]]:
    """(run, up to which path): the run's own ticket, or its remote steps too."""
    last: dict[str, str] = {}
    for commit in batch:
        widest = LAST_PATH if isinstance(commit.then, Finish) else max(commit.tickets_closed, default="")
        last[commit.run_id] = max(last.get(commit.run_id, ""), widest)
        for message in commit.deliveries:
            last.setdefault(message.run_id, "")
    return list(last), list(last.values())
