"""Nodes that are decided at once, without a command: start, end, fork, condition, switch, set, transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.authoring.graphs.nodes.node_data import (
    NAMED,
    WRITABLE_NAMES,
    Identifier,
    NodeData,
    Source,
    Strict,
    Variable,
    WritableName,
    field_error,
    present,
)
from stepwell.authoring.graphs.nodes.node_type import DONE, ExpressionScope, NodeOutcome, NodeType, Now, Role
from stepwell.authoring.graphs.templates.json_equality import equal
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.errors import excerpt


class StartData(NodeData):
    """Where a run begins."""

    input_schema: Annotated[
        dict[str, Any] | None, Field(description="A JSON Schema that the input of each run must fit.")
    ] = None


class EndData(NodeData):
    """Where a run ends."""

    output: Annotated[
        dict[Variable, Any],
        NAMED,
        Field(description="The result of the run, by name; values may have {{ }}."),
    ] = Field(default_factory=dict)
    terminate: Annotated[
        bool,
        Field(description="Whether reaching this node ends the run, although other branches still work."),
    ] = False


class ForkData(NodeData):
    pass


class Branch(Strict):
    """A way out of a condition."""

    id: Annotated[Identifier, Field(description="The handle that edges leave from.")]
    when: Annotated[Source, Field(description="An expression: the branch is taken if it is true.")]


class ConditionData(NodeData):
    """Which ways the run takes, by expressions."""

    branches: Annotated[
        list[Branch],
        Field(
            min_length=1,
            max_length=50,
            description="The branches, asked in this order; the handle `else` is taken if none is true.",
        ),
    ]
    match: Annotated[
        Literal["first", "all"], Field(description="Whether the first true branch is taken, or all of them.")
    ] = "first"


class SwitchCase(Strict):
    """One case of a switch: a value to compare with, or an expression."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["equals"]}, present("when")]})

    id: Annotated[Identifier, Field(description="The handle that edges leave from.")]
    equals: Annotated[Any, Field(description="The case is taken if the value equals this.")] = None
    when: Annotated[
        Source | None, Field(description="Instead of equals: an expression that is true for the case.")
    ] = None

    @model_validator(mode="after")
    def _one_of_two(self) -> SwitchCase:
        if ("equals" in self.model_fields_set) == (self.when is not None):
            message = "a case compares with a value, or asks an expression"
            raise field_error("equals", message, "give either equals or when")
        return self


class SwitchData(NodeData):
    """Which way the run takes, by a value."""

    value: Annotated[Source, Field(description="An expression; the cases are compared with its value.")]
    cases: Annotated[
        list[SwitchCase],
        Field(min_length=1, max_length=50, description="The cases, asked in this order."),
    ]
    strict: Annotated[
        bool,
        Field(description="Whether a value without a case fails, unless the handle `default` is connected."),
    ] = False


class SetData(NodeData):
    """Variables that later nodes see in ctx."""

    values: Annotated[
        dict[WritableName, Any],
        WRITABLE_NAMES,
        Field(description="The variables by name; values may have {{ }}."),
    ]


class TransformData(NodeData):
    """A value computed of others."""

    expression: Annotated[Source, Field(description="An expression; its value is the output.")]


class Pass:
    """A node that does nothing."""

    def settle(self, scope: ExpressionScope, now: Now, connected: frozenset[str]) -> NodeOutcome:
        return DONE


class Start:
    def __init__(self, data: StartData, compiler: NodeCompiler) -> None:
        compiler.schema(data.input_schema, "inputSchema")

    def settle(self, scope: ExpressionScope, now: Now, connected: frozenset[str]) -> NodeOutcome:
        return NodeOutcome(output=scope["ctx"].get("input"))


class End:
    def __init__(self, data: EndData, compiler: NodeCompiler) -> None:
        self._output = compiler.template(data.output, "output") if data.output else None
        self._terminate = data.terminate

    def settle(self, scope: ExpressionScope, now: Now, connected: frozenset[str]) -> NodeOutcome:
        output = {} if self._output is None else self._output.render(scope, now)
        return NodeOutcome((), output, terminate=self._terminate)

    def pinned(self, value: Any) -> NodeOutcome:
        return NodeOutcome((), value, terminate=self._terminate)


