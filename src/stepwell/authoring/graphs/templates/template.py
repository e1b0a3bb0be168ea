"""Template: JSON structures whose strings may hold `{{ expression }}`.

A string that is exactly one `{{ }}` becomes the value with its type; otherwise values become part
of the text. The content of a value is never read as a template: everything is compiled before the
first value is rendered. `\\{{` is the text `{{`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from stepwell.authoring.graphs.expressions.expression import (
    Expression,
    check_source,
    expression_error,
    from_tokens,
)
from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Frame
from stepwell.authoring.graphs.expressions.lexer import tokens
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from stepwell.authoring.graphs.expressions.values import SCALAR_SIZE, check_size, copy, text, type_name
from stepwell.errors import BadExpression

# Backslashes escape only braces, so other text needs no escaping.
MARK = re.compile(r"(\\*)(\{\{|\}\})")
EXPRESSIONS_MAX = 10_000
_NOT_CONSTANT = object()


class Rendering:
    """One rendering: the frame that all its expressions share, and the remaining size."""

    __slots__ = ("_frame", "left", "limits")

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.limits = frame.limits
        self.left = frame.limits.structure_size

    def value(self, expression: Expression) -> Any:
        self._frame.non_finite = False
        return expression.evaluate_in(self._frame)

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ExpressionFault(
                f"the template gives more than {self.limits.structure_size:,} characters",
                hint="pass on less, or a reference",
            )


RenderPart: TypeAlias = Callable[[Rendering], Any]


class Template:
    """Get one from compile_template."""

    __slots__ = ("_constant", "_limits", "_part", "names")

    def __init__(
        self, part: RenderPart, names: frozenset[str], limits: ExpressionLimits, *, constant: bool
    ) -> None:
        self._part = part
        self._limits = limits
        # The result, if there are no expressions.
        self._constant = part(Rendering(Frame({}, None, limits))) if constant else _NOT_CONSTANT
        # The names that its expressions use.
        self.names = names

    def render(self, scope: Mapping[str, Any], now: float | None = None) -> Any:
        """A new JSON value that shares nothing with the scope. Raises ExpressionError, as expressions do."""
        if self._constant is not _NOT_CONSTANT:
            return copy(self._constant)
        return self._part(Rendering(Frame(scope, now, self._limits)))


Escape: TypeAlias = Callable[[str], str]


def compile_template(
    value: Any, limits: ExpressionLimits = DEFAULT_LIMITS, *, escape: Escape | None = None
) -> Template:
    """Compile any JSON value.

    BadExpression has the column and the `field` (a.b[0]) of the error. `escape` is applied to every value
    that is inserted into text.
    """
    compiler = _TemplateCompiler(limits, escape)
    part = compiler.compile(value, "", 0)
    return Template(part, frozenset(compiler.names), limits, constant=not compiler.expressions)


class _TemplateCompiler:
    def __init__(self, limits: ExpressionLimits, escape: Escape | None = None) -> None:
        self._limits = limits
        self._escape = escape
        self.expressions = 0  # how many the template holds
        self.names: set[str] = set()

    def compile(self, value: Any, field: str, depth: int) -> RenderPart:
        if depth > self._limits.data_depth:
            raise BadExpression(
                f"a template is nested at most {self._limits.data_depth} deep", field=field[:200]
            )
        if type(value) is str:
            return self._string(value, field)
        if type(value) is list:
            return _list(
                [self.compile(item, f"{field}[{index}]", depth + 1) for index, item in enumerate(value)]
            )
        if type(value) is dict:
            return self._map(value, field, depth)
        if value is None or type(value) in (bool, int, float):
            return _constant(value, SCALAR_SIZE)
        raise BadExpression(f"a template is JSON, this is {type_name(value)}", field=field or "value")

    def _map(self, value: dict[Any, Any], field: str, depth: int) -> RenderPart:
        parts: list[tuple[str, RenderPart]] = []
        for key, item in value.items():
            if type(key) is not str:
                raise BadExpression(f"keys are strings, this one is {type_name(key)}", field=field or "value")
            parts.append((key, self.compile(item, f"{field}.{key}" if field else key, depth + 1)))
        return _map(parts)

    def _string(self, source: str, field: str) -> RenderPart:
        if "{{" not in source and "}}" not in source:
            return _constant(source, len(source) + 2)
        try:
            check_source(source, self._limits)
            pieces = self._pieces(source)
        except BadExpression as error:
            error.context.setdefault("template", source[:200])
            if field:
                error.context.setdefault("field", field[:200])
            raise
        if len(pieces) == 1:
            only = pieces[0]
            return _whole(only) if isinstance(only, Expression) else _constant(only, len(only) + 2)
        return _text(pieces, source, self._escape)

    def _pieces(self, source: str) -> list[str | Expression]:
        """Text and expressions, alternating; empty text is left out."""
        pieces: list[str | Expression] = []
        plain: list[str] = []
        at = 0
        open_escapes = 0
        while mark := MARK.search(source, at):
            slashes, braces = mark[1], mark[2]
            plain.append(source[at : mark.start()] + "\\" * (len(slashes) // 2))
            at = mark.end()
            if len(slashes) % 2:
                plain.append(braces)
                open_escapes += braces == "{{"
            elif braces == "}}":
                if not open_escapes:
                    raise BadExpression(
                        "this }} closes nothing", column=mark.start(2) + 1, hint="write \\}} for the text }}"
                    )
                open_escapes -= 1
                plain.append(braces)
            else:
                _flush(plain, pieces)
                expression, at = self._expression(source, at)
                pieces.append(expression)
        plain.append(source[at:])
        _flush(plain, pieces)
        return pieces or [""]

    def _expression(self, source: str, at: int) -> tuple[Expression, int]:
        self.expressions += 1
        if self.expressions > EXPRESSIONS_MAX:
            raise BadExpression(f"a template holds at most {EXPRESSIONS_MAX:,} expressions", column=at - 1)
        read = tokens(source, at, in_template=True)
        expression = from_tokens(source, read, self._limits)
        self.names |= expression.names
        return expression, read[-1].end


def _flush(plain: list[str], pieces: list[str | Expression]) -> None:
    joined = "".join(plain)
    if joined:
        pieces.append(joined)
    plain.clear()


def _constant(value: Any, size: int) -> RenderPart:
    def run(rendering: Rendering) -> Any:
        rendering.left -= size
        return value

    return run


def _list(parts: list[RenderPart]) -> RenderPart:
    return lambda rendering: [part(rendering) for part in parts]


def _map(parts: list[tuple[str, RenderPart]]) -> RenderPart:
    return lambda rendering: {key: part(rendering) for key, part in parts}


def _whole(expression: Expression) -> RenderPart:
    """A copy of the value, with its own lists and maps."""

    def run(rendering: Rendering) -> Any:
        value = rendering.value(expression)
        try:
            rendering.spend(check_size(value, rendering.limits.structure_size, rendering.limits))
        except ExpressionFault as fault:
            raise expression_error(fault, expression.source) from None
        return copy(value)

    return run


def _text(pieces: list[str | Expression], source: str, escape: Escape | None) -> RenderPart:
    def run(rendering: Rendering) -> str:
        limits = rendering.limits
        parts: list[str] = []
        length = 0
        try:
            for piece in pieces:
                if isinstance(piece, Expression):
                    value = text(rendering.value(piece), limits)
                    parts.append(value if escape is None else escape(value))
                else:
                    parts.append(piece)
                length += len(parts[-1])
                if length > limits.string_length:
                    raise ExpressionFault(f"a text has at most {limits.string_length:,} characters")
            rendering.spend(length)
        except ExpressionFault as fault:
            raise expression_error(fault, source) from None
        return "".join(parts)

    return run
