"""Node config: a node's own data, with its templates filled in for one execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepwell.authoring.graphs.build.plan import NodePlan
from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.templates.template import Template, compile_template
from stepwell.errors import StepwellError

_SHARED = frozenset(NodeData.model_fields)
_SECRETS = "secrets."
Fill = Callable[[Mapping[str, Any], float | None], Any]


class NodeConfigs:
    """The configurations of a plan's nodes; the templates of each node are compiled once."""

    def __init__(self) -> None:
        self._fills: dict[int, Fill] = {}

    def resolved(self, node: NodePlan, scope: Mapping[str, Any], now: float | None) -> Any:
        """Return the node's own fields. Whatever cannot be filled in, or names a secret, stays as written."""
        fill = self._fills.get(id(node))
        if fill is None:
            data = node.data.model_dump(by_alias=True, exclude_unset=True, mode="json", exclude=set(_SHARED))
            fill = self._fills[id(node)] = _fill_of(data)
        return fill(scope, now)


def _fill_of(value: Any) -> Fill:
    """Return how to fill in a value. A value without templates is shared by all executions."""
    if not _has_template(value):
        return lambda scope, now: value
    if isinstance(value, dict):
        fields = {name: _fill_of(part) for name, part in value.items()}
        return lambda scope, now: {name: part(scope, now) for name, part in fields.items()}
    if isinstance(value, list):
        parts = [_fill_of(part) for part in value]
        return lambda scope, now: [part(scope, now) for part in parts]
    try:
        template = compile_template(value)
    except StepwellError:
        return lambda scope, now: value
    return lambda scope, now: _rendered(template, scope, now, value)


def _rendered(template: Template, scope: Mapping[str, Any], now: float | None, source: str) -> Any:
    try:
        return template.render(scope, now)
    except StepwellError:
        return source


def _has_template(value: Any) -> bool:
    if isinstance(value, str):
        return "{{" in value and _SECRETS not in value
    if isinstance(value, dict):
        return any(_has_template(part) for part in value.values())
    return isinstance(value, list) and any(_has_template(part) for part in value)
