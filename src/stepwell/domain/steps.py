"""Steps: what the engine needs to know about a step: its name, how to call it, when to retry it."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from stepwell.domain.aliases import without_alias
from stepwell.domain.codec import PLAIN, Codec, codec_for
from stepwell.domain.duration import DefaultTimeout
from stepwell.domain.retry import ONCE, Retry
from stepwell.domain.text import is_whole
from stepwell.errors import InvalidDefinition, NotSerialisable, excerpt

Isolation = Literal["none", "process"]
STEP_TIMEOUT = DefaultTimeout(300.0)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class StepSpec:
    """A step function with its options."""

    name: str
    function: Callable[..., Any]
    retry: Retry = ONCE
    timeout: float | None = STEP_TIMEOUT
    isolation: Isolation = "none"
    queue: str = ""  # '': runs where the run is; otherwise on any worker of that queue
    transactional: bool = False
    is_async: bool = False
    wants_context: bool = False  # its first parameter is a StepContext
    returns: Codec = PLAIN
    compensate: StepSpec | None = None  # undoes it when the run ends badly
    secrets: tuple[str, ...] = ()  # names of the secrets that it gets
    provided: bool = False  # a built-in node: the worker has the function under this name
    polls: bool = False  # it may return NotYet


@dataclass(frozen=True, slots=True)
class NotYet:
    """Returned by a provided step instead of a result: call it again in this many seconds.

    Nothing is recorded. The next owner of the run begins with a call of its own.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class InCommit:
    """Returned by a provided step instead of a result: a body for the transaction of its event.

    The store calls the body there, and its result is the result of the step. So its writes happen once, or
    not at all.
    """

    body: Callable[[Any], Any]
    result: Callable[[Any], Any] = lambda result: result  # from the body's result to the step's
    error: Callable[[Exception], Exception] = lambda error: error  # from the body's error to the step's


class Arguments(msgspec.Struct, frozen=True):
    """A call's arguments as JSON, for a step that runs in another process."""

    args: list[msgspec.Raw] = []
    kwargs: dict[str, msgspec.Raw] = {}


def spec_of(function: Callable[..., Any]) -> StepSpec:
    """The spec of a decorated step, or of any function with the default options."""
    spec = getattr(function, "spec", None)
    if isinstance(spec, StepSpec):
        return spec
    try:
        return _plain_spec(function)
    except TypeError:  # a callable that cannot be hashed
        return _plain_spec.__wrapped__(function)


@functools.lru_cache(maxsize=4096)
def _plain_spec(function: Callable[..., Any]) -> StepSpec:
    return describe(function)


def describe(function: Callable[..., Any], **options: Any) -> StepSpec:
    """Inspect a function once: its name, whether it is async, its parameters and its result."""
    if not callable(function):
        raise InvalidDefinition(
            f"{excerpt(function)} is not a function", hint="pass the function itself: ctx.step(charge, x)"
        )
    target = inspect.unwrap(function)
    if isinstance(target, functools.partial):
        target = target.func
    name = options.pop("name", "") or getattr(target, "__name__", type(target).__name__)
    hints = annotations_of(target)
    parameters = list(_signature(target).parameters.values())
    first = parameters[0] if parameters else None
    if options.get("transactional") and any(_is_step_context(hints.get(p.name)) for p in parameters):
        raise InvalidDefinition(
            f"step {name} is transactional and asks for a StepContext",
            hint="it gets the connection, and its writes there happen exactly once; save documents with "
            "ctx.save in the workflow, or in a step that is not transactional",
        )
    if options.get("secrets") and not (first is not None and _is_step_context(hints.get(first.name))):
        raise InvalidDefinition(
            f"step {name} names secrets, but takes no StepContext",
            hint="let its first parameter be one: async def charge(step: StepContext, ...), "
            'and read step.secrets["name"]',
        )
    return StepSpec(
        name=checked_name(name),
        function=function,
        is_async=inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__),
        wants_context=first is not None and _is_step_context(hints.get(first.name)),
        returns=codec_for(hints.get("return", inspect.Parameter.empty)),
        **options,
    )


def _as_text(name: object) -> str:
    """The name that was probably meant: a number as text, for example."""
    return excerpt(str(name)) if isinstance(name, int | float) else "'a-name'"


def checked_name(name: str, what: str = "a name") -> str:
    """Return the name, or raise InvalidDefinition. Paths and keys reserve a few characters."""
    if not isinstance(name, str):
        raise InvalidDefinition(f"{excerpt(name)} cannot be {what}", hint=f"give text: {_as_text(name)}")
    if not name or len(name) > 200 or any(c in "/#~" or ord(c) < 32 for c in name) or not is_whole(name):
        raise InvalidDefinition(
            f"{excerpt(name)} cannot be {what}",
            hint="use 1 to 200 printable characters without '/', '#' and '~'",
        )
    return name


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    # The first releases of 3.12 do not resolve the T of `def f[T](x: "T")` themselves.
    variables = {variable.__name__: variable for variable in getattr(function, "__type_params__", ())}
    try:
        return typing.get_type_hints(function, localns=variables or None)
    except (NameError, TypeError):  # a type that exists only for the checker
        return dict(getattr(function, "__annotations__", {}))


def encode_arguments(spec: StepSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The call as JSON, each argument encoded by its parameter's type; NotSerialisable names the argument."""
    codecs = parameter_codecs(spec)
    names = list(codecs)

    def encode(name: str, value: Any) -> msgspec.Raw:
        try:
            return msgspec.Raw(codecs.get(name, PLAIN).encode(value))
        except NotSerialisable as error:
            raise NotSerialisable(f"argument {excerpt(name)} of {spec.name}: {error.message}") from None

    return msgspec.json.encode(
        Arguments(
            [encode(names[i] if i < len(names) else f"*{i}", value) for i, value in enumerate(args)],
            {name: encode(name, value) for name, value in kwargs.items()},
        )
    )


def decode_arguments(spec: StepSpec, data: bytes | msgspec.Raw) -> tuple[list[Any], dict[str, Any]]:
    codecs = parameter_codecs(spec)
    names = list(codecs)
    call = msgspec.json.decode(data, type=Arguments)
    args = [
        codecs.get(names[i] if i < len(names) else "", PLAIN).decode(raw) for i, raw in enumerate(call.args)
    ]
    return args, {name: codecs.get(name, PLAIN).decode(raw) for name, raw in call.kwargs.items()}


def parameter_codecs(spec: StepSpec) -> dict[str, Codec]:
    """A codec for each parameter that the caller passes, in order."""
    target = inspect.unwrap(spec.function)
    hints = annotations_of(target)
    parameters = list(_signature(target).parameters.values())
    own = spec.wants_context or (spec.transactional and not spec.provided)
    passed = parameters[1:] if own else parameters
    return {p.name: codec_for(hints.get(p.name, inspect.Parameter.empty)) for p in passed}


def parameter_names(function: Callable[..., Any]) -> list[str]:
    return list(_signature(inspect.unwrap(function)).parameters)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # builtins without one
        return inspect.Signature()


def _is_step_context(annotation: Any) -> bool:
    return getattr(without_alias(annotation), "__stepwell__", "") == "step_context"
