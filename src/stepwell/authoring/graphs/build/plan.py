"""GraphPlan: a compiled graph. Immutable, shared by all its runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from stepwell.authoring.graphs.format.definition import GraphDefinition, GraphTimeouts
from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.nodes.node_type import Role
from stepwell.authoring.graphs.problems import GraphProblem


class EdgePlan:
    __slots__ = ("handle", "order", "source", "target", "to_join")

    def __init__(self, source: int, target: int, handle: str, order: int, *, to_join: bool) -> None:
        self.source = source
        self.target = target
        self.handle = handle
        self.order = order  # of declaration: decides who wins a conflict
        self.to_join = to_join


class NodePlan:
    __slots__ = (
        "behaviour",
        "body",
        "connected",
        "data",
        "ending",
        "id",
        "idom",
        "index",
        "ins",
        "join",
        "outs",
        "passes",
        "region",
        "role",
        "timed_joins",
        "tools",
        "type",
        "uses_names",
        "uses_time",
        "variable",
    )

    def __init__(self, id: str, index: int, role: Role, type: str, data: NodeData) -> None:
        self.id = id
        self.index = index  # in its scope
        self.role = role
        self.type = type
        self.data = data
        self.variable = data.output_variable
        self.passes = data.disabled or role is Role.JOIN  # it completes when it starts
        self.behaviour: Any = None  # compiled by the node type; its class depends on the role
        self.uses_names = False  # an expression of it uses a variable
        self.uses_time = False
        self.ins: tuple[EdgePlan, ...] = ()
        self.outs: tuple[EdgePlan, ...] = ()
        self.connected: frozenset[str] = frozenset()  # handles with an edge
        self.idom = -1
        self.join = -1  # the join whose strategy handles this node's failure
        self.region: tuple[int, ...] = ()  # nodes that this join may cancel
        self.timed_joins: tuple[int, ...] = ()  # joins whose deadline starts when this node settles
        self.body: ScopePlan | None = None
        self.ending: ScopePlan | None = None  # of a try: its finally
        self.tools: dict[str, ScopePlan] = {}  # what each tool of a conversation runs

    @property
    def bodies(self) -> list[ScopePlan]:
        return [*(scope for scope in (self.body, self.ending) if scope is not None), *self.tools.values()]


class ScopePlan:
    """The root graph, or the body of a container."""

    __slots__ = ("by_id", "entries", "joins", "nodes", "owner", "timed_joins")

    def __init__(self, nodes: list[NodePlan], owner: str) -> None:
        self.owner = owner  # id of the container; '' is the root
        self.nodes = nodes
        self.by_id = {node.id: node for node in nodes}
        self.entries = tuple(node.index for node in nodes if not node.ins)
        self.joins = tuple(node.index for node in nodes if node.role is Role.JOIN)
        self.timed_joins: tuple[int, ...] = ()  # joins whose deadline starts when the scope opens


class GraphPlan:
    def __init__(
        self,
        definition: GraphDefinition,
        root: ScopePlan,
        hash: str,
        warnings: tuple[GraphProblem, ...] = (),
        timeouts: GraphTimeouts | None = None,
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.settings = (timeouts or GraphTimeouts()).applied(definition.settings)
        self.root = root
        self.hash = hash
        self.warnings = warnings  # settings without effect; the graph still runs

    def scopes(self) -> Iterator[ScopePlan]:
        """The root and all bodies, outer ones first."""
        waiting = [self.root]
        while waiting:
            scope = waiting.pop()
            yield scope
            for node in scope.nodes:
                waiting.extend(node.bodies)

    def nodes(self) -> Iterator[NodePlan]:
        """All nodes, containers before their bodies."""
        for scope in self.scopes():
            yield from scope.nodes

    @cached_property
    def by_data(self) -> dict[type, list[NodePlan]]:
        """All nodes by the class of their data."""
        nodes: dict[type, list[NodePlan]] = {}
        for node in self.nodes():
            nodes.setdefault(type(node.data), []).append(node)
        return nodes

    def forks(self) -> dict[str, str]:
        """Fork → join, by id: where the branches of a node meet."""
        joins: dict[str, str] = {}
        for scope in self.scopes():
            for index in scope.joins:
                join = scope.nodes[index]
                if join.idom >= 0:
                    joins[scope.nodes[join.idom].id] = join.id
        return joins

    @property
    def input_schema(self) -> Any:
        start = next((node for node in self.root.nodes if node.type == "start"), None)
        schema = getattr(start.data, "input_schema", None) if start is not None else None
        return True if schema is None else schema
