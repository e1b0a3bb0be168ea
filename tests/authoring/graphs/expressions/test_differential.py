"""Random expressions give the same here and in CEL's implementation in Rust, faults included.

Not generated, because the oracle departs from CEL's own specification there: a minus before
anything but a number (`-true` is false, `-min` overflows silently), an order between NaN and a
number, doubles as indexes, the size of texts outside ASCII, `string(double)`. The keys of a map have
no order there, so they are not listed. `exists` and `all` end there at the first fault, where CEL's
conformance data has later items decide, so their conditions have none before the last item.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given, settings
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

# Kind -> what it can be, a line each: parts without others inside, then parts where INT and its like
# stand for other expressions of that kind.
LEAVES = {
    "INT": "0 -3 7 9223372036854775807 -9223372036854775808 9007199254740993 ctx.i ctx.list[1] ctx.rows[0].n",
    "DOUBLE": "0.0 1.0 -2.5 1e10 9007199254740992.0 ctx.d",
    "STRING": """'' 'a' 'abc' "it's" ctx.s ctx.map.b ctx.map['b']""",
    "BOOL": "true false ctx.t has(ctx.map.a) has(ctx.map.zz)",
    "LIST": "[] [1,2,3] ctx.list ctx.mixed ctx.rows ['a','b']",
    "MAP": "{} {'a':1} ctx.map ctx.rows[1]",
    "NUMBER": "-1 0 1 2.0 7",
    "FINITE": "0.0 1.0 -2.5 1e10 9007199254740992.0 ctx.d",
    "WORD": "'' 'a' 'b' 'x'",
    "FAULT": "ctx.missing ctx.map.zz (1/0) ctx.list[9] (1+'a') null ctx.nil",
}
PARTS = {
    "INT": """
        (INT + INT)
        (INT - INT)
        (INT * INT)
        (INT / INT)
        (INT % INT)
        (INT + INT * INT)
        size(LIST)
        size(STRING)
        int(DOUBLE)
        size(MAP.map(x, x))
        (BOOL ? INT : INT)""",
    "DOUBLE": """
        (DOUBLE + DOUBLE)
        (DOUBLE - DOUBLE)
        (DOUBLE * DOUBLE)
        (DOUBLE / DOUBLE)
        double(INT)
        (BOOL ? DOUBLE : DOUBLE)""",
    "STRING": """
        (STRING + STRING)
        (STRING + STRING + STRING)
        (BOOL ? STRING : STRING)""",
    "BOOL": """
        (INT < INT)
        (INT >= FINITE)
        (INT <= INT)
        (STRING < STRING)
        (STRING > STRING)
        (BOOL < BOOL)
        (INT == DOUBLE)
        (INT == STRING)
        (STRING != STRING)
        (LIST == LIST)
        (MAP == MAP)
        (INT in LIST)
        (STRING in LIST)
        (STRING in MAP)
        !(BOOL)
        (BOOL && BOOL)
        (BOOL || BOOL)
        (BOOL && BOOL || BOOL && BOOL)
        (FAULT == 1 || BOOL)
        (BOOL && FAULT == 1)
        (BOOL ? BOOL : FAULT)
        LIST.exists(x, x == NUMBER)
        MAP.exists(x, x == WORD)
        MAP.all(x, x != WORD)
        LIST.all(x, x != WORD)
        LIST.exists_one(x, x == INT)
        [INT, INT].all(x, x != NUMBER)
        [INT, INT].exists(x, x in [NUMBER, NUMBER])
        (STRING).contains(STRING)
        (STRING).startsWith(STRING)
        (STRING).endsWith(STRING)
        ctx.rows.exists(x, x.ok)
        ctx.rows.all(x, x.n > NUMBER && x.ok)""",
    "LIST": """
        (LIST + LIST)
        [INT, STRING, BOOL]
        [LIST, MAP]
        (BOOL ? LIST : LIST)
        LIST.filter(x, x == INT)
        LIST.map(x, [x, BOOL])
        [INT, INT].map(x, x * INT)
        [INT, INT].map(x, x > INT, x + 1)
        [LIST].map(x, x.map(x, x == 1))""",
    "MAP": """
        {'a': INT, 'b': LIST}
        {'c': MAP}
        (BOOL ? MAP : MAP)""",
    "FAULT": """
        (INT + DOUBLE)
        (STRING < INT)
        (LIST)[INT]
        (MAP).a
        (STRING).a
        !(INT)
        (INT && BOOL)
        (MAP < MAP)
        (INT ? 1 : 2)
        (STRING * INT)""",
}
KINDS = [kind for kind in PARTS if kind != "FAULT"]
HOLE = re.compile("|".join(LEAVES))
DEPTH = 4


@st.composite
def expressions(draw: st.DrawFn) -> str:
    return _expression(draw, draw(st.sampled_from(KINDS)), DEPTH)


def _expression(draw: st.DrawFn, kind: str, depth: int) -> str:
    """Mostly of the kind that is asked for, so that most expressions have a value; now and then another."""
    if kind in PARTS and draw(st.integers(0, 39)) == 39:
        kind = "FAULT"
    if kind not in PARTS or not depth or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(LEAVES[kind].split()))
    part = draw(st.sampled_from(PARTS[kind].split("\n")[1:])).strip()
    return HOLE.sub(lambda hole: _expression(draw, hole[0], depth - 1), part)


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


@given(source=expressions())
@settings(max_examples=2_000, deadline=None)
def test_random_expressions_mean_the_same_in_rust(oracle: Oracle, source: str) -> None:
    found = ours(source)
    said = without_infinity(oracle.evaluate(source, SCOPE))

    event("fault" if said is FAULT else "value")
    assert same(found, said), f"{source}: {found!r} here, {said!r} in Rust"


def test_most_of_them_have_a_value(oracle: Oracle) -> None:
    """Or the comparison above would mostly find that both sides refuse nonsense."""
    seen: list[bool] = []

    @given(source=expressions())
    @settings(max_examples=200, deadline=None, database=None, derandomize=True)
    def look(source: str) -> None:
        seen.append(oracle.evaluate(source, SCOPE) is not FAULT)

    look()

    assert sum(seen) > len(seen) * 0.4
