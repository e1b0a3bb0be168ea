"""merge: a join of branches (alias `join`). `run.join_rules` decides when it fires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from stepwell.authoring.graphs.nodes.node_data import (
    WHOLE,
    NodeData,
    Source,
    exactly_one,
    field_error,
    needed_by,
)
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
    """When branches are joined, and what becomes of their variables."""

    model_config = ConfigDict(json_schema_extra={**_MODES, **_CUSTOM})

    mode: Annotated[
        Mode, Field(description="What it waits for: all branches, any one, a count of them, or a time.")
    ] = "all"
    count: Annotated[
        Annotated[int, Field(ge=1), WHOLE] | None,
        Field(description="In mode count, how many branches must arrive."),
    ] = None
    require_all: Annotated[
        bool, Field(description="In mode all, whether a branch that was not taken counts as missing.")
    ] = False
    min_arrivals: Annotated[
        int, Field(ge=0, description="In mode timeout, how many branches must have arrived by then."), WHOLE
    ] = 1
    on_unsatisfied: Annotated[
        Literal["fail", "proceed", "skip"],
        Field(description="What happens if too few branches arrive: fail, go on, or skip what follows."),
    ] = "fail"
    on_late: Annotated[
        Literal["cancel", "ignore"],
        Field(description="What happens to branches that still work when it goes on."),
    ] = "cancel"
    strategy: Annotated[
        Strategy, Field(description="Which value a variable gets that several branches have set.")
    ] = "merge-all"
    on_conflict: Annotated[
        Literal["edge-order", "error"],
        Field(description="With merge-all: whether the later edge wins, or different values are an error."),
    ] = "edge-order"
    custom: Annotated[
        Source | None, Field(description="With strategy custom: an expression that gives the variables.")
    ] = None
    function: Annotated[
        str | None, Field(description="With strategy custom: the name of a function of @merger instead.")
    ] = None
    error_strategy: Annotated[
        ErrorStrategy | None, Field(description="What a failed branch does: end the join, or be collected.")
    ] = None
    min_successful: Annotated[
        int,
        Field(
            ge=1,
            validation_alias=AliasChoices("minSuccessful", "minSuccessfulBranches", "min_successful"),
            description="With best-effort: how many branches must succeed.",
        ),
        WHOLE,
    ] = 1

    @model_validator(mode="after")
    def _complete(self) -> MergeData:
        if self.mode == "count" and self.count is None:
            raise field_error("count", "mode count needs count", "say how many branches are enough")
        if self.mode == "timeout" and self.timeout_ms is None:
            raise field_error("timeoutMs", "mode timeout needs timeoutMs", "say how long it waits")
        if self.strategy == "custom" and (self.custom is None) == (self.function is None):
            message = "strategy custom needs an expression, or the name of a function"
            raise field_error("custom", message, "give either custom or function")
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
