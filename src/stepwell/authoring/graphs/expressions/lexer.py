"""Lexer: text into tokens. In a template, it reads up to the closing `}}`."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from stepwell.authoring.graphs.expressions.literals import read_number, read_string
from stepwell.errors import BadExpression

TokenKind = Literal["name", "quoted", "number", "string", "sign", "end"]

# One pattern, tried once for each token: the cost of compiling is the number of calls. The first
# alternative that matches counts, so strings (with their prefixes) come before names.
# `?.5` is a conditional with a number in it, every other `?.` looks up a member that may be absent.
TOKEN = re.compile(
    r"""(?:[ \t\r\n\f]+|//[^\n]*)*(?:
        (?P<string>[rRbB]{0,2}["'])
        |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
        |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
        |(?P<sign>\?\.(?![0-9])|&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])
        |(?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
        |(?P<end>\Z)
        |(?P<strange>.)
    )""",
    re.VERBOSE | re.DOTALL,
)

MISTAKES = {
    "=": "write == to compare; nothing is assigned in an expression",
    "&": "write && for and",
    "|": "write || for or; there are no filters, call a function: lower(x)",
    "$": "write names without a prefix: ctx.input.id",
    "#": "write names without a prefix: ctx.input.id",
    ";": "an expression is one value; there are no statements",
    "^": "there is no power operator",
    "~": "there are no bit operators",
    "@": "write names without a prefix: ctx.input.id",
}


class Token(NamedTuple):
    kind: TokenKind
    text: str
    value: str | int | float | None
    start: int
    end: int


def tokens(source: str, start: int = 0, *, in_template: bool = False) -> list[Token]:
    """All tokens and an "end". In a template "end" is the closing `}}`, which need not be the text's end."""
    read: list[Token] = []
    add, match = read.append, TOKEN.match
    at = start
    braces = 0
    while True:
        part = match(source, at)
        assert part is not None, "the pattern also matches characters without a meaning"
        kind = part.lastgroup
        assert kind is not None
        begin, at = part.span(kind)
        if kind == "sign":
            sign = source[begin:at]
            if sign == "{":
                braces += 1
            elif sign == "}":
                if in_template and not braces and source.startswith("}", at):
                    add(Token("end", "}}", None, begin, at + 1))
                    return read
                braces -= 1
            add(Token("sign", sign, None, begin, at))
        elif kind == "name":
            add(Token("name", source[begin:at], None, begin, at))
        elif kind == "end":
            if in_template:
                raise _never_closed(start)
            add(Token("end", "", None, at, at))
            return read
        else:
            token = _literal(kind, source, begin, at)
            add(token)
            at = token.end


def _literal(kind: str, source: str, begin: int, end: int) -> Token:
    if kind == "string":
        text, end = read_string(source, begin)
        return Token("string", source[begin:end], text, begin, end)
    if kind == "number":
        value, end = read_number(source, begin, source[begin:end])
        return Token("number", source[begin:end], value, begin, end)
    if kind == "quoted":
        return Token("quoted", source[begin:end], source[begin + 1 : end - 1], begin, end)
    raise _strange(source[begin], begin)


def _never_closed(start: int) -> BadExpression:
    return BadExpression(
        "this {{ is never closed",
        column=start - 1,
        hint="close it with }}, or write \\{{ for the text {{",
    )


def _strange(character: str, at: int) -> BadExpression:
    if character.isalpha():
        return BadExpression(
            f"names have only letters a to z, digits and _, so {character!r} is not allowed here",
            column=at + 1,
            hint="write the key in brackets: ctx['größe']",
        )
    return BadExpression(
        f"{character!r} has no meaning here",
        column=at + 1,
        hint=MISTAKES.get(character, "see the list of operators in the language reference"),
    )
