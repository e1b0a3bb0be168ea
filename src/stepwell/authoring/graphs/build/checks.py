"""Checks of a graph's structure: what can be known before it runs, all of it at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from stepwell.authoring.graphs.build.dominators import ending_of, topological
from stepwell.authoring.graphs.format.definition import Definition, Edge, Node
from stepwell.authoring.graphs.nodes.control import ConditionData, SwitchData
from stepwell.authoring.graphs.nodes.join import MergeData
from stepwell.authoring.graphs.nodes.node_type import Role
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import excerpt

LOOPS_MAX = 3  # loops in loops
NESTING_MAX = 10  # containers of any type
_COMPARED_MAX = 20  # words: to find what somebody meant, each is compared with every id of the graph


class Checks:
    def __init__(self, definition: Definition, broken: frozenset[str]) -> None:
        self._definition = definition
        self._broken = broken  # ids of nodes that could not be read: no second complaint about them
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

    def _meant(self, word: str, known: Collection[str]) -> str:
        """A suggestion for a word that nobody knows; one for each of thousands nobody would read."""
        self._compared += 1
        found = did_you_mean_one_of(word, known) if self._compared <= _COMPARED_MAX else ""
        return found or "use a name that there is, or take it out"

    def _limits(self) -> None:
        found, limit = len(self._definition.nodes), self._definition.settings.max_nodes
        if found > limit:
            self._add(
                "GRAPH_TOO_LARGE",
                f"the graph has {found} nodes; the limit is {limit}",
                suggestion="move a part into a workflow of its own, or raise settings.maxNodes (at most 500)",
            )

    def _ids(self) -> None:
        """People read `Pay` and `pay` as one name, and some file systems do."""
        known: dict[str, str] = {}
        for node in self._definition.nodes:
            first = known.setdefault(node.id.lower(), node.id)
            if node.id in self._nodes or first != node.id:
                only = "" if first == node.id else f", but for case: {excerpt(first)}"
                self._add(
                    "NODE_ID_DUPLICATE",
                    f"two nodes have the id {excerpt(node.id)}{only}",
                    node=node.id,
                    field="id",
                    suggestion="give one of them another id",
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
            # What is disabled goes on by `out`; where there is none, everything behind it would be skipped.
            routes = kind.role in (Role.CONTAINER, Role.JOIN) or kind.name in ("condition", "switch")
            routes = routes or (bool(handles) and "out" not in handles)
            if routes and node.data.disabled:
                self._add(
                    "DISABLED_CONTROL",
                    f"a {node.type.name} cannot be disabled",
                    node=node.id,
                    field="disabled",
                    suggestion="take it out, or lead the edges past it",
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
        if parent.type.role is not Role.CONTAINER:
            self._add(
                "NOT_A_CONTAINER",
                f"a {parent.type.name} has no body",
                node=node.id,
                field="parentId",
                suggestion="only loop, try and retry have one",
            )
            return
        if node.type.role is not Role.CONTAINER:
            return
        around = self._around(node)
        loops = sum(found.type.name == "loop" for found in around)
        if (node.type.name == "loop" and loops > LOOPS_MAX) or len(around) > NESTING_MAX:
            deep = f"loops are nested more than {LOOPS_MAX} deep"
            if loops <= LOOPS_MAX:
                deep = f"containers are nested more than {NESTING_MAX} deep"
            self._add(
                "NESTING_TOO_DEEP",
                deep,
                node=node.id,
                suggestion="move the inner part into a workflow of its own",
            )

    def _around(self, node: Node) -> list[Node]:
        """The container and those around it."""
        around: dict[str, Node] = {}
        found: Node | None = node
        while found is not None and found.id not in around:
            around[found.id] = found
            found = self._nodes.get(found.parent)
        if found is not None:
            self._add(
                "PARENT_CYCLE",
                "the node is inside itself",
                node=node.id,
                field="parentId",
                suggestion="take parentId out, or name the container around it",
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
                suggestion="a graph has exactly one",
            )
        for node in starts:
            if node.parent:
                self._add(
                    "START_IN_CONTAINER",
                    "a body begins at its nodes without in-edges",
                    node=node.id,
                    suggestion="take it out of the body",
                )

    def _edge_fits(self, edge: Edge) -> bool:
        source, target = self._nodes.get(edge.source), self._nodes.get(edge.target)
        if source is None or target is None:
            other = source or target
            for id, found, name in ((edge.source, source, "source"), (edge.target, target, "target")):
                if found is None and id not in self._broken:
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
                f"a {source.type.name} has no handle {excerpt(edge.handle)}",
                node=source.id,
                edge=edge.id,
                field="sourceHandle",
                suggestion=self._meant(edge.handle, handles)
                if handles
                else f"nothing can follow a {source.type.name}",
            )
        if target.type.name == "start":
            self._add(
                "EDGE_INTO_START",
                "nothing comes before the start",
                node=target.id,
                edge=edge.id,
                field="target",
                suggestion="lead it to another node; what repeats goes into a loop",
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
        """What is behind a try's `finally` is apart from its body."""
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
                    f"{excerpt(first)} is no node of its body",
                    node=node.id,
                    field="finally",
                    suggestion=self._meant(first, inside),
                )
            elif not inside - last:
                self._add(
                    "EMPTY_CONTAINER",
                    "the try has nothing but its finally",
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
                        suggestion="nothing in the body leads to its finally",
                    )

    def _duplicates(self, edges: list[Edge]) -> None:
        seen: set[tuple[str, str, str]] = set()
        for edge in edges:
            key = (edge.source, edge.handle, edge.target)
            if key in seen:
                self._add(
                    "DUPLICATE_EDGE",
                    "the same connection twice",
                    node=edge.source,
                    edge=edge.id,
                    suggestion="take one of them out",
                )
            seen.add(key)
        for id, count in Counter(edge.id for edge in self._definition.edges).items():
            if count > 1:
                self._add(
                    "DUPLICATE_EDGE_ID",
                    f"{count} edges have the id {excerpt(id)}",
                    edge=id,
                    suggestion="give each an id of its own",
                )

    def _handles(self) -> None:
        """Edges leave by the ids of branches and cases, so each must be one handle and no other."""
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
                        f"the {node.type.name} has the handle {excerpt(handle)} already",
                        node=node.id,
                        field=field,
                        suggestion="give it another id, and lead its edges from there",
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
                    suggestion=f"count at most {inputs[node.id]}, or lead more branches to it",
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
                suggestion="put what repeats into a loop container",
            )
        self.cyclic = bool(on_cycle)

    def _reachable(self, edges: list[Edge]) -> None:
        """In the root only the start begins by itself."""
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
                    suggestion="connect it, or take it out",
                )


def _on_cycles(stuck: set[int], successors: list[list[int]]) -> set[int]:
    """Of the nodes on cycles and behind them, those on cycles: leaves are taken off until none is left."""
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
