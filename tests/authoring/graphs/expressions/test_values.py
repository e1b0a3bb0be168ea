"""Operators and functions: what each gives, and what each refuses in which column."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stepwell.authoring.graphs.expressions import compile_expression, names
from stepwell.errors import BadExpression, ExpressionError

pytestmark = pytest.mark.req("G14")

MIN, MAX = -(2**63), 2**63 - 1
SCOPE: dict[str, Any] = {
    "ctx": {
        "n": 7,
        "d": 2.5,
        "s": "héllo",
        "t": True,
        "nil": None,
        "items": [3, 1, 2],
        "map": {"a": 1, "b": {"c": [10, 20]}},
        "people": [{"name": "Ada", "age": 36}, {"name": "Bo", "age": 9}],
        "a key": 5,
        "min": MIN,
        "loop": 1,
    },
    "loop": {"item": "x", "index": 2},
}

VALUES: list[tuple[str, Any]] = [
    # literals
    ("1", 1),
    ("0x1F", 31),
    ("-9223372036854775808", MIN),
    ("1.5e3", 1500.0),
    (".5", 0.5),
    ("'a\\n\\x41\\u00e9\\U0001f600\\101'", "a\nAé😀A"),
    ('r"\\d+"', "\\d+"),
    ("'''it's\n\"so\"'''", 'it\'s\n"so"'),
    ("true", True),
    ("null", None),
    ("[1, 'a', [null],]", [1, "a", [None]]),
    ("{'a': 1, 'b' + 'c': {}}", {"a": 1, "bc": {}}),
    ("1 // one\n + 2", 3),
    # lookup
    ("ctx.map.b.c[1]", 20),
    ("ctx['map']['b'].c[0]", 10),
    ("ctx.`a key`", 5),
    ("ctx.items[1.0]", 1),
    ("loop.item", "x"),
    ("ctx.loop", 1),
    ("{'in': 1}.in", 1),
    # absent members
    ("ctx?.nothing", None),
    ("ctx?.nothing?.more?.[3]", None),
    ("ctx.nil?.x", None),
    ("ctx.items?.[9]", None),
    ("ctx.map?.['x']", None),
    ("ctx?.n", 7),
    ("default(ctx?.x, ctx.n)", 7),
    ("default(ctx.n, 1 / 0)", 7),
    ("ctx?.x.default('y')", "y"),
    ("has(ctx.map.a)", True),
    ("has(ctx.map.x)", False),
    ("has(ctx.nil)", True),
    # arithmetic
    ("1 + 2 * 3 - 4", 3),
    ("(1 + 2) * 3", 9),
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("7 / -2", -3),
    ("-7 % 3", -1),
    ("7 % -3", 1),
    ("7.0 / 2.0", 3.5),
    ("0.1 + 0.2", 0.1 + 0.2),
    ("10 - 2 - 3", 5),
    ("- -ctx.n", 7),
    ("-ctx.d", -2.5),
    ("'a' + 'b' + 'c'", "abc"),
    ("[1] + [2, 3]", [1, 2, 3]),
    # comparison
    ("1 < 2", True),
    ("1 <= 1.0", True),
    ("2.5 > 2", True),
    ("'a' < 'b'", True),
    ("false < true", True),
    ("1 == 1.0", True),
    ("1 == true", False),
    ("0 == false", False),
    ("1 == '1'", False),
    ("null == null", True),
    ("null == 0", False),
    ("[1, [2.0]] == [1, [2]]", True),
    ("{'a': 1} == {'a': 1.0}", True),
    ("{'a': 1} != {'b': 1}", True),
    ("[] == {}", False),
    ("[true] == [1]", False),
    # membership
    ("2 in [1, 2.0]", True),
    ("true in [1]", False),
    ("'a' in {'a': 1}", True),
    ("1 in {'a': 1}", False),
    ("[1] in [[1.0]]", True),
    ("'x' in ['y', 'x']", True),
    # logic
    ("true && true && false", False),
    ("false || false || true", True),
    ("!ctx.t", False),
    ("!!!ctx.t", False),
    ("true ? 1 : 1 / 0", 1),
    ("false ? 1 : true ? 2 : 3", 2),
    ("ctx.missing == 1 || true", True),
    ("true || ctx.missing == 1", True),
    ("1 / 0 == 1 && false", False),
    ("false && 'text'", False),
    ("'text' && false", False),
    # macros
    ("ctx.items.map(x, x * 2)", [6, 2, 4]),
    ("ctx.items.map(x, x > 1, x * 2)", [6, 4]),
    ("ctx.items.filter(x, x > 1)", [3, 2]),
    ("ctx.items.exists(x, x == 3)", True),
    ("ctx.items.all(x, x > 1)", False),
    ("ctx.items.exists_one(x, x > 2)", True),
    ("ctx.map.map(k, k)", ["a", "b"]),
    ("ctx.items.map(x, ctx.items.map(y, x * 10 + y))", [[33, 31, 32], [13, 11, 12], [23, 21, 22]]),
    ("[[1, 2], [3]].map(x, x.map(x, x + 1))", [[2, 3], [4]]),
    ("[1].map(ctx, ctx + 1)", [2]),
    ("ctx.people.filter(p, p.age > 18).map(p, p.name)", ["Ada"]),
    ("[0, 1].exists(x, 1 / x == 1)", True),
    ("[0, 1].all(x, 1 / x == 2)", False),
    ("[].all(x, x)", True),
    # functions
    ("size('héllo') + size([1, 2]) + size({'a': 1})", 8),
    ("ctx.items.size()", 3),
    ("string(1) + string(1.5) + string(true) + string('x')", "11.5truex"),
    ("int('12') + int(1.9) + int(-1.9)", 12),
    ("double('1e3') + double(1)", 1001.0),
    ("bool('true') && !bool('0')", True),
    ("lower('ÄB') + upper('äb') + trim('  x ')", "äbÄBx"),
    ("'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')", True),
    ("'a,b,,c'.split(',')", ["a", "b", "", "c"]),
    ("'abc'.split('')", ["a", "b", "c"]),
    ("['a', 'b'].join('-') + ['c', 'd'].join()", "a-bcd"),
    ("keys(ctx.map)", ["a", "b"]),
    ("values({'a': 1, 'b': 2})", [1, 2]),
    ("min(3, 1.5, 2)", 1.5),
    ("max(ctx.items)", 3),
    ("max(['a', 'c', 'b'])", "c"),
    ("sum(ctx.items)", 6),
    ("sum([1, 2.5])", 3.5),
    ("sum([])", 0),
    ("abs(-3) + abs(3)", 6),
    ("abs(-2.5)", 2.5),
    ("round(2.5) + round(-2.5)", 0),
    ("round(3.5)", 4),
    ("round(2.675, 2)", 2.68),
    ("round(5, 2)", 5),
    ("round(1e300, 2)", 1e300),
    ("json({'a': [1, 2.5, null, 'é']})", '{"a":[1,2.5,null,"é"]}'),
    ("'order-17'.matches('^[a-z]+-[0-9]+$')", True),
    ("matches('xyz', 'y')", True),
    ("dyn(1)", 1),
    ("now()", 1_500),
    ("date('1970-01-02')", 86_400_000),
    ("date('1970-01-01T01:00:00+01:00')", 0),
    ("date('1970-01-01T00:00:01.5Z')", 1_500),
    ("date(1970, 1, 2)", 86_400_000),
    ("date(now(), 'iso')", "1970-01-01T00:00:01.500Z"),
    ("date('2026-11-05', 'DD.MM.YYYY HH:mm:ss.SSS')", "05.11.2026 00:00:00.000"),
]


@pytest.mark.parametrize(("source", "expected"), VALUES, ids=[source for source, _ in VALUES])
def test_gives(source: str, expected: Any) -> None:
    value = compile_expression(source).evaluate(SCOPE, now=1.5)

    assert value == expected
    assert type(value) is type(expected)


FAULTS: list[tuple[str, int, str]] = [
    ("ctx.missing", 5, "ctx.missing does not exist"),
    ("ctx.map.x.y", 9, "ctx.map.x does not exist"),
    ("ctx.s.x", 7, "ctx.s.x does not exist: the value before it is string"),
    ("ctx.nil.x", 9, "ctx.nil.x does not exist: the value before it is null"),
    ("1 + ctx.items[3]", 14, "the list has 3 items"),
    ("ctx.items[-1]", 10, "the list has 3 items"),
    ("ctx.items[1e9]", 10, "the list has 3 items"),
    ("ctx.items['x']", 10, "an index of a list is an integer, this one is string"),
    ("ctx.items[true]", 10, "an index of a list is an integer, this one is bool"),
    ("ctx.map[1]", 8, "keys of a map are strings"),
    ("ctx.map['no']", 8, "there is no key 'no'"),
    ("nothing", 1, "there is no 'nothing' here"),
    ("has(ctx.s.x)", 1, "has needs a map"),
    ("{ctx.s: 1, 'h' + 'éllo': 2}", 12, "occurs twice"),
    ("{string(ctx.n): 1}[ctx.n]", 19, "keys of a map are strings"),
    ("1 + 1.0", 3, "+ cannot join int and double"),
    ("1 + 2 + 'a'", 7, "+ cannot join int and string"),
    ("1 - ctx.nil", 3, "- does not go with int and null"),
    ("'a' * 3", 5, "* does not go with string and int"),
    ("1 / 0", 3, "division by zero"),
    ("1 % 0", 3, "division by zero"),
    ("1.5 % 1.0", 5, "% takes two integers"),
    ("9223372036854775807 + 1", 21, "does not fit in 64 bits"),
    ("ctx.min - 1", 9, "does not fit in 64 bits"),
    ("ctx.min * -1", 9, "does not fit in 64 bits"),
    ("ctx.min / -1", 9, "does not fit in 64 bits"),
    ("ctx.min % -1", 9, "does not fit in 64 bits"),
    ("-ctx.min", 1, "does not fit in 64 bits"),
    ("abs(ctx.min)", 1, "does not fit in 64 bits"),
    ("-ctx.s", 1, "- needs a number"),
    ("'10' < 9", 6, "there is no order between string and int"),
    ("null > 1", 6, "there is no order between null and int"),
    ("[1] < [2]", 5, "there is no order between list and list"),
    ("1 < 2 < 3", 7, "there is no order between bool and int"),
    ("1 in 'abc'", 3, "in needs a list or a map"),
    ("null in ctx.map", 6, "no key of a map is null"),
    ("int(-9223372036854775808.0)", 1, "does not fit in 64 bits"),
    ("!1", 1, "! needs a bool, this is int"),
    ("ctx.n && true", 1, "&& needs a bool, this is int"),
    ("false || ctx.nil", 10, "|| needs a bool, this is null"),
    ("ctx.n ? 1 : 2", 1, "? needs a bool"),
    ("ctx.missing == 1 && true", 5, "ctx.missing does not exist"),
    ("ctx.n.map(x, x)", 7, "map needs a list or a map, this is int"),
    ("ctx.items.filter(x, x)", 11, "the condition of filter needs a bool"),
    ("ctx.items.map(x, x, x)", 11, "the condition of map needs a bool"),
    ("ctx.items.exists(x, x)", 11, "the condition of exists needs a bool"),
    ("ctx.items.exists_one(x, x)", 11, "the condition of exists_one needs a bool"),
    ("ctx.items.map(x, x.name)", 20, "x.name does not exist"),
    ("[1, 0].map(x, 1 / x)", 17, "division by zero"),
    ("1 + size(3)", 5, "size needs"),
    ("ctx.n.lower()", 7, "lower needs a string, this is int"),
    ("int('1.5')", 1, "int cannot convert '1.5'"),
    ("int('1_0')", 1, "int cannot convert"),
    ("int(1e30)", 1, "does not fit in 64 bits"),
    ("int(1.0 / 0.0)", 1, "there is no integer for inf"),
    ("double('nan')", 1, "double cannot convert 'nan'"),
    ("bool(1)", 1, "bool cannot convert int"),
    ("string([1])", 1, "string cannot convert list"),
    ("[1].join(',')", 5, "join needs strings, item 0 is int"),
    ("keys([1])", 1, "keys needs a map"),
    ("min([])", 1, "min of an empty list"),
    ("max([1, 'a'])", 1, "there is no order between string and int"),
    ("sum(['a'])", 1, "sum needs numbers, item 0 is string"),
    ("round('a')", 1, "round needs a number"),
    ("round(1.5, 99)", 1, "round keeps 0 to 15 digits"),
    ("date('tomorrow')", 1, "'tomorrow' is not a date"),
    ("date('2026-02-30')", 1, "is not a date"),
    ("date(2026, 13, 1)", 1, "no such date"),
    ("date(1e300)", 1, "outside the years"),
    ("'a'.matches(ctx.s + '(')", 5, "the pattern 'héllo(' is invalid"),
    ("1.0 / 0.0", 0, "JSON has no inf"),
    ("[0.0 / 0.0]", 0, "JSON has no nan"),
    ("json(1.0 / 0.0)", 1, "JSON has no inf"),
]


@pytest.mark.parametrize(("source", "column", "message"), FAULTS, ids=[source for source, _, _ in FAULTS])
@pytest.mark.req("X3")
def test_has_no_value(source: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source).evaluate(SCOPE, now=1.5)

    assert message in caught.value.message
    assert caught.value.column == column
    assert caught.value.code == "EXPRESSION_ERROR"


WRONG: list[tuple[str, int, str]] = [
    ("", 1, "there is no expression here"),
    ("  ", 3, "there is no expression here"),
    ("ctx.input.x >", 14, "the expression ends, but a value is expected"),
    ("1 +* 2", 4, "a value is expected instead of '*'"),
    ("1 2", 3, "an operator or the end is expected instead of '2'"),
    ("ctx.", 5, "the expression ends, but a name is expected"),
    ("ctx.1", 4, "is expected instead of '.1'"),
    ("(1", 3, "the expression ends, but ')' is expected"),
    ("[1, 2", 6, "the expression ends, but ']' is expected"),
    ("{'a' 1}", 6, "':' is expected instead of '1'"),
    ("{1: 2}", 2, "keys of a map are strings"),
    ("a = 1", 3, "'=' has no meaning here"),
    ("a and b", 3, "is expected instead of 'and'"),
    ("a ? b", 6, "the expression ends, but ':' is expected"),
    ("'abc", 1, "this string is never closed"),
    ("'a\nb'", 1, "this string is never closed"),
    (r"'\q'", 2, "\\q is not an escape"),
    (r"'\ud800'", 2, "there is no character"),
    ("9223372036854775808", 1, "integers have 64 bits"),
    ("1" * 5_00, 1, "integers have 64 bits"),
    ("1e999", 1, "too large"),
    ("1u", 1, "there are no unsigned numbers"),
    ("b'x'", 1, "there are no bytes"),
    ("1abc", 1, "neither a number nor a name"),
    ("lowr('x')", 1, "there is no function 'lowr'"),
    ("ctx.constructor('x')", 5, "there is no function 'constructor'"),
    ("lower()", 1, "lower takes 1 value, not 0"),
    ("now(1)", 1, "now takes 0 values, not 1"),
    ("'a'.lower(1)", 5, "lower takes 1 value, not 2"),
    ("ctx.x()()", 5, "there is no function 'x'"),
    ("size(ctx)()", 10, "is expected instead of '('"),
    ("has(ctx)", 1, "has takes one member"),
    ("has(ctx['a'])", 1, "has takes one member"),
    ("map(x, y)", 1, "map is a method of lists"),
    ("ctx.map(1, x)", 9, "the name of a variable is expected instead of '1'"),
    ("ctx.map(x)", 10, "',' is expected instead of ')'"),
    ("ctx.all(x, x, x)", 13, "')' is expected instead of ','"),
    ("ctx?.size()", 4, "a function cannot be optional"),
    ("__class__", 1, "names cannot begin with __"),
    ("__import__('os')", 1, "there is no function '__import__'"),
    ("ctx.items.map(__x, 1)", 15, "names cannot begin with __"),
    ("Foo{}", 1, "there are no typed objects"),
    ("ctx.größe", 7, "names have only letters"),
    ("'a'.matches('(')", 13, "the pattern '(' is invalid"),
    ("'a'.matches('(?=x)')", 13, "is invalid"),
    ("ctx.a; ctx.b", 6, "';' has no meaning here"),
    ("lambda x: x", 8, "is expected instead of 'x'"),
    ("\x00", 1, "has no meaning here"),
]


@pytest.mark.parametrize(
    ("source", "column", "message"), WRONG, ids=[repr(source)[:40] for source, _, _ in WRONG]
)
def test_cannot_be_read(source: str, column: int, message: str) -> None:
    with pytest.raises(BadExpression) as caught:
        compile_expression(source)

    assert message in caught.value.message
    assert caught.value.column == column
    assert caught.value.code == "BAD_EXPRESSION"
    assert f"column   {column}" in str(caught.value)


@pytest.mark.parametrize("source", ["1", "'yes'", "null", "[]", "ctx.n", "0"])
@pytest.mark.req("X3")
def test_a_condition_that_is_no_boolean_is_an_error(source: str) -> None:
    with pytest.raises(ExpressionError, match="a condition needs a bool"):
        compile_expression(source).truth(SCOPE)


def test_a_condition_gives_a_boolean() -> None:
    assert compile_expression("ctx.n > 5").truth(SCOPE) is True
    assert compile_expression("ctx.n > 7").truth(SCOPE) is False


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("ctx.items.map(x, x + loop.index)", {"ctx", "loop"}),
        ("[1].map(ctx, ctx)", set()),
        ("[ctx].map(ctx, ctx)", {"ctx"}),
        ("1 + 1", set()),
        ("has(branches.x) ? base : default(run?.id, now())", {"branches", "base", "run"}),
    ],
)
def test_names_are_those_the_scope_must_have(source: str, expected: set[str]) -> None:
    assert names(compile_expression(source)) == expected


def test_errors_suggest_what_was_meant() -> None:
    with pytest.raises(ExpressionError) as missing:
        compile_expression("ctx.peple").evaluate(SCOPE)
    with pytest.raises(BadExpression) as unknown:
        compile_expression("startWith('a', 'b')")

    assert "did you mean 'people'?" in missing.value.hint
    assert "?.peple" in missing.value.hint
    assert missing.value.path == "ctx.peple"
    assert unknown.value.hint == "did you mean 'startsWith'?"


def test_now_needs_a_time() -> None:
    with pytest.raises(ExpressionError, match=r"now\(\) has no meaning here"):
        compile_expression("now()").evaluate({})


def test_numbers_that_json_cannot_hold_may_be_compared() -> None:
    assert compile_expression("1.0 / 0.0 > 5.0").evaluate({}) is True
    assert compile_expression("ctx.x != ctx.x").evaluate({"ctx": {"x": math.nan}}) is True


def test_expressions_are_compiled_once() -> None:
    assert compile_expression("ctx.a + 1") is compile_expression("ctx.a + 1")


def test_evaluation_leaves_the_scope_alone() -> None:
    scope = {"ctx": {"a": [1, 2], "b": {"c": 1}}}

    compile_expression("[ctx.a + [3], ctx.a.map(x, [x]), {'b': ctx.b}]").evaluate(scope)

    assert scope == {"ctx": {"a": [1, 2], "b": {"c": 1}}}
