"""Search in the memory store, which examines every run."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import RunFilter, RunRow
from stepwell.domain.search import (
    BucketCount,
    BucketFilter,
    DecidedFilter,
    DecidedRow,
    RunCount,
    WaitFilter,
    WaitRow,
    first_waits,
    fits,
    in_order,
    shown_buckets,
    shown_counts,
    tag_terms,
    word_terms,
)
from stepwell.store.memory.reads import MemoryReads


class MemorySearch(MemoryReads):
    async def list_runs(self, filter: RunFilter) -> Sequence[RunRow]:
        rows: list[RunRow] = []
        for run_id, run in self._runs.items():
            row = await self.read_run(run_id)
            terms = [*tag_terms(run.row.tags), *word_terms(run.words)]
            if row is not None and fits(row, run.queue, terms, filter):
                rows.append(row)
        return in_order(rows, filter)[: filter.limit]

    async def count_runs(self, workspace: str) -> Sequence[RunCount]:
        rows = [(await self.read_run(run_id), run.queue) for run_id, run in self._runs.items()]
        counted = [
            (row.workflow, row.version, queue, row.status.value, 1)
            for row, queue in rows
            if row is not None and row.workspace == workspace
        ]
        return shown_counts(counted, ())

    async def count_buckets(self, filter: BucketFilter) -> Sequence[BucketCount]:
        rows = [(await self.read_run(run_id), run.queue) for run_id, run in self._runs.items()]
        counted = [
            (filter.bucket(row.created_at), row.status.value, 1)
            for row, queue in rows
            if row is not None
            and row.workspace == filter.workspace
            and filter.takes(row.workflow, row.version, queue, row.created_at)
        ]
        return shown_buckets(counted, (), filter)

    async def list_waits(self, filter: WaitFilter) -> Sequence[WaitRow]:
        rows: list[WaitRow] = []
        for (run_id, _), wait in self._waits.items():
            place = (wait.opened_at, run_id, wait.path)
            if wait.workspace != filter.workspace or wait.what not in filter.whats or place >= filter.place:
                continue
            if filter.name not in ("", wait.name):
                continue
            run = self._runs[run_id]
            opened = run.log[wait.seq - 1].payload if wait.seq else b""
            later = [
                event.payload
                for event in run.log[wait.seq :]
                if (event.kind, event.path, wait.what) == ("wait_reassigned", wait.path, "approval")
            ]
            rows.append(
                WaitRow(
                    *(run_id, run.row.workflow, run.row.number, wait.path, wait.what, wait.name, wait.key),
                    *(wait.opened_at, wait.due_at, opened, later[-1] if later else b""),
                )
            )
        return first_waits(rows, filter)

    async def list_decided(self, filter: DecidedFilter) -> Sequence[DecidedRow]:
        places = sorted(
            (
                (one.at, run_id, one.ended)
                for (run_id, _), one in self._decided_approvals.items()
                if one.workspace == filter.workspace
            ),
            reverse=True,
        )
        rows = []
        for at, run_id, ended in [place for place in places if place < filter.place][: filter.limit]:
            one, run = self._decided_approvals[run_id, ended], self._runs[run_id]
            opened, received = (run.log[seq - 1] if seq else None for seq in (one.opened, one.received))
            rows.append(
                DecidedRow(
                    *(run_id, run.row.workflow, run.row.number, one.path, one.name, ended, at),
                    opened_at=opened.at if opened else 0.0,
                    opened=opened.payload if opened else b"",
                    end=run.log[ended - 1].payload,
                    received=received.payload if received else b"",
                )
            )
        return rows
