"""Nodes with a body: loop, try, retry. `run.containers` and `run.loops` execute them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from stepwell.authoring.graphs.nodes.node_data import (
    WHOLE,
    Identifier,
    Milliseconds,
    NodeData,
    Source,
    exactly_one,
    field_error,
)
from stepwell.authoring.graphs.nodes.node_type import NodeType, Role
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.retry import backoff_delay

MAX_DELAY = 30.0  # seconds between attempts, unless the first delay is longer
ITEMS_MAX = 100_000
WHILE_MAX = 1_000  # for a while loop without maxIterations: a mistake should end soon


class LoopData(NodeData):
    """How often the body is repeated, and what becomes of its results."""

    model_config = ConfigDict(json_schema_extra=exactly_one("items", "while", "times"))

    items: Annotated[
        Source | None, Field(description="An expression that gives a list: the body runs for each item.")
    ] = None
    while_: Annotated[
        Source | None,
        Field(alias="while", description="An expression: the body is repeated as long as it is true."),
    ] = None
    times: Annotated[
        Annotated[int, Field(ge=0), WHOLE] | None, Field(description="How often the body runs.")
    ] = None
    mode: Annotated[
        Literal["sequential", "parallel"],
        Field(description="Whether iterations run one after the other or at the same time."),
    ] = "sequential"
    concurrency: Annotated[
        int,
        Field(ge=1, le=100, description="In mode parallel, how many iterations run at the same time."),
        WHOLE,
    ] = 5
    batch_size: Annotated[
        Annotated[int, Field(ge=1), WHOLE] | None,
        Field(description="Give the body lists of this many items instead of one item."),
    ] = None
    max_iterations: Annotated[
        Annotated[int, Field(ge=1, le=ITEMS_MAX), WHOLE] | None,
        Field(description="More iterations fail with LOOP_LIMIT."),
    ] = None
    on_item_error: Annotated[
        Literal["fail", "continue", "remove"],
        Field(
            description="What a failed iteration does: fail the loop, leave null in its result, or leave "
            "nothing there."
        ),
    ] = "fail"
    break_when: Annotated[
        Source | None,
        Field(description="An expression: the loop ends after an iteration for which it is true."),
    ] = None
    collect: Annotated[
        Source | None,
        Field(description="An expression: what is kept of each iteration, instead of its last output."),
    ] = None
    carry: Annotated[
        Any,
        Field(description="What the first iteration sees as loop.carry: an expression, or any other JSON."),
    ] = None
    carry_next: Annotated[
        Source | None, Field(description="An expression: what the next iteration sees as loop.carry.")
    ] = None

    @model_validator(mode="after")
    def _one_kind(self) -> LoopData:
        present = [self.items is not None, self.while_ is not None, self.times is not None]
        if sum(present) != 1:
            message = "a loop goes over items, while a condition holds, or a number of times"
            raise field_error("items", message, "give exactly one of items, while and times")
        return self


class TryData(NodeData):
    """Nodes whose failure is handled inside the graph."""

    finally_: Annotated[
        Identifier | None,
        Field(
            alias="finally",
            description="A node of the body: it and what follows run last, even if the rest fails.",
        ),
    ] = None


class RetryNodeData(NodeData):
    """How often a body of nodes is tried as a whole."""

    max_attempts: Annotated[
        int, Field(ge=1, le=20, description="Attempts of the body, the first included."), WHOLE
    ] = 3
    delay_ms: Annotated[
        Milliseconds, Field(description="The delay before the second attempt; it doubles each time.")
    ] = 1000


class Loop:
    def __init__(self, data: LoopData, compiler: NodeCompiler) -> None:
        self.items = compiler.optional(data.items, "items")
        self.condition = compiler.optional(data.while_, "while")
        self.times = data.times
        self.width = data.concurrency if data.mode == "parallel" else 1
        self.batch = data.batch_size
        self.limit = data.max_iterations or (WHILE_MAX if data.while_ is not None else ITEMS_MAX)
        self.on_error = data.on_item_error
        self.break_when = compiler.optional(data.break_when, "breakWhen")
        self.collect = compiler.optional(data.collect, "collect")
        # A string is an expression, as everywhere in a loop; any other JSON is the value itself.
        self.carry = compiler.expression(data.carry, "carry") if isinstance(data.carry, str) else None
        self.carry_value = None if isinstance(data.carry, str) else data.carry
        self.carry_next = compiler.optional(data.carry_next, "carryNext")
        if data.mode == "parallel" and data.break_when is not None:
            compiler.problem(
                "BREAK_IN_PARALLEL_LOOP",
                "a parallel loop has no order, so it cannot break",
                "breakWhen",
                "use mode sequential, or remove breakWhen",
            )
        if data.mode == "parallel" and (data.carry_next is not None or data.while_ is not None):
            compiler.problem(
                "CARRY_IN_PARALLEL_LOOP",
                "a parallel loop has no previous iteration",
                "carryNext" if data.carry_next is not None else "while",
                "use mode sequential",
            )


class Try:
    def __init__(self, data: TryData, compiler: NodeCompiler) -> None:
        pass


class RetryBody:
    """The fields of `Retry` that a retry container has; its backoff is exponential."""

    def __init__(self, data: RetryNodeData, compiler: NodeCompiler) -> None:
        self.attempts = data.max_attempts
        self.delay = data.delay_ms / 1000
        self.max_delay = max(MAX_DELAY, self.delay)

    def wait_after(self, attempt: int) -> float:
        return backoff_delay(self.delay, "exponential", attempt, self.max_delay)


CONTAINERS = (
    NodeType(
        name="loop", data=LoopData, role=Role.CONTAINER, compile=Loop, text="runs its body for each item"
    ),
    NodeType(
        name="try",
        data=TryData,
        role=Role.CONTAINER,
        compile=Try,
        handles=lambda data: frozenset({"out", "catch"}),
        text="catches failures in its body",
    ),
    NodeType(
        name="retry",
        data=RetryNodeData,
        role=Role.CONTAINER,
        compile=RetryBody,
        text="runs its body again when it fails",
    ),
)
