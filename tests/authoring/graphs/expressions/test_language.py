"""The whole expression language in cases of our own: every operator, macro, function and form.

A case is an expression with the value it gives, or with the words of its error. The last tests read the
expressions of all cases: what the language has and no case uses fails them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from stepwell.authoring.graphs.expressions import compile_expression, syntax
from stepwell.authoring.graphs.expressions.functions import FUNCTIONS, MACROS, SPECIAL
from stepwell.authoring.graphs.expressions.lexer import tokens
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.expressions.operators import OPERATORS
from stepwell.authoring.graphs.expressions.parser import Parser
from stepwell.errors import BadExpression, ExpressionError

pytestmark = pytest.mark.req("G14")

NOW = 1_769_860_800.25  # 2026-01-31T12:00:00.250Z
SCOPE: dict[str, Any] = {
    "n": 7,
    "d": 2.5,
    "s": "Ada Lovelace",
    "yes": True,
    "nil": None,
    "list": [3, 1, 2],
    "map": {"a": 1, "b": [10, 20]},
    "people": [{"name": "Ada", "age": 36}, {"name": "Bo", "age": 9}],
}

GIVES: list[tuple[str, Any]] = [
    # literals, names, lists and maps
    ("'it' + \"s\"", "its"),
    ("[n, d, nil]", [7, 2.5, None]),
    ("{'k': n, 's': {}}", {"k": 7, "s": {}}),
    # arithmetic
    ("2 + 3", 5),
    ("[1] + [2]", [1, 2]),
    ("2.5 + 0.5", 3.0),
    ("2 - 3", -1),
    ("1.5 - 0.5", 1.0),
    ("6 * 7", 42),
    ("1.5 * 2.0", 3.0),
    ("-9 / 2", -4),
    ("9.0 / 2.0", 4.5),
    ("-9 % 4", -1),
    ("9 % -4", 1),
    ("1 + 2 * 3 - 8 / 4 % 3", 5),
    ("-n", -7),
    ("- - -d", -2.5),
    # comparison and membership
    ("n == 7.0", True),
    ("'7' == n", False),
    ("{'x': [1]} == {'x': [1.0]}", True),
    ("[1, 2] != [2, 1]", True),
    ("nil != null", False),
    ("n < 8", True),
    ("'a' < 'B'", False),
    ("false <= true", True),
    ("2 <= 1.5", False),
    ("'b' > 'a'", True),
    ("d > 3", False),
    ("d >= 2.5", True),
    ("1 >= 2", False),
    ("2.0 in list", True),
    ("'c' in map", False),
    ("'a' in map", True),
    # logic and choice
    ("!yes", False),
    ("!!yes", True),
    ("yes && n > 1", True),
    ("false && 1 / 0 > 0", False),
    ("1 / 0 > 0 && false", False),
    ("false || yes", True),
    ("1 / 0 > 0 || true", True),
    ("n > 9 ? 'large' : n > 5 ? 'medium' : 'small'", "medium"),
    ("yes ? 1 : 1 / 0", 1),
    # lookup
    ("map.b[1]", 20),
    ("map['b'][0]", 10),
    ("people[1].name", "Bo"),
    ("map?.c", None),
    ("nil?.a?.['b']", None),
    ("list?.[9]", None),
    ("has(map.a)", True),
    ("has(map.c)", False),
    # macros
    ("list.map(x, x * 2)", [6, 2, 4]),
    ("list.map(x, x > 1, x * 2)", [6, 4]),
    ("map.map(k, k + '!')", ["a!", "b!"]),
    ("people.filter(p, p.age > 18).map(p, p.name)", ["Ada"]),
    ("list.exists(x, x == 2)", True),
    ("[].exists(x, x)", False),
    ("['a', 1].exists(x, x > 0)", True),
    ("list.all(x, x > 0)", True),
    ("['a', 1].all(x, x > 5)", False),
    ("list.exists_one(x, x > 2)", True),
    ("list.exists_one(x, x > 1)", False),
    # functions on any value
    ("default(map?.c, n)", 7),
    ("default(n, 1 / 0)", 7),
    ("dyn(n) + 1", 8),
    ("size(list) + size(map) + s.size()", 17),
    ("json(map)", '{"a":1,"b":[10,20]}'),
    # conversions
    ("string(n) + string(yes) + string(d)", "7true2.5"),
    ("int('-12') + int(2.9)", -10),
    ("double(n)", 7.0),
    ("double('1e3')", 1000.0),
    ("bool('true') || bool(false)", True),
    # text
    ("lower(s)", "ada lovelace"),
    ("s.upper()", "ADA LOVELACE"),
    ("trim('  x ')", "x"),
    ("s.startsWith('Ada')", True),
    ("endsWith(s, 'lace')", True),
    ("s.contains('da L')", True),
    ("s.split(' ')", ["Ada", "Lovelace"]),
    ("split('abc', '')", ["a", "b", "c"]),
    ("['a', 'b'].join('-')", "a-b"),
    ("join(['a', 'b'])", "ab"),
    ("s.matches('^A[a-z]+ L')", True),
    ("matches('x1', '[0-9]$')", True),
    ("'x'.matches('^$')", False),
    # maps and numbers
    ("keys(map)", ["a", "b"]),
    ("map.values()", [1, [10, 20]]),
    ("min(3, 1.5, 2)", 1.5),
    ("min(list)", 1),
    ("max('a', 'b')", "b"),
    ("list.max()", 3),
    ("sum(list)", 6),
    ("sum([1, 0.5])", 1.5),
    ("abs(-n)", 7),
    ("abs(-d)", 2.5),
    ("round(2.5)", 3),
    ("round(-2.5)", -3),
    ("round(2.675, 2)", 2.68),
    # time
    ("now()", 1_769_860_800_250),
    ("date(2026, 1, 31)", 1_769_817_600_000),
    ("date('2026-01-31')", 1_769_817_600_000),
    ("date('2026-01-31T14:00:00+02:00')", 1_769_860_800_000),
    ("date(now(), 'DD.MM.YYYY HH:mm')", "31.01.2026 12:00"),
    ("date(now(), 'iso')", "2026-01-31T12:00:00.250Z"),
]

REFUSES: list[tuple[str, str]] = [
    # operators: nothing is converted silently
    ("1 + 1.0", "int and double"),
    ("9223372036854775807 + 1", "64 bits"),
    ("'a' - 'b'", "does not go with"),
    ("2 * 'a'", "does not go with"),
    ("1 / 0", "division by zero"),
    ("1.5 % 2.0", "two integers"),
    ("5 % 0", "division by zero"),
    ("-s", "- needs a number"),
    ("'10' < 9", "no order"),
    ("list <= list", "no order"),
    ("nil > 1", "no order"),
    ("1 >= '1'", "no order"),
    ("1 in 2", "needs a list or a map"),
    ("yes && n", "&&"),
    ("n || false", "||"),
    ("!n", "! needs"),
    ("n ? 1 : 2", "?"),
    ("1.0 / 0.0 == 1.0 ? 1.0 : 1.0 / 0.0", "JSON"),
    # lookup
    ("map.c", "map.c does not exist"),
    ("list[3]", "counted from 0"),
    ("nobody", "nobody"),
    ("has(n.a)", "has needs a map"),
    # macros
    ("n.map(x, x)", "map needs a list or a map"),
    ("list.map(x, n, x)", "condition of map"),
    ("list.filter(x, x)", "condition of filter"),
    ("list.exists(x, x)", "condition of exists"),
    ("list.all(x, x)", "condition of all"),
    ("list.exists_one(x, x)", "condition of exists_one"),
    # functions
    ("default(1 / 0, 1)", "division by zero"),
    ("dyn(map.c)", "does not exist"),
    ("size(n)", "size needs"),
    ("json(1.0 / 0.0)", "JSON"),
    ("string(list)", "string cannot convert"),
    ("int('1.5')", "int cannot convert"),
    ("double('one')", "double cannot convert"),
    ("bool(1)", "bool cannot convert"),
    ("lower(n)", "lower needs a string"),
    ("upper(nil)", "upper needs a string"),
    ("trim(list)", "trim needs a string"),
    ("s.startsWith(1)", "startsWith needs a string"),
    ("n.endsWith('7')", "endsWith needs a string"),
    ("list.contains(3)", "contains needs a string"),
    ("split(s, 1)", "split needs a string"),
    ("join(list, ',')", "join needs strings"),
    ("s.matches('(' + s)", "pattern"),
    ("keys(list)", "keys needs a map"),
    ("values(s)", "values needs a map"),
    ("min([])", "empty list"),
    ("max(1, 'a')", "no order"),
    ("sum(['1'])", "sum needs numbers"),
    ("abs(s)", "abs needs a number"),
    ("round(s)", "round needs a number"),
    ("date('tomorrow')", "date"),
    ("date(2026, 2, 30)", "date"),
]

CASES = [source for source, _ in GIVES + REFUSES]


@pytest.mark.parametrize(("source", "value"), GIVES, ids=[source for source, _ in GIVES])
def test_expression_gives_its_value(source: str, value: Any) -> None:
    result = compile_expression(source).evaluate(SCOPE, now=NOW)

    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(("source", "words"), REFUSES, ids=[source for source, _ in REFUSES])
def test_expression_is_refused(source: str, words: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        compile_expression(source).evaluate(SCOPE, now=NOW)

    assert words in str(refused.value)


def test_now_without_a_time_is_refused() -> None:
    with pytest.raises(ExpressionError, match=r"now\(\) has no meaning here"):
        compile_expression("now()").evaluate({})


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_wrong_number_of_values_is_refused_when_it_is_compiled(function: str) -> None:
    fewer = FUNCTIONS[function].least - 1
    count = fewer if fewer >= 0 else FUNCTIONS[function].most + 1

    with pytest.raises(BadExpression, match=function):
        compile_expression(f"{function}({', '.join(['1'] * count)})")


def test_every_operator_has_a_case() -> None:
    signs = {sign for sign, kind in used_in(GIVES) if kind == "operator"}

    assert set(OPERATORS) - signs == set()
    assert {"&&", "||", "?:", "!", "-x"} - signs == set()


def test_every_macro_has_a_case_with_a_value_and_one_that_is_refused() -> None:
    assert {name for name in MACROS if (name, "macro") not in used_in(GIVES)} == set()
    assert {name for name in MACROS if (name, "macro") not in used_in(REFUSES)} == set()


def test_every_function_has_a_case_with_a_value_and_one_that_is_refused() -> None:
    unfailing = {"now"}  # see test_now_without_a_time_is_refused

    assert {name for name in FUNCTIONS if (name, "function") not in used_in(GIVES)} == set()
    assert {name for name in FUNCTIONS if (name, "function") not in used_in(REFUSES)} == unfailing
    assert {name for name in SPECIAL if (name, "function") not in used_in(REFUSES)} == set()


def test_every_form_of_the_syntax_has_a_case() -> None:
    forms = {*get_args(syntax.SyntaxNode), *get_args(syntax.Link)}

    assert {form.__name__ for form in forms} - {kind for _, kind in used_in(GIVES)} == set()


def used_in(table: list[tuple[str, Any]]) -> set[tuple[str, str]]:
    """(sign or name, what it is) of everything that these expressions use."""
    return {use for source, _ in table for part in parts(parsed(source)) for use in uses(part)}


def parsed(source: str) -> syntax.SyntaxNode:
    return Parser(tokens(source), DEFAULT_LIMITS).whole()


def parts(value: object) -> Iterator[object]:
    """The part and all parts below it."""
    if isinstance(value, tuple):
        for item in value:
            yield from parts(item)
    elif dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from parts(getattr(value, field.name))


def uses(part: object) -> Iterator[tuple[str, str]]:
    yield "", type(part).__name__
    match part:
        case syntax.ChainExpr(rest=rest):
            yield from ((sign, "operator") for sign, _, _ in rest)
        case syntax.Logic(sign=sign):
            yield sign, "operator"
        case syntax.ConditionalExpr():
            yield "?:", "operator"
        case syntax.Prefix(sign=sign):
            yield ("-x" if sign == "-" else sign), "operator"
        case syntax.CallExpr(function=name) | syntax.Method(function=name):
            yield name, "function"
        case syntax.Has():
            yield "has", "function"
        case syntax.Macro(macro=name):
            yield name, "macro"
