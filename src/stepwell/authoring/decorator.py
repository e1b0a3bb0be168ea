"""Decorating: a decorator that is given what it does not take is a wrong definition, told with its place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeVar

from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import InvalidDefinition

F = TypeVar("F", bound=Callable[..., Any])


def declares(usage: str) -> Callable[[F], F]:
    """Refuse options that `usage` does not have as ours; Python would raise a bare TypeError."""

    def checked(decorator: F) -> F:
        signature = inspect.signature(decorator)

        @functools.wraps(decorator)
        def call(*args: Any, **options: Any) -> Any:
            try:
                signature.bind(*args, **options)
            except TypeError as error:
                raise _misused(decorator.__name__, signature, options, f"{error}", usage) from None
            return decorator(*args, **options)

        return call  # type: ignore[return-value]  # it takes and gives the same

    return checked


def _misused(
    name: str, signature: inspect.Signature, options: dict[str, Any], why: str, usage: str
) -> InvalidDefinition:
    known = [p.name for p in signature.parameters.values() if p.kind is not p.POSITIONAL_ONLY]
    unknown = [option for option in options if option not in known]
    hint = f"write {usage}"
    if unknown:
        why = f"{unknown[0]}= is no option of it"
        hint = did_you_mean_one_of(unknown[0], known)
    return InvalidDefinition(f"{_place()} @{name}: {why}", hint=hint)


def _place() -> str:
    """Where the decorator stands: the first frame that is not of this file."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "?"
