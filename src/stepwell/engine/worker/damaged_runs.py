"""Damaged runs: those of which the log cannot be read. They are set aside with a reason.

Given back, such a run would be claimed and given back for ever. It fails with LOG_DAMAGED instead: whoever
waits for it hears where it is damaged, and when the row is mended `run.retry()` sends it on. Messages that it
has not taken yet go into its log, as when any run fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.commit import Claim, Commit, Finish, InboxRow, NewEvent, Outcome, TicketRow
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.messages import Decision, EndNotice, child_ended
from stepwell.domain.problems import problem_of
from stepwell.domain.status import Status
from stepwell.engine.run.log_writer import opening
from stepwell.engine.worker.release import TicketReleaser
from stepwell.errors import KeyMissing, LogDamaged, StoreError
from stepwell.store.base import Store
from stepwell.store.wakeups import Ended, Notifier

_log = logging.getLogger("stepwell.engine")

_TRIES = 10
_PAUSE = 0.2  # seconds, when the store does not answer


class DamagedRuns:
    def __init__(
        self, store: Store, notifier: Notifier, returns: TicketReleaser, *, worker: Callable[[], WorkerId]
    ) -> None:
        self._store = store
        self._bulletin = notifier
        self._returns = returns
        self._worker = worker

    async def set_aside(self, claim: Claim, error: LogDamaged) -> None:
        """End what we own of it; a key that only this process lacks is no damage, and others go on."""
        try:
            if await self._is_ended(claim, error):
                _log.error("run %s is set aside: %s", claim.run_id, error.message)
                return
        except KeyMissing as missing:
            _log.error("run %s is given back: %s", claim.run_id, missing.message)
        self._returns.refuse(claim)

    async def _is_ended(self, claim: Claim, error: LogDamaged) -> bool:
        for _ in range(_TRIES):
            try:
                tickets = [t for t in await self._store.read_tickets(claim.run_id) if t.path == ""]
                if not tickets or tickets[0].lease != claim.lease:
                    return True  # it is somebody else's
                commit = await self._last_commit(claim, tickets[0], await self._told(claim, error))
                [result] = await self._store.commit([commit])
                if result.outcome is Outcome.OK:
                    self._announce(claim, commit)
                if result.outcome is not Outcome.WOKEN:  # else a message came: it goes into the log too
                    return result.outcome is not Outcome.REFUSED
            except KeyMissing:
                raise
            except StoreError as trouble:
                _log.warning("run %s could not be set aside yet: %s", claim.run_id, trouble.message)
                await asyncio.sleep(_PAUSE)
        return False

    async def _told(self, claim: Claim, error: LogDamaged) -> LogDamaged:
        """The same with its run, and with what the store's codec has to say of the row."""
        try:
            for row in await self._store.read_log(claim.run_id, after=error.seq - 1, limit=1):
                ev.read(row, claim.run_id)
        except LogDamaged as precise:
            return precise
        return error

    async def _last_commit(self, claim: Claim, ticket: TicketRow, error: LogDamaged) -> Commit:
        facts = opening(claim, self._worker()) if ticket.head == claim.head else []
        events = [ev.written(fact) for fact in facts]
        consumed: list[str] = []
        for row in await self._messages(claim.run_id):
            try:
                kept = _kept(row)
            except msgspec.MsgspecError:
                kept = None  # it is damaged as well
            if kept is not None:
                events.append(kept)
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
        )
        parent, path = _parent(claim)
        if parent:
            ending = EndNotice(status=Status.FAILED, error=problem, run=claim.run_id)
            commit.deliveries = [child_ended(parent, path, ticket.head + len(events), ending)]
        return commit

    async def _messages(self, run_id: RunId) -> list[InboxRow]:
        found: list[InboxRow] = []
        while page := await self._store.read_inbox(run_id, after=found[-1].n if found else 0):
            found += page
        return found

    def _announce(self, claim: Claim, commit: Commit) -> None:
        assert isinstance(commit.then, Finish)
        self._bulletin.ended(claim.run_id, Ended(commit.then.status, None, commit.then.error))
        for message in commit.deliveries:
            self._bulletin.work(message.run_id)


def _kept(row: InboxRow) -> NewEvent | None:
    """What the log keeps of a message that nobody looked at; None: it is asked for again."""
    if row.kind == "signal":
        fact = ev.Received(key=row.key, n=row.n, what=row.kind, name=row.name, payload=Raw(row.payload))
        return ev.written(fact)
    if row.kind == "decide":
        decision = msgspec.json.decode(row.payload, type=Decision)
        kept = ev.Received(
            key=row.key,
            n=row.n,
            what=row.kind,
            name=row.name,
            payload=decision.answer,
            choice=decision.choice,
            by=decision.by,
        )
        return ev.written(kept)
    if row.kind == "child":
        ending = msgspec.json.decode(row.payload, type=EndNotice)
        ended = ev.ChildEnded(status=ending.status, result=ending.result, error=ending.error)
        return ev.written(ended, row.name)
    return None


def _parent(claim: Claim) -> tuple[RunId, str]:
    """Whom to tell, if that much of the log can be read."""
    try:
        accepted = ev.read_as(ev.Accepted, claim.log[0])
    except LogDamaged:
        return RunId(""), ""
    return RunId(accepted.parent), accepted.parent_path
