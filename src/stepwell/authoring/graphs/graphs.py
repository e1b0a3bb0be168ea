"""Graphs: one engine's graphs. Checks them, makes workflows of them, tells what they did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.format.content_hash import content_hash, version_hash
from stepwell.authoring.graphs.format.diff import diff
from stepwell.authoring.graphs.format.json_schema import graph_schema
from stepwell.authoring.graphs.history.trace import Trace, trace
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.authoring.graphs.workflow import GraphWorkflow, graph, read_graph
from stepwell.domain.events import Event, Origin
from stepwell.domain.fork.prefix import Edits
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.steps import StepSpec


class Graphs:
    def __init__(self, nodes: Iterable[Any], steps: Mapping[str, StepSpec]) -> None:
        self.registry = NodeRegistry.installed(nodes)
        self._builder = PlanBuilder(self.registry, steps)
        self._stored = PlanBuilder(self.registry, steps, stored=True)
        # For those who only look: whether the steps of a graph are here does not matter to them.
        self._lenient = PlanBuilder(self.registry, stored=True)
        self._steps = steps
        self._made: dict[str, GraphWorkflow] = {}

    def check(self, source: Any) -> list[GraphProblem]:
        """Everything that is wrong with a graph; nothing: it can be run."""
        return self._builder.check(_body(source))

    def warnings(self, source: Any) -> list[GraphProblem]:
        """What a graph says in vain, or hardly as it was meant; it can be run all the same.

        Of one that cannot, `check` tells why, and there are no warnings.
        """
        plan, _ = self._builder.examine(_body(source))
        return [] if plan is None else list(plan.warnings)

    def workflow(self, source: Any, *, stored: bool = False, **options: Any) -> GraphWorkflow:
        """A graph as a workflow; `stored`: one that was saved before."""
        return graph(source, builder=self._stored if stored else self._builder, **options)

    def from_run(self, body: bytes) -> GraphWorkflow:
        """The program of a run that brought its graph along."""
        plan = self._stored.build(msgspec.json.decode(body))
        made = self._made.get(plan.hash)
        if made is None:
            if len(self._made) >= 256:
                self._made.clear()
            made = self._made[plan.hash] = GraphWorkflow(plan)
        return made

    def trace(self, run_id: str, log: list[Event], body: bytes) -> Trace:
        return trace(self._lenient.build(msgspec.json.decode(body)), run_id, log)

    def done_again(self, run_id: str, log: list[Event], body: bytes, node: str) -> Edits:
        """What a new run leaves out of the old one's log to do a node again."""
        from stepwell.authoring.graphs.history.rerun import done_again

        plan = self._lenient.build(msgspec.json.decode(body))
        return done_again(plan, trace(plan, run_id, log), log, node)

    def fitting(self, body: bytes, old: RunCopy, origin: Origin, edits: Edits) -> Edits:
        """What a new run from an old one keeps, so that all of it is asked for again."""
        from stepwell.authoring.graphs.history.rerun import fitting

        return fitting(self._lenient.build(msgspec.json.decode(body)), old, origin, edits)

    def diff(self, old: Any, new: Any) -> dict[str, Any]:
        """What changed from one graph to another; they need not be right."""
        return diff(_body(old), _body(new))

    def content_hash(self, body: Any) -> str:
        """Of all that is saved of a graph."""
        return content_hash(body)

    def version_hash(self, body: Any) -> str:
        """Of what its runs depend on; the graph as it was saved."""
        return version_hash(body)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of graphs with this engine's types of nodes."""
        return graph_schema(self.registry)


def _body(source: Any) -> Any:
    return source.as_dict() if hasattr(source, "as_dict") else read_graph(source)
