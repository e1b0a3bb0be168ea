"""Damaged runs: runs whose log cannot be read. They fail, with the reason.

If such a run were released, it would be claimed and released again without end. Instead it fails with
LOG_DAMAGED: callers learn where the log is damaged, and once the row is fixed `run.retry()` resumes the
run. Its unread messages go into its log, as when any run fails.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.commit import Claim, Commit, Finish, InboxRow, NewEvent, Outcome, TicketRow
from stepwell.domain.ids import RunId
from stepwell.domain.messages import Decision, EndNotice, child_ended
from stepwell.domain.problems import problem_of
from stepwell.domain.search import error_words
from stepwell.domain.status import Status
from stepwell.engine.run.log_writer import opening
from stepwell.engine.worker.releaser import TicketReleaser
from stepwell.engine.worker.roster import Roster
from stepwell.errors import CodecMissing, LogDamaged, StoreError
from stepwell.store.base import Store
from stepwell.store.wakeups import Ended, Notifier

_log = logging.getLogger("stepwell.engine")

_TRIES = 10
_PAUSE = 0.2  # seconds, when the store does not answer


class DamagedRuns:
    def __init__(self, store: Store, notifier: Notifier, releaser: TicketReleaser, roster: Roster) -> None:
        self._store = store
        self._notifier = notifier
        self._releaser = releaser
        self._roster = roster

    async def set_aside(self, claim: Claim, error: LogDamaged) -> None:
        """End the run. A key that only this process lacks is not damage: then other workers continue it."""
        try:
            if await self._is_ended(claim, error):
                _log.error("run %s is set aside: %s", claim.run_id, error.message)
                return
        except CodecMissing as missing:
            _log.error("run %s is released: %s", claim.run_id, missing.message)
        self._releaser.release_unused(claim)

    async def _is_ended(self, claim: Claim, error: LogDamaged) -> bool:
        for _ in range(_TRIES):
            try:
                tickets = [t for t in await self._store.read_tickets(claim.run_id) if t.path == ""]
                if not tickets or tickets[0].lease != claim.lease:
                    return True  # another worker owns it
                commit = await self._last_commit(claim, tickets[0], await self._precise(claim, error))
                [result] = await self._store.commit([commit])
                if result.outcome is Outcome.OK:
                    self._announce(claim, commit)
                if result.outcome is not Outcome.WOKEN:  # otherwise a message came: it goes into the log too
                    return result.outcome is not Outcome.REFUSED
            except CodecMissing:
                raise
            except StoreError as outage:
                _log.warning("run %s could not be set aside yet: %s", claim.run_id, outage.message)
                await asyncio.sleep(_PAUSE)
        return False

    async def _precise(self, claim: Claim, error: LogDamaged) -> LogDamaged:
        """The same error with its run, and with the message of the store's codec about the row."""
        try:
            for row in await self._store.read_log(claim.run_id, after=error.seq - 1, limit=1):
                ev.read(row, claim.run_id)
        except LogDamaged as precise:
            return precise
        return error

    async def _last_commit(self, claim: Claim, ticket: TicketRow, error: LogDamaged) -> Commit:
        facts = opening(claim, self._roster.worker) if ticket.head == claim.head else []
        events = [ev.written(fact) for fact in facts]
        consumed: list[str] = []
        for row in await self._messages(claim.run_id):
            try:
                event = _event(row)
            except msgspec.MsgspecError:
                event = None  # it is damaged as well
            if event is not None:
                events.append(event)
                consumed.append(row.key)
        problem = problem_of(error)
        events.append(ev.written(ev.Failed(error=problem)))
        commit = Commit(run_id=claim.run_id, lease=claim.lease, head=ticket.head, events=events)
        commit.consumed = consumed
        commit.then = Finish(
            seen=ticket.wakes,
            status=Status.FAILED,
            error=msgspec.json.encode(problem),
            where_at=f"event {error.seq}",
            words=error_words(problem),
        )
        parent, path = _parent(claim)
        if parent:
            notice = EndNotice(status=Status.FAILED, error=problem, run=claim.run_id)
            commit.deliveries = [child_ended(parent, path, ticket.head + len(events), notice)]
        return commit

    async def _messages(self, run_id: RunId) -> list[InboxRow]:
        rows: list[InboxRow] = []
        while page := await self._store.read_inbox(run_id, after=rows[-1].n if rows else 0):
            rows += page
        return rows

    def _announce(self, claim: Claim, commit: Commit) -> None:
        assert isinstance(commit.then, Finish)
        self._notifier.notify_end(claim.run_id, Ended(commit.then.status, None, commit.then.error))
        for message in commit.deliveries:
            self._notifier.notify_work(message.run_id)


def _event(row: InboxRow) -> NewEvent | None:
    """The event that records an unread message; None if the message will be requested again."""
    if row.kind == "signal":
        fact = ev.Received(
            key=row.key, n=row.n, what=row.kind, name=row.name, payload=Raw(row.payload), by=row.by
        )
        return ev.written(fact)
    if row.kind == "decide":
        decision = msgspec.json.decode(row.payload, type=Decision)
        received = ev.Received(
            key=row.key,
            n=row.n,
            what=row.kind,
            name=row.name,
            payload=decision.answer,
            choice=decision.choice,
            by=row.by or decision.by,
            reason=decision.reason,
            id=decision.id,
        )
        return ev.written(received)
    if row.kind == "child":
        notice = msgspec.json.decode(row.payload, type=EndNotice)
        ended = ev.ChildEnded(status=notice.status, result=notice.result, error=notice.error)
        return ev.written(ended, row.name)
    return None


def _parent(claim: Claim) -> tuple[RunId, str]:
    """The run to notify, if that much of the log can be read."""
    try:
        accepted = ev.read_as(ev.Accepted, claim.log[0])
    except LogDamaged:
        return RunId(""), ""
    return RunId(accepted.parent), accepted.parent_path
