"""Compiler: syntax into closures. Each closure takes the frame and returns a value or raises a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.authoring.graphs.expressions import links, operators
from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Closure, Frame
from stepwell.authoring.graphs.expressions.functions import FUNCTIONS
from stepwell.authoring.graphs.expressions.logic import all_true, any_true, choose, inverted
from stepwell.authoring.graphs.expressions.lookup import is_present
from stepwell.authoring.graphs.expressions.macros import MACRO_BUILDERS
from stepwell.authoring.graphs.expressions.operators import OPERATORS
from stepwell.authoring.graphs.expressions.pattern import compiled
from stepwell.authoring.graphs.expressions.relations import FAST
from stepwell.authoring.graphs.expressions.syntax import (
    CallExpr,
    ChainExpr,
    ConditionalExpr,
    Constant,
    Field,
    Has,
    Index,
    Link,
    Links,
    ListOf,
    Logic,
    Macro,
    MapOf,
    Method,
    Name,
    Prefix,
    SyntaxNode,
)
from stepwell.authoring.graphs.expressions.values import type_name
from stepwell.errors import BadExpression

# These return one of their arguments; every other function may make a list or a map.
PASSING_ON = frozenset({"default", "dyn"})


class Compiler:
    """For one expression: `compile` returns its closure; `slots` and `constructs` then describe it."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._variables: list[str] = []
        # How many macro variables are alive at once.
        self.slots = 0
        # Whether it can make a list or a map, whose size must then be checked.
        self.constructs = False

    def compile(self, node: SyntaxNode) -> Closure:
        match node:
            case Constant(value):
                return lambda frame: value
            case Name():
                return self._path(node, ())
            case Links():
                return self._links(node)
            case ChainExpr():
                return self._chain(node)
            case Logic(sign, operands):
                closures = tuple(map(self.compile, operands))
                columns = tuple(operand.at + 1 for operand in operands)
                return (all_true if sign == "&&" else any_true)(closures, columns)
            case ConditionalExpr():
                cases = tuple(
                    (self.compile(condition), self.compile(value), condition.at + 1)
                    for condition, value in node.cases
                )
                return choose(cases, self.compile(node.otherwise))
            case Prefix():
                return self._prefix(node)
            case CallExpr(function, arguments, at):
                return self._call(function, arguments, at)
            case Has(operand, name, at):
                inner = self.compile(operand)
                return lambda frame: is_present(inner(frame), name, at + 1)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)

    # Lookups and links

    def _path(self, base: Name, fields: tuple[Field, ...]) -> Closure:
        texts = tuple(self._source[base.at : field.end] for field in fields)
        slot = self._slot(base.name)
        if slot is None:
            return links.path(base, fields, texts)
        return links.local_path(slot, fields, texts)

    def _slot(self, name: str) -> int | None:
        for slot in range(len(self._variables) - 1, -1, -1):
            if self._variables[slot] == name:
                return slot
        return None

    def _links(self, node: Links) -> Closure:
        plain = 0
        if isinstance(node.base, Name):
            while plain < len(node.links) and _is_plain(node.links[plain]):
                plain += 1
            fields = tuple(link for link in node.links[:plain] if isinstance(link, Field))
            head = self._path(node.base, fields)
        else:
            head = self.compile(node.base)
        rest = tuple(self._link(link, node.at) for link in node.links[plain:])
        return links.followed(head, rest)

    def _link(self, link: Link, start: int) -> links.LinkClosure:
        match link:
            case Field():
                return links.field(link, self._source[start : link.end])
            case Index():
                return links.index(link, self.compile(link.key), self._source[start : link.end])
            case Method(function, arguments, at):
                self._check(function, arguments[:1], at)
                closures = tuple(map(self.compile, arguments))
                return links.method(FUNCTIONS[function].call, closures, at + 1, lazy=function == "default")
            case Macro():
                return self._macro(link)

    def _macro(self, link: Macro) -> links.LinkClosure:
        self.constructs = True
        slot = len(self._variables)
        self.slots = max(self.slots, slot + 1)
        self._variables.append(link.variable)
        only = self.compile(link.only) if link.only is not None else None
        body = self.compile(link.body)
        self._variables.pop()
        return MACRO_BUILDERS[link.macro](slot, only, body, link.weight, link.at + 1)

    def _check(self, function: str, patterns: tuple[SyntaxNode, ...], at: int) -> None:
        """Check what is constant in a call."""
        if function not in PASSING_ON:
            self.constructs = True
        if function == "matches" and patterns and isinstance(patterns[0], Constant):
            pattern = patterns[0]
            if not isinstance(pattern.value, str):
                raise BadExpression("a pattern is a string", column=pattern.at + 1)
            try:
                compiled(pattern.value)
            except ExpressionFault as fault:
                raise BadExpression(fault.message, hint=fault.hint, column=pattern.at + 1) from None

    # Operators and calls

    def _chain(self, node: ChainExpr) -> Closure:
        first = self.compile(node.first)
        rest = [(sign, self.compile(operand), at + 1) for sign, operand, at in node.rest]
        self.constructs = self.constructs or any(sign == "+" for sign, _, _ in rest)
        if len(rest) == 1:
            sign, operand, column = rest[0]
            last = node.rest[0][1]
            if sign in FAST:
                constant = last.value if isinstance(last, Constant) else None
                return FAST[sign](first, operand, constant, column)
            return _binary(OPERATORS[sign], first, operand, column)
        return _fold(first, tuple((OPERATORS[sign], operand, column) for sign, operand, column in rest))

    def _prefix(self, node: Prefix) -> Closure:
        inner = self.compile(node.operand)
        column = node.at + 1
        if node.sign == "!":
            return inverted(inner, node.count % 2 == 1, column)
        return _negated(inner, node.count, column)

    def _call(self, function: str, arguments: tuple[SyntaxNode, ...], at: int) -> Closure:
        self._check(function, arguments[1:2], at)
        closures = tuple(map(self.compile, arguments))
        if function == "default":
            value, fallback = closures
            return lambda frame: fallback(frame) if (got := value(frame)) is None else got
        return _called(FUNCTIONS[function].call, closures, at + 1)

    # Lists and maps

    def _list(self, node: ListOf) -> Closure:
        self.constructs = True
        closures = tuple(map(self.compile, node.items))
        return lambda frame: [closure(frame) for closure in closures]

    def _map(self, node: MapOf) -> Closure:
        self.constructs = True
        for key, _ in node.entries:
            if isinstance(key, Constant) and not isinstance(key.value, str):
                raise BadExpression(
                    "keys of a map are strings", column=key.at + 1, hint="write {'key': value}"
                )
        entries = tuple((self.compile(key), self.compile(value), key.at + 1) for key, value in node.entries)

        def run(frame: Frame) -> Any:
            result: dict[str, Any] = {}
            for name_of, value_of, column in entries:
                key = name_of(frame)
                if type(key) is not str:
                    raise ExpressionFault(
                        f"keys of a map are strings, this one is {type_name(key)}", column=column
                    )
                if key in result:
                    raise ExpressionFault(f"the key {key[:60]!r} occurs twice in the map", column=column)
                result[key] = value_of(frame)
            return result

        return run