class Condition:
    def __init__(self, data: ConditionData, compiler: NodeCompiler) -> None:
        self._all = data.match == "all"
        self._branches = [
            ((branch.id,), compiler.expression(branch.when, f"branches.{i}.when"))
            for i, branch in enumerate(data.branches)
        ]

    def settle(self, scope: ExpressionScope, now: Now, connected: frozenset[str]) -> NodeOutcome:
        handles: tuple[str, ...] = ()
        for handle, when in self._branches:
            if when.truth(scope, now):
                if not self._all:
                    return NodeOutcome(handle, handle[0])
                handles += handle
        handles = handles or ("else",)
        return NodeOutcome(handles, list(handles) if self._all else handles[0])

    def pinned(self, value: Any) -> NodeOutcome:
        return NodeOutcome(
            named_handles(value, [*(branch[0][0] for branch in self._branches), "else"]), value
        )


class Switch:
    def __init__(self, data: SwitchData, compiler: NodeCompiler) -> None:
        self._strict = data.strict
        self._value = compiler.expression(data.value, "value")
        self._cases = [
            (case, compiler.optional(case.when, f"cases.{i}.when")) for i, case in enumerate(data.cases)
        ]

    def settle(self, scope: ExpressionScope, now: Now, connected: frozenset[str]) -> NodeOutcome:
        value = self._value.evaluate(scope, now)
        for case, when in self._cases:
            if when.truth(scope, now) if when is not None else equal(value, case.equals):
                return NodeOutcome((case.id,), case.id)
        if self._strict and "default" not in connected:
            raise NodeError(
                "NO_CASE_MATCHED",
                f"no case matches {excerpt(value)}",
                hint="add a case, connect the default handle, or switch strict off",
                config=True,
            )
        return NodeOutcome(("default",), "default")

    def pinned(self, value: Any) -> NodeOutcome:
        return NodeOutcome(named_handles(value, [*(case.id for case, _ in self._cases), "default"]), value)


class Set:
    def __init__(self, data: SetData, compiler: NodeCompiler) -> None:
        self._values = compiler.template(data.values, "values")

    def settle(self, scope: ExpressionScope, now: Now, connected: frozenset[str]) -> NodeOutcome:
        values = self._values.render(scope, now)
        return NodeOutcome(output=values, writes=values)

    def pinned(self, value: Any) -> NodeOutcome:
        return NodeOutcome(output=value, writes=value if isinstance(value, dict) else None)


class Transform:
    def __init__(self, data: TransformData, compiler: NodeCompiler) -> None:
        self._expression = compiler.expression(data.expression, "expression")

    def settle(self, scope: ExpressionScope, now: Now, connected: frozenset[str]) -> NodeOutcome:
        return NodeOutcome(output=self._expression.evaluate(scope, now))


def named_handles(pinned: Any, handles: Sequence[str]) -> tuple[str, ...]:
    """The handles that the pinned data of a routing node selects: one handle, or a list."""
    named = tuple(pinned) if isinstance(pinned, list) else (pinned,)
    if not named or not all(name in handles for name in named):
        raise NodeConfigError("the pinned data does not name a handle", hint=f"pin {' or '.join(handles)}")
    return named


def _pure(name: str, data: type[NodeData], behaviour: Any, text: str, handles: Any = None) -> NodeType:
    options = {} if handles is None else {"handles": handles}
    return NodeType(name=name, data=data, role=Role.PURE, compile=behaviour, text=text, **options)


CONTROL = (
    _pure("start", StartData, Start, "where a run begins"),
    _pure("end", EndData, End, "collects the run's output", lambda data: frozenset()),
    _pure("fork", ForkData, lambda data, compiler: Pass(), "starts branches that run concurrently"),
    _pure(
        "condition",
        ConditionData,
        Condition,
        "takes the first branch that is true (or all of them)",
        lambda data: frozenset({*(branch.id for branch in data.branches), "else", "error"}),
    ),
    _pure(
        "switch",
        SwitchData,
        Switch,
        "takes the case that equals a value",
        lambda data: frozenset({*(case.id for case in data.cases), "default", "error"}),
    ),
    _pure("set", SetData, Set, "writes variables"),
    _pure("transform", TransformData, Transform, "computes a value"),
)
