"""Warnings: settings that have no effect, or probably not the intended one. The graph still runs.

The format allows these fields in every node, and an expression may use any name, so they are not problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stepwell.authoring.graphs.format.definition import GraphDefinition, Node
from stepwell.authoring.graphs.nodes.containers import LoopData
from stepwell.authoring.graphs.nodes.control import SetData
from stepwell.authoring.graphs.nodes.node_type import Role
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import excerpt

_SEEN = frozenset({"ctx", "run", "step"})
_SEEN_BY_MERGES = frozenset({"base", "branches"})
# Variables whose names the engine uses as well.
_HIDDEN = {
    "input": "after this node, ctx.input is no longer the input of the run",
    "error": "after an error edge, ctx.error is the failure",
    "loop": "in a loop, nodes of @node see the loop as ctx.loop",
}


def warnings(definition: GraphDefinition, compilers: Mapping[str, NodeCompiler]) -> tuple[GraphProblem, ...]:
    """All warnings, node by node, of a graph without problems."""
    problems: list[GraphProblem] = []
    nodes = {node.id: node for node in definition.nodes}
    for node in definition.nodes:
        problems += _unused(node)
        problems += _too_long(node, definition.settings.max_execution_ms)
        problems += _variables(node)
        problems += _unknown_names(node, compilers[node.id], looped=_in_a_loop(node, nodes))
    return tuple(problems)


def _unused(node: Node) -> Iterator[GraphProblem]:
    data, role, kind = node.data, node.type.role, node.type.name
    if data.queue is not None and role not in (Role.WORK, Role.CONVERSATION):
        where = "on the queue of its workflow" if role is Role.CHILD else "on the worker that has the run"
        yield _warning(
            "FIELD_UNUSED",
            f"{kind} nodes run {where}",
            node,
            "queue",
            "remove it, or set it on a work node",
        )
    if data.retry is not None and role not in (Role.WORK, Role.CHILD, Role.CONVERSATION):
        yield _warning(
            "FIELD_UNUSED", f"{kind} nodes have no attempts", node, "retry", "put it into a retry container"
        )
    if isinstance(data, LoopData) and data.batch_size is not None and data.items is None:
        yield _warning("FIELD_UNUSED", "only items are batched", node, "batchSize", "remove it, or set items")


def _too_long(node: Node, limit: int | None) -> Iterator[GraphProblem]:
    """Work counts towards the run's limit; waits, and containers that may hold some, do not."""
    timeout = node.data.timeout_ms
    if node.type.role is Role.WORK and None not in (timeout, limit) and (timeout or 0) > (limit or 0):
        message = f"the run times out first: settings.maxExecutionMs is {limit:,}"
        yield _warning(
            "TIMEOUT_UNREACHABLE", message, node, "timeoutMs", "shorten it, or raise the run's limit"
        )


def _variables(node: Node) -> Iterator[GraphProblem]:
    written = [("outputVariable", node.data.output_variable or "")]
    if isinstance(node.data, SetData):
        written += [(f"values.{name}", name) for name in node.data.values]
    for field, name in written:
        if name in _HIDDEN:
            yield _warning("VARIABLE_HIDDEN", _HIDDEN[name], node, field, "rename the variable")


def _unknown_names(node: Node, compiler: NodeCompiler, *, looped: bool) -> Iterator[GraphProblem]:
    seen = _SEEN | ({"loop"} if looped else frozenset())
    for field, names in compiler.names.items():
        fits = seen | _SEEN_BY_MERGES if node.type.role is Role.JOIN else seen
        for name in sorted(names - fits):
            message = f"there is no name {excerpt(name)} here, so it has no value"
            yield _warning("UNKNOWN_NAME", message, node, field, did_you_mean_one_of(name, fits))


def _in_a_loop(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether expressions of the node see `loop`; a loop's own fields do, except its items."""
    around: Node | None = node
    while around is not None:
        if around.type.name == "loop":
            return True
        around = nodes.get(around.parent)
    return False


def _warning(code: str, message: str, node: Node, field: str, suggestion: str) -> GraphProblem:
    return GraphProblem(code=code, message=message, node=node.id, field=field, suggestion=suggestion)
