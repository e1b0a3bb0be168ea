"""Checks: all structural problems of a graph that can be seen before it runs, reported together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stepwell.authoring.graphs.build.dominators import ending_of, reached, topological
from stepwell.authoring.graphs.build.inline_secrets import inline_secrets
from stepwell.authoring.graphs.build.triggers import trigger_problems
from stepwell.authoring.graphs.format.definition import Edge, GraphDefinition, Node
from stepwell.authoring.graphs.nodes.ai import AiData
from stepwell.authoring.graphs.nodes.control import ConditionData, SwitchData
from stepwell.authoring.graphs.nodes.join import MergeData
from stepwell.authoring.graphs.nodes.node_type import Role
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import excerpt

LOOPS_MAX = 3  # loops in loops
NESTING_MAX = 10  # containers of any type
_COMPARED_MAX = 20  # words: each is compared with every id of the graph to suggest a name


class Checks:
    def __init__(self, definition: GraphDefinition, broken: frozenset[str]) -> None:
        self._definition = definition
        self._broken = broken  # ids of unreadable nodes: their problems are reported already
        self.problems: list[GraphProblem] = []
        self._nodes: dict[str, Node] = {}
        self._compared = 0

    def run(self) -> list[GraphProblem]:
        self._limits()
        self._ids()
        self._parents()
        self._starts()
        self._handles()
        edges = [edge for edge in self._definition.edges if self._edge_fits(edge)]
        self._endings(edges)
        self._tools(edges)
        self._duplicates(edges)
        self._joins()
        self._cycles(edges)
        self._reachable(edges)
        return self.problems

    def _add(
        self,
        code: str,
        message: str,
        *,
        node: str = "",
        edge: str = "",
        field: str = "",
        suggestion: str = "",
    ) -> None:
        self.problems.append(
            GraphProblem(code=code, message=message, node=node, edge=edge, field=field, suggestion=suggestion)
        )

    def _meant(self, word: str, names: Collection[str]) -> str:
        """A suggestion for an unknown word. Only for the first ones: nobody reads thousands."""
        self._compared += 1
        hint = did_you_mean_one_of(word, names) if self._compared <= _COMPARED_MAX else ""
        return hint or "use an existing name, or remove it"

    def _limits(self) -> None:
        count, limit = len(self._definition.nodes), self._definition.settings.max_nodes
        if count > limit:
            self._add(
                "GRAPH_TOO_LARGE",
                f"the graph has {count} nodes; the limit is {limit}",
                suggestion="move part into a separate workflow, or raise settings.maxNodes (at most 500)",
            )

    def _ids(self) -> None:
        """Ids must differ in more than case: readers, and some file systems, take `Pay` and `pay` as one."""
        ids: dict[str, str] = {}
        for node in self._definition.nodes:
            first = ids.setdefault(node.id.lower(), node.id)
            if node.id in self._nodes or first != node.id:
                message = f"two nodes have the id {excerpt(node.id)}"
                if first != node.id:
                    message = f"the ids {excerpt(first)} and {excerpt(node.id)} differ only in case"
                self._add(
                    "NODE_ID_DUPLICATE",
                    message,
                    node=node.id,
                    field="id",
                    suggestion="change one of the ids",
                )
            self._nodes[node.id] = node

    def _parents(self) -> None:
        parents = {node.parent for node in self._definition.nodes}
        parents.update(self._definition.unread.values())
        for node in self._definition.nodes:
            if node.type.role is Role.CONTAINER and node.id not in parents and node.id not in self._broken:
                self._add(
                    "EMPTY_CONTAINER",
                    f"the {node.type.name} has no body",
                    node=node.id,
                    suggestion="put at least one node inside (parentId)",
                )
            kind = node.type
            handles = kind.handles(node.data)
            # A disabled node continues by `out`; without that handle, everything after it would be skipped.
            routes = kind.role in (Role.CONTAINER, Role.JOIN) or kind.name in ("condition", "switch")
            routes = routes or (bool(handles) and "out" not in handles)
            if routes and node.data.disabled:
                self._add(
                    "DISABLED_CONTROL",
                    f"{node.type.name} nodes cannot be disabled",
                    node=node.id,
                    field="disabled",
                    suggestion="remove it, or route the edges around it",
                )
            if node.parent:
                self._parent(node)

    def _parent(self, node: Node) -> None:
        parent = self._nodes.get(node.parent)
        if parent is None:
            if node.parent not in self._broken:
                self._add(
                    "UNKNOWN_PARENT",
                    f"there is no node {excerpt(node.parent)}",
                    node=node.id,
                    field="parentId",
                    suggestion=self._meant(node.parent, self._nodes),
                )
            return
        if not parent.type.role.has_body:
            self._add(
                "NOT_A_CONTAINER",
                f"{parent.type.name} nodes have no body",
                node=node.id,
                field="parentId",
                suggestion="only loop, try, retry and ai have a body",
            )
            return
        if node.type.role is not Role.CONTAINER:
            return
        around = self._around(node)
        loops = sum(container.type.name == "loop" for container in around)
        if (node.type.name == "loop" and loops > LOOPS_MAX) or len(around) > NESTING_MAX:
            deep = f"loops are nested more than {LOOPS_MAX} deep"
            if loops <= LOOPS_MAX:
                deep = f"containers are nested more than {NESTING_MAX} deep"
            self._add(
                "NESTING_TOO_DEEP",
                deep,
                node=node.id,
                suggestion="move the inner part into a separate workflow",
            )

    def _around(self, node: Node) -> list[Node]:
        """The container and the containers around it."""
        around: dict[str, Node] = {}
        container: Node | None = node
        while container is not None and container.id not in around:
            around[container.id] = container
            container = self._nodes.get(container.parent)
        if container is not None:
            self._add(
                "PARENT_CYCLE",
                "the node is inside itself",
                node=node.id,
                field="parentId",
                suggestion="remove parentId, or name the enclosing container",
            )
        return list(around.values())

    def _starts(self) -> None:
        starts = [node for node in self._definition.nodes if node.type.name == "start"]
        roots = [node for node in starts if not node.parent]
        if len(roots) != 1 and not (self._broken and not roots):
            self._add(
                "START_COUNT",
                f"the graph has {len(roots)} start nodes",
                node=roots[1].id if len(roots) > 1 else "",
                suggestion="a graph needs exactly one",
            )
        for node in starts:
            if node.parent:
                self._add(
                    "START_IN_CONTAINER",
                    "a body starts at its nodes without incoming edges",
                    node=node.id,
                    suggestion="remove it from the body",
                )

    def _edge_fits(self, edge: Edge) -> bool:
        source, target = self._nodes.get(edge.source), self._nodes.get(edge.target)
        if source is None or target is None:
            other = source or target
            for id, end, name in ((edge.source, source, "source"), (edge.target, target, "target")):
                if end is None and id not in self._broken:
                    self._add(
                        "EDGE_UNKNOWN_NODE",
                        f"there is no node {excerpt(id)}",
                        node="" if other is None else other.id,
                        edge=edge.id,
                        field=name,
                        suggestion=self._meant(id, self._nodes),
                    )
            return False
        handles = source.type.handles(source.data)
        if edge.handle not in handles:
            self._add(
                "UNKNOWN_HANDLE",
                f"{source.type.name} nodes have no handle {excerpt(edge.handle)}",
                node=source.id,
                edge=edge.id,
                field="sourceHandle",
                suggestion=self._meant(edge.handle, handles)
                if handles
                else f"nothing can follow {source.type.name} nodes",
            )
        if target.type.name == "start":
            self._add(
                "EDGE_INTO_START",
                "no edge may lead to the start",
                node=target.id,
                edge=edge.id,
                field="target",
                suggestion="connect it to another node; use a loop for repetition",
            )
        if source.parent != target.parent:
            self._add(
                "EDGE_CROSSES_SCOPE",
                f"{source.id} and {target.id} are not in the same body",
                node=source.id,
                edge=edge.id,
                suggestion="connect the container itself, or move the node",
            )
            return False
        return True

    def _endings(self, edges: list[Edge]) -> None:
        """A try's `finally` and the nodes after it are separate from its body."""
        for node in self._definition.nodes:
            first = getattr(node.data, "finally_", None)
            if first is None:
                continue
            inside = {n.id for n in self._definition.nodes if n.parent == node.id}
            own = [edge for edge in edges if edge.source in inside]
            last = ending_of(node.data, own)
            if first not in inside:
                self._add(
                    "UNKNOWN_FINALLY",
                    f"{excerpt(first)} is not a node of its body",
                    node=node.id,
                    field="finally",
                    suggestion=self._meant(first, inside),
                )
            elif not inside - last:
                self._add(
                    "EMPTY_CONTAINER",
                    "the try has only its finally",
                    node=node.id,
                    suggestion="put at least one node beside it (parentId)",
                )
            for edge in own:
                if edge.target in last and (edge.source not in last or edge.target == first):
                    self._add(
                        "EDGE_CROSSES_SCOPE",
                        f"{edge.target} runs when the body of {node.id} has ended",
                        node=edge.source,
                        edge=edge.id,
                        suggestion="remove this edge: the body must not lead to its finally",
                    )

    def _tools(self, edges: list[Edge]) -> None:
        """Check the tools in the body of an ai node: each begins at the node that it names."""
        for node in self._definition.nodes:
            if not isinstance(node.data, AiData):
                continue
            inside = {n.id for n in self._definition.nodes if n.parent == node.id}
            own = [edge for edge in edges if edge.source in inside]
            left = set(inside)
            for at, tool in enumerate(node.data.tools):
                if tool.node in inside:
                    left -= reached(tool.node, own)
                elif tool.node is not None and tool.node not in self._broken:
                    self._add(
                        "UNKNOWN_TOOL",
                        f"{excerpt(tool.node)} is not a node of its body",
                        node=node.id,
                        field=f"tools.{at}.node",
                        suggestion=self._meant(tool.node, inside),
                    )
            for id in sorted(left):
                self._add(
                    "UNKNOWN_TOOL",
                    "no tool begins here or leads here",
                    node=id,
                    field="parentId",
                    suggestion=f"name it as a tool of {node.id}, or move it out of its body",
                )

    def _duplicates(self, edges: list[Edge]) -> None:
        seen: set[tuple[str, str, str]] = set()
        for edge in edges:
            key = (edge.source, edge.handle, edge.target)
            if key in seen:
                self._add(
                    "DUPLICATE_EDGE",
                    "the same connection appears twice",
                    node=edge.source,
                    edge=edge.id,
                    suggestion="remove one of them",
                )
            seen.add(key)
        for id, count in Counter(edge.id for edge in self._definition.edges).items():
            if count > 1:
                self._add(
                    "DUPLICATE_EDGE_ID",
                    f"{count} edges have the id {excerpt(id)}",
                    edge=id,
                    suggestion="give each edge its own id",
                )

    def _handles(self) -> None:
        """Edges leave by the ids of branches and cases, so each id must name one handle."""
        for node in self._definition.nodes:
            data, taken = node.data, {"error"}
            if isinstance(data, ConditionData):
                taken.add("else")
                listed = [(f"branches.{i}.id", branch.id) for i, branch in enumerate(data.branches)]
            elif isinstance(data, SwitchData):
                taken.add("default")
                listed = [(f"cases.{i}.id", case.id) for i, case in enumerate(data.cases)]
            else:
                continue
            for field, handle in listed:
                if handle in taken:
                    self._add(
                        "DUPLICATE_HANDLE",
                        f"the {node.type.name} already has a handle {excerpt(handle)}",
                        node=node.id,
                        field=field,
                        suggestion="choose another id, and connect its edges there",
                    )
                taken.add(handle)

    def _joins(self) -> None:
        if self._definition.edges_unread:
            return
        inputs = Counter(edge.target for edge in self._definition.edges)
        for node in self._definition.nodes:
            data = node.data
            counts = isinstance(data, MergeData) and data.mode == "count"
            if counts and (getattr(data, "count", 0) or 0) > inputs[node.id]:
                self._add(
                    "JOIN_COUNT_RANGE",
                    f"it has only {inputs[node.id]} branches",
                    node=node.id,
                    field="count",
                    suggestion=f"count at most {inputs[node.id]}, or connect more branches",
                )

    def _cycles(self, edges: list[Edge]) -> None:
        names = list(self._nodes)
        place = {name: index for index, name in enumerate(names)}
        successors: list[list[int]] = [[] for _ in names]
        for edge in edges:
            successors[place[edge.source]].append(place[edge.target])
        sorted_ = set(topological(len(names), successors))
        stuck = {index for index in range(len(names)) if index not in sorted_}
        on_cycle = _on_cycles(stuck, successors)
        if on_cycle:
            named = [names[index] for index in sorted(on_cycle)]
            self._add(
                "CYCLE",
                f"these nodes lead back to themselves: {', '.join(named[:10])}",
                node=named[0],
                suggestion="put the repeating part into a loop container",
            )
        self.cyclic = bool(on_cycle)

    def _reachable(self, edges: list[Edge]) -> None:
        """In the root, only the start begins by itself."""
        unsure = self.cyclic or self._broken or self._definition.edges_unread
        if unsure or not any(n.type.name == "start" for n in self._definition.nodes):
            return
        targets = {edge.target for edge in self._definition.edges}
        for node in self._definition.nodes:
            if not node.parent and node.type.name != "start" and node.id not in targets:
                self._add(
                    "NODE_UNREACHABLE",
                    "nothing leads to this node",
                    node=node.id,
                    suggestion="connect it, or remove it",
                )


