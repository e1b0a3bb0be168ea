"""Fitting: whether a method can take what a trigger brings, as far as two annotations tell it."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Annotated, Any, Literal, Union

from stepwell.domain.aliases import without_alias

_WIDER = {(int, float), (int, complex), (float, complex)}  # as type checkers see numbers


def misfits(given: Any, taken: Any) -> bool:
    """Some value of the one type is none of the other. What cannot be compared fits."""
    wanted = _alternatives(taken)
    return any(not any(_fits(one, other) for other in wanted) for one in _alternatives(given))


def spelt(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _alternatives(annotation: Any) -> list[Any]:
    try:
        meant = without_alias(annotation)
    except NameError:  # of a type that is defined further down
        return [Any]
    if isinstance(meant, typing.NewType):
        return _alternatives(meant.__supertype__)
    origin, arguments = typing.get_origin(meant), typing.get_args(meant)
    if origin is Annotated:
        return _alternatives(arguments[0])
    if origin is Union or origin is types.UnionType:
        return [one for argument in arguments for one in _alternatives(argument)]
    if origin is Literal:
        return [type(value) for value in arguments]
    return [meant]


def _fits(given: Any, taken: Any) -> bool:
    kind, wanted = typing.get_origin(given) or given, typing.get_origin(taken) or taken
    if Any in (kind, wanted) or not (isinstance(kind, type) and isinstance(wanted, type)):
        return True
    try:
        # What is read for an abstract type, such as Sequence, is one of those below it.
        below = issubclass(kind, wanted) or (inspect.isabstract(kind) and issubclass(wanted, kind))
    except TypeError:  # protocols, TypedDict
        return True
    if not below:
        return (kind, wanted) in _WIDER
    parts, wanted_parts = typing.get_args(given), typing.get_args(taken)
    if kind is not wanted or len(parts) != len(wanted_parts):
        return True
    return not any(misfits(part, other) for part, other in zip(parts, wanted_parts, strict=True))
