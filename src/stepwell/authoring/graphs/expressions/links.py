"""Links: closures for `.name`, `[key]`, `.function(...)`, and for whole paths, which are the common case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from stepwell.authoring.graphs.expressions import lookup
from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Closure, Frame
from stepwell.authoring.graphs.expressions.syntax import Field, Index, Name

# Takes the value of the links before it.
LinkClosure: TypeAlias = Callable[[Frame, Any], Any]


def path(base: Name, fields: tuple[Field, ...], texts: tuple[str, ...]) -> Closure:
    """ctx.a.b in one closure. If something is missing, a second, slower walk finds out what."""
    name = base.name
    keys = tuple(field.name for field in fields)

    def run(frame: Frame) -> Any:
        try:
            value = frame.scope[name]
            for key in keys:
                if type(value) is not dict:
                    break
                value = value[key]
            else:
                return value
        except KeyError:
            pass
        return _walk(lookup.root(frame.scope, name, base.at + 1), fields, texts)

    return run


def local_path(slot: int, fields: tuple[Field, ...], texts: tuple[str, ...]) -> Closure:
    """The same for a variable of a macro."""
    keys = tuple(field.name for field in fields)
    if not keys:
        return lambda frame: frame.locals[slot]

    def run(frame: Frame) -> Any:
        value = frame.locals[slot]
        try:
            for key in keys:
                if type(value) is not dict:
                    break
                value = value[key]
            else:
                return value
        except KeyError:
            pass
        return _walk(frame.locals[slot], fields, texts)

    return run


def _walk(value: Any, fields: tuple[Field, ...], texts: tuple[str, ...]) -> Any:
    for field, text in zip(fields, texts, strict=True):
        value = lookup.member(value, field.name, False, text, field.at + 1)
    return value


def field(link: Field, text: str) -> LinkClosure:
    name, optional, column = link.name, link.optional, link.at + 1
    return lambda frame, value: lookup.member(value, name, optional, text, column)


def index(link: Index, key: Closure, text: str) -> LinkClosure:
    optional, column = link.optional, link.at + 1
    return lambda frame, value: lookup.element(value, key(frame), optional, text, column)


def method(
    call: Callable[..., Any], arguments: tuple[Closure, ...], column: int, *, lazy: bool
) -> LinkClosure:
    if lazy:
        (fallback,) = arguments
        return lambda frame, value: fallback(frame) if value is None else value

    def run(frame: Frame, value: Any) -> Any:
        values = [argument(frame) for argument in arguments]
        try:
            return call(frame, value, *values)
        except ExpressionFault as fault:
            fault.column = fault.column or column
            raise

    return run


def followed(head: Closure, rest: tuple[LinkClosure, ...]) -> Closure:
    if not rest:
        return head
    if len(rest) == 1:
        link = rest[0]
        return lambda frame: link(frame, head(frame))

    def run(frame: Frame) -> Any:
        value = head(frame)
        for link in rest:
            value = link(frame, value)
        return value

    return run
