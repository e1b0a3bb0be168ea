"""Hostile expressions: each is refused or ends with an error, in bounded time and memory."""

from __future__ import annotations

import ast
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.authoring.graphs import expressions
from stepwell.authoring.graphs.expressions import Expression, ExpressionLimits, compile_expression
from stepwell.authoring.graphs.templates.template import compile_template
from stepwell.errors import BadExpression, ExpressionError

pytestmark = pytest.mark.req("X3")

# Of this process, so that other work on the machine does not count. Most need a few milliseconds;
# the bounds leave room for tracing memory, which is slow.
SECONDS_MAX = 5.0
BYTES_MAX = 64 * 1024 * 1024

HALF = "x" * 600_000
SCOPE: dict[str, Any] = {
    "ctx": {
        "range": list(range(300)),
        "big": list(range(100_000)),
        "text": "x" * 1_000_000,
        "half": HALF,
        "sharp": "ß" * 1_000_000,
        "like": ["é" * 500_000, "é" * 499_999 + "x"],
        "a": "a" * 60_000 + "!",
        "words": ["w" * 1_000] * 1_000,
        "many": {f"key{number}": number for number in range(100_000)},
    }
}
SPENT = "more than 100,000 steps"
DOUBLING = "[0]" + ".map(x, [x, x])" * 60
EIGHTFOLD = "[0]" + ".map(x, [x,x,x,x,x,x,x,x])" * 20

EXHAUSTING: list[tuple[str, str]] = [
    # loops
    ("ctx.range.all(a, ctx.range.all(b, ctx.range.all(c, a + b + c >= 0)))", SPENT),
    ("ctx.range.map(a, ctx.range.map(b, ctx.range.map(c, 1)))", SPENT),
    ("ctx.range.exists(a, ctx.range.exists(b, 1 / 0 > b))", SPENT),
    ("ctx.range.exists(a, ctx.range.exists(b, ctx.range.exists(c, false))) || true", SPENT),
    ("ctx.range.exists(a, ctx.range.exists(b, ctx.rnge == b))", SPENT),
    ("ctx.big.map(x, x + 1)", SPENT),
    # memory
    ("ctx.half + ctx.half", "a string has at most"),
    ("ctx.words.map(w, ctx.half).join(',')", "a string has at most"),
    ("ctx.big + ctx.big", "a list has at most"),
    ("ctx.text.split('')", "a list has at most"),
    ("upper(ctx.sharp)", "a string has at most"),
    ("json(ctx.words.map(w, ctx.half))", "larger than"),
    (EIGHTFOLD, "larger than"),
    (DOUBLING, "larger than"),
    (f"json({DOUBLING})", "larger than"),
    (f"{{'a': {DOUBLING}}}", "larger than"),
    ("ctx.range.map(x, ctx.big)", "larger than"),
    ("ctx.range.map(x, ctx.text)", "larger than"),
    # work hidden in one part
    (f"{DOUBLING} == {DOUBLING}", SPENT),
    (f"{DOUBLING} in [{DOUBLING}]", SPENT),
    ("ctx.range.map(x, ctx.text.contains('y'))", SPENT),
    ("ctx.range.map(x, ctx.text.endsWith(ctx.text))", SPENT),
    ("ctx.range.map(x, ctx.like[0] == ctx.like[1])", SPENT),
    ("ctx.range.map(x, ctx.like[0] < ctx.like[1])", SPENT),
    ("ctx.range.map(x, lower(ctx.text))", SPENT),
    ("ctx.range.map(x, trim(ctx.text))", SPENT),
    ("ctx.range.map(x, json(ctx.words))", SPENT),
    ("ctx.range.map(x, ctx.words.join(','))", SPENT),
    ("ctx.range.map(x, keys(ctx.many))", SPENT),
    ("ctx.range.map(x, values(ctx.many))", SPENT),
    ("ctx.range.map(x, -1 in ctx.big)", SPENT),
    ("ctx.range.map(x, 'no' in keys(ctx.many))", SPENT),
    ("ctx.range.map(x, ctx.big == ctx.big)", SPENT),
    ("ctx.range.map(x, ctx.many == ctx.many)", SPENT),
    ("ctx.range.map(x, sum(ctx.big) + max(ctx.big) + min(ctx.big))", SPENT),
    ("ctx.range.map(x, ctx.range.map(y, date(0, '" + "iso" * 60 + "')))", SPENT),
    ("ctx.range.map(x, ctx.range.map(y, round(1.005, 2)))", SPENT),
    ("ctx.range.map(x, ctx.range.map(y, date('2026-01-01T00:00:00Z')))", SPENT),
    # regular expressions
    ("ctx.range.map(x, ctx.a.matches('^(a+)+$'))", SPENT),
    ("ctx.range.map(x, ctx.a.matches('(.*)(.*)(.*)(.*)(.*)y$'))", SPENT),
    ("ctx.range.map(x, 'a'.matches('(a{1,20}){1,' + string(x + 1) + '}'))", ""),
    ("ctx.text.matches('x')", "matches reads at most 65,536 characters"),
    ("'a'.matches(ctx.words.join('|'))", "a pattern has at most"),
    # numbers
    ("9223372036854775807 * 9223372036854775807", "does not fit in 64 bits"),
    ("1e308 * 1e308", "JSON has no inf"),
    ("int('" + "9" * 3_000 + "')", "int cannot convert"),
    ("double('" + "9" * 3_000 + "')", "double cannot convert"),
]


