"""Check that the annotation of a context parameter fits the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

_CONTEXTS = {"Context": "async def", "SyncContext": "def"}
_NAMES = ("ctx", "context", "c", "_", "_ctx")
_OPEN = ("Any", "object")


class ContextMismatch(NamedTuple):
    what: str  # the problem, as a phrase that follows the function's name
    hint: str


def context_mismatch(function: Callable[..., Any], parameter: inspect.Parameter) -> ContextMismatch | None:
    """Compare by the annotation's name, which may be undefined so far. None: it fits, or there is none."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return None
    written = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    short = written.strip("\"'").rpartition(".")[2]
    kind = "async def" if inspect.iscoroutinefunction(function) else "def"
    right = next(name for name, of in _CONTEXTS.items() if of == kind)
    if short in _CONTEXTS:
        fits = _CONTEXTS[short] == kind
        return None if fits else ContextMismatch(f"is `{kind}` and takes {short}", f"write `ctx: {right}`")
    if short == "StepContext":
        return ContextMismatch("takes the context of a step", f"write `ctx: {right}`")
    if parameter.name in _NAMES or short in _OPEN:
        return None
    return ContextMismatch(
        f"takes {parameter.name!r} as its first parameter, which is its context",
        f"put `ctx: {right}` before `{parameter.name}: {short or '...'}`",
    )
