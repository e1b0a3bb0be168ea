"""Trees: which of the runs below a run still lives."""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from stepwell.domain.commit import RunFilter, RunRow
from stepwell.store.base import Reading

_PAGE = 500


async def live_in_tree(store: Reading, top: RunRow) -> RunRow | None:
    """The first run from the top down that has not ended; None: all have."""
    found = deque([top])
    while found:
        run = found.popleft()
        if not run.status.terminal:
            return run
        below, before = RunFilter(workspace=run.workspace, parent=run.id, limit=_PAGE), ""
        while page := await store.list_runs(replace(below, before=before)):
            found.extend(page)
            before = page[-1].id
    return None
