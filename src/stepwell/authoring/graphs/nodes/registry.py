"""NodeRegistry: the node types that a graph may use. Unknown types are refused, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from typing import Any

from stepwell.authoring.graphs.nodes.ai import AI
from stepwell.authoring.graphs.nodes.code import JAVASCRIPT, PYTHON
from stepwell.authoring.graphs.nodes.containers import CONTAINERS
from stepwell.authoring.graphs.nodes.control import CONTROL
from stepwell.authoring.graphs.nodes.http import HTTP
from stepwell.authoring.graphs.nodes.join import MERGE
from stepwell.authoring.graphs.nodes.node_type import NodeType
from stepwell.authoring.graphs.nodes.notify import NOTIFY
from stepwell.authoring.graphs.nodes.query import QUERY
from stepwell.authoring.graphs.nodes.records import RECORDS
from stepwell.authoring.graphs.nodes.steps import CALL, CustomNode
from stepwell.authoring.graphs.nodes.subworkflow import WORKFLOW
from stepwell.authoring.graphs.nodes.waits import WAITING
from stepwell.authoring.graphs.templates.node_compiler import MergeFunction
from stepwell.domain.steps import StepSpec
from stepwell.errors import InvalidDefinition, excerpt

ENTRY_POINTS = "stepwell.nodes"
ALIASES = {"join": "merge", "wait_event": "wait", "data_query": "query", "subworkflow": "workflow"}
BUILT_IN: tuple[NodeType, ...] = (
    *(*CONTROL, *WAITING, MERGE, *CONTAINERS),
    *(CALL, WORKFLOW, HTTP, QUERY, RECORDS, NOTIFY, JAVASCRIPT, PYTHON, AI),
)


class NodeRegistry:
    def __init__(self, custom: Iterable[Any] = ()) -> None:
        self._types = {kind.name: kind for kind in BUILT_IN}
        self._custom: dict[str, CustomNode] = {}
        self.mergers: dict[str, MergeFunction] = {}
        for handler in custom:
            self.add(handler)

    @classmethod
    def installed(cls, custom: Iterable[Any] = ()) -> NodeRegistry:
        """Includes the nodes of installed packages, from their `stepwell.nodes` entry points."""
        packaged: list[Callable[..., Any]] = [entry.load() for entry in entry_points(group=ENTRY_POINTS)]
        return cls([*packaged, *custom])

    def add(self, handler: Any) -> None:
        """Add a handler of `@node`, a function of `@merger`, or a NodeType."""
        name = getattr(handler, "merger_name", None)
        if isinstance(name, str):
            if self.mergers.setdefault(name, handler) is not handler:
                raise InvalidDefinition(f"two mergers are named {excerpt(name)}")
            return
        custom = getattr(handler, "custom_node", None)
        kind = handler if isinstance(handler, NodeType) else getattr(custom, "type", None)
        if not isinstance(kind, NodeType):
            raise InvalidDefinition(
                f"{excerpt(handler)} is not a node", hint='decorate the function with @node("name")'
            )
        if kind.name in self._types and self._types[kind.name] is not kind:
            raise InvalidDefinition(f"two node types are named {excerpt(kind.name)}")
        self._types[kind.name] = kind
        if isinstance(custom, CustomNode):
            self._custom[kind.name] = custom

    def get(self, name: str) -> NodeType | None:
        return self._types.get(name)

    def __iter__(self) -> Iterator[NodeType]:
        return iter(self._types.values())

    @property
    def names(self) -> list[str]:
        return list(self._types)

    def steps(self) -> dict[str, StepSpec]:
        """The steps of custom nodes, for workers that execute them from their queues."""
        return {node.spec.name: node.spec for node in self._custom.values()}


DEFAULT = NodeRegistry()
