"""Active time: how long a run was not suspended, as its log tells it; the run's timeout is about that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.engine.journal import Journal


def count_active(journal: Journal, until: float) -> None:
    """Time since the last claim counts up to the last event: whoever had the run then parked it, gave it
    back or died, and an outage must not use up the timeout. It counts on while a step is with another
    worker, or something is to be tried again."""
    if journal.claimed_at:
        goes_on = any(step.working for step in journal.steps.values()) or any(
            timer.fact.retry for timer in journal.timers.values()
        )
        journal.active_seconds += max(0.0, (until if goes_on else journal.last_at) - journal.claimed_at)
    journal.claimed_at = 0.0


def count_from(journal: Journal, active: float, at: float) -> None:
    """What was active until then; what a fork copied tells of the old run's time, not of its own."""
    origin = journal.accepted.origin
    copied = origin is not None and journal.head <= origin.copied
    journal.active_seconds, journal.claimed_at = (0.0, 0.0) if copied else (active, at)
