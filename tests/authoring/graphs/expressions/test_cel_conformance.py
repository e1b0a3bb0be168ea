"""The conformance data of CEL: every case gives what CEL says, or lies outside our subset for a named reason.

A case outside must be refused with an error of ours. It never quietly gives some other value.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from stepwell.authoring.graphs.expressions import compile_expression
from stepwell.errors import BadExpression, ExpressionError
from tests.authoring.graphs.expressions.cel_data import (
    ABSENT,
    Case,
    NotJson,
    cases,
    every,
    first,
    folder,
    json_value,
    text,
)

pytestmark = pytest.mark.req("G14")

DATA = folder()
if DATA is None:
    pytest.skip(ABSENT, allow_module_level=True)

# reason -> what shows it in the expression. Strings are taken out first, so only code is looked at.
OUTSIDE = {
    "no protobuf messages": re.compile(r"TestAllTypes|google\.protobuf|NullValue|GlobalEnum"),
    "no bytes, values are those of JSON": re.compile(r"\bb''"),
    "no unsigned numbers, JSON integers have 64 bits": re.compile(r"[0-9][uU]\b|\buint\("),
    "no timestamps and durations, time is milliseconds": re.compile(r"\b(timestamp|duration)\("),
    "keys of maps are strings, as in JSON": re.compile(r"[{,]\s*(-?[0-9.]+|true|false|null)\s*:"),
}
BY_NAME = {
    "basic/functions/unbound_is_runtime_error": "unknown functions are refused when a graph is saved",
    "fields/qualified_identifier_resolution/qualified_ident": "a name has no dots",
    "fields/qualified_identifier_resolution/map_field_select": "a name has no dots",
    "fields/qualified_identifier_resolution/qualified_identifier_resolution_unchecked": "a name has no dots",
    "fields/qualified_identifier_resolution/ident_with_longest_prefix_check": "a name has no dots",
}
STRING = re.compile(r"""r?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
ERROR = object()


def outside(case: Case) -> str:
    """Why the case cannot hold for JSON; empty when it must."""
    if case.name in BY_NAME:
        return BY_NAME[case.name]
    code = STRING.sub("''", case.expression)
    for reason, sign in OUTSIDE.items():
        if sign.search(code):
            return reason
    try:
        expected(case)
        scope(case)
    except NotJson as found:
        return f"no JSON value: {found}"
    return ""


def expected(case: Case) -> Any:
    if case.field("eval_error") is not None:
        return ERROR
    value = case.field("value")
    return True if value is None else json_value(value)


def scope(case: Case) -> dict[str, Any]:
    return {
        text(first(binding, "key")): json_value(first(first(binding, "value"), "value"))
        for binding in every(case.message, "bindings")
    }


ALL = cases(DATA)
INSIDE = [case for case in ALL if not outside(case)]
REFUSED = [case for case in ALL if outside(case)]


@pytest.mark.parametrize("case", INSIDE, ids=lambda case: case.name)
def test_cel_says(case: Case) -> None:
    wanted = expected(case)
    if wanted is ERROR:
        with pytest.raises((BadExpression, ExpressionError)):
            compile_expression(case.expression).evaluate(scope(case))
        return

    value = compile_expression(case.expression).evaluate(scope(case))

    assert value == wanted
    assert type(value) is type(wanted)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_outside_is_refused(case: Case) -> None:
    try:
        known = scope(case)
    except NotJson:
        pytest.skip("its input is no JSON")

    with pytest.raises((BadExpression, ExpressionError)):
        compile_expression(case.expression).evaluate(known)


def test_most_of_cel_is_inside() -> None:
    counted = Counter(outside(case) for case in ALL)

    assert set(BY_NAME) <= {case.name for case in ALL}
    assert set(OUTSIDE) <= set(counted), "a reason that no case needs"
    assert counted[""] >= 400, counted
