"""Check the arguments of our decorators, and report mistakes with the file and line."""

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
    """Raise InvalidDefinition for wrong arguments; Python would raise a bare TypeError."""

    def checked(decorator: F) -> F:
        signature = inspect.signature(decorator)

        @functools.wraps(decorator)
        def call(*args: Any, **options: Any) -> Any:
            try:
                signature.bind(*args, **options)
            except TypeError as error:
                raise _wrong_arguments(decorator.__name__, signature, options, f"{error}", usage) from None
            return decorator(*args, **options)

        return call  # type: ignore[return-value]  # same signature

    return checked


def _wrong_arguments(
    name: str, signature: inspect.Signature, options: dict[str, Any], reason: str, usage: str
) -> InvalidDefinition:
    known = [p.name for p in signature.parameters.values() if p.kind is not p.POSITIONAL_ONLY]
    unknown = [option for option in options if option not in known]
    hint = f"write {usage}"
    if unknown:
        reason = f"{unknown[0]}= is not an option"
        hint = did_you_mean_one_of(unknown[0], known)
    return InvalidDefinition(f"{_place()} @{name}: {reason}", hint=hint)


def _place() -> str:
    """File and line of the decorator: the first frame outside this file."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "?"
