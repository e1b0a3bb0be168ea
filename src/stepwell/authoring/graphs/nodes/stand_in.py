"""Stand-ins for node types and merge functions that a reader of runs does not have.

A reader has the stored graph and the log, which contains the result of every custom node. All readers treat
custom nodes this way, whether they have their code or not, so that all see the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.nodes.steps import outcome_of
from stepwell.authoring.graphs.templates.node_compiler import MergeFunction, NodeCompiler
from stepwell.domain.steps import StepSpec


class StandInData(NodeData):
    model_config = ConfigDict(extra="allow")


class StandInWork:
    """A node whose results are read from the log, and which never runs."""

    def __init__(self, data: NodeData, compiler: NodeCompiler) -> None:
        self.spec = StepSpec(name=compiler.node, function=_never)

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {}

    outcome = staticmethod(outcome_of)


def _never(*args: Any) -> None:
    raise AssertionError("a stand-in does not run")


class AnyHandle(frozenset[str]):
    """The handles of an unknown type: every name may be one."""

    def __contains__(self, handle: object) -> bool:
        return True


class ReadingRegistry(NodeRegistry):
    """The built-in types, and a stand-in for every other type."""

    def __init__(self) -> None:
        super().__init__()
        self.mergers = StandInMergers()

    def get(self, name: str) -> NodeType | None:
        known = super().get(name)
        if known is not None:
            return known
        return NodeType(
            name=name,
            data=StandInData,
            role=Role.WORK,
            compile=StandInWork,
            handles=lambda data: AnyHandle({"out", "error"}),
        )


class StandInMergers(dict[str, MergeFunction]):
    """Merges as well as a reader can: what each branch wrote, in the order of the branches."""

    def get(self, name: str, default: Any = None) -> MergeFunction:
        return _merged


def _merged(base: Mapping[str, Any], branches: list[dict[str, Any]]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for branch in branches:
        written.update(branch["delta"])
    return written
