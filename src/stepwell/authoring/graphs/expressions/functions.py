"""Functions: all functions that an expression can call, each also as x.function(...).

A function takes JSON values and returns one; it pays for its work in steps and has no side effects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwell.authoring.graphs.expressions import (
    collection_functions,
    number_functions,
    pattern,
    text_functions,
    time_functions,
)

# Written as functions, but their arguments are not evaluated first.
SPECIAL = frozenset({"has"})
MACROS = frozenset({"map", "filter", "exists", "all", "exists_one"})

MANY = 500


@dataclass(frozen=True, slots=True)
class Function:
    call: Callable[..., Any]
    least: int
    most: int
    usage: str

    @property
    def arity(self) -> str:
        if self.most == MANY:
            return f"at least {self.least} values"
        counts = " or ".join(str(count) for count in range(self.least, self.most + 1))
        return f"{counts} value{'' if counts == '1' else 's'}"


def _default(frame: object, value: Any, fallback: Any) -> Any:
    return fallback if value is None else value


def _dyn(frame: object, value: Any) -> Any:
    """CEL's "do not check the type"; here types are never checked beforehand."""
    return value


FUNCTIONS: dict[str, Function] = {
    # The compiler evaluates the second value only if it is needed.
    "default": Function(_default, 2, 2, "default(ctx?.limit, 10)"),
    "dyn": Function(_dyn, 1, 1, "dyn(x)"),
    "size": Function(collection_functions.size, 1, 1, "size(ctx.items)"),
    "keys": Function(collection_functions.keys, 1, 1, "keys(ctx.order)"),
    "values": Function(collection_functions.values, 1, 1, "values(ctx.order)"),
    "join": Function(collection_functions.join, 1, 2, "ctx.names.join(', ')"),
    "json": Function(collection_functions.json, 1, 1, "json(ctx.order)"),
    "string": Function(text_functions.to_string, 1, 1, "string(ctx.count)"),
    "bool": Function(text_functions.to_bool, 1, 1, "bool('true')"),
    "lower": Function(text_functions.lower, 1, 1, "lower(ctx.name)"),
    "upper": Function(text_functions.upper, 1, 1, "upper(ctx.name)"),
    "trim": Function(text_functions.trim, 1, 1, "trim(ctx.name)"),
    "startsWith": Function(text_functions.starts_with, 2, 2, "ctx.name.startsWith('a')"),
    "endsWith": Function(text_functions.ends_with, 2, 2, "ctx.name.endsWith('.pdf')"),
    "contains": Function(text_functions.contains, 2, 2, "ctx.name.contains('x')"),
    "split": Function(text_functions.split, 2, 2, "ctx.tags.split(',')"),
    "matches": Function(pattern.matches, 2, 2, "ctx.code.matches('^[A-Z]{3}$')"),
    "int": Function(number_functions.to_int, 1, 1, "int('12')"),
    "double": Function(number_functions.to_double, 1, 1, "double(ctx.count)"),
    "min": Function(number_functions.least, 1, MANY, "min(1, 2) or min(ctx.prices)"),
    "max": Function(number_functions.greatest, 1, MANY, "max(1, 2) or max(ctx.prices)"),
    "sum": Function(number_functions.total, 1, 1, "sum(ctx.prices)"),
    "abs": Function(number_functions.absolute, 1, 1, "abs(ctx.change)"),
    "round": Function(number_functions.rounded, 1, 2, "round(2.5) or round(2.345, 2)"),
    "now": Function(time_functions.now, 0, 0, "now()"),
    "date": Function(
        time_functions.date, 1, 3, "date('2026-01-31'), date(2026, 1, 31) or date(now(), 'YYYY-MM-DD')"
    ),
}
