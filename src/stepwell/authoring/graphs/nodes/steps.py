"""Nodes that become steps: `call`, custom nodes of `@node`, and those that a worker provides."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeOutcome, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import DEFAULT, NodeRetry, retry_of
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.codec import PAYLOAD_BYTES_MAX, PLAIN
from stepwell.domain.duration import Duration, timeout_seconds
from stepwell.domain.program import StepContext
from stepwell.domain.retry import Retry
from stepwell.domain.steps import STEP_TIMEOUT, StepSpec, parameter_codecs
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import NotSerialisable, excerpt

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class NodeResult:
    """A handler's output with a handle or a delay; a bare output works too."""

    output: Any = None
    handle: str = "out"
    delay: float = 0.0  # seconds before the next nodes start


class Helpers(msgspec.Struct, frozen=True, gc=False):
    """Facts about the current execution, for handlers."""

    run_id: str
    node: str
    key: str  # the same for every attempt: an idempotency key for external services
    attempt: int
    step: StepContext

    def details(self, **values: Any) -> None:
        """Show something beside the output in the trace: `helpers.details(status=200)`; 4 KiB at most."""
        self.step.details(**values)

    def usage(self, *, input_tokens: int = 0, output_tokens: int = 0, cost: float = 0.0) -> None:
        """Count what a model used, on the node and on the run; several calls add up."""
        self.step.usage(input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)


class StepNode(Protocol):
    """A node that becomes a step."""

    spec: StepSpec

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the step. Errors here are the author's: nothing was executed."""
        ...

    def outcome(self, result: bytes | msgspec.Raw) -> NodeOutcome: ...


class ResultCodec:
    """A node's result in the log: its output, and the handle and delay unless they are the defaults."""

    def encode(self, value: object) -> bytes:
        if isinstance(value, NodeResult):
            body: dict[str, Any] = {"output": value.output}
            if value.handle != "out":
                body["handle"] = value.handle
            if value.delay:
                body["delay"] = value.delay
        else:
            body = {"output": value}
        try:
            data = PLAIN.encode(body)
        except NotSerialisable as error:
            raise NodeError("OUTPUT_NOT_JSON", error.message, hint=error.hint, config=True) from None
        if len(data) > PAYLOAD_BYTES_MAX:
            raise NodeError(
                "OUTPUT_TOO_LARGE",
                f"the output is {len(data):,} bytes; the limit is {PAYLOAD_BYTES_MAX:,}",
                hint="store large data elsewhere and return a reference",
                config=True,
            )
        return data

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        return PLAIN.decode(data)

    def schema(self) -> dict[str, Any] | bool:
        return True


RESULTS = ResultCodec()


def outcome_of(result: bytes | msgspec.Raw) -> NodeOutcome:
    body = PLAIN.decode(result)
    return NodeOutcome((body.get("handle", "out"),), body["output"], None, body.get("delay", 0.0))


# steps that workers provide

OF_NODES = "node:"  # how the names of the steps begin that nodes bring
_REGISTER = "register it: Engine(steps=[...]); a command that has no code of yours saves it with --server"
_LATE = 5.0  # the step's own timeout: what carries it out ends the work before


def provided_step(name: str, data: NodeData, *, retry: Retry, seconds: float) -> StepSpec:
    """Return the step of a built-in node that every worker carries out itself: `handlers` has its function.

    `retry` is the default of the node type; `seconds` is when the function ends the work by itself.
    """
    return StepSpec(
        name=name,
        function=_without_worker,
        retry=retry_of(data.retry, retry),
        timeout=seconds + _LATE,
        queue=data.queue or "",
        is_async=True,
        wants_context=True,
        returns=RESULTS,
        provided=True,
    )


def providing_step(name: str, function: Callable[[StepContext, dict[str, Any]], Awaitable[Any]]) -> StepSpec:
    """Return the same step with its function, as a worker has it."""
    return StepSpec(name=name, function=function, is_async=True, wants_context=True, returns=RESULTS)


