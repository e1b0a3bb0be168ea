"""Expression: compiled once, evaluated often, without side effects."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import islice
from typing import Any

from stepwell.authoring.graphs.expressions.compiler import Compiler
from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Closure, Frame
from stepwell.authoring.graphs.expressions.lexer import Token, tokens
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from stepwell.authoring.graphs.expressions.logic import not_boolean
from stepwell.authoring.graphs.expressions.parser import Parser
from stepwell.authoring.graphs.expressions.values import TYPE_NAMES, check_size, type_name
from stepwell.domain.suggest import did_you_mean
from stepwell.errors import BadExpression, ExpressionError

_NAMES_COMPARED_MAX = 100  # the names come from data
# A graph keeps its own compiled expressions; this cache is for callers that compile again and again.
CACHE_SIZE = 1_024
SHOWN_SOURCE = 200


class Expression:
    """Get one from compile_expression."""

    __slots__ = ("_closure", "_constructs", "_limits", "_slots", "names", "source")

    def __init__(
        self,
        source: str,
        closure: Closure,
        *,
        names: frozenset[str],
        slots: int,
        constructs: bool,
        limits: ExpressionLimits,
    ) -> None:
        self.source = source
        # The names that it uses.
        self.names = names
        self._closure = closure
        self._slots = slots
        self._constructs = constructs
        self._limits = limits

    def evaluate(self, scope: Mapping[str, Any], now: float | None = None) -> Any:
        """A JSON value. `now` is the time in seconds that now() returns.

        Values of the scope are returned as they are, not copied: do not change them.
        ExpressionError names the column, and the path that is missing.
        """
        return self.evaluate_in(Frame(scope, now, self._limits))

    def evaluate_in(self, frame: Frame) -> Any:
        """The same with a frame, and so a budget, that several expressions share."""
        if self._slots:
            frame.locals = [None] * self._slots
        try:
            value = self._closure(frame)
            kind = type(value)
            if kind not in TYPE_NAMES:
                raise ExpressionFault(f"the value is {type_name(value)}", column=1)
            if frame.non_finite or (self._constructs and (kind is list or kind is dict)):
                check_size(value, self._limits.string_length, self._limits)
        except ExpressionFault as fault:
            raise expression_error(fault, self.source) from None
        return value

    def truth(self, scope: Mapping[str, Any], now: float | None = None) -> bool:
        """The value of a condition; anything but true and false is an ExpressionError."""
        value = self.evaluate(scope, now)
        if value is True or value is False:
            return bool(value)
        raise expression_error(not_boolean("a condition", value, 1), self.source)

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


def compile_expression(source: str, limits: ExpressionLimits = DEFAULT_LIMITS) -> Expression:
    """Compile and cache. BadExpression names the error and its column."""
    if not isinstance(source, str):
        raise BadExpression(f"an expression must be text, this is {type_name(source)}", column=1)
    check_source(source, limits)
    return _compiled(source, limits)


@functools.lru_cache(maxsize=CACHE_SIZE)
def _compiled(source: str, limits: ExpressionLimits) -> Expression:
    try:
        return from_tokens(source, tokens(source), limits)
    except BadExpression as error:
        error.context.setdefault("expression", source[:SHOWN_SOURCE])
        raise


def from_tokens(source: str, read: list[Token], limits: ExpressionLimits) -> Expression:
    """For templates: the source is the whole text, the tokens are those of one `{{ }}`."""
    parser = Parser(read, limits)
    syntax = parser.whole()
    compiler = Compiler(source)
    closure = compiler.compile(syntax)
    return Expression(
        source,
        closure,
        names=frozenset(parser.roots),
        slots=compiler.slots,
        constructs=compiler.constructs,
        limits=limits,
    )


def check_source(source: str, limits: ExpressionLimits) -> None:
    # A character has at least one byte, so most texts need not be encoded to be measured.
    size = len(source)
    if 4 * size > limits.source_bytes:
        size = max(size, len(source.encode(errors="surrogatepass")))
    if size > limits.source_bytes:
        raise BadExpression(
            f"an expression has at most {limits.source_bytes:,} bytes, this one has {size:,}",
            column=1,
            hint="pass long text in as data, or split it over several nodes",
        )


def names(expression: Expression) -> frozenset[str]:
    """The names that an expression uses: {"ctx"} for `ctx.items.map(x, x.id)`."""
    return expression.names


def expression_error(fault: ExpressionFault, source: str) -> ExpressionError:
    hint = did_you_mean(fault.wanted, islice(fault.names, _NAMES_COMPARED_MAX)) if fault.wanted else ""
    hint = "; ".join(part for part in (hint, fault.hint) if part)
    return ExpressionError(
        fault.message, hint=hint, column=fault.column, path=fault.path, expression=source[:SHOWN_SOURCE]
    )
