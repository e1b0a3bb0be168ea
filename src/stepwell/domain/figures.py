"""Figures: the facts that change what the row of a run shows besides its status."""

from __future__ import annotations

from stepwell.domain import events as ev
from stepwell.domain.usage import Mark, Usage

COUNTED = frozenset((ev.UsageReported, ev.Progress, ev.LoopStarted, ev.LoopAdvanced, ev.LoopCompleted))


def used_by(fact: ev.Fact) -> Usage | None:
    if not isinstance(fact, ev.UsageReported):
        return None
    return Usage(input_tokens=fact.input_tokens, output_tokens=fact.output_tokens, cost=fact.cost)


def mark_of(fact: ev.Fact, path: str) -> Mark | None:
    """Return how far the run is after this fact, or None if the fact does not say so.

    A loop inside another one does not count: the outer loop says how far the run is.
    """
    match fact:
        case ev.Progress():
            return Mark(fact.done, fact.total)
        case ev.LoopStarted(count=count) if count is not None and _counts(path, count):
            return Mark(0, count)
        case ev.LoopAdvanced(done=done, count=count) if _counts(path.rpartition("[")[0], count):
            return Mark(done, count)
        case ev.LoopCompleted(done=done) if _counts(path, done):
            return Mark(done, done)
        case _:
            return None


def _counts(loop: str, count: int) -> bool:
    return count > 1 and "[" not in loop
