"""@workflow: a workflow written as a function of (ctx, input)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, NoReturn, Protocol, TypeVar, overload

import msgspec

from stepwell.authoring.context_parameter import context_mismatch
from stepwell.authoring.decorator import declares
from stepwell.authoring.title import described
from stepwell.domain.codec import Codec, canonical, codec_for, digest
from stepwell.domain.commit import Definition
from stepwell.domain.duration import Duration, timeout_seconds
from stepwell.domain.limits import checked_concurrency
from stepwell.domain.program import OnFailure, RunOptions, checked_on_failure
from stepwell.domain.steps import annotations_of, checked_name
from stepwell.domain.triggers.declared import DeclaredTrigger, checked_declared
from stepwell.domain.whole_numbers import checked_priority
from stepwell.errors import InvalidDefinition, InvalidInput, excerpt

In = TypeVar("In")
R = TypeVar("R")


class Workflow(Generic[In, R]):
    """A workflow takes one input of type In and returns an R."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        version: str,
        options: RunOptions,
        title: str = "",
        triggers: Iterable[DeclaredTrigger] = (),
    ) -> None:
        self._takes_input = takes_input(function)
        self.default_input: Any = default_input(function)  # for a start without input
        functools.update_wrapper(self, function)
        self._function = function
        self.sync = not inspect.iscoroutinefunction(function)
        self.options = options
        if not name and function.__name__ == "<lambda>":
            raise InvalidDefinition(
                "a workflow needs a name", hint='@workflow(name="fulfil"), or write a `def`'
            )
        self._name = checked_name(name or function.__name__)
        self._version = checked_name(version, "a version")
        self.triggers = checked_declared(triggers, f"workflow {self._name}")
        self._title, self._description = described(function.__doc__, title)
        self._definition: Definition | None = None

    @functools.cached_property
    def _types(self) -> tuple[Codec, Codec]:
        """Resolved at first use, so that types may be defined further down in the module."""
        hints = annotations_of(self._function)
        names = list(inspect.signature(self._function).parameters)
        input = hints.get(names[1], inspect.Parameter.empty) if self._takes_input else type(None)
        try:
            codecs = codec_for(input), codec_for(hints.get("return", inspect.Parameter.empty))
            codecs[0].schema()
        except InvalidDefinition as error:
            error.message = f"workflow {self._name}: {error.message}"
            raise
        return codecs

    @property
    def definition(self) -> Definition:
        if self._definition is None:
            schema = msgspec.json.encode(self._types[0].schema())
            described = self._described(schema)
            where = f"{self._function.__module__}:{self._function.__qualname__}"
            run_options = {
                "timeout": self.options.timeout,
                "queue": self.options.queue,
                "priority": self.options.priority,
                "concurrency": self.options.concurrency,
                "on_failure": self.options.on_failure,
            }
            self._definition = Definition(
                name=self._name,
                version=self._version,
                kind="function",
                hash=digest(where.encode() + schema),
                body=msgspec.json.encode({"source": where}),
                input_schema=described,
                options=msgspec.json.encode(run_options),
                title=self._title,
                description=self._description,
            )
        return self._definition

    def _described(self, schema: bytes) -> bytes:
        """Return the schema with the default, for starts by name. The default is not part of the version."""
        fields = msgspec.json.decode(schema)
        if self.default_input is None or not isinstance(fields, dict):
            return schema
        try:
            default = msgspec.Raw(self.encode_input(self.default_input))
            return msgspec.json.encode({**fields, "default": default})
        except InvalidInput:
            return schema

    def encode_input(self, input: In) -> bytes:
        try:
            return self._types[0].encode(input)
        except InvalidInput as error:
            error.context = {"workflow": self._name, **error.context}
            raise

    def canonical_input(self, input: In) -> bytes:
        return canonical(self._types[0], input)

    def decode_result(self, data: bytes) -> R:
        result: R = self._types[1].decode(data)
        return result

    def run(self, ctx: Any, input: bytes) -> Any:
        return self._run_sync(ctx, input) if self.sync else self._run_async(ctx, input)

    async def _run_async(self, ctx: Any, input: bytes) -> bytes:
        return self._encode_result(await self._function(ctx, *self._arguments(input)))

    def _run_sync(self, ctx: Any, input: bytes) -> bytes:
        return self._encode_result(self._function(ctx, *self._arguments(input)))

    def _encode_result(self, result: Any) -> bytes:
        try:
            return self._types[1].encode(result)
        except InvalidInput as error:
            error.message = f"the workflow's result: {error.message}"
            if type(error) is InvalidInput:
                error.hint = "return a value of the annotated type, or change the annotation"
            raise

    def _arguments(self, input: bytes) -> tuple[Any, ...]:
        return (self._types[0].decode(input),) if self._takes_input else ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Outside a run, calling a workflow calls its function."""
        return self._function(*args, **kwargs)

    def __reduce__(self) -> str:
        """Pickle by name, as the function itself would be."""
        return str(getattr(self, "__qualname__", self._name))

    def __repr__(self) -> str:
        return f"<workflow {self._name} version {self._version}>"


class _Decorator(Protocol):
    @overload
    def __call__(self, function: Callable[[Any, In], Awaitable[R]], /) -> Workflow[In, R]: ...
    @overload
    def __call__(self, function: Callable[[Any], Awaitable[R]], /) -> Workflow[None, R]: ...
    @overload
    def __call__(self, function: Callable[[Any, In], R], /) -> Workflow[In, R]: ...
    @overload
    def __call__(self, function: Callable[[Any], R], /) -> Workflow[None, R]: ...


@overload
def workflow(function: Callable[[Any, In], Awaitable[R]], /) -> Workflow[In, R]: ...
@overload
def workflow(function: Callable[[Any], Awaitable[R]], /) -> Workflow[None, R]: ...
@overload
def workflow(function: Callable[[Any, In], R], /) -> Workflow[In, R]: ...
@overload
def workflow(function: Callable[[Any], R], /) -> Workflow[None, R]: ...
@overload
def workflow(
    *,
    name: str = "",
    version: str = "1",
    timeout: Duration | None = None,
    queue: str = "default",
    priority: int = 0,
    on_failure: OnFailure = "compensate",
    concurrency: int | None = None,
    title: str = "",
    triggers: Iterable[DeclaredTrigger] = (),
) -> _Decorator: ...
@declares('@workflow, or @workflow(version="2")')
def workflow(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    version: str = "1",
    timeout: Duration | None = None,
    queue: str = "default",
    priority: int = 0,
    on_failure: OnFailure = "compensate",
    concurrency: int | None = None,
    title: str = "",
    triggers: Iterable[DeclaredTrigger] = (),
) -> Any:
    """Declare a workflow: `@workflow`, or `@workflow(version="2", timeout="1h")`.

    `timeout` does not count the time during which a run is suspended. Runs keep the version they began
    with. A failed run undoes its steps that declare `@step(compensate=...)`; with `on_failure="hold"` it
    undoes nothing, so that a person can retry it. At most `concurrency` runs are active at once; the
    others stay pending. Suspended runs do not count. `title` is for people; without it, it is the first
    line of the docstring. `triggers` start it: `[on_event("order.paid"), on_schedule("@daily")]`.
    """
    options = RunOptions(
        timeout=timeout_seconds(timeout, name="@workflow timeout"),
        queue=checked_name(queue, "a queue"),
        priority=checked_priority(priority),
        on_failure=checked_on_failure(on_failure),
        concurrency=checked_concurrency(concurrency, "@workflow"),
    )

    def decorate(target: Callable[..., Any]) -> Workflow[Any, Any]:
        return Workflow(target, name=name, version=version, options=options, title=title, triggers=triggers)

    return decorate if function is None else decorate(function)


# The signature of a workflow function


_ONE_INPUT = "put several values into one input: a dataclass, a pydantic model or a dict"


def takes_input(function: Callable[..., Any]) -> bool:
    """Whether the function takes (ctx, input), not only (ctx); InvalidDefinition if neither."""
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        _refuse_kind(function)
    name = function.__name__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _refuse(
            function, f"workflow {name} is a generator", "return the result; report progress with ctx.publish"
        )
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        _refuse(
            function, f"workflow {name} takes *args or **kwargs", f"take (ctx) or (ctx, input); {_ONE_INPUT}"
        )
    required = [p for p in parameters if p.default is p.empty]
    by_position = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    if not by_position or len(required) > 2 or any(p.kind is p.KEYWORD_ONLY for p in required):
        hint = _ONE_INPUT
        if parameters and parameters[0].name in ("self", "cls"):
            hint = "a method cannot be a workflow: write a function outside the class, or a Machine"
        _refuse(function, f"workflow {name} must take (ctx) or (ctx, input)", hint)
    mismatch = context_mismatch(function, by_position[0])
    if mismatch is not None:
        _refuse(function, f"workflow {name} {mismatch.what}", mismatch.hint)
    return len(by_position) > 1


def default_input(function: Callable[..., Any]) -> Any:
    """Return the default of the input parameter; None if it has none."""
    parameters = list(inspect.signature(function).parameters.values())
    default = parameters[1].default if len(parameters) > 1 else inspect.Parameter.empty
    return None if default is inspect.Parameter.empty else default


def _refuse_kind(function: Any) -> NoReturn:
    if not callable(function):
        raise InvalidDefinition(
            f"{excerpt(function)} is not a function", hint="put @workflow above `async def name(ctx, input)`"
        )
    what = "a class" if inspect.isclass(function) else f"a {type(function).__name__}"
    hint = "write `async def name(ctx, input)` and decorate that"
    if isinstance(function, functools.partial):
        hint = "write a function that calls it, and pass what differs between runs as the input"
    if hasattr(function, "definition"):
        hint = "it is a workflow already: decorate a function once"
    raise InvalidDefinition(f"{excerpt(function)} is {what}; a workflow is a function", hint=hint)


def _refuse(function: Callable[..., Any], message: str, hint: str) -> NoReturn:
    code = inspect.unwrap(function).__code__
    raise InvalidDefinition(message, hint=hint, where=f"{code.co_filename}:{code.co_firstlineno}")
