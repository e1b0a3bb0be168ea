"""merge: a join of branches (alias `join`). `run.join_rules` decides when it fires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from stepwell.authoring.graphs.nodes.node_data import WHOLE, NodeData, Source, exactly_one, needed_by
from stepwell.authoring.graphs.nodes.node_type import NodeType, Role
from stepwell.authoring.graphs.templates.node_compiler import MergeFunction, NodeCompiler
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import excerpt

Mode = Literal["all", "any", "count", "timeout"]
Strategy = Literal["merge-all", "last-write", "first-write", "custom"]
ErrorStrategy = Literal["fail-fast", "collect-all", "best-effort"]


_CUSTOM = {
    "if": {"properties": {"strategy": {"const": "custom"}}, "required": ["strategy"]},
    "then": exactly_one("custom", "function"),
}
_MODES = needed_by("mode", count="count", timeout="timeoutMs")


class MergeData(NodeData):
    model_config = ConfigDict(json_schema_extra={**_MODES, **_CUSTOM})

    mode: Mode = "all"
    count: Annotated[int, Field(ge=1), WHOLE] | None = None
    require_all: bool = False
    min_arrivals: Annotated[int, Field(ge=0), WHOLE] = 1
    on_unsatisfied: Literal["fail", "proceed", "skip"] = "fail"
    on_late: Literal["cancel", "ignore"] = "cancel"
    strategy: Strategy = "merge-all"
    on_conflict: Literal["edge-order", "error"] = "edge-order"
    custom: Source | None = None
    function: str | None = None  # a function of `@merger`, instead of `custom`
    error_strategy: ErrorStrategy | None = None
    min_successful: Annotated[int, Field(ge=1), WHOLE] = Field(
        default=1, validation_alias=AliasChoices("minSuccessful", "minSuccessfulBranches", "min_successful")
    )

    @model_validator(mode="after")
    def _complete(self) -> MergeData:
        if self.mode == "count" and self.count is None:
            raise ValueError("mode count needs count")
        if self.mode == "timeout" and self.timeout_ms is None:
            raise ValueError("mode timeout needs timeoutMs")
        if self.strategy == "custom" and (self.custom is None) == (self.function is None):
            raise ValueError("strategy custom needs custom, an expression, or function, a name")
        return self


class Merge:
    """A join's settings, as the frontier reads them."""

    def __init__(self, data: MergeData, compiler: NodeCompiler) -> None:
        self.mode = data.mode
        self.count = data.count or 1
        self.require_all = data.require_all
        self.min_arrivals = data.min_arrivals
        self.on_unsatisfied = data.on_unsatisfied
        self.cancels = data.on_late == "cancel"
        self.strategy = data.strategy
        self.conflict_fails = data.on_conflict == "error"
        self.custom = compiler.optional(data.custom, "custom")
        self.function = self._function(data.function, compiler)
        self.errors: ErrorStrategy = data.error_strategy or (
            "best-effort" if data.mode in ("any", "count") else "fail-fast"
        )
        self.min_successful = data.min_successful
        self.timeout = data.timeout_seconds(None)

    def _function(self, name: str | None, compiler: NodeCompiler) -> MergeFunction | None:
        function = None if name is None else compiler.mergers.get(name)
        if name is not None and function is None:
            suggestion = did_you_mean_one_of(name, compiler.mergers) or "register it: Engine(nodes=[...])"
            compiler.problem(
                "UNKNOWN_FUNCTION", f"there is no merger {excerpt(name)}", "function", suggestion
            )
        return function


def merger(name: str) -> Callable[[MergeFunction], MergeFunction]:
    """Declare a function that merges branches: `@merger("cheapest")`, for `"function": "cheapest"`.

    It takes the variables before the fork and the branches, `{"source", "delta"}` each in the order of
    their edges, and returns the variables to write. Replay calls it again: it must be deterministic and
    free of side effects.
    """

    def decorate(function: MergeFunction) -> MergeFunction:
        function.merger_name = name  # type: ignore[attr-defined]  # read by the registry
        return function

    return decorate


MERGE = NodeType(
    name="merge",
    data=MergeData,
    role=Role.JOIN,
    compile=Merge,
    handles=lambda data: frozenset({"out", "timeout", "error"}),
    text="waits for branches and merges their variables",
)
