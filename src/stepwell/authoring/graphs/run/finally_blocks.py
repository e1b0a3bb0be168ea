"""Cleanups: the finally of a try that is cancelled runs all the same, beside what goes on.

The try itself is settled at once (GR-C1, GR-C4): nobody waits for its clean-up but the finally of a try
around it that is cancelled with it, and the end of the run. A clean-up is not cancelled with what is
around it; the run's own cancel, which stops everything that is under way, stops it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.authoring.graphs.run.state import NodeRun, ScopeRun

if TYPE_CHECKING:
    from stepwell.authoring.graphs.run.frontier import Frontier


class Cleanup:
    __slots__ = ("inner", "outer", "scope")

    def __init__(self, scope: ScopeRun) -> None:
        self.scope = scope
        self.inner = 0  # those that come first: of tries inside this one
        self.outer: Cleanup | None = None


class Cleanups:
    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._open: dict[ScopeRun, Cleanup] = {}
        self.off = False  # the run stops at once
        self.interrupting = False  # so does what has begun to clean up

    def __bool__(self) -> bool:
        return bool(self._open)

    def cancel(self, step: NodeRun) -> None:
        """A try with a finally is cancelled; its step settles behind this."""
        body = step.body
        begun = body is not None and body.plan is step.node.ending
        if begun and body is not None and not (self.off or self.interrupting):
            step.body = None  # it goes on by itself
            self._frontier.stop(step)
            self._open[body] = Cleanup(body)
            return
        before = set(self._open)
        self._frontier.stop(step)
        if self.off or begun:
            return
        cleanup = Cleanup(self._frontier.containers.ending_of(step))
        for scope, inner in self._open.items():
            if scope not in before and inner.outer is None:
                inner.outer = cleanup
                cleanup.inner += 1
        self._open[cleanup.scope] = cleanup
        self._begin(cleanup)

    def _begin(self, cleanup: Cleanup) -> None:
        if cleanup.inner == 0:
            self._frontier.open(cleanup.scope)

    def ended(self, scope: ScopeRun) -> bool:
        """The scope is over, well or not; True: it was a clean-up, and nobody else wants to know."""
        cleanup = self._open.pop(scope, None)
        if cleanup is None:
            return False
        if cleanup.outer is not None:
            cleanup.outer.inner -= 1
            self._begin(cleanup.outer)
        self._frontier.cleaned_up()
        return True

    def stop(self) -> None:
        """Cancel what cleans up now."""
        scopes = list(self._open)
        self._open.clear()
        for scope in scopes:
            self._frontier.cancel_scope(scope)
