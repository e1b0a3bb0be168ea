"""What a workflow function must look like; mistakes are told where it is defined."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from stepwell.authoring.context_parameter import misfit
from stepwell.errors import InvalidDefinition, excerpt

_ONE_INPUT = "put several values into one input: a dataclass, a pydantic model or a dict"


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
    wrong = misfit(function, by_position[0])
    if wrong is not None:
        _refuse(function, f"workflow {name} {wrong.what}", wrong.hint)
    return len(by_position) > 1


def default_input(function: Callable[..., Any]) -> Any:
    """The default of the parameter that takes the input; None when there is none."""
    parameters = list(inspect.signature(function).parameters.values())
    default = parameters[1].default if len(parameters) > 1 else inspect.Parameter.empty
    return None if default is inspect.Parameter.empty else default


def _refuse_kind(function: Any) -> NoReturn:
    if not callable(function):
        raise InvalidDefinition(
            f"{excerpt(function)} is no function", hint="put @workflow above `async def name(ctx, input)`"
        )
    what = "a class" if inspect.isclass(function) else f"a {type(function).__name__}"
    hint = "write `async def name(ctx, input)` and decorate that"
    if isinstance(function, functools.partial):
        hint = "write a function that calls it; what differs between runs is the input"
    if hasattr(function, "definition"):
        hint = "it is a workflow already: decorate a function once"
    raise InvalidDefinition(f"{excerpt(function)} is {what}; a workflow is a function", hint=hint)


def _refuse(function: Callable[..., Any], message: str, hint: str) -> NoReturn:
    code = inspect.unwrap(function).__code__
    raise InvalidDefinition(message, hint=hint, where=f"{code.co_filename}:{code.co_firstlineno}")
