"""Active time: how long a run was not suspended, as its log tells it; the run's timeout is about that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.domain.commit import NEVER

if TYPE_CHECKING:
    from stepwell.engine.journal import Journal


def count_active(journal: Journal, until: float) -> None:
    """Time since the last claim counts up to the last event: whoever had the run then parked it, gave it
    back or died, and an outage must not use up the timeout. It counts on while a step is with another
    worker, and until something is due that is to be tried again."""
    if journal.claimed_at:
        end = max(journal.last_at, min(until, _works_until(journal)))
        journal.active_seconds += max(0.0, end - journal.claimed_at)
    journal.claimed_at = 0.0


def _works_until(journal: Journal) -> float:
    """When the last thing is due that the run does not wait for others to do; NEVER: nobody knows yet."""
    found = journal.attempts.retry_at or 0.0
    for step in journal.steps.values():
        if step.scheduled_at is not None:
            return NEVER
        found = max(found, step.retry_at or 0.0)
    for timer in journal.timers.values():
        if timer.fact.retry:
            found = max(found, timer.due_at)
    return found


def count_from(journal: Journal, active: float, at: float) -> None:
    """What was active until then; what a fork copied tells of the old run's time, not of its own."""
    origin = journal.accepted.origin
    copied = origin is not None and journal.head <= origin.copied
    journal.active_seconds, journal.claimed_at = (0.0, 0.0) if copied else (active, at)