def _on_cycles(stuck: set[int], successors: list[list[int]]) -> set[int]:
    """The nodes on cycles, out of those on or after cycles: remove leaves until none is left."""
    inside = {index: [t for t in successors[index] if t in stuck] for index in stuck}
    leads: dict[int, list[int]] = {index: [] for index in stuck}
    for index, targets in inside.items():
        for target in targets:
            leads[target].append(index)
    left = {index: len(targets) for index, targets in inside.items()}
    leaves = [index for index, count in left.items() if count == 0]
    gone = set(leaves)
    while leaves:
        for before in leads[leaves.pop()]:
            left[before] -= 1
            if left[before] == 0 and before not in gone:
                gone.add(before)
                leaves.append(before)
    return stuck - gone


# Saving


def saving_problems(body: Any, definition: GraphDefinition) -> Iterator[GraphProblem]:
    """Settings without effect, refused when a graph is saved or registered. Saved graphs keep theirs."""
    if definition.settings.error_workflow is not None:
        yield GraphProblem(
            code="NOT_SUPPORTED",
            message="no workflow is started when a run fails",
            field="settings.errorWorkflow",
            suggestion="connect the error edges to a workflow node, or put the nodes into a try",
        )
    yield from inline_secrets(body)
    nodes = {node.id: node for node in definition.nodes}
    for raw in body.get("nodes") or ():
        node = nodes.get(str(raw.get("id"))) if isinstance(raw, Mapping) else None
        if node is not None and _has_join_mode(raw, node.type.data.model_fields):
            yield GraphProblem(
                code="INVALID_DATA",
                message=f"{node.type.name} nodes have no joinMode; use a merge and its mode instead",
                node=node.id,
                field="joinMode",
                suggestion="put a merge in front of it, with mode any, count or timeout in its data",
            )
    yield from _webhooks_in_loops(definition)
    start = next((node.data for node in definition.nodes if node.type.name == "start"), None)
    schema = getattr(start, "input_schema", None)
    yield from trigger_problems(definition, True if schema is None else schema)


