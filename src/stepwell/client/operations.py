"""Operations: what operators do to runs from outside."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from stepwell.client.store_access import StoreAccess
from stepwell.domain.commit import CancelOutcome, Delivery, DrainRequest, HoldOutcome, Message, NewEvent
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.events import (
    Accepted,
    ChildEnded,
    CompensationStarted,
    Event,
    Failed,
    StepCompleted,
    StepFailed,
    written,
)
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.messages import DELAY, DelayRequest
from stepwell.domain.scope_holds import HoldKind, ScopeHold, checked_scope, read_reason
from stepwell.domain.state import OpenWait
from stepwell.domain.status import Status
from stepwell.domain.text import checked_text, clean
from stepwell.errors import (
    NotHoldable,
    NotSkippable,
    NotSleeping,
    RunEnded,
    RunNotFound,
    WorkerNotFound,
    excerpt,
)
from stepwell.store.wakeups import Ended

_log = logging.getLogger("stepwell.client")


async def hold(client: StoreAccess, run_id: RunId, *, held: bool, by: str, reason: str) -> bool:
    checked_text(by, "by")
    reason = clean(reason)
    outcome, repeated = await client.retry_call(
        lambda: client.store.hold(run_id, held=held, by=by, reason=reason)
    )
    match outcome:
        case HoldOutcome.UNKNOWN:
            raise RunNotFound(f"there is no run {run_id}")
        case HoldOutcome.ENDED:
            raise RunEnded(f"run {run_id} has ended; it cannot be {'held' if held else 'released'}")
        case HoldOutcome.ENDING:
            raise NotHoldable(f"run {run_id} was cancelled and cleans up")
        case _:
            client.notifier.notify_work(run_id)
            # If this call is a repeat, an earlier one whose answer was lost may have made the change.
            return outcome is HoldOutcome.CHANGED or repeated


async def force_end(client: StoreAccess, run_id: RunId, *, by: str, reason: str) -> bool:
    outcome, repeated = await client.retry_call(lambda: client.store.force_end(run_id, reason, by=by))
    if outcome is CancelOutcome.UNKNOWN:
        raise RunNotFound(f"there is no run {run_id}")
    if outcome is CancelOutcome.ENDED:
        client.notifier.notify_end(run_id, Ended(Status.CANCELLED, None, None))
    client.notifier.notify_work(run_id)
    return outcome is CancelOutcome.ENDED or repeated


def skipped_step(run_id: RunId, events: Sequence[Event], path: str, output: bytes) -> NewEvent:
    """Return the event that gives the failed step of a run this output. NotSkippable says why not."""
    last = events[-1].fact
    if not isinstance(last, Failed):
        raise NotSkippable(
            f"run {run_id} has not failed", hint="only a failed run has a step to skip; read run.why()"
        )
    failed_at = last.error.path
    steps = [e for e in events if e.path == failed_at and isinstance(e.fact, StepFailed)]
    if path and path != failed_at:
        raise NotSkippable(
            f"run {run_id} did not fail at {excerpt(path)}", hint=f"it failed at {failed_at!r}"
        )
    if any(isinstance(event.fact, CompensationStarted) for event in events):
        raise NotSkippable(f"run {run_id} has begun to compensate: its code is over")
    if any(e.path == failed_at and isinstance(e.fact, ChildEnded) for e in events):
        raise NotSkippable(f"run {run_id} failed because its child at {failed_at} did")
    if not failed_at or not steps:
        raise NotSkippable(f"run {run_id} failed in its own code, not in a step")
    accepted = events[0].fact
    if isinstance(accepted, Accepted) and accepted.kind == "graph":
        output = b'{"output":' + output + b"}"  # as a node records it: it leaves by its handle `out`
    return written(StepCompleted(result=Raw(output), skipped=True), failed_at, steps[-1].attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldInfo:
    """A workflow, queue or workspace that is held."""

    kind: HoldKind
    name: str
    by: str
    reason: str
    at: float


class Holds:
    """Workflows, queues and the workspace as far as operators hold them."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def list(self) -> list[HoldInfo]:
        rows = await self._access.store.list_holds(self._access.workspace)
        return [
            HoldInfo(kind=row.kind, name=row.name, by=row.by, reason=read_reason(row), at=row.at)
            for row in rows
            if row.held
        ]

    async def change(self, kind: HoldKind, name: str, *, held: bool, by: str, reason: str) -> bool:
        checked_scope(kind, checked_text(name, "name"))
        text = msgspec.json.encode(clean(reason))
        row = ScopeHold(kind, self._access.workspace, name, held, checked_text(by, "by"), text)
        changed, repeated = await self._access.retry_call(lambda: self._access.store.hold_scope(row))
        self._access.notifier.notify_work()
        return changed or repeated


async def drain(client: StoreAccess, worker: str, *, by: str, reason: str) -> bool:
    request = DrainRequest(by=checked_text(by, "by"), reason=clean(reason))
    id = WorkerId(checked_text(worker, "worker"))
    asked, repeated = await client.retry_call(lambda: client.store.drain(id, request))
    if asked is None:
        raise WorkerNotFound(f"there is no worker {excerpt(worker)}")
    if asked or repeated:  # its row goes with it
        _log.info("worker %s was asked to stop by %s: %s", worker, request.by or "somebody", request.reason)
    client.notifier.notify_work()
    return asked or repeated


async def change_delay(
    client: StoreAccess,
    run_id: RunId,
    waits: Sequence[OpenWait],
    to: Duration,
    *,
    path: str,
    by: str,
    reason: str,
) -> Delivery:
    asked = DelayRequest(seconds=seconds(to, name="to"), by=checked_text(by, "by"), reason=clean(reason))
    timer = _open_timer(run_id, waits, checked_text(path, "path"))
    message = Message(
        run_id=run_id,
        key=f"{DELAY}/{client.token()}",
        kind=DELAY,
        name=timer,
        payload=msgspec.json.encode(asked),
        by=by,
    )
    outcome: Delivery = await client.deliver(message)
    return outcome


def _open_timer(run_id: RunId, waits: Sequence[OpenWait], path: str) -> str:
    """Return the path of the timer that the caller means: the named one, or the only one."""
    timers = [wait.path for wait in waits if wait.what == "timer"]
    if path and path not in timers:
        raise NotSleeping(f"run {run_id} has no timer at {excerpt(path)}", timers=", ".join(timers) or "none")
    if not path and len(timers) != 1:
        raise NotSleeping(f"run {run_id} has {len(timers)} timers", timers=", ".join(timers) or "none")
    return path or timers[0]
