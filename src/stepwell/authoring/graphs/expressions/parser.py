"""Parser: tokens into syntax.

Operators climb by precedence in one loop, so the depth of the Python stack grows only with
brackets, which are counted.
"""

from __future__ import annotations

from stepwell.authoring.graphs.expressions.functions import FUNCTIONS, MACROS, SPECIAL
from stepwell.authoring.graphs.expressions.lexer import Token
from stepwell.authoring.graphs.expressions.limits import ExpressionLimits
from stepwell.authoring.graphs.expressions.literals import INTEGER_MAX, INTEGER_MIN
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
from stepwell.domain.suggest import did_you_mean
from stepwell.errors import BadExpression

LEVELS = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", "<=", ">", ">=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
LOGIC = 2  # the first two levels
WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
OTHER_LANGUAGES = {
    "and": "write &&",
    "or": "write ||",
    "not": "write !",
    "is": "write ==",
    "if": "write condition ? value : other",
    "None": "write null",
    "True": "write true",
    "False": "write false",
    "undefined": "write null",
}


class Parser:
    """For one use: `Parser(tokens, limits).expression()`; then `roots` has the names that it uses."""

    def __init__(self, tokens: list[Token], limits: ExpressionLimits) -> None:
        self._tokens = tokens
        self._next = 0
        self._limits = limits
        self._depth = 0
        self._nodes = 0
        self._variables: list[str] = []
        self.roots: set[str] = set()

    def whole(self) -> SyntaxNode:
        if len(self._tokens) == 1:
            raise BadExpression("there is no expression here", column=self._peek.start + 1)
        node = self._choice()
        if self._next != len(self._tokens) - 1:
            raise self._unexpected("an operator or the end")
        return node

    # Tokens

    @property
    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _is(self, text: str) -> bool:
        token = self._tokens[self._next]
        return token.text == text and token.kind == "sign"

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._next += 1
            return True
        return False

    def _expect(self, text: str) -> Token:
        if not self._is(text):
            raise self._unexpected(repr(text))
        return self._take()

    def _unexpected(self, wanted: str) -> BadExpression:
        token = self._peek
        if token.kind == "end":
            return BadExpression(
                f"the expression ends, but {wanted} is expected",
                column=token.start + 1,
                hint="complete or remove it",
            )
        hint = OTHER_LANGUAGES.get(token.text, "")
        return BadExpression(
            f"{wanted} is expected instead of {token.text!r}", column=token.start + 1, hint=hint
        )

    # Limits

    def _count(self, at: int, nodes: int = 1) -> None:
        self._nodes += nodes
        if self._nodes > self._limits.nodes:
            raise BadExpression(
                f"an expression has at most {self._limits.nodes} parts",
                column=at + 1,
                hint="split it over several nodes, or use a code step",
            )

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > self._limits.nesting:
            raise BadExpression(
                f"brackets are nested deeper than {self._limits.nesting}",
                column=self._peek.start + 1,
                hint="split it over several nodes",
            )

    def _leave(self) -> None:
        self._depth -= 1

    # Grammar

    def _choice(self) -> SyntaxNode:
        first = self._operators(0)
        if not self._is("?"):
            return first
        cases: list[tuple[SyntaxNode, SyntaxNode]] = []
        condition = first
        while self._is("?"):
            at = self._take().start
            self._count(at)
            self._enter()
            value = self._choice()
            self._leave()
            self._expect(":")
            cases.append((condition, value))
            condition = self._operators(0)
        return ConditionalExpr(tuple(cases), condition, first.at)

    def _operators(self, level: int) -> SyntaxNode:
        """Left to right within a level; each level calls the next one, five in all."""
        if level == len(LEVELS):
            return self._prefix()
        first = self._operators(level + 1)
        signs = LEVELS[level]
        rest: list[tuple[str, SyntaxNode, int]] = []
        while self._peek.text in signs and self._peek.kind in ("sign", "name"):
            sign = self._take()
            self._count(sign.start)
            rest.append((sign.text, self._operators(level + 1), sign.start))
        if not rest:
            return first
        if level < LOGIC:
            return Logic(rest[0][0], (first, *(operand for _, operand, _ in rest)), first.at)
        return ChainExpr(first, tuple(rest), first.at)

    def _prefix(self) -> SyntaxNode:
        token = self._peek
        if token.kind != "sign" or token.text not in "!-":
            return self._links()
        count = 0
        while self._accept(token.text):
            count += 1
        self._count(token.start, count)
        number = self._peek
        if token.text == "-" and number.kind == "number":
            # The sign belongs to the literal; otherwise the smallest integer could not be written.
            operand = self._links(negative=True)
            return operand if count == 1 else Prefix("-", count - 1, operand, token.start)
        if self._peek.kind == "sign" and self._peek.text in "!-":
            self._enter()
            operand = self._prefix()
            self._leave()
        else:
            operand = self._links()
        return Prefix(token.text, count, operand, token.start)

    def _links(self, *, negative: bool = False) -> SyntaxNode:
        base = self._primary(negative)
        links: list[Link] = []
        while self._peek.kind == "sign" and self._peek.text in (".", "?.", "["):
            links.append(self._link())
        return Links(base, tuple(links), base.at) if links else base

    def _link(self) -> Link:
        sign = self._take()
        self._count(sign.start)
        if sign.text == "[":
            return self._index(sign.start, optional=False)
        optional = sign.text == "?."
        if optional and self._accept("["):
            return self._index(sign.start, optional=True)
        token = self._peek
        if token.kind == "quoted":
            self._take()
            return Field(str(token.value), optional, token.start, token.end)
        if token.kind != "name":
            raise self._unexpected("a name")
        self._take()
        if not self._is("("):
            return Field(token.text, optional, token.start, token.end)
        if optional:
            raise BadExpression(
                "a function cannot be optional", column=sign.start + 1, hint=f"write .{token.text}(...)"
            )
        return self._method(token)

    def _index(self, at: int, *, optional: bool) -> Index:
        self._enter()
        key = self._choice()
        self._leave()
        end = self._expect("]").end
        return Index(key, optional, at, end)

    def _method(self, name: Token) -> Link:
        if name.text in MACROS:
            return self._macro(name)
        arguments, end = self._arguments()
        self._check_call(name, len(arguments) + 1)
        return Method(name.text, arguments, name.start, end)

    def _macro(self, name: Token) -> Macro:
        self._expect("(")
        variable = self._peek
        if variable.kind != "name" or variable.text in WORDS or variable.text == "in":
            raise self._unexpected("the name of a variable")
        self._check_name(self._take())
        self._expect(",")
        self._enter()
        self._variables.append(variable.text)
        before = self._nodes
        body = self._choice()
        only = None
        if name.text == "map" and self._accept(","):
            only, body = body, self._choice()
        self._variables.pop()
        self._leave()
        end = self._expect(")").end
        return Macro(name.text, variable.text, only, body, self._nodes - before, name.start, end)

    def _arguments(self) -> tuple[tuple[SyntaxNode, ...], int]:
        self._expect("(")
        self._enter()
        arguments: list[SyntaxNode] = []
        while not self._is(")"):
            arguments.append(self._choice())
            if not self._accept(","):
                break
        self._leave()
        return tuple(arguments), self._expect(")").end

    def _primary(self, negative: bool) -> SyntaxNode:
        token = self._peek
        self._count(token.start)
        if token.kind == "number":
            self._take()
            return Constant(_signed(token, negative), token.start)
        if token.kind == "string":
            self._take()
            return Constant(str(token.value), token.start)
        if token.kind == "name":
            return self._named()
        if self._accept("("):
            self._enter()
            inside = self._choice()
            self._leave()
            self._expect(")")
            return inside
        if self._accept("["):
            return self._list(token.start)
        if self._accept("{"):
            return self._map(token.start)
        raise self._unexpected("a value")

    def _named(self) -> SyntaxNode:
        token = self._peek
        if token.text in WORDS:
            self._take()
            return Constant(WORDS[token.text], token.start)
        if token.text == "in":
            raise self._unexpected("a value")
        self._take()
        if self._is("("):
            return self._call(token)
        if self._is("{"):
            raise BadExpression(
                "there are no typed objects", column=token.start + 1, hint="write a map: {'key': value}"
            )
        self._check_name(token)
        if token.text not in self._variables:
            self.roots.add(token.text)
        return Name(token.text, token.start)

    def _call(self, name: Token) -> SyntaxNode:
        arguments, _ = self._arguments()
        if name.text == "has":
            return _has(name, arguments)
        if name.text in MACROS:
            raise BadExpression(
                f"{name.text} is a method of lists and maps",
                column=name.start + 1,
                hint=f"write items.{name.text}(x, ...)",
            )
        self._check_call(name, len(arguments))
        return CallExpr(name.text, arguments, name.start)

    def _list(self, at: int) -> ListOf:
        self._enter()
        items: list[SyntaxNode] = []
        while not self._is("]"):
            items.append(self._choice())
            if not self._accept(","):
                break
        self._leave()
        self._expect("]")
        return ListOf(tuple(items), at)

    def _map(self, at: int) -> MapOf:
        self._enter()
        entries: list[tuple[SyntaxNode, SyntaxNode]] = []
        while not self._is("}"):
            key = self._choice()
            self._expect(":")
            entries.append((key, self._choice()))
            if not self._accept(","):
                break
        self._leave()
        self._expect("}")
        return MapOf(tuple(entries), at)

    # Names

    def _check_name(self, token: Token) -> None:
        if token.text.startswith("__"):
            raise BadExpression(f"names cannot begin with __, as {token.text!r} does", column=token.start + 1)

    def _check_call(self, name: Token, count: int) -> None:
        function = FUNCTIONS.get(name.text)
        if function is None:
            raise BadExpression(
                f"there is no function {name.text!r}",
                column=name.start + 1,
                hint=did_you_mean(name.text, [*FUNCTIONS, *MACROS, *SPECIAL]) or "see the list of functions",
            )
        if not function.least <= count <= function.most:
            raise BadExpression(
                f"{name.text} takes {function.arity}, not {count}", column=name.start + 1, hint=function.usage
            )


def _has(name: Token, arguments: tuple[SyntaxNode, ...]) -> Has:
    if len(arguments) == 1 and isinstance(arguments[0], Links):
        whole = arguments[0]
        last = whole.links[-1]
        if isinstance(last, Field) and not last.optional:
            base = Links(whole.base, whole.links[:-1], whole.at) if len(whole.links) > 1 else whole.base
            return Has(base, last.name, name.start)
    raise BadExpression("has takes one member", column=name.start + 1, hint="write has(ctx.order.total)")


def _signed(token: Token, negative: bool) -> int | float:
    value = token.value
    assert isinstance(value, int | float)
    value = -value if negative else value
    if isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise BadExpression("integers have 64 bits: this one is too large", column=token.start + 1)
    return value
