"""Parking: when a run has nothing to do, and how its lease is given back."""

from __future__ import annotations

from stepwell.domain.commit import NEVER, Park
from stepwell.domain.status import Status
from stepwell.engine.run.inbox import InboxReader
from stepwell.engine.run.port import RunParts
from stepwell.engine.run.style import StyleRules
from stepwell.engine.run.waits import Waits
from stepwell.store.base import SOLO_LOSSES

_LINGER_SECONDS = 0.02
_REPLAY_SECONDS = 0.0001  # to replay one event, and to read it


class Parking:
    def __init__(self, run: RunParts, inbox: InboxReader, *, limited: bool) -> None:
        self._run = run
        self._inbox = inbox
        self._limited = limited  # the run takes a slot of a limit
        self._heard = False  # messages came in this activation
        self._lingered = False  # kept the lease for more of them since the last came

    def heard(self) -> None:
        self._heard, self._lingered = True, False

    def idle(self, style: StyleRules, *, busy: bool, draining: bool) -> bool:
        """Every task waits for something that only time or a message can bring."""
        quiet = not busy and self._quiet(style, draining) and not self.executes(style)
        style.rest(quiet)
        return quiet

    def executes(self, style: StyleRules) -> bool:
        """Is code under way outside the workflow's loop: steps, or a transition that does not only wait?"""
        executing = self._run.steps.executing
        if len(executing) == 1:
            style.weigh()
        return bool(executing)

    def _quiet(self, style: StyleRules, draining: bool) -> bool:
        if style.thread is not None and style.thread.running:
            return False
        if self._inbox.reading or self._run.loop.ready:
            return False
        calls = self._run.calls
        return not calls.answers and (draining or not calls.commands)

    def _linger_seconds(self) -> float:
        """How much longer to keep the lease for a child or remote step that may end soon; 0: long enough.

        As long as a replay would take, counted from the last news: then waiting in vain costs at most
        what it could have saved. A thousand children that end one after the other find their parent here.
        """
        run = self._run
        replay = run.writer.head * _REPLAY_SECONDS
        longest = min(max(replay, _LINGER_SECONDS), run.services.keep_lease_seconds)
        waited = self._lingered
        self._lingered = waited or not run.writer.draft.needed  # else it begins after the write
        worth_it = self._heard or replay > _LINGER_SECONDS
        if waited or not worth_it or not any(call.may_end_soon for call in run.calls.pending.values()):
            return 0.0
        return longest

    def park(self, style: StyleRules, waits: Waits, *, draining: bool) -> Park | None:
        """How to park; None: the wait is so short that the lease is kept."""
        run = self._run
        draft, timers, calls = run.writer.draft, run.timers, run.calls.pending.values()
        working = any(call.working for call in calls)
        due_in = min(draft.dues.values(), default=NEVER)
        due_at = timers.soonest
        limit_at = timers.limit_at if working else NEVER  # a suspended run does not use up its timeout
        now, keep_seconds = timers.now(), run.services.keep_lease_seconds
        if run.writer.losses >= SOLO_LOSSES:
            keep_seconds = 0.0  # it has the worker for itself: others wait for theirs
        soonest = min(due_in, due_at - now)
        # A child may wait for the slot that this run has: then even a short wait gives it back.
        holds_up_children = self._limited and any(waits.open_children())
        if draining:
            due_in = 0.0
            if not draft.needed:
                draft.events.clear()  # never began: leave no trace of having had it
        elif min(soonest, limit_at - now) < keep_seconds and not holds_up_children:
            # What is drafted is looked at again when it is in the log; the timeout wakes us by itself.
            if not draft.dues and soonest < keep_seconds:
                timers.wake_in(soonest)
            return None
        elif (longer := self._linger_seconds()) > 0.0:
            timers.wake_in(longer)
            return None
        if not draining and style.stays():
            timers.watch()
            return None
        assert draining or all(call.parkable for call in calls), "a step would be forgotten"
        if not draft.needed and run.writer.losses == 0 and any(call.polls for call in calls):
            draft.events.clear()  # it found nothing: the log must not grow with every look
        timers.held = True
        return Park(
            seen=self._inbox.seen,
            status=Status.RUNNING if working or (draining and run.calls.commands) else Status.SUSPENDED,
            due_at=min(due_at, limit_at),
            due_in=due_in,
            where_at=", ".join(call.text for call in list(calls)[:3]),
            started_at=run.journal.started_at or timers.claimed_at,
        )
