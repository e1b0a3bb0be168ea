"""Checking and planning graphs: all problems at once, structure, hashes, schema, speed."""

from __future__ import annotations

import time
from typing import Any

import jsonschema_rs
import pytest

from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.format.content_hash import content_hash
from stepwell.authoring.graphs.format.drawing import mermaid, svg
from stepwell.authoring.graphs.format.json_schema import graph_schema
from stepwell.authoring.graphs.format.yaml import read_yaml
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.problems import InvalidGraph
from stepwell.errors import InvalidDefinition
from stepwell.testing.graphs.task import registry
from tests.authoring.graphs.graphs import START, a, chart


def codes(body: Any) -> list[str]:
    return [problem.code for problem in PlanBuilder(registry()).check(body)]


@pytest.mark.req("G2")
def test_all_problems_are_told_at_once_each_with_its_place() -> None:
    body = chart(
        [
            START,
            a("C", "condition", branches=[{"id": "yes", "when": "ctx.x >"}]),
            a("A", bogus=1),
            a("B", "tsk"),
            a("L", "loop", items="ctx.xs"),
            a("Z", "end"),
        ],
        "S>C C-no>Z C-yes>L L>Q",
    )

    problems = PlanBuilder(registry()).check(body)

    found = {problem.code: problem for problem in problems}
    assert set(found) == {
        "INVALID_DATA",
        "NODE_TYPE",
        "EMPTY_CONTAINER",
        "UNKNOWN_HANDLE",
        "EDGE_UNKNOWN_NODE",
        "BAD_EXPRESSION",
    }
    assert (found["INVALID_DATA"].node, found["INVALID_DATA"].field) == ("A", "bogus")
    assert "task" in found["NODE_TYPE"].suggestion
    assert (found["BAD_EXPRESSION"].node, found["BAD_EXPRESSION"].field) == ("C", "branches.0.when")
    assert "else" in found["UNKNOWN_HANDLE"].suggestion
    with pytest.raises(InvalidGraph) as error:
        PlanBuilder(registry()).build(body)
    assert error.value.problems == tuple(problems)


@pytest.mark.req("G1")
def test_canvas_fields_and_aliases_are_accepted_and_normalised() -> None:
    body = chart(
        [START, a("A"), a("J", "join"), a("H"), a("Z", "end")], "S-source>A A-fail-branch>H A>J H>J J>Z"
    )
    for node in body["nodes"]:
        node |= {"width": 10, "selected": True, "measured": {"width": 1}}
    body["viewport"] = {"x": 1, "y": 2, "zoom": 1}

    plan = PlanBuilder(registry()).build(body)

    found = plan.definition.as_dict()
    assert [node["type"] for node in found["nodes"]] == ["start", "task", "merge", "task", "end"]
    assert [edge["sourceHandle"] for edge in found["edges"]] == ["out", "error", "out", "out", "out"]
    assert "width" not in found["nodes"][0]
    assert PlanBuilder(registry()).build(found).hash == plan.hash


@pytest.mark.req("G2")
def test_forks_joins_and_regions_are_known_before_a_run() -> None:
    nodes = [START, a("F", "fork"), a("A"), a("B"), a("Side"), a("J", "merge"), a("Z", "end")]
    plan = PlanBuilder(registry()).build(chart(nodes, "S>F F>A F>B A>J B>J B>Side Side>Z J>Z"))

    scope = plan.root
    join = scope.by_id["J"]
    assert plan.forks() == {"F": "J"}
    assert [scope.nodes[index].id for index in join.region] == ["A"]
    assert scope.by_id["A"].join == join.index
    assert scope.by_id["B"].join == -1


@pytest.mark.req("G2")
def test_a_plan_is_built_once_for_each_content() -> None:
    builder = PlanBuilder(registry())
    body = chart([START, a("Z", "end")], "S>Z")

    one, two = builder.build(body), builder.build(dict(reversed(body.items())))

    assert one is two
    assert builder.build(chart([START, a("Z", "end", output={"x": 1})], "S>Z")) is not one
    assert content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})


def _diamonds(count: int) -> dict[str, Any]:
    nodes, edges = [START], []
    last = "S"
    for i in range(count):
        nodes += [a(f"F{i}", "fork"), a(f"A{i}"), a(f"B{i}"), a(f"J{i}", "merge")]
        edges += [f"{last}>F{i}", f"F{i}>A{i}", f"F{i}>B{i}", f"A{i}>J{i}", f"B{i}>J{i}"]
        last = f"J{i}"
    return chart([*nodes, a("Z", "end")], " ".join([*edges, f"{last}>Z"]), maxNodes=500)


@pytest.mark.req("G2")
def test_building_takes_time_in_proportion_to_the_graph() -> None:
    """Four times the nodes may take some more than four times as long, not sixteen times."""

    def took(count: int) -> float:
        body = _diamonds(count)
        best = float("inf")
        for _ in range(3):
            begin = time.process_time()
            PlanBuilder(registry()).build(body)
            best = min(best, time.process_time() - begin)
        return best

    assert took(120) < took(30) * 10


@pytest.mark.req("G1")
def test_more_than_a_hundred_nodes_need_a_setting() -> None:
    body = _diamonds(30)
    del body["settings"]

    assert codes(body) == ["GRAPH_TOO_LARGE"]
    body["settings"] = {"maxNodes": 200}
    assert codes(body) == []


@pytest.mark.req("G1")
def test_the_published_schema_fits_what_is_accepted() -> None:
    schema = graph_schema(NodeRegistry())
    validator = jsonschema_rs.validator_for(schema)
    body = chart([START, a("D", "delay", ms=5), a("Z", "end", output={"x": "{{ctx.input}}"})], "S>D D>Z")

    assert list(validator.iter_errors(body)) == []
    body["nodes"][1]["data"]["ms"] = "soon"
    assert list(validator.iter_errors(body)) != []


@pytest.mark.req("G21")
def test_drawings_show_every_node_and_handle() -> None:
    check = a("C", "condition", branches=[{"id": "yes", "when": "true"}])
    nodes = [START, check, a("T", "try"), a("A", parent="T"), a("Z", "end")]
    body = chart(nodes, "S>C C-yes>T T>Z C-else>Z", name="<drawn>")

    text, picture = mermaid(body), svg(body, {"A": "failed"})

    assert text.startswith("flowchart LR")
    assert "subgraph" in text
    assert '|"yes"|' in text
    assert "&lt;drawn&gt;" in picture
    assert "failed" in picture
    assert "<script" not in picture


@pytest.mark.req("G21", "X10")
def test_yaml_is_only_data() -> None:
    assert read_yaml("nodes: []\nname: x") == {"nodes": [], "name": "x"}
    with pytest.raises(InvalidDefinition):
        read_yaml("!!python/object/apply:os.getcwd []")


@pytest.mark.req("K12")
def test_a_timeout_of_zero_is_an_error_that_says_so() -> None:
    problems = PlanBuilder(registry()).check(chart([START, a("A", timeoutMs=0), a("Z", "end")], "S>A A>Z"))

    assert [problem.code for problem in problems] == ["TIMEOUT"]
    assert "0 is not a timeout" in problems[0].message
