"""The logs of steps in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.ids import RunId
from stepwell.domain.step_log import LINES_PAGE, LogLineRow, NewLogLine
from stepwell.store.memory.tables import Tables
from stepwell.store.memory.verb import transaction


class MemoryStepLogs(Tables):
    @transaction("add_log_lines")
    async def add_log_lines(self, lines: Sequence[NewLogLine]) -> None:
        for run_id, path, attempt, key, at, payload in lines:
            if run_id in self._runs:
                rows = self._step_logs.setdefault(run_id, {})
                row = LogLineRow(len(rows) + 1, path, attempt, key, at, payload)
                rows.setdefault((path, attempt, key), row)

    async def read_log_lines(
        self, run_id: RunId, *, path: str = "", attempt: int = 0, after: int = 0, limit: int = LINES_PAGE
    ) -> Sequence[LogLineRow]:
        rows = [
            row
            for row in self._step_logs.get(run_id, {}).values()
            if row.n > after and (not path or (row.path == path and (not attempt or row.attempt == attempt)))
        ]
        return rows[:limit]