def bounded(work: Callable[[], Any]) -> None:
    """Runs it within the bounds of this file, whatever it raises."""
    tracemalloc.start()
    started = time.process_time()
    try:
        work()
    finally:
        seconds = time.process_time() - started
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert seconds < SECONDS_MAX
        assert peak < BYTES_MAX


@pytest.mark.slow
@pytest.mark.parametrize(("source", "message"), EXHAUSTING, ids=[source[:60] for source, _ in EXHAUSTING])
def test_exhausting_work_ends_with_an_error(source: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        bounded(lambda: compile_expression(source).evaluate(SCOPE))

    assert message in caught.value.message


def test_a_pattern_that_ruins_other_engines_is_linear() -> None:
    bounded(lambda: compile_expression("ctx.a.matches('^(a+)+$')").evaluate(SCOPE))

    assert compile_expression("ctx.a.matches('^(a+)+$')").evaluate(SCOPE) is False


LARGE: list[str] = [
    "1" + "+1" * 1_999,
    "true" + "&&true" * 600,
    "false" + "||false" * 500,
    "1" + "<1" * 1_999,
    "ctx" + ".b" * 2_000,
    "ctx" + "[0]" * 1_300,
    "ctx" + ".size()" * 580,
    "ctx" + "?.b" * 1_300,
    "!" * 4_000 + "true",
    "-" * 4_000 + "1",
    "!-" * 2_000 + "1",
    "(" * 2_000 + "1" + ")" * 2_000,
    "[" * 2_000 + "]" * 2_000,
    "{'a':" * 700 + "1" + "}" * 700,
    "size(" * 600 + "1" + ")" * 600,
    "a[" * 1_300 + "0" + "]" * 1_300,
    "true?1:" * 580 + "1",
    "true?" * 500 + "1" + ":1" * 500,
    "x.map(x," * 400 + "1" + ")" * 400,
    "[" + "1," * 2_000 + "]",
    "a" * 4_097,
    "'" + "é" * 2_048 + "'",
    "'" + "x" * 1_000_000 + "'",
]


@pytest.mark.parametrize("source", LARGE, ids=[source[:20] + "..." for source in LARGE])
def test_large_sources_are_refused_in_words(source: str) -> None:
    with pytest.raises(BadExpression) as caught:
        bounded(lambda: compile_expression(source))

    assert "at most" in caught.value.message or "nested deeper than 40" in caught.value.message


FLAT: list[tuple[str, Any]] = [
    ("1" + "+1" * 249, 250),
    ("true" + "&&true" * 249, True),
    ("-" * 499 + "1", -1),
    ("!" * 499 + "true", False),
    ("'a'" + ".trim()" * 499, "a"),
    ("default(null" + ",null).default(null" * 0 + ",1)", 1),
    ("false?0:" * 166 + "7", 7),
    ("[0]" + ".map(x,x)" * 200, [0]),
    ("(" * 40 + "1" + ")" * 40, 1),
    ("ctx" + "?.b" * 499, None),
]


@pytest.mark.parametrize(("source", "expected"), FLAT, ids=[source[:20] + "..." for source, _ in FLAT])
def test_what_fits_the_limits_needs_little_stack(source: str, expected: Any) -> None:
    """Called from deep inside other code: what is left of Python's stack must be enough."""

    def deep(levels: int) -> Any:
        return compile_expression(source).evaluate({"ctx": {}}) if not levels else deep(levels - 1)

    assert deep(sys.getrecursionlimit() // 2 - 150) == expected


def test_every_level_full_of_operators_still_fits_the_stack() -> None:
    source = "(false||true&&0<2+1*-" * 39 + "1" + "?1:2)" * 39

    assert compile_expression(source, ExpressionLimits(nodes=700)).evaluate({}) == 1


def test_limits_can_be_set() -> None:
    with pytest.raises(BadExpression, match="at most 3 parts"):
        compile_expression("1 + 1 + 1", ExpressionLimits(nodes=3))
    with pytest.raises(ExpressionError, match="more than 10 steps"):
        compile_expression("ctx.range.map(x, x)", ExpressionLimits(steps=10)).evaluate(SCOPE)


@pytest.mark.slow
def test_a_template_has_one_budget_for_all_its_expressions() -> None:
    template = compile_template(["{{size(ctx.big.filter(x, true))}}"] * 100)

    with pytest.raises(ExpressionError, match=SPENT):
        bounded(lambda: template.render(SCOPE))


@pytest.mark.parametrize(
    "source",
    [
        "ctx.__class__.__mro__",
        "ctx.range.__len__",
        "ctx.text.format",
        "ctx['__init__']['__globals__']",
        "ctx.text.__class__",
        "(1).__class__",
        "''.__class__",
        "[].append",
        "{}.items",
        "{}['keys']",
        "now.__self__",
        "ctx.constructor",
        "true.real",
        "1.5.hex",
    ],
)
def test_no_attribute_of_python_can_be_reached(source: str) -> None:
    with pytest.raises((BadExpression, ExpressionError)):
        compile_expression(source).evaluate(SCOPE)


@pytest.mark.parametrize(
    "source",
    [
        "ctx.text.format(ctx)",
        "ctx.constructor.constructor('return process')()",
        "__import__('os').system('id')",
        "eval('1')",
        "open('x')",
        "lower.__globals__",
        "range(1000000000)",
        "2 ** 100",
        "ctx.range.append(1)",
        "(x => x)(1)",
        "`${1}`",
        "ctx |> size",
        "{% for x in y %}",
        "[x for x in ctx.big]",
        "lambda: 0",
    ],
)
def test_code_of_other_languages_is_refused(source: str) -> None:
    with pytest.raises((BadExpression, ExpressionError)):
        compile_expression(source).evaluate(SCOPE)


def test_objects_that_are_not_json_are_never_touched() -> None:
    class Trap:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

        def __getitem__(self, key: object) -> Any:
            raise AssertionError(f"asked for [{key}]")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = None  # type: ignore[assignment]  # a trap must not be looked up either

    scope = {"ctx": {"trap": Trap(), "in": [1]}}

    for source in (
        "trap.x",
        "trap['x']",
        "trap?.x",
        "trap + 1",
        "trap < 1",
        "trap.size()",
        "trap",
        "trap.map(x, x)",
    ):
        with pytest.raises(ExpressionError, match="not a JSON value"):
            compile_expression(f"ctx.{source}").evaluate(scope)
    assert compile_expression("ctx.trap == 1").evaluate(scope) is False


def refused_or_false(expression: Expression, scope: dict[str, Any]) -> bool:
    try:
        return expression.evaluate(scope) is False
    except ExpressionError:
        return True


@pytest.mark.slow
def test_data_that_contains_itself_or_is_deep_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    for value in (loop, deep):
        scope = {"ctx": {"v": value, "w": [value]}}
        for source in ("json(ctx.v)", "[ctx.v]"):
            with pytest.raises(ExpressionError, match="nested deeper"):
                compile_expression(source).evaluate(scope)
        equal = compile_expression("ctx.v == ctx.w")
        assert refused_or_false(equal, scope)
        with pytest.raises(ExpressionError, match="nested deeper"):
            compile_template("{{ctx.v}}").render(scope)


def test_huge_integers_of_python_are_faults_not_crashes() -> None:
    scope = {"ctx": {"huge": 10**5_000, "list": [1]}}

    for source in (
        "ctx.huge + 1",
        "date(ctx.huge)",
        "date(ctx.huge, 1, 1)",
        "ctx.list[ctx.huge]",
        "string(ctx.huge)",
    ):
        with pytest.raises(ExpressionError):
            compile_expression(source).evaluate(scope)
    with pytest.raises(ExpressionError):
        compile_template("x{{ctx.huge}}").render(scope)
    assert compile_expression("ctx.huge > 1.5").evaluate(scope) is True


def test_lone_surrogates_are_faults_not_crashes() -> None:
    scope = {"ctx": {"s": "\ud800", "o": {"\ud800": 1}}}

    for source in ("ctx.s.matches('a')", "'a'.matches(ctx.s)", "json(ctx.s)", "json(ctx.o)"):
        with pytest.raises(ExpressionError):
            compile_expression(source).evaluate(scope)
    with pytest.raises(BadExpression):
        compile_expression("'a'.matches('\ud800')")


SIGNS = [
    *"()[]{}.,?:!-+*/%<>'\"`\\",
    "?.",
    "&&",
    "||",
    "==",
    "in",
    " ",
    "{{",
    "}}",
    "\n",
    "é",
    "\x00",
    "\ud800",
]
WORDS = ["ctx", "x", "1", "1.5", "'a'", "true", "null", "__a"]
CALLS = [".map(x,", ".all(x,", "size(", "has(", "default(", "matches("]


@pytest.mark.slow
@given(st.lists(st.sampled_from(SIGNS + WORDS + CALLS), max_size=60).map("".join))
@settings(max_examples=1_500, deadline=None)
def test_any_text_is_an_expression_or_a_clear_error(source: str) -> None:
    def evaluated() -> None:
        compile_expression(source).evaluate({"ctx": {"x": 1}}, 0.0)

    def rendered() -> None:
        compile_template(source).render({"ctx": {"x": 1}}, 0.0)

    for attempt in (evaluated, rendered):
        column = 1
        try:
            attempt()
        except BadExpression as error:
            column = error.column
        except ExpressionError:
            pass
        assert 1 <= column <= len(source) + 1


def test_the_evaluator_asks_no_object_for_an_attribute_by_name() -> None:
    folder = Path(expressions.__file__).parent
    banned = {
        "getattr",
        "setattr",
        "hasattr",
        "vars",
        "attrgetter",
        "methodcaller",
        "eval",
        "exec",
        "compile",
        "format",
    }

    for path in [*folder.glob("*.py"), folder.parent / "templates" / "template.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                assert name not in banned, f"{path.name}:{node.lineno} {name}"
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("__") or node.attr in {"__init__", "__name__"}, path.name
