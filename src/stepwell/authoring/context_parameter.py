"""The parameter that takes a context: does its annotation fit the function?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

_CONTEXTS = {"Context": "async def", "SyncContext": "def"}
_NAMES = ("ctx", "context", "c", "_", "_ctx")
_OPEN = ("Any", "object")


class Misfit(NamedTuple):
    what: str  # is wrong, to stand behind the function's name
    hint: str


def misfit(function: Callable[..., Any], parameter: inspect.Parameter) -> Misfit | None:
    """By the name in the annotation: it need not be resolvable yet. None: it fits, or says nothing."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return None
    given = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    short = given.strip("\"'").rpartition(".")[2]
    kind = "async def" if inspect.iscoroutinefunction(function) else "def"
    right = next(name for name, of in _CONTEXTS.items() if of == kind)
    if short in _CONTEXTS:
        fits = _CONTEXTS[short] == kind
        return None if fits else Misfit(f"is `{kind}` and takes {short}", f"write `ctx: {right}`")
    if short == "StepContext":
        return Misfit("takes the context of a step", f"write `ctx: {right}`")
    if parameter.name in _NAMES or short in _OPEN:
        return None
    return Misfit(
        f"takes {parameter.name!r} where its context comes",
        f"put `ctx: {right}` before `{parameter.name}: {short or '...'}`",
    )
