"""Finally blocks of tries that were cancelled: they still run, concurrently with the rest of the run.

The try itself settles at once (GR-C1, GR-C4). Two things wait for its finally: the finally of a try
around it that was cancelled with it, and the end of the run. A finally block is not cancelled with its
surroundings; only cancelling the run, which stops everything under way, stops it too.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from stepwell.authoring.graphs.run.state import NodeRun, ScopeRun


class FinallyBlock:
    __slots__ = ("inner", "outer", "scope")

    def __init__(self, scope: ScopeRun) -> None:
        self.scope = scope
        self.inner = 0  # blocks of tries inside this one, which run first
        self.outer: FinallyBlock | None = None


class BlockEnd(NamedTuple):
    """A finally block is over; `next` is the scope that waited for it and may open now."""

    next: ScopeRun | None


class FinallyBlocks:
    def __init__(self) -> None:
        self._open: dict[ScopeRun, FinallyBlock] = {}
        self.off = False  # the run stops at once: none begins
        self.interrupting = False  # the run is being cancelled: those under way stop too

    def __bool__(self) -> bool:
        return bool(self._open)

    def detach(self, node_run: NodeRun) -> bool:
        """A try that is in its finally is cancelled: let the block continue by itself."""
        body = node_run.body
        if body is None or not in_finally(node_run) or self.off or self.interrupting:
            return False
        node_run.body = None
        self._open[body] = FinallyBlock(body)
        return True

    def scopes(self) -> Set[ScopeRun]:
        return set(self._open)

    def add(self, scope: ScopeRun, before: Set[ScopeRun]) -> ScopeRun | None:
        """Add the finally of a cancelled try; return it if it may open now.

        The blocks that were added since `before` belong to tries inside this one, and run first.
        """
        block = FinallyBlock(scope)
        for other, inner in self._open.items():
            if other not in before and inner.outer is None:
                inner.outer = block
                block.inner += 1
        self._open[scope] = block
        return scope if block.inner == 0 else None

    def end(self, scope: ScopeRun) -> BlockEnd | None:
        """A scope is over, completed or failed; None if it was not a finally block."""
        block = self._open.pop(scope, None)
        if block is None:
            return None
        outer = block.outer
        if outer is None:
            return BlockEnd(None)
        outer.inner -= 1
        return BlockEnd(outer.scope if outer.inner == 0 else None)

    def clear(self) -> list[ScopeRun]:
        """Forget all blocks; return their scopes, to be cancelled."""
        scopes = list(self._open)
        self._open.clear()
        return scopes


def in_finally(node_run: NodeRun) -> bool:
    """Whether a try has reached its finally."""
    return node_run.body is not None and node_run.body.plan is node_run.node.ending
