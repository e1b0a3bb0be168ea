"""PlanBuilder: compiles a graph's JSON into its plan, once for each content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.authoring.graphs.build.checks import Checks, saving_problems, secret_references
from stepwell.authoring.graphs.build.code_checks import code_problems
from stepwell.authoring.graphs.build.dominators import analyse, ending_of, reached
from stepwell.authoring.graphs.build.plan import EdgePlan, GraphPlan, NodePlan, ScopePlan
from stepwell.authoring.graphs.build.warnings import warnings
from stepwell.authoring.graphs.format.content_hash import content_hash, version_hash
from stepwell.authoring.graphs.format.definition import Edge, GraphDefinition, GraphTimeouts, Node, read
from stepwell.authoring.graphs.format.foreign import from_foreign_editor
from stepwell.authoring.graphs.format.input_limits import json_problems
from stepwell.authoring.graphs.nodes.ai import AI, AiData
from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.nodes.node_type import NodeType, Role
from stepwell.authoring.graphs.nodes.registry import DEFAULT, NodeRegistry
from stepwell.authoring.graphs.problems import GraphProblem, InvalidGraph
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler, Sources
from stepwell.domain.steps import StepSpec
from stepwell.errors import excerpt
from stepwell.providers.provider import Providers

_CACHE_MAX = 256


class PlanBuilder:
    """Builds plans with one set of node types and steps; caches the latest by content hash."""

    def __init__(
        self,
        registry: NodeRegistry = DEFAULT,
        steps: Mapping[str, StepSpec] | None = None,
        *,
        stored: bool = False,
        timeouts: GraphTimeouts | None = None,
        providers: Callable[[], Providers] | None = None,
    ) -> None:
        self._timeouts = timeouts or GraphTimeouts()
        self._providers = providers  # model providers that nodes are checked against
        self.registry = registry
        self._steps = steps
        self._stored = stored  # accepted before: rules that are newer do not apply
        self._plans: OrderedDict[str, GraphPlan] = OrderedDict()

    def build(self, body: Any) -> GraphPlan:
        """The plan of a graph. Raises InvalidGraph with every problem at once."""
        problems = json_problems(body)
        key = "" if problems else content_hash(body)
        plan = self._plans.get(key)
        if plan is None:
            if not problems:
                plan, problems = self._examine(body)
            if plan is None:
                name = body.get("name", "") if isinstance(body, dict) else ""
                raise InvalidGraph(problems, name=name if isinstance(name, str) else excerpt(name))
            self._plans[key] = plan
            if len(self._plans) > _CACHE_MAX:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan

    def check(self, body: Any) -> list[GraphProblem]:
        return self.examine(body)[1]

    def examine(self, body: Any) -> tuple[GraphPlan | None, list[GraphProblem]]:
        problems = json_problems(body)
        return (None, problems) if problems else self._examine(body)

    def _examine(self, body: Any) -> tuple[GraphPlan | None, list[GraphProblem]]:
        body, strange = from_foreign_editor(body, self.registry.names)
        definition, problems = read(body, self.registry)
        problems[:0] = strange
        if definition is None:
            return None, problems
        broken = frozenset(problem.node for problem in problems if problem.node)
        problems.extend(Checks(definition, broken).run())
        if not self._stored:
            problems.extend(saving_problems(body, definition))
        sources = Sources()
        asks = self._providers is not None and any(node.type is AI for node in definition.nodes)
        providers = self._providers() if self._providers is not None and asks else None
        compilers = {
            node.id: NodeCompiler(
                node.id, problems, self._steps, self.registry.mergers, sources, providers=providers
            )
            for node in definition.nodes
        }
        behaviours = {node.id: node.type.compile(node.data, compilers[node.id]) for node in definition.nodes}
        unchecked: list[GraphProblem] = []
        if not self._stored:
            unread, unchecked = code_problems(behaviours)
            problems.extend(unread)
            problems.extend(secret_references(compilers))
        if problems:
            return None, problems
        root = _scope("", definition, behaviours, compilers)
        hints = (*warnings(definition, compilers), *unchecked)
        plan = GraphPlan(definition, root, version_hash(definition.as_dict()), hints, self._timeouts)
        return plan, []


def _scope(
    owner: str, definition: GraphDefinition, behaviours: dict[str, Any], compilers: dict[str, NodeCompiler]
) -> ScopePlan:
    by_parent: dict[str, list[Node]] = {}
    for node in definition.nodes:
        by_parent.setdefault(node.parent, []).append(node)
    parent_of = {node.id: node.parent for node in definition.nodes}
    edges_of: dict[str, list[tuple[int, Edge]]] = {}
    for order, edge in enumerate(definition.edges):
        edges_of.setdefault(parent_of[edge.source], []).append((order, edge))

    def build(name: str, members: list[Node]) -> ScopePlan:  # recurses as deep as containers are nested
        plans = []
        for index, node in enumerate(members):
            plan = NodePlan(node.id, index, node.type.role, node.type.name, node.data)
            plan.behaviour = behaviours[node.id]
            plan.uses_names = bool(compilers[node.id].names)
            plan.uses_time = compilers[node.id].uses_time
            inside = by_parent.get(node.id, [])
            if isinstance(node.data, AiData):
                own = [edge for _, edge in edges_of.get(node.id, [])]
                for tool in node.data.tools:
                    ids = reached(tool.node, own) if tool.node is not None else ()
                    plan.tools[tool.name] = build(node.id, [n for n in inside if n.id in ids])
                for name_of_tool, called in plan.behaviour.called.items():
                    plan.tools[name_of_tool] = _of_one(node.id, name_of_tool, *called)
            elif node.type.role is Role.CONTAINER:
                last = ending_of(node.data, [edge for _, edge in edges_of.get(node.id, [])])
                plan.body = build(node.id, [n for n in inside if n.id not in last])
                if last:
                    plan.ending = build(node.id, [n for n in inside if n.id in last])
            plans.append(plan)
        _connect(plans, edges_of.get(name, []))
        scope = ScopePlan(plans, name)
        _structure(scope)
        return scope

    return build(owner, by_parent.get(owner, []))


def _of_one(owner: str, id: str, kind: NodeType, data: NodeData, behaviour: Any) -> ScopePlan:
    """Return the scope of a tool that has no nodes in the body: one node that calls it."""
    plan = NodePlan(id, 0, kind.role, kind.name, data)
    plan.behaviour = behaviour
    scope = ScopePlan([plan], owner)
    _structure(scope)
    return scope


def _connect(plans: list[NodePlan], edges: list[tuple[int, Edge]]) -> None:
    place = {plan.id: plan.index for plan in plans}
    edges = [(order, edge) for order, edge in edges if edge.source in place]
    outs: dict[int, list[EdgePlan]] = {}
    ins: dict[int, list[EdgePlan]] = {}
    for order, edge in edges:
        target = place[edge.target]
        to_join = plans[target].role is Role.JOIN
        plan_edge = EdgePlan(place[edge.source], target, edge.handle, order, to_join=to_join)
        outs.setdefault(plan_edge.source, []).append(plan_edge)
        ins.setdefault(plan_edge.target, []).append(plan_edge)
    for plan in plans:
        plan.outs = tuple(outs.get(plan.index, ()))
        plan.ins = tuple(ins.get(plan.index, ()))
        plan.connected = frozenset(edge.handle for edge in plan.outs)


def _structure(scope: ScopePlan) -> None:
    nodes = scope.nodes
    pairs = [(edge.source, edge.target) for node in nodes for edge in node.outs]
    structure = analyse(len(nodes), pairs, scope.joins)
    clocks: dict[int, list[int]] = {}
    for node in nodes:
        node.idom = structure.idom[node.index]
        node.join = structure.join_of[node.index]
        node.region = structure.regions.get(node.index, ())
        if node.role is Role.JOIN and node.behaviour.timeout is not None:
            clocks.setdefault(node.idom, []).append(node.index)
    for index, joins in clocks.items():
        if index >= 0:
            nodes[index].timed_joins = tuple(joins)
    scope.timed_joins = tuple(clocks.get(-1, ()))
