"""Aliases: resolve `type Order = dict[str, Any]` and the T of `def f[T](...)` to the types they stand for.

Python 3.12 has syntax for them; typing_extensions and TypeVar offer the same to older versions.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_origin

_DEPTH_MAX = 100  # aliases of aliases; `type X = X` never ends


def without_alias(annotation: Any) -> Any:
    """The type it stands for. NameError if the alias names an undefined type, or only itself."""
    for _ in range(_DEPTH_MAX):
        if isinstance(annotation, TypeVar) and not annotation.__constraints__:
            annotation = annotation.__bound__ or Any
        elif _is_alias(annotation):
            annotation = annotation.__value__
        elif _is_alias(alias := get_origin(annotation)):
            resolved = _filled_in(annotation, alias)
            if resolved is annotation:
                return resolved
            annotation = resolved
        else:
            return annotation
    raise NameError(f"{annotation} stands only for itself")


def _is_alias(annotation: Any) -> bool:
    """Compare by name: there are two such classes, and Python 3.11 has neither."""
    return type(annotation).__name__ == "TypeAliasType"


def _filled_in(annotation: Any, alias: Any) -> Any:
    """Resolve `Pair[int]` with `type Pair[T] = tuple[T, T]`. Map each variable explicitly: subscripting the
    value would fill them in the order in which it names them, which need not be the order of the alias."""
    arguments, value = get_args(annotation), alias.__value__
    variables = alias.__type_params__
    if len(arguments) != len(variables) or not all(isinstance(variable, TypeVar) for variable in variables):
        return annotation  # msgspec or pydantic may understand it
    types = dict(zip(variables, arguments, strict=True))
    if value in variables:
        return types[value]
    named = getattr(value, "__parameters__", ())
    return value[tuple(types[variable] for variable in named)] if named else value
