"""Evaluating costs what the path costs, whatever else the context holds.

Times are compared with a plain loop of Python on the same machine, so a slow machine changes nothing.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import pytest

from stepwell.authoring.graphs.expressions import compile_expression

pytestmark = [pytest.mark.req("G14"), pytest.mark.slow, pytest.mark.alone]


def context(lines: int) -> dict[str, Any]:
    rows = [{"sku": f"item-{number}", "price": number * 1.5, "count": number} for number in range(lines)]
    return {"ctx": {"input": {"id": 5, "x": 3}, "order": {"total": 120, "lines": rows}}}


def microseconds(work: Callable[[], object]) -> float:
    """The fastest of many short series: what else runs on the machine only makes some of them slower."""
    return min(timeit.repeat(work, number=200, repeat=60)) / 200 * 1e6


def by_hand(scope: dict[str, Any]) -> object:
    value: Any = scope
    for key in ("ctx", "input", "id"):
        if type(value) is not dict:
            raise TypeError(key)
        value = value[key]
    return value


@pytest.mark.parametrize(
    ("source", "times"),
    # By hand a path takes about 0.15 µs: so about 1 µs for a path and under 3 µs for a condition.
    [("ctx.input.id", 8), ("ctx.order.total > 100 && ctx.input.x != 4", 18)],
)
def test_an_evaluation_takes_a_few_times_a_lookup_by_hand(source: str, times: int) -> None:
    scope = context(100)
    expression = compile_expression(source)

    lookup = microseconds(lambda: by_hand(scope))
    evaluation = microseconds(lambda: expression.evaluate(scope))

    assert evaluation < times * lookup, f"{evaluation:.2f} µs against {lookup:.2f} µs"


def test_the_size_of_the_context_does_not_matter() -> None:
    expression = compile_expression("ctx.order.total > 100 && ctx.input.x != 4")
    small, large = context(1), context(5_000)

    one = microseconds(lambda: expression.evaluate(small))
    other = microseconds(lambda: expression.evaluate(large))

    assert other < 2 * one


def test_a_compiled_expression_is_found_again_quickly() -> None:
    source = "ctx.order.lines.filter(l, l.count > 3).map(l, l.price * 2.0)"
    compile_expression(source)

    again = microseconds(lambda: compile_expression(source))
    lookup = microseconds(lambda: by_hand(context_of_one))

    assert again < 10 * lookup


context_of_one = context(1)
