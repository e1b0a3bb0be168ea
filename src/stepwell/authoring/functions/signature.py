"""What a workflow function must look like; mistakes are told where it is defined."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from stepwell.errors import InvalidDefinition

_ONE_INPUT = "put several values into one input: a dataclass, a pydantic model or a dict"
_CONTEXTS = {"Context": "async def", "SyncContext": "def"}


def takes_input(function: Callable[..., Any]) -> bool:
    """Whether it takes (ctx, input) or only (ctx); InvalidDefinition when it is neither."""
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        _refuse_kind(function)
    name = function.__name__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _refuse(function, f"workflow {name} is a generator", "return the result; tell news with ctx.publish")
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
    _check_context(function, by_position[0])
    return len(by_position) > 1


def _check_context(function: Callable[..., Any], first: inspect.Parameter) -> None:
    """By the name in the annotation: it need not be resolvable yet."""
    if first.annotation is first.empty:
        return
    given = (
        first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    )
    short = given.strip("\"'").rpartition(".")[2]
    kind = "async def" if inspect.iscoroutinefunction(function) else "def"
    if short in _CONTEXTS and _CONTEXTS[short] != kind:
        right = next(name for name, of in _CONTEXTS.items() if of == kind)
        _refuse(
            function,
            f"workflow {function.__name__} is a plain `{kind}` and takes {short}",
            f"`ctx: {right}` fits it",
        )
    if short == "StepContext":
        _refuse(
            function,
            f"workflow {function.__name__} takes the context of a step",
            "`ctx: Context` is a workflow's",
        )
    if (
        short not in _CONTEXTS
        and first.name not in ("ctx", "context", "c", "_", "_ctx")
        and short not in ("Any", "object")
    ):
        _refuse(
            function,
            f"workflow {function.__name__} takes {first.name!r} first, where its context comes",
            f"async def {function.__name__}(ctx: Context, {first.name}: {short or '...'})",
        )


def _refuse_kind(function: Any) -> NoReturn:
    if not callable(function):
        raise InvalidDefinition(
            f"{function!r} is no function", hint="put @workflow above `async def name(ctx, input)`"
        )
    what = "a class" if inspect.isclass(function) else f"a {type(function).__name__}"
    hint = "write `async def name(ctx, input)` and decorate that"
    if isinstance(function, functools.partial):
        hint = "write a function that calls it; what differs between runs is the input"
    if hasattr(function, "definition"):
        hint = "it is a workflow already: decorate a function once"
    raise InvalidDefinition(f"{function!r} is {what}; a workflow is a function", hint=hint)


def _refuse(function: Callable[..., Any], message: str, hint: str) -> NoReturn:
    code = inspect.unwrap(function).__code__
    raise InvalidDefinition(message, hint=hint, where=f"{code.co_filename}:{code.co_firstlineno}")
