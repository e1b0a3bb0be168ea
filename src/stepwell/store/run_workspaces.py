"""RunWorkspaces: the workspace of each run, for the secrets and records that its steps use."""

from __future__ import annotations

from collections import OrderedDict

from stepwell.domain.ids import RunId
from stepwell.errors import RunNotFound, excerpt
from stepwell.store.base import Store

_RUNS_MAX = 10_000


class RunWorkspaces:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, str] = OrderedDict()  # by run

    async def of(self, run_id: str) -> str:
        known = self._known.get(run_id)
        if known is not None:
            return known
        row = await self._store.read_run(RunId(run_id))
        if row is None:
            raise RunNotFound(f"there is no run {excerpt(run_id)}", hint="it may have been deleted")
        self._known[run_id] = row.workspace
        if len(self._known) > _RUNS_MAX:
            self._known.popitem(last=False)
        return row.workspace
