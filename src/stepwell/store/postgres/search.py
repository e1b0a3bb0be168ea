"""Search: lists of runs by the narrowest index, open waits, and numbers of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.domain.commit import RunFilter, RunRow
from stepwell.domain.search import (
    USUAL_TRIGGER,
    BucketCount,
    BucketFilter,
    DecidedFilter,
    DecidedRow,
    RunCount,
    WaitFilter,
    WaitRow,
    bounds_of,
    first_waits,
    key_end,
    key_limit,
    shown_buckets,
    shown_counts,
    terms_of,
)
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.reads import PgReads, run_row

FOUND = "/* found */"
CHANGES_READ = 2000  # a count that added up more changes than this folds them for the next one


class PgSearch:
    def __init__(self, db: Database, reads: PgReads) -> None:
        self._db = db
        self._sql = db.sql
        self._reads = reads

    async def list_runs(self, filter: RunFilter) -> Sequence[RunRow]:
        terms, bounds = terms_of(filter), bounds_of(filter)
        if filter.prefix:
            text = self._sql["list_by_prefix"]
        else:
            text = self._sql["list_runs"].replace(FOUND, self._sql[_narrowest(filter, terms)])
        rows = await self._reads.fetch_text(
            text,
            *(filter.workspace, filter.limit, bounds.since, bounds.at, bounds.id),
            *(filter.workflow, filter.version, filter.queue, filter.trigger, filter.parent),
            *(filter.key, filter.prefix, key_limit(filter)),
            [str(status) for status in filter.statuses],
            terms,
            *(filter.id_prefix, key_end(filter.id_prefix)),
        )
        return [run_row(row) for row in rows]

    async def count_runs(self, workspace: str) -> Sequence[RunCount]:
        stored = await self._reads.fetch("run_groups", workspace)
        owned = await self._reads.fetch("owned_groups", workspace)
        if sum(row["changes"] for row in stored) > CHANGES_READ:
            await self.fold_counts()
        return shown_counts([tuple(row)[:5] for row in stored], [tuple(row) for row in owned])

    async def count_buckets(self, filter: BucketFilter) -> Sequence[BucketCount]:
        stored = await self._reads.fetch(
            "group_buckets",
            *(filter.workspace, filter.workflow, filter.version, filter.queue),
            *(filter.since, filter.until, filter.width),
        )
        owned = await self._reads.fetch("owned_runs", filter.workspace)
        return shown_buckets([tuple(row) for row in stored], [tuple(row) for row in owned], filter)

    async def fold_counts(self) -> None:
        """Add the changes to the counts. Only this does it, and nothing waits for it."""

        async def work(connection: Connection) -> Any:
            return await connection.execute(self._sql["fold_counts"])

        await self._db.write("fold_counts", self._db.side_slots, work, single=True)

    async def list_decided(self, filter: DecidedFilter) -> Sequence[DecidedRow]:
        rows = await self._reads.fetch("list_decided", filter.workspace, *filter.place, filter.limit)
        return [DecidedRow(**dict(row)) for row in rows]

    async def list_waits(self, filter: WaitFilter) -> Sequence[WaitRow]:
        values = (filter.workspace, list(filter.whats), *filter.place, filter.limit)
        if filter.name:
            rows = await self._reads.fetch("list_waits_named", *values, filter.name)
        else:
            rows = await self._reads.fetch("list_waits", *values)
        return first_waits([WaitRow(**{n: row[n] for n in WaitRow._fields}) for row in rows], filter)


def _narrowest(filter: RunFilter, terms: Sequence[str]) -> str:
    """Return the query whose index leaves the fewest rows to read."""
    for query, wanted in (
        ("found_by_key", filter.key),
        ("found_by_id", filter.id_prefix),
        ("found_by_parent", filter.parent),
        ("found_by_term", terms),
        ("found_by_trigger", filter.trigger not in ("", USUAL_TRIGGER)),
        ("found_in_groups", filter.workflow or filter.version or filter.queue or filter.statuses),
    ):
        if wanted:
            return query
    return "found_newest"
