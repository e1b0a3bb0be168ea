"""NodeRegistry: the types of nodes that a graph may use. Unknown types are refused, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from typing import Any

from stepwell.authoring.graphs.nodes.containers import CONTAINERS
from stepwell.authoring.graphs.nodes.control import CONTROL
from stepwell.authoring.graphs.nodes.join import MERGE
from stepwell.authoring.graphs.nodes.node_type import NodeType
from stepwell.authoring.graphs.nodes.steps import CALL, CustomNode
from stepwell.authoring.graphs.nodes.subworkflow import WORKFLOW
from stepwell.authoring.graphs.nodes.waits import WAITING
from stepwell.authoring.graphs.templates.node_compiler import MergeFunction
from stepwell.domain.steps import StepSpec
from stepwell.errors import InvalidDefinition, excerpt

ENTRY_POINTS = "stepwell.nodes"
ALIASES = {"join": "merge", "wait_event": "wait", "data_query": "query", "subworkflow": "workflow"}
BUILT_IN: tuple[NodeType, ...] = (*CONTROL, *WAITING, MERGE, *CONTAINERS, CALL, WORKFLOW)


class NodeRegistry:
    def __init__(self, custom: Iterable[Any] = ()) -> None:
        self._types = {made.name: made for made in BUILT_IN}
        self._custom: dict[str, CustomNode] = {}
        self.mergers: dict[str, MergeFunction] = {}
        for handler in custom:
            self.add(handler)

    @classmethod
    def installed(cls, custom: Iterable[Any] = ()) -> NodeRegistry:
        """With the nodes of installed packages, which name theirs under `stepwell.nodes`."""
        found: list[Callable[..., Any]] = [entry.load() for entry in entry_points(group=ENTRY_POINTS)]
        return cls([*found, *custom])

    def add(self, handler: Any) -> None:
        """A handler of `@node`, a function of `@merger`, or a NodeType."""
        name = getattr(handler, "merger_name", None)
        if isinstance(name, str):
            if self.mergers.setdefault(name, handler) is not handler:
                raise InvalidDefinition(f"two mergers are called {excerpt(name)}")
            return
        made = getattr(handler, "custom_node", None)
        found = handler if isinstance(handler, NodeType) else getattr(made, "type", None)
        if not isinstance(found, NodeType):
            raise InvalidDefinition(
                f"{excerpt(handler)} is no node", hint='decorate the function with @node("name")'
            )
        if found.name in self._types and self._types[found.name] is not found:
            raise InvalidDefinition(f"two types of nodes are called {excerpt(found.name)}")
        self._types[found.name] = found
        if isinstance(made, CustomNode):
            self._custom[found.name] = made

    def get(self, name: str) -> NodeType | None:
        return self._types.get(name)

    def __iter__(self) -> Iterator[NodeType]:
        return iter(self._types.values())

    @property
    def names(self) -> list[str]:
        return list(self._types)

    def steps(self) -> dict[str, StepSpec]:
        """What a worker needs to execute custom nodes that were placed on one of its queues."""
        return {made.spec.name: made.spec for made in self._custom.values()}


DEFAULT = NodeRegistry()
