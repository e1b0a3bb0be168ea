"""Active time: how long a run was not suspended, as its log tells it; the run's timeout is about that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.engine.run.journal import Journal


def count_active(journal: Journal, until: float) -> None:
    """Time since the last claim is time that the run was not suspended, while it had nothing to wait for,
    or a step was with another worker, or something was to be tried again."""
    if journal.claimed_at:
        waits = bool(journal.timers or journal.waits or journal.children)
        working = any(step.working for step in journal.steps.values())
        if working or any(timer.fact.retry for timer in journal.timers.values()):
            waits = False
        journal.active_seconds += max(0.0, (journal.last_at if waits else until) - journal.claimed_at)
    journal.claimed_at = 0.0


def count_from(journal: Journal, active: float, at: float) -> None:
    """What was active until then; what a fork copied tells of the old run's time, not of its own."""
    origin = journal.accepted.origin
    copied = origin is not None and journal.head <= origin.copied
    journal.active_seconds, journal.claimed_at = (0.0, 0.0) if copied else (active, at)
