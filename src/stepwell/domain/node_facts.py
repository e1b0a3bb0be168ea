"""The facts about nodes of a graph: decided by its frontier, recorded for whoever reads the log."""

from __future__ import annotations

from msgspec import Raw

from stepwell.domain.fact import NULL, Fact, Problem


class NodeFact(Fact, frozen=True, kw_only=True):
    """Follows from the facts before it, so it is told once and never needed to decide again."""


class NodeCompleted(NodeFact, frozen=True, kw_only=True):
    """A node that is no step came out; a step says so itself."""

    output: Raw = NULL
    handles: list[str] = []
    pinned: bool = False


class NodeFailed(NodeFact, frozen=True, kw_only=True):
    error: Problem


class NodeSkipped(NodeFact, frozen=True, kw_only=True):
    """No live edge leads to it."""


class NodeCancelled(NodeFact, frozen=True, kw_only=True):
    """It had begun, and is not wanted any more."""


class JoinLate(NodeFact, frozen=True, kw_only=True):
    """A branch arrived at a join that had settled."""

    source: str


class MergeConflict(NodeFact, frozen=True, kw_only=True):
    """Branches wrote different values; the later edge of the definition won."""

    variables: list[str]


class LoopStarted(NodeFact, frozen=True, kw_only=True):
    count: int | None = None


class LoopAdvanced(NodeFact, frozen=True, kw_only=True):
    done: int
    count: int
