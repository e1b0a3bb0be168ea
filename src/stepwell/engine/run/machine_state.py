"""Machine state: what a machine's log says of the visit that it is in."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.fork.prefix import is_failure

if TYPE_CHECKING:
    from stepwell.engine.run.journal import Journal

TRIGGER = "trigger:"


class Attempts(msgspec.Struct):
    """How often the transition of this visit was tried."""

    begun: int = 0
    failures: int = 0  # since the last retry by a person
    retry_at: float | None = None
    stopped: ev.Problem | None = None  # why it is not tried again and has nowhere else to go

    def failed(self, event: ev.Event, fact: ev.TransitionFailed) -> None:
        self.begun = max(self.begun, event.attempt)
        self.failures += 1
        self.retry_at = None if fact.retry_in is None else event.at + fact.retry_in
        self.stopped = fact.error if fact.retry_in is None and not fact.target else None

    def retried(self) -> None:
        """A person retries the run."""
        self.failures, self.retry_at, self.stopped = 0, None, None


def chosen_by(path: str, visit: int) -> str:
    """The transition that an event of this visit names: generation/transition@visit/... (~1/... a branch)."""
    parts = path.split("/", 2)
    if len(parts) < 2 or parts[1].startswith(TRIGGER):
        return ""
    name, _, number = parts[1].rpartition("@")
    return name if number.partition("~")[0] == str(visit) else ""


def is_trigger(path: str, visit: int) -> bool:
    """The path of the question how this visit ends: generation/trigger:place@visit."""
    return path.partition("/")[2].startswith(TRIGGER) and path.rpartition("@")[2] == str(visit)


# Facts of a visit that do not come from its code: they say nothing of an attempt.
_FROM_OUTSIDE = (ev.TransitionFailed, ev.ChildEnded)


def note_visit(journal: Journal, event: ev.Event) -> None:
    """Which transition this visit began with, and whether the attempt after a failure has begun."""
    if journal.chosen and journal.attempts.retry_at is None:
        return
    name = chosen_by(event.path, journal.version + 1)
    if not name and isinstance(event.fact, ev.WaitEnded) and event.fact.outcome == "answered":
        journal.triggered = journal.triggered or is_trigger(event.path, journal.version + 1)
    journal.chosen = journal.chosen or name
    if name and not isinstance(event.fact, _FROM_OUTSIDE):
        journal.attempts.retry_at = None


def arrive(journal: Journal, fact: ev.TransitionCompleted) -> None:
    """The machine is at its next place, and no transition was tried there."""
    journal.place, journal.version, journal.state = fact.target, fact.version, fact.state
    journal.document_ids = fact.documents
    journal.routed_by, journal.chosen, journal.triggered = fact.error, "", False
    journal.attempts = Attempts()


def begin_anew(journal: Journal) -> None:
    """A transition is tried again: what completed counts, what failed or was open is done anew."""
    for step in journal.steps.values():
        step.failures, step.retry_at, step.scheduled_at, step.started = 0, None, None, False
    journal.timers.clear()
    journal.waits.clear()
    journal.opened.clear()
    again = {a.path.rstrip("!") for a in journal.answers if is_failure(a.fact)}
    journal.answers = deque(a for a in journal.answers if a.path.rstrip("!") not in again)
    for path in again:
        journal.children.pop(path, None)
    journal.retries += 1  # a child that failed is another child next time


def open_calls(journal: Journal) -> set[str]:
    """The paths that the code was waiting at, as far as the log has them."""
    return {*journal.waits, *journal.timers, *journal.steps, *(f"{path}!" for path in journal.children)}
