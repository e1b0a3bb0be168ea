"""Operations: what operators do to one run beside its own course."""

from __future__ import annotations

from stepwell.client.store_access import StoreAccess
from stepwell.domain.commit import CancelOutcome, HoldOutcome
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.domain.text import checked_text, clean
from stepwell.errors import NotHoldable, RunEnded, RunNotFound
from stepwell.store.wakeups import Ended


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
            # If the call was repeated, an earlier one whose answer was lost may have changed it.
            return outcome is HoldOutcome.CHANGED or repeated


async def force_end(client: StoreAccess, run_id: RunId, *, by: str, reason: str) -> bool:
    outcome, repeated = await client.retry_call(lambda: client.store.force_end(run_id, reason, by=by))
    if outcome is CancelOutcome.UNKNOWN:
        raise RunNotFound(f"there is no run {run_id}")
    if outcome is CancelOutcome.ENDED:
        client.notifier.notify_end(run_id, Ended(Status.CANCELLED, None, None))
    client.notifier.notify_work(run_id)
    return outcome is CancelOutcome.ENDED or repeated
