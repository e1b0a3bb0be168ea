"""Starts of the memory store: new runs, and the windows that may refuse them."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import (
    LogRow,
    NewRun,
    RunRow,
    Started,
)
from stepwell.domain.ids import WorkerId
from stepwell.domain.rates import Ledger, RatedAnswer, RatedStart, admitted
from stepwell.domain.status import Status
from stepwell.store.memory.limits import MemoryLimits
from stepwell.store.memory.tables import Run, Ticket
from stepwell.store.memory.verb import transaction


class MemoryStarts(MemoryLimits):
    @transaction("start")
    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        return [self._start(run) for run in self._owned_within_limits(runs)]

    @transaction("start_within")
    async def start_within(self, asked: RatedStart) -> RatedAnswer:
        ledger = Ledger(self._windows, self._clock())
        existing = self._known.keys() & {run.identity for run in asked.runs}
        full = admitted([asked], ledger, existing)[0]
        if full is not None:
            return full
        self._windows.update({key: starts for key, starts, _ in ledger.changed()})
        return [self._start(run) for run in self._owned_within_limits(asked.runs)]

    def _start(self, new: NewRun) -> Started:
        existing = self._known.get(new.identity)
        if existing is not None:
            return Started(existing, created=False, conflict=self._runs[existing].digest != new.digest)
        if self._is_disabled(new.workspace, new.workflow):
            return Started(new.id, created=False, disabled=True)
        now = self._clock()
        row = RunRow(
            id=new.id,
            workspace=new.workspace,
            workflow=new.workflow,
            version=new.version,
            kind=new.kind,
            status=Status.PENDING,
            input=new.input,
            output=None,
            error=None,
            key=new.key,
            parent=new.parent,
            root=new.root,
            tags=new.tags,
            trigger=new.trigger,
            where_at="",
            created_at=now,
            started_at=None,
            ended_at=None,
            test=new.test,
            number=self._next_number(new.workspace, new.workflow),
            started_by=new.started_by,
        )
        run = Run(row, new.digest, new.queue, new.priority, new.parent_path, new.hash, new.lane)
        run.log.append(LogRow(1, "accepted", "", 0, now, new.accepted))
        self._runs[new.id] = run
        self._known[new.identity] = new.id
        due_at = now + new.delay
        ticket = self._tickets[new.id, ""] = Ticket(
            new.id, "", new.queue, new.needs, new.priority, due_at, due_at, head=1, at=now, lane=new.lane
        )
        limited = any(limit.limit is not None for limit in self._limits.values()) or self._scope_holds()
        if not new.wanted or limited or WorkerId(new.owner) not in self._workers:
            return Started(new.id, created=True)
        ticket.owner, ticket.lease, ticket.started = new.owner, new.lease, True
        return Started(new.id, created=True, claim=new.taken(now))