async def _without_worker(*args: Any) -> None:
    """Stand for the function that the worker provides."""
    raise NodeConfigError(
        "this run has no worker that executes the node",
        code="NODE_UNSERVED",
        hint="run the graph with an Engine",
    )


class CustomWork:
    """A node of `@node`; its data is a template of its configuration."""

    def __init__(self, custom: CustomNode, data: NodeData, compiler: NodeCompiler) -> None:
        self._custom = custom
        self._node = compiler.node
        config = custom.config_of(data)
        self._template = compiler.template(config, "")
        if custom.config is not None and "{{" not in str(config):
            try:
                custom.config.model_validate(config)
            except ValidationError as error:
                for fault in error.errors():
                    field = ".".join(str(part) for part in fault["loc"])
                    compiler.problem("INVALID_DATA", fault["msg"], field)
        self.spec = replace(
            custom.spec,
            retry=retry_of(data.retry, custom.retry),
            timeout=data.timeout_seconds(custom.timeout),
            queue=data.queue or "",
        )

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        config = self._template.render(scope, now)
        if self._custom.config is not None:
            try:
                self._custom.config.model_validate(config)
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"])
                raise NodeConfigError(f"{first['msg']} at {field}", code="NODE_CONFIG") from None
        context = dict(scope["ctx"])
        if scope.get("loop") is not None:
            context["loop"] = scope["loop"]
        return (self._node, config, context), {}

    outcome = staticmethod(outcome_of)


class _AnyConfig(NodeData):
    model_config = ConfigDict(extra="allow")


class CustomNode:
    """A node type written in Python."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        *,
        config: type[BaseModel] | None,
        handles: tuple[str, ...],
        retry: Retry,
        timeout: float | None,
    ) -> None:
        self.handler = handler
        self.config = config
        self.retry = retry
        self.timeout = timeout
        self._shared = set(NodeData.model_fields) | {
            str(field.alias) for field in NodeData.model_fields.values() if field.alias
        }
        self.spec = StepSpec(
            name=f"{OF_NODES}{name}",
            function=_executed(handler, frozenset({*handles, "error"})),
            retry=retry,
            timeout=timeout,
            is_async=inspect.iscoroutinefunction(handler),
            wants_context=True,
            returns=RESULTS,
        )
        text = (handler.__doc__ or "").strip().splitlines()
        self.type = NodeType(
            name=name,
            data=_AnyConfig,
            role=Role.WORK,
            compile=self._compile,
            handles=lambda data: frozenset({*handles, "error"}),
            text=text[0] if text else "",
        )

    def config_of(self, data: NodeData) -> dict[str, Any]:
        """The node's own fields, without the shared ones."""
        return dict(data.model_extra or {})

    def _compile(self, data: NodeData, compiler: NodeCompiler) -> CustomWork:
        fields = self.fields()
        if fields is not None:
            for name in self.config_of(data):
                if name not in fields:
                    compiler.problem(
                        "INVALID_DATA",
                        "this node type has no such field",
                        name,
                        f"it has: {', '.join(fields)}",
                    )
        return CustomWork(self, data, compiler)

    def fields(self) -> list[str] | None:
        if self.config is None or self.config.model_config.get("extra") == "allow":
            return None
        return [field.alias or name for name, field in self.config.model_fields.items()]


def _executed(handler: Handler, handles: frozenset[str]) -> Handler:
    """The step around a handler: `(config, ctx, helpers)` of the node contract."""

    async def execute(step: StepContext, node: str, config: Any, context: Any) -> Any:
        helpers = Helpers(step.run_id, node, step.key, step.attempt, step)
        result = await handler(config, context, helpers)
        if isinstance(result, NodeResult):
            _check_result(result, handles)
        return result

    def execute_plainly(step: StepContext, node: str, config: Any, context: Any) -> Any:
        helpers = Helpers(step.run_id, node, step.key, step.attempt, step)
        result = handler(config, context, helpers)
        if isinstance(result, NodeResult):
            _check_result(result, handles)
        return result

    return execute if inspect.iscoroutinefunction(handler) else execute_plainly


