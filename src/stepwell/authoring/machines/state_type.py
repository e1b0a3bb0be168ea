"""The type of a machine's state: what is in the brackets of its bases, Machine[S] or a generic Base[S]."""

from __future__ import annotations

import inspect
import typing
from typing import Any, TypeVar

from stepwell.domain.aliases import without_alias


def type_between_brackets(kind: type, machine: type) -> Any:
    """None: it was left out. A ForwardRef: a name in quotes that is not defined yet."""
    found = _given(kind, machine)
    return None if found is None or isinstance(found, TypeVar) else without_alias(found)


def _given(kind: type, machine: type) -> Any:
    """What a class gives to Machine[...]: the first of its bases that says it, else a variable or None."""
    told = [
        _of_base(typing.get_origin(base) or base, typing.get_args(base), kind, machine)
        for base in vars(kind).get("__orig_bases__", kind.__bases__)
    ]
    said = [found for found in told if found is not None]
    return next((found for found in said if not isinstance(found, TypeVar)), said[0] if said else None)


def _of_base(origin: Any, arguments: tuple[Any, ...], kind: type, machine: type) -> Any:
    if not (isinstance(origin, type) and issubclass(origin, machine)):
        return None
    arguments = tuple(_resolved(argument, kind) for argument in arguments)
    if origin is machine:
        return arguments[0] if arguments else None
    variables = getattr(origin, "__parameters__", ())
    return _filled_in(_given(origin, machine), dict(zip(variables, arguments, strict=False)))


def _filled_in(annotation: Any, meant: dict[Any, Any]) -> Any:
    if isinstance(annotation, TypeVar):
        return meant.get(annotation, annotation)
    named = () if isinstance(annotation, type) else getattr(annotation, "__parameters__", ())
    return annotation[tuple(meant.get(variable, variable) for variable in named)] if named else annotation


def _resolved(argument: Any, kind: type) -> Any:
    """A name in quotes is looked up where the class is."""
    if isinstance(argument, typing.ForwardRef):
        module = inspect.getmodule(kind)
        return vars(module).get(argument.__forward_arg__, argument) if module else argument
    return argument
