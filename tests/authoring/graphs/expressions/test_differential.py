"""Random expressions give the same here and in CEL's implementation in Rust, faults included.

Not generated, because the oracle departs from CEL's own specification there: a minus before
anything but a number (`-true` is false, `-min` overflows silently), an order between NaN and a
number, doubles as indexes, the size and the order of texts outside ASCII, `string(double)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.authoring.graphs.expressions import compile_expression
from stepwell.errors import ExpressionError
from tests.authoring.graphs.expressions.cel_oracle import FAULT, Oracle

pytestmark = [pytest.mark.req("G14"), pytest.mark.slow]

SCOPE: dict[str, Any] = {
    "ctx": {
        "i": 7,
        "big": 2**63 - 1,
        "d": 2.5,
        "s": "abc",
        "t": True,
        "nil": None,
        "list": [3, 1, 2],
        "mixed": [1, "a", None, 2.0, [1], False],
        "map": {"a": 1, "b": "x"},
        "rows": [{"n": 1, "ok": True}, {"n": 2, "ok": False}, {"n": 3}],
    }
}

LEAVES = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.integers(-5, 5).map(str),
    st.sampled_from(["0.0", "1.0", "2.5", "-1.5", "1e10", "9007199254740993", "9007199254740992.0"]),
    st.text("abz' \\\n", max_size=4).map(lambda text: repr(text) if "\n" not in text else "'n'"),
    st.sampled_from(["true", "false", "null", "[]", "{}", "ctx.missing", "ctx.map.zz", "1 / 0"]),
    st.sampled_from([f"ctx.{key}" for key in SCOPE["ctx"]]),
    st.sampled_from(["ctx.list[1]", "ctx.list[9]", "ctx.map['a']", "ctx.rows[0].n", "x", "has(ctx.map.a)"]),
)
SIGNS = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||"]
TEXT_METHODS = ["contains", "startsWith", "endsWith"]


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(SIGNS), inner).map(
            lambda found: f"({found[0]} {found[1]} {found[2]})"
        ),
        st.tuples(inner, st.sampled_from(SIGNS), inner, st.sampled_from(SIGNS), inner)
        .map(" ".join)
        .map("({})".format),
        inner.map("!({})".format),
        st.tuples(inner, inner, inner).map(lambda found: "({} ? {} : {})".format(*found)),
        st.lists(inner, max_size=3).map(", ".join).map("[{}]".format),
        st.tuples(inner, inner).map(lambda found: "{{'a': {}, 'b': {}}}".format(*found)),
        st.tuples(inner, st.sampled_from(["map", "filter", "exists", "all", "exists_one"]), inner).map(
            lambda found: "({}).{}(x, {})".format(*found)
        ),
        st.tuples(st.sampled_from(["ctx.list", "ctx.mixed", "ctx.rows", "ctx.map"]), inner).map(
            lambda found: "{}.exists(x, {})".format(*found)
        ),
        st.tuples(inner, st.sampled_from(TEXT_METHODS), inner).map(
            lambda found: "({}).{}({})".format(*found)
        ),
        st.tuples(inner, st.integers(-1, 3).map(str)).map(lambda found: "({})[{}]".format(*found)),
        inner.map("size({})".format),
        inner.map("({}).a".format),
    )


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=12)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    pytest.importorskip("cel", reason="the Rust binding of CEL is not installed")
    with Oracle() as child:
        yield child


def ours(source: str) -> Any:
    try:
        return compile_expression(source).evaluate(SCOPE)
    except ExpressionError:
        return FAULT


def without_infinity(value: Any) -> Any:
    """JSON cannot hold them, so a value with one is a fault here."""
    inside: list[Any] = [value]
    while inside:
        item = inside.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return FAULT
        inside += item if isinstance(item, list) else item.values() if isinstance(item, dict) else []
    return value


def same(one: Any, two: Any) -> bool:
    """Equal with equal types, all the way down."""
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    return type(one) is type(two) and bool(one == two)


@given(source=EXPRESSIONS)
@settings(max_examples=2_000, deadline=None)
def test_random_expressions_mean_the_same_in_rust(oracle: Oracle, source: str) -> None:
    found = ours(source)
    said = without_infinity(oracle.evaluate(source, SCOPE))

    assert same(found, said), f"{source}: {found!r} here, {said!r} in Rust"