def _check_result(result: NodeResult, handles: frozenset[str]) -> None:
    """An undeclared handle has no edges, so the run would end as if it had succeeded."""
    if result.handle not in handles:
        raise NodeConfigError(
            f"the handler chose the handle {excerpt(result.handle)}",
            code="UNKNOWN_HANDLE",
            hint=f'it has: {", ".join(sorted(handles))}; declare others: @node(..., handles=("out", ...))',
        )
    delay: Any = result.delay  # user code need not follow our types
    if type(delay) not in (int, float) or not delay >= 0:
        raise NodeConfigError(f"the handler's delay is {excerpt(delay)}", hint="give seconds, zero or more")


# call


class CallData(NodeData):
    """A step of a Python program."""

    step: Annotated[str, Field(description="The name of the step.")]
    args: Annotated[
        dict[str, Any] | list[Any],
        Field(description="Its arguments, by name or in order; values may have {{ }}."),
    ] = Field(default_factory=dict)


class CallWork:
    """A registered Python step, called with rendered arguments."""

    def __init__(self, data: CallData, compiler: NodeCompiler) -> None:
        self._args = compiler.template(data.args, "args")
        known = {name: spec for name, spec in (compiler.steps or {}).items() if not name.startswith(OF_NODES)}
        spec = known.get(data.step)
        if spec is None:
            spec = StepSpec(name=data.step, function=_missing)
            suggestion = did_you_mean_one_of(data.step, known) if known else _REGISTER
            if data.step.startswith(OF_NODES):  # their node checks what they are given when it is saved
                suggestion = f"use a {data.step.removeprefix(OF_NODES)} node"
            if compiler.steps is not None or data.step.startswith(OF_NODES):
                compiler.problem("UNKNOWN_STEP", f"there is no step {excerpt(data.step)}", "step", suggestion)
        self._codecs = {} if spec.function is _missing else parameter_codecs(spec)
        self.spec = replace(
            spec,
            retry=retry_of(data.retry, spec.retry),
            timeout=data.timeout_seconds(spec.timeout),
            queue=data.queue or spec.queue,
        )

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = self._args.render(scope, now)
        names = list(self._codecs)
        if isinstance(args, list):
            typed = [
                self._typed(names[i], value) if i < len(names) else value for i, value in enumerate(args)
            ]
            return tuple(typed), {}
        return (), {name: self._typed(name, value) for name, value in args.items()}

    def _typed(self, name: str, value: Any) -> Any:
        """Convert JSON to the parameter's type."""
        codec = self._codecs.get(name, PLAIN)
        return value if codec is PLAIN else codec.decode(PLAIN.encode(value))

    def outcome(self, result: bytes | msgspec.Raw) -> NodeOutcome:
        return NodeOutcome(output=PLAIN.decode(result))


def _missing(*args: Any, **kwargs: Any) -> None:
    raise NodeConfigError("this worker has no such step", code="UNKNOWN_STEP", hint="Engine(steps=[...])")


CALL = NodeType(
    name="call", data=CallData, role=Role.WORK, compile=CallWork, text="calls a registered Python step"
)


def node(
    name: str,
    *,
    config: type[BaseModel] | None = None,
    handles: tuple[str, ...] = ("out",),
    retry: Retry = DEFAULT,
    timeout: Duration | None = STEP_TIMEOUT,
) -> Callable[[Handler], Handler]:
    """Declare a node type: `@node("shopify:create_order", config=Order)`.

    The handler takes (config, ctx, helpers) and returns its output, or a `NodeResult` with a handle and
    a delay. It runs at least once, up to three times unless `retry` says otherwise.
    """
    limit = timeout_seconds(timeout)

    def decorate(handler: Handler) -> Handler:
        custom = CustomNode(name, handler, config=config, handles=handles, retry=retry, timeout=limit)
        handler.custom_node = custom  # type: ignore[attr-defined]  # read by the registry
        return handler

    return decorate


__all__ = [
    "CALL",
    "RESULTS",
    "CustomNode",
    "Helpers",
    "NodeResult",
    "NodeRetry",
    "StepNode",
    "node",
    "outcome_of",
    "provided_step",
    "providing_step",
]
