"""Archive: whole runs, copied out, restored and removed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from stepwell.domain.commit import PublishedEvent, RunRow, Started, identity
from stepwell.domain.fork.run_copy import Purged, Removal, RunCopy, TicketCopy
from stepwell.domain.ids import RunId
from stepwell.domain.triggers.run_webhook import DELIVERY, receiver_of
from stepwell.store.base import EVENTS_KEPT_SECONDS, PURGE_PAGE
from stepwell.store.memory.tables import Run, Tables, Ticket
from stepwell.store.memory.verb import transaction


class MemoryArchive(Tables):
    async def read_tree(self, run_id: RunId, *, children: bool = True) -> Sequence[RunCopy]:
        if run_id not in self._runs:
            return []
        return [self._copy(member) for member in (self._tree(run_id) if children else [run_id])]

    def _tree(self, run_id: RunId) -> list[RunId]:
        """The run and all below it, level by level, each level by id."""
        tree = level = [run_id]
        while level:
            above = set(level)
            level = sorted(run.row.id for run in self._runs.values() if run.row.parent in above)
            tree = tree + level
        return tree

    def _copy(self, run_id: RunId) -> RunCopy:
        run = self._runs[run_id]
        tickets = sorted((t for t in self._tickets.values() if t.run_id == run_id), key=lambda t: t.path)
        waits = sorted((w for (owner, _), w in self._waits.items() if owner == run_id), key=lambda w: w.path)
        values = msgspec.structs.asdict(run.row)
        del values["number"]  # a restored run gets one where it is restored
        del values["held"], values["owner"]  # recorded in its tickets
        return RunCopy(
            **values,
            hash=run.hash,
            digest=run.digest,
            queue=run.queue,
            lane=run.lane,
            priority=run.priority,
            parent_path=run.parent_path,
            log=list(run.log),
            tickets=[_ticket_copy(ticket) for ticket in tickets],
            inbox=sorted(self._inbox.get(run_id, {}).values(), key=lambda row: row.n),
            waits=waits,
            decided=[one for (owner, _), one in sorted(self._decided_approvals.items()) if owner == run_id],
            lines=list(self._step_logs.get(run_id, {}).values()),
        )

    @transaction("restore")
    async def restore(self, copies: Sequence[RunCopy], *, starts: bool = False) -> Sequence[Started]:
        answers = [self._in_the_way(copy) for copy in copies]
        if any(answer is not None for answer in answers):
            return [a or Started(c.id, created=False) for a, c in zip(answers, copies, strict=True)]
        if starts and any(self._is_disabled(copy.workspace, copy.workflow) for copy in copies):
            return [Started(copy.id, created=False, disabled=True) for copy in copies]
        for copy in copies:
            self._write_copy(copy)
        return [Started(copy.id, created=True) for copy in copies]

    def _in_the_way(self, copy: RunCopy) -> Started | None:
        existing = copy.id if copy.id in self._runs else self._known.get(copy.identity)
        if existing is None:
            return None
        run = self._runs[existing]
        same = (run.row.workspace, run.row.key, run.digest) == (copy.workspace, copy.key, copy.digest)
        return Started(existing, created=False, conflict=not same)

    def _write_copy(self, copy: RunCopy) -> None:
        values = {
            name: getattr(copy, name)
            for name in RunRow.__struct_fields__
            if name not in ("number", "held", "owner")
        }
        row = RunRow(**values, number=self._next_number(copy.workspace, copy.workflow))
        run = Run(row, copy.digest, copy.queue, copy.priority, copy.parent_path, copy.hash, copy.lane)
        run.log.extend(copy.log)
        run.words = tuple(copy.words)
        self._runs[copy.id] = run
        self._known[copy.identity] = copy.id
        for t in copy.tickets:
            self._tickets[copy.id, t.path] = Ticket(copy.id, **t._asdict(), lane="" if t.path else copy.lane)
        self._inbox[copy.id] = {row.key: row for row in copy.inbox}
        for wait in copy.waits:
            self._waits[copy.id, wait.path] = replace(wait, workspace=copy.workspace)
        for one in copy.decided:
            self._decided_approvals[copy.id, one.ended] = replace(one, workspace=copy.workspace)
        if copy.lines:
            self._step_logs[copy.id] = {(row.path, row.attempt, row.key): row for row in copy.lines}

    @transaction("remove")
    async def remove(self, run_id: RunId) -> Removal:
        run = self._runs.get(run_id)
        if run is None:
            return Removal.UNKNOWN
        if run.row.parent in self._runs:
            return Removal.CHILD
        tree = self._tree(run_id)
        if not all(self._runs[member].row.status.terminal for member in tree):
            return Removal.LIVE
        self._drop(tree)
        return Removal.REMOVED

    @transaction("purge")
    async def purge(self, older_than: float, *, after: str = "") -> Purged:
        cutoff = self._clock() - older_than
        page = sorted(run_id for run_id in self._runs if run_id > after)[:PURGE_PAGE]
        young = all(self._runs[run_id].row.created_at >= cutoff for run_id in page)
        removed = 0
        for run_id in page:
            run = self._runs.get(run_id)
            if run is None or run.row.parent in self._runs:
                continue
            tree = self._tree(run_id)
            if all(_is_over(self._runs[member].row, cutoff) for member in tree):
                self._drop(tree)
                removed += len(tree)
        return Purged(removed, None if young or len(page) < PURGE_PAGE else page[-1])

    @transaction("purge")
    async def purge_events(self, older_than: float) -> int:
        cutoff = self._clock() - max(older_than, EVENTS_KEPT_SECONDS)
        old = [
            event.id
            for event in self._published.values()
            if event.at < cutoff and (RunId(event.id), "") not in self._tickets and not self._wanted(event)
        ]
        for id in old[:PURGE_PAGE]:
            del self._published[id]
        return len(old[:PURGE_PAGE])

    def _wanted(self, event: PublishedEvent) -> bool:
        """True if a run waits for it, or may do so later."""
        if event.name == DELIVERY and (receiver_of(event.key), "") in self._tickets:
            return True
        return any(
            wait.kind in ("event", "cursor")
            and (wait.workspace, wait.name) == (event.workspace, event.name)
            and wait.key in ("", event.key)
            and wait.since <= event.at
            for wait in self._waits.values()
        )

    def _drop(self, tree: Sequence[RunId]) -> None:
        for run_id in tree:
            row = self._runs.pop(run_id).row
            self._step_logs.pop(run_id, None)
            for key in [key for key in self._decided_approvals if key[0] == run_id]:
                del self._decided_approvals[key]
            del self._known[identity(row.workspace, row.key, run_id)]


def _is_over(row: RunRow, cutoff: float) -> bool:
    return row.status.terminal and row.ended_at is not None and row.ended_at < cutoff


def _ticket_copy(ticket: Ticket) -> TicketCopy:
    return TicketCopy(*(getattr(ticket, name) for name in TicketCopy._fields))
