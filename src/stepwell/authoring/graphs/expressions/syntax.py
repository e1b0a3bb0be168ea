"""Syntax: the parts of a parsed expression.

Flat chains (`1+1+1`, `a.b.c()`, `p ? x : q ? y : z`, `a && b && c`) are one part with a list, not
nested parts: compiling and evaluating a long chain needs no deeper stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | int | float | str | None
    at: int


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[SyntaxNode, ...]
    at: int


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple[SyntaxNode, SyntaxNode], ...]
    at: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """`!` or `-`, `count` times in a row."""

    sign: str
    count: int
    operand: SyntaxNode
    at: int


@dataclass(frozen=True, slots=True)
class ChainExpr:
    """Operators of one precedence, from left to right: the first operand, then (sign, operand, position)."""

    first: SyntaxNode
    rest: tuple[tuple[str, SyntaxNode, int], ...]
    at: int


@dataclass(frozen=True, slots=True)
class Logic:
    """`&&` or `||` over two or more operands."""

    sign: str
    operands: tuple[SyntaxNode, ...]
    at: int


@dataclass(frozen=True, slots=True)
class ConditionalExpr:
    """A chain of `condition ? value : ...`, then the last value."""

    cases: tuple[tuple[SyntaxNode, SyntaxNode], ...]
    otherwise: SyntaxNode
    at: int


@dataclass(frozen=True, slots=True)
class CallExpr:
    """A function by name: size(x)."""

    function: str
    arguments: tuple[SyntaxNode, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Has:
    """has(operand.name)"""

    operand: SyntaxNode
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Field:
    """.name or ?.name; `end` is the end of its text, so that errors can show the path up to here."""

    name: str
    optional: bool
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Index:
    """[key] or ?.[key]"""

    key: SyntaxNode
    optional: bool
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Method:
    """.function(arguments), with the value before it as first argument."""

    function: str
    arguments: tuple[SyntaxNode, ...]
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Macro:
    """.map(variable, body) and the other macros; `only` is the condition in map(variable, only, body).

    `weight` is how many parts are evaluated for each item.
    """

    macro: str
    variable: str
    only: SyntaxNode | None
    body: SyntaxNode
    weight: int
    at: int
    end: int


Link: TypeAlias = Field | Index | Method | Macro


@dataclass(frozen=True, slots=True)
class Links:
    """A value and the links that follow it."""

    base: SyntaxNode
    links: tuple[Link, ...]
    at: int


SyntaxNode: TypeAlias = (
    Constant | Name | ListOf | MapOf | Prefix | ChainExpr | Logic | ConditionalExpr | CallExpr | Has | Links
)
