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
)
from stepwell.authoring.graphs.nodes.node_type import NodeType, Role
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.retry import backoff_delay

MAX_DELAY = 30.0  # seconds between attempts, unless the first delay is longer
ITEMS_MAX = 100_000
WHILE_MAX = 1_000  # for a while loop without maxIterations: a mistake should end soon


class LoopData(NodeData):
    model_config = ConfigDict(json_schema_extra=exactly_one("items", "while", "times"))

    items: Source | None = None
    while_: Source | None = Field(default=None, alias="while")
    times: Annotated[int, Field(ge=0), WHOLE] | None = None
    mode: Literal["sequential", "parallel"] = "sequential"
    concurrency: Annotated[int, Field(ge=1, le=100), WHOLE] = 5
    batch_size: Annotated[int, Field(ge=1), WHOLE] | None = None
    max_iterations: Annotated[int, Field(ge=1, le=ITEMS_MAX), WHOLE] | None = None
    on_item_error: Literal["fail", "continue", "remove"] = "fail"
    break_when: Source | None = None
    collect: Source | None = None
    carry: Any = None
    carry_next: Source | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> LoopData:
        present = [self.items is not None, self.while_ is not None, self.times is not None]
        if sum(present) != 1:
            raise ValueError("give exactly one of items, while and times")
        return self


class TryData(NodeData):
    # A node of the body: it and its successors run when the rest has ended, whichever way.
    finally_: Identifier | None = Field(default=None, alias="finally")


class RetryNodeData(NodeData):
    max_attempts: Annotated[int, Field(ge=1, le=20), WHOLE] = 3
    delay_ms: Milliseconds = 1000


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
