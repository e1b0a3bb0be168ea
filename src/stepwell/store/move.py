"""Move: carries everything in a SQLite file to an empty PostgreSQL database.

No engine may run meanwhile: the file is locked, and both sides are marked, so that engines refuse them
until the end. Runs move in batches. Each batch is one transaction with everything that belongs to its runs.
After a kill, the same call continues with the first run that is missing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from stepwell.errors import StoreUnusable

RUNS_AT_ONCE = 50

# Tables by run: each has a column `run_id`.
RUN_TABLES = ("events", "tickets", "inbox", "waits", "decided_approvals", "step_logs", "run_terms")
WHOLE_TABLES = (
    *("definitions", "run_numbers", "switches", "limits", "holds", "start_rates"),
    *("start_windows", "codec_check", "credentials", "audit", "secrets", "published_events", "triggers"),
    "collections",
    *("alerts", "notifications"),
)
LARGE_TABLES = ("records", "record_terms")  # carried in parts; after an interruption, from the beginning
ROWS_AT_ONCE = 1000
NOT_MOVED = {
    "workers": "they are stopped",
    "contact": "of the workers",
    "moved": "the mark of the move itself",
    "run_counts": "counted anew as the runs arrive",
}


class TableRows(NamedTuple):
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class RunBatch(NamedTuple):
    last: str  # the id of its last run
    runs: int
    tables: Mapping[str, TableRows]  # "runs" and the RUN_TABLES


class MoveProgress(NamedTuple):
    """How far a move is: `runs` of `total` have arrived."""

    runs: int
    total: int


class Moved(NamedTuple):
    """What a move carried; `repeated` if it was complete before."""

    runs: int
    unfinished: int
    events: int
    source: str
    target: str
    repeated: bool = False


class MoveSource(Protocol):
    """The database that is left."""

    place: str

    async def open(self, target: str) -> str:
        """Lock and mark the database; return the token of the move. Refuses a second target."""
        ...

    async def close(self) -> None: ...
    async def unmark(self) -> None:
        """Remove the mark: the target was refused. A move that was begun before keeps its mark."""
        ...

    async def mark_moved(self) -> None: ...
    async def tables(self) -> Sequence[str]: ...
    async def count(self, after: str) -> Counts:
        """Count all runs, those that have not ended, all events, and the runs with an id up to `after`."""
        ...

    async def whole(self, table: str) -> TableRows: ...
    def parts(self, table: str, rows: int) -> AsyncIterator[TableRows]:
        """Yield all rows of the table, at most `rows` at a time."""
        ...

    async def batch(self, after: str, runs: int) -> RunBatch | None:
        """Return the next runs by id with everything that belongs to them, or None at the end."""
        ...

    async def loose_tickets(self) -> TableRows:
        """Return the tickets that belong to no run: events that have yet to be fanned out."""
        ...


class MoveTarget(Protocol):
    """The database that is filled."""

    place: str

    async def open(self, token: str, source: str) -> bool:
        """Mark the database as receiving. True if this move was complete before. Refuses one in use."""
        ...

    async def close(self) -> None: ...
    async def last_run(self) -> str: ...
    async def put_whole(self, table: str, rows: TableRows) -> None:
        """Replace the content of the table, in one transaction."""
        ...

    async def add(self, table: str, rows: TableRows) -> None:
        """Add these rows to the table, in one transaction."""
        ...

    async def put_batch(self, batch: RunBatch) -> None:
        """Write these runs, in one transaction."""
        ...

    async def finish(self, tickets: TableRows) -> None:
        """Write what belongs to no run, and open the database for engines."""
        ...

    async def count_runs(self) -> int: ...


class Counts(NamedTuple):
    runs: int
    unfinished: int
    events: int
    before: int


async def carry(
    source: MoveSource, target: MoveTarget, progress: Callable[[MoveProgress], None] = lambda done: None
) -> Moved:
    """Move from one database to the other, or continue an interrupted move."""
    token = await source.open(target.place)
    try:
        try:
            complete = await target.open(token, source.place)
        except BaseException:
            await source.unmark()
            raise
        try:
            counts = await source.count("")
            if not complete:
                await _carry(source, target, progress)
            await source.mark_moved()
            return Moved(*counts[:3], source.place, target.place, repeated=complete)
        finally:
            await target.close()
    finally:
        await source.close()


async def _carry(source: MoveSource, target: MoveTarget, progress: Callable[[MoveProgress], None]) -> None:
    present = set(await source.tables())
    for table in WHOLE_TABLES:
        if table in present:
            await target.put_whole(table, await source.whole(table))
    for table in LARGE_TABLES:
        if table in present:
            await target.put_whole(table, TableRows((), ()))
            async for rows in source.parts(table, ROWS_AT_ONCE):
                await target.add(table, rows)
    after = await target.last_run()
    counts = await source.count(after)
    done = counts.before
    progress(MoveProgress(done, counts.runs))
    while (batch := await source.batch(after, RUNS_AT_ONCE)) is not None:
        await target.put_batch(batch)
        after, done = batch.last, done + batch.runs
        progress(MoveProgress(done, counts.runs))
    arrived = await target.count_runs()
    if arrived != counts.runs:
        raise StoreUnusable(
            f"the target has {arrived} runs, the source {counts.runs}",
            hint="drop the target's schema and move again; the source is unchanged",
            target=target.place,
        )
    await target.finish(await source.loose_tickets())
