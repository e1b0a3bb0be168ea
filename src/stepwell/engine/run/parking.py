"""Parking: when a run has nothing to do, and how its lease is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.domain.commit import NEVER, Finish, Park
from stepwell.domain.status import Status
from stepwell.engine.run.calls import Call, ResultCall, StepCall, TimerCall
from stepwell.engine.run.endings import announce
from stepwell.errors import Suspended
from stepwell.store.base import SOLO_LOSSES

_LINGER_SECONDS = 0.02
_REPLAY_SECONDS = 0.0001  # to replay one event, and to read it

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation


def idle(activation: Activation) -> bool:
    """Every task waits for something that only time or a message can bring."""
    quiet = _quiet(activation) and not executes(activation)
    if activation.visits is not None:
        activation.visits.rest(quiet)
    return quiet


def executes(activation: Activation) -> bool:
    """Is code under way outside the workflow's loop: steps, or a transition that does not only wait?"""
    executing = activation.steps.executing
    if len(executing) == 1 and activation.visits is not None and activation.visits.body is not None:
        activation.visits.body.weigh()
    return bool(executing)


def _quiet(activation: Activation) -> bool:
    if activation.thread is not None and activation.thread.running:
        return False
    if activation.busy or activation.inbox.reading or activation.turns.ready:
        return False
    if not activation.live or activation.answers:
        return False
    return activation.draining or not activation.commands


def _linger_seconds(activation: Activation) -> float:
    """How much longer to keep the lease for a child or remote step that may end soon; 0: long enough.

    As long as a replay would take, counted from the last news: then waiting in vain costs at most
    what it could have saved. A thousand children that end one after the other find their parent here.
    """
    replay = activation.writer.head * _REPLAY_SECONDS
    patience = min(max(replay, _LINGER_SECONDS), activation.services.keep_lease_seconds)
    waited = activation.lingered
    activation.lingered = waited or not activation.writer.draft.needed  # else it begins behind the write
    worth_it = activation.heard or replay > _LINGER_SECONDS
    if waited or not worth_it or not any(map(_may_end_soon, activation.calls.values())):
        return 0.0
    return patience


def _may_end_soon(call: Call) -> bool:
    """Others work on it, so news may come at any moment."""
    return isinstance(call, ResultCall) or (
        isinstance(call, StepCall) and bool(call.queue) and not call.retrying
    )


def _holds_up_children(activation: Activation) -> bool:
    """A child may wait for the slot that this run has: then even a short wait gives it back."""
    return activation.claim.limited and any(activation.waits.open_children())


def park(activation: Activation) -> Park | None:
    """How to park; None: the wait is so short that the lease is kept."""
    draft = activation.writer.draft
    due_in = min(draft.dues.values(), default=NEVER)
    due_at = activation.timers.soonest
    limit_at = activation.timers.limit_at
    if limit_at != NEVER and not _works_on(activation):
        limit_at = NEVER  # it is suspended; else its own timeout runs on
    now, keep_seconds = activation.timers.now(), activation.services.keep_lease_seconds
    if activation.losses >= SOLO_LOSSES:
        keep_seconds = 0.0  # it has the worker for itself: others wait for theirs
    soonest = min(due_in, due_at - now)
    if activation.draining:
        due_in = 0.0
        if not draft.needed:
            draft.events.clear()  # never began: leave no trace of having had it
    elif min(soonest, limit_at - now) < keep_seconds and not _holds_up_children(activation):
        # What is drafted is looked at again when it is in the log; the timeout wakes us by itself.
        if not draft.dues and soonest < keep_seconds:
            activation.timers.wake_in(soonest)
        return None
    elif (longer := _linger_seconds(activation)) > 0.0:
        activation.timers.wake_in(longer)
        return None
    if _body_stays(activation):
        activation.timers.watch()
        return None
    calls = activation.calls.values()
    steps = [call for call in calls if isinstance(call, StepCall)]
    assert activation.draining or all(s.retrying or s.queue for s in steps), "a step would be forgotten"
    activation.timers.held = True
    return Park(
        seen=activation.inbox.seen,
        status=Status.RUNNING if activation.draining or _works_on(activation) else Status.SUSPENDED,
        due_at=min(due_at, limit_at),
        due_in=due_in,
        where_at=", ".join(call.text for call in list(calls)[:3]),
        started_at=activation.journal.started_at or activation.timers.claimed_at,
    )


def _body_stays(activation: Activation) -> bool:
    body = activation.visits.body if activation.visits is not None else None
    return body is not None and not activation.draining and body.stays()


def _works_on(activation: Activation) -> bool:
    """A step is with another worker, or something waits for its next attempt: that is work, however
    much else is waited for."""
    for call in activation.calls.values():
        if isinstance(call, StepCall) or (isinstance(call, TimerCall) and call.retry):
            return True
    return False


def left(activation: Activation, then: Park | Finish) -> None:
    """The lease is given back: leave the code, and tell whoever wants to know."""
    now = activation.timers.now()
    services = activation.services
    activation.close(Suspended)
    if isinstance(then, Park):
        due = min(then.due_at - now, then.due_in)
        if due != NEVER:
            services.note_due(max(0.0, due))
        services.notifier.notify_run(activation.run_id)
    else:
        announce(activation, then)