def secret_references(compilers: Mapping[str, NodeCompiler]) -> Iterator[GraphProblem]:
    """Yield a problem for each field whose expressions refer to a secret: expressions never see one."""
    for node, compiler in compilers.items():
        for field, names in compiler.names.items():
            if "secrets" in names:
                yield GraphProblem(
                    code="SECRET_CONTEXT",
                    message="expressions cannot read secrets: the value would be recorded and shown",
                    node=node,
                    field=field,
                    suggestion="name the secret in `credential` of an http node, or in @step(secrets=[...])",
                )


def _webhooks_in_loops(definition: GraphDefinition) -> Iterator[GraphProblem]:
    nodes = {node.id: node for node in definition.nodes}
    for node in definition.nodes:
        around = nodes.get(node.parent)
        for _ in range(NESTING_MAX):
            if around is None or getattr(node.data, "mode", "") != "webhook" or node.type.name != "wait":
                break
            if around.type.name in ("loop", "retry"):
                yield GraphProblem(
                    code="INVALID_DATA",
                    message=f"a webhook takes one delivery, and {excerpt(around.id)} repeats it",
                    node=node.id,
                    field="mode",
                    suggestion="call a workflow that waits, or wait for an event with a key",
                )
                break
            around = nodes.get(around.parent)


def _has_join_mode(raw: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    data = raw.get("data")
    inside = isinstance(data, Mapping) and "joinMode" in data and "join_mode" not in fields
    return inside or "joinMode" in raw