def _is_plain(link: Link) -> bool:
    return isinstance(link, Field) and not link.optional


def _binary(
    operator: Callable[[Frame, Any, Any], Any], left: Closure, right: Closure, column: int
) -> Closure:
    def run(frame: Frame) -> Any:
        one, two = left(frame), right(frame)
        try:
            return operator(frame, one, two)
        except ExpressionFault as fault:
            fault.column = fault.column or column
            raise

    return run


def _fold(first: Closure, rest: tuple[tuple[Callable[[Frame, Any, Any], Any], Closure, int], ...]) -> Closure:
    def run(frame: Frame) -> Any:
        value = first(frame)
        for operator, operand, column in rest:
            other = operand(frame)
            try:
                value = operator(frame, value, other)
            except ExpressionFault as fault:
                fault.column = fault.column or column
                raise
        return value

    return run


def _negated(inner: Closure, count: int, column: int) -> Closure:
    def run(frame: Frame) -> Any:
        value = inner(frame)
        try:
            for _ in range(count):
                value = operators.negate(frame, value)
        except ExpressionFault as fault:
            fault.column = fault.column or column
            raise
        return value

    return run


def _called(call: Callable[..., Any], arguments: tuple[Closure, ...], column: int) -> Closure:
    def run(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        try:
            return call(frame, *values)
        except ExpressionFault as fault:
            fault.column = fault.column or column
            raise

    return run
