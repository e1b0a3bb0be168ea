"""Verb: one transaction of the memory store, with its four failpoints.

A verb never awaits, so it happens wholly or not at all. A fault injected at `before` or `mid` comes before
the first write and stands for a rollback; one at `after` or `ambiguous` comes after the last write and
stands for a lost answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from stepwell import failpoints
from stepwell.errors import OutcomeUnknown, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")
Verb = Callable[P, Coroutine[Any, Any, T]]


def entering(name: str, *moments: str) -> None:
    if failpoints.hit is None:
        return
    try:
        for moment in moments:
            failpoints.hit(f"{name}.{moment}")
    except failpoints.Injected as fault:
        raise StoreUnavailable(f"injected at {fault}") from fault


def leaving(name: str) -> None:
    if failpoints.hit is None:
        return
    try:
        for moment in ("after", "ambiguous"):
            failpoints.hit(f"{name}.{moment}")
    except failpoints.Injected as fault:
        raise OutcomeUnknown(f"injected at {fault}") from fault


def transaction(name: str) -> Callable[[Verb[P, T]], Verb[P, T]]:
    """Make a verb one transaction of that name."""

    def wrap(verb: Verb[P, T]) -> Verb[P, T]:
        @wraps(verb)
        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            entering(name, "before", "mid")
            result = await verb(*args, **kwargs)
            leaving(name)
            return result

        return run

    return wrap
