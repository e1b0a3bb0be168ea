"""Commits of the memory store: what owners write, alone or together with their step's own writes."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import (
    Commit,
    Committed,
    Finish,
    Message,
    Outcome,
    Park,
)
from stepwell.domain.fence import check_fence, due_after, was_already_written
from stepwell.domain.fork.run_copy import refused_child
from stepwell.domain.usage import figures_of
from stepwell.store.memory.archive import MemoryArchive
from stepwell.store.memory.records import DeferredBody
from stepwell.store.memory.starts import MemoryStarts
from stepwell.store.memory.tables import Ticket
from stepwell.store.memory.verb import entering, leaving, transaction


class MemoryCommits(MemoryStarts, MemoryArchive):
    @transaction("commit")
    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        return [self._commit(commit) for commit in batch]

    def _commit(self, commit: Commit) -> Committed:
        ticket = self._tickets.get((commit.run_id, ""))
        if ticket is None:
            outcome = Outcome.LOST
        else:
            outcome = check_fence(commit, lease=ticket.lease, head=ticket.head, wakes=ticket.wakes)
        if outcome is not Outcome.OK or ticket is None:
            return self._not_written(commit, outcome, ticket)
        at = self._append(ticket, commit.events)
        if commit.events:
            ticket.lost_lease = ""
        if commit.settled:
            ticket.losses = 0
        if commit.base is not None:
            ticket.base = commit.base
        for key in commit.consumed:
            self._inbox.get(commit.run_id, {}).pop(key, None)
        for wait in commit.waits_opened:
            self._waits[commit.run_id, wait.path] = wait.opened(commit, at)
        for path in commit.waits_closed:
            self._waits.pop((commit.run_id, path), None)
        if commit.used or commit.marks:
            self._count(commit)
        notices = self._reach_out(commit, at)
        if isinstance(commit.then, Park):
            self._park(ticket, commit.then)
        elif isinstance(commit.then, Finish):
            self._finish(commit.run_id, commit.then, at)
        for notice in notices:  # after the park that they end
            self._deliver(notice)
        return Committed(Outcome.OK, ticket.wakes, at)

    def _not_written(self, commit: Commit, outcome: Outcome, ticket: Ticket | None) -> Committed:
        run = self._runs.get(commit.run_id)
        wakes = ticket.wakes if ticket else 0
        if outcome is Outcome.LOST and run is not None and was_already_written(commit, run.log):
            return Committed(Outcome.OK, wakes, run.log[commit.head + len(commit.events) - 1].at)
        return Committed(outcome, wakes, self._clock())

    def _count(self, commit: Commit) -> None:
        run = self._runs[commit.run_id]
        row, new = run.row, figures_of(commit.run_id, commit.used, commit.marks)
        run.row = replace(
            row,
            done=new.done if new.shows else row.done,
            total=new.total if new.shows else row.total,
            input_tokens=row.input_tokens + new.input_tokens,
            output_tokens=row.output_tokens + new.output_tokens,
            cost=row.cost + new.cost,
        )

    def _reach_out(self, commit: Commit, at: float) -> list[Message]:
        """Return the notices of children that were refused."""
        now, notices = self._clock(), []
        for path in commit.tickets_closed:
            self._tickets.pop((commit.run_id, path), None)
        for new in commit.tickets_opened:
            ticket = self._tickets[commit.run_id, new.path] = Ticket(
                commit.run_id, new.path, new.queue, new.needs, new.priority, now, now, head=new.seq, at=now
            )
            ticket.held = self._tickets[commit.run_id, ""].held
        for run in commit.starts:
            if self._start(run).disabled:
                copy, notice = refused_child(run, now)
                self._write_copy(copy)
                notices += [] if notice is None else [notice]
        for message in commit.deliveries:
            self._deliver(message)
        self._notify(commit.notifications)
        for one in commit.decided:
            self._decided_approvals[commit.run_id, one.ended] = replace(one, at=at)
        return notices

    def _park(self, ticket: Ticket, park: Park) -> None:
        ticket.owner = ticket.lease = None
        # By the wall clock: after a jump forward and back, the events' time stands still for a while.
        ticket.due_at = due_after(park, self._clock())
        run = self._runs[ticket.run_id]
        run.row = replace(
            run.row,
            status=park.status,
            where_at=park.where_at,
            started_at=run.row.started_at or park.started_at or None,
        )

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        entering("transact", "before")
        result = body(None)
        if inspect.isawaitable(result):
            result = await result
        commit = turn(result)
        if inspect.isawaitable(commit):
            commit = await commit
        entering("transact", "mid")
        if isinstance(body, DeferredBody):
            body.check()
        committed = self._commit(commit)
        if isinstance(body, DeferredBody) and committed.outcome is Outcome.OK:
            body.write()
        leaving("transact")
        return committed
