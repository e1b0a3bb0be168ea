"""How large a graph may be, all its texts together: refused before it costs anybody's time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.testing.graphs.task import registry
from tests.authoring.graphs.graphs import START, a, chart


def problems(nodes: list[dict[str, Any]]) -> list[GraphProblem]:
    ids = [node["id"] for node in [START, *nodes]]
    edges = " ".join(f"{one}>{other}" for one, other in pairwise(ids))
    return PlanBuilder(registry()).check(chart([START, *nodes], edges, maxNodes=500))


@pytest.mark.req("G2")
def test_expressions_of_a_graph_are_bounded_all_together() -> None:
    texts = [a(f"V{i}", "set", values={"x": ["{{ctx.x}}" + "." * 491]}) for i in range(200)]
    wrong = [a(f"T{i}", "transform", expression="1 + //" + "." * 3994) for i in range(200)]
    assert problems(texts) == []

    found = problems([*texts, *wrong])

    told = [problem for problem in found if problem.code == "GRAPH_TOO_LARGE"]
    assert [(problem.node, problem.field) for problem in told] == [("T106", "expression")]
    assert "524,288 bytes" in told[0].message
    assert [problem.node for problem in found if problem.code == "BAD_EXPRESSION"][-1] == "T105"


@pytest.mark.req("G2")
@pytest.mark.parametrize("values", [lambda text: {"x": text}, lambda text: {"x": {text: 1}}])
def test_plain_text_of_a_graph_is_bounded_like_any_definition(values: Any) -> None:
    assert problems([a("V", "set", values=values("é" * 2_600_000))]) == []

    found = problems([a("V", "set", values=values("é" * 2_700_000))])

    assert [problem.code for problem in found] == ["GRAPH_TOO_LARGE"]
    assert "5,242,880" in found[0].message
