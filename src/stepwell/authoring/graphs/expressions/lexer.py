"""Lexer: text into tokens. Text of a template is read up to the `}}` that closes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from stepwell.authoring.graphs.expressions.literals import read_number, read_string
from stepwell.errors import BadExpression

Kind = Literal["name", "quoted", "number", "string", "sign", "end"]

SPACE = re.compile(r"(?:[ \t\r\n\f]+|//[^\n]*)*")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
QUOTED = re.compile(r"`[A-Za-z0-9_.\-/ ]+`")
STRING_START = re.compile(r"[rRbB]{0,2}(?:\"|')")
# `?.5` is a choice with a number in it, every other `?.` asks for a member that may be absent.
SIGN = re.compile(r"\?\.(?![0-9])|&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}]")

MISTAKES = {
    "=": "write == to compare; nothing is assigned in an expression",
    "&": "write && for and",
    "|": "write || for or; there are no filters, call a function: lower(x)",
    "$": "names stand alone: ctx.input.id",
    "#": "names stand alone: ctx.input.id",
    ";": "an expression is one value; there are no statements",
    "^": "there is no power operator",
    "~": "there are no bit operators",
    "@": "names stand alone: ctx.input.id",
}


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    value: str | int | float | None
    start: int
    end: int


def tokens(source: str, start: int = 0, *, in_template: bool = False) -> list[Token]:
    """All tokens and an "end". In a template "end" is the closing `}}`, which need not be the text's end."""
    found: list[Token] = []
    at = start
    braces = 0
    while True:
        at = _skip_space(source, at)
        if at == len(source):
            if in_template:
                raise BadExpression(
                    "this {{ is never closed",
                    column=start - 1,
                    hint="close it with }}, or write \\{{ for the text {{",
                )
            found.append(Token("end", "", None, at, at))
            return found
        if in_template and not braces and source.startswith("}}", at):
            found.append(Token("end", "}}", None, at, at + 2))
            return found
        token = _token(source, at)
        if token.kind == "sign":
            braces += (token.text == "{") - (token.text == "}")
        found.append(token)
        at = token.end


def _skip_space(source: str, at: int) -> int:
    space = SPACE.match(source, at)
    return space.end() if space else at


def _token(source: str, at: int) -> Token:
    if STRING_START.match(source, at):
        text, end = read_string(source, at)
        return Token("string", source[at:end], text, at, end)
    if name := NAME.match(source, at):
        return Token("name", name[0], None, at, name.end())
    if number := NUMBER.match(source, at):
        value, end = read_number(source, at, number[0])
        return Token("number", source[at:end], value, at, end)
    if sign := SIGN.match(source, at):
        return Token("sign", sign[0], None, at, sign.end())
    if quoted := QUOTED.match(source, at):
        return Token("quoted", quoted[0], quoted[0][1:-1], at, quoted.end())
    character = source[at]
    if character.isalpha():
        raise BadExpression(
            f"names have only letters a to z, digits and _, so {character!r} cannot stand here",
            column=at + 1,
            hint="write the key in brackets: ctx['größe']",
        )
    raise BadExpression(
        f"{character!r} has no meaning here",
        column=at + 1,
        hint=MISTAKES.get(character, "see the list of operators in the language reference"),
    )
