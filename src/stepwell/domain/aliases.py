"""Aliases: what `type Order = dict[str, Any]` and the T of `def f[T](...)` stand for.

Python 3.12 has them as syntax; typing_extensions and TypeVar give the same to older ones.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_origin

_DEPTH_MAX = 100  # aliases of aliases; `type X = X` has no end


def without_alias(annotation: Any) -> Any:
    """What it stands for. NameError: the alias names a type that is not defined (yet), or only itself."""
    for _ in range(_DEPTH_MAX):
        if isinstance(annotation, TypeVar) and not annotation.__constraints__:
            annotation = annotation.__bound__ or Any
        elif _is_alias(annotation):
            annotation = annotation.__value__
        elif _is_alias(alias := get_origin(annotation)):
            found = _filled_in(annotation, alias)
            if found is annotation:
                return found
            annotation = found
        else:
            return annotation
    raise NameError(f"{annotation} stands for nothing but itself")


def _is_alias(annotation: Any) -> bool:
    """By its name: there are two of these classes, and Python 3.11 has neither."""
    return type(annotation).__name__ == "TypeAliasType"


def _filled_in(annotation: Any, alias: Any) -> Any:
    """`Pair[int]` of `type Pair[T] = tuple[T, T]`. Each variable gets its own: a type by itself fills them
    in the order in which it names them, which need not be the order of the alias."""
    given, value = get_args(annotation), alias.__value__
    variables = alias.__type_params__
    if len(given) != len(variables) or not all(isinstance(variable, TypeVar) for variable in variables):
        return annotation  # msgspec or pydantic may know
    meant = dict(zip(variables, given, strict=True))
    if value in variables:
        return meant[value]
    named = getattr(value, "__parameters__", ())
    return value[tuple(meant[variable] for variable in named)] if named else value
