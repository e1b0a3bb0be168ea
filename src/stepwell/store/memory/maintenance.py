"""Maintenance of a memory store."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.errors import InvalidRequest
from stepwell.store.maintenance import StoreFault, StoreSize
from stepwell.store.memory.tables import Tables


class MemoryMaintenance(Tables):
    async def read_size(self) -> StoreSize:
        runs = self._runs.values()
        counts = {
            "runs": len(runs),
            "unfinished runs": sum(not run.row.status.terminal for run in runs),
            "events": sum(len(run.log) for run in runs),
            "messages": sum(len(box) for box in self._inbox.values()),
            "waits": sum(wait.kind != "cursor" for wait in self._waits.values()),
            "log lines of steps": sum(len(lines) for lines in self._step_logs.values()),
            "broadcast events": len(self._published),
            "definitions": len(self._definitions),
            "credentials": len(self._credentials),
            "audit entries": len(self._audit),
            "secrets": len(self._secrets),
            "records": len(self._records),
        }
        return StoreSize(0, counts)

    async def find_faults(self) -> Sequence[StoreFault]:
        faults = []
        for run_id, run in self._runs.items():
            seqs, ticket = [row.seq for row in run.log], self._tickets.get((run_id, ""))
            if seqs != list(range(1, len(seqs) + 1)):
                text = f"its log has {len(seqs)} events, and the last has seq {seqs[-1]}"
                faults.append(StoreFault(run_id, text))
            if (ticket is None) is not run.row.status.terminal:
                text = f"it is {run.row.status} but has {'a' if ticket else 'no'} ticket"
                faults.append(StoreFault(run_id, text))
        return faults

    async def find_other_workspace(self, workspace: str) -> str:
        names = {run.row.workspace for run in self._runs.values()}
        names |= {definition.workspace for definition in self._definitions.values()}
        names |= {credential.workspace for credential in self._credentials.values()}
        return min(names - {workspace}, default="")

    async def stored_schema(self) -> int:
        return 0

    async def back_up(self, path: str) -> int:
        raise InvalidRequest("a memory store cannot be backed up", hint="use a file: Engine('app.db')")
