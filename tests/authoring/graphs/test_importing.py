"""Graphs as other editors draw them: trigger nodes, loops with an edge back."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.testing.graphs.cases import Case
from stepwell.testing.graphs.runner import run_case
from stepwell.testing.graphs.task import registry
from tests.authoring.graphs.graphs import START, a, chart, task


def play(graph: dict[str, Any], script: Any = None, input: Any = None) -> dict[str, Any]:
    return run_case(Case.read({"id": "x", "graph": graph, "script": script, "input": input or {}}))


def codes(body: Any) -> list[str]:
    return list(dict.fromkeys(problem.code for problem in PlanBuilder(registry()).check(body)))


def looped(edges: str, *more: dict[str, Any]) -> dict[str, Any]:
    loop = a("L", "loop", items="ctx.input.xs", collect="ctx.b", outputVariable="l")
    nodes = [START, loop, a("A"), a("B"), *more, a("Z", "end", output={"r": "{{ctx.l.results}}"})]
    body = chart(nodes, edges)
    for edge in body["edges"]:  # a handle's name may have a dash
        edge["sourceHandle"] = {"start": "loop-start"}.get(edge["sourceHandle"], edge["sourceHandle"])
        if edge["target"] == "L" and edge["source"] != "S":
            edge["targetHandle"] = "loop-back"
    return body


@pytest.mark.req("G10", "G1")
@pytest.mark.parametrize("handle", ["loop", "start"])
def test_a_loop_drawn_with_an_edge_back_gets_its_body(handle: str) -> None:
    body = looped(f"S>L L-{handle}>A A>B B>L L-done>Z")

    found = play(body, {"A": task(1, out="=loop.item"), "B": task(1, out="=ctx.a * 10")}, {"xs": [1, 2]})

    assert found["output"] == {"r": [10, 20]}
    assert found["steps"]["L[1]/B"] == "completed"
    plan = PlanBuilder(registry()).build(body)
    assert [n["id"] for n in plan.definition.as_dict()["nodes"] if n.get("parentId") == "L"] == ["A", "B"]
    assert all(node.get("parentId") is None for node in body["nodes"]), "what was given is not changed"


@pytest.mark.req("G10")
def test_a_body_with_branches_and_a_loop_in_it_is_moved_too() -> None:
    inner = a("M", "loop", items="[1, 2]", collect="ctx.c", outputVariable="m")
    check = a("C1", "condition", branches=[{"id": "big", "when": "loop.item > 1"}])
    body = looped(
        "S>L L-loop>C1 C1-big>M C1-else>L M-loop>C C>M M-done>A A>B B>L L-done>Z", inner, check, a("C")
    )
    script = {"A": task(1), "B": task(1, out="=ctx.m.results"), "C": task(1, out="=loop.parent.item")}

    found = play(body | {}, script, {"xs": [2, 3]})

    assert found["output"] == {"r": [[2, 2], [3, 3]]}
    assert found["steps"]["L[0]/M[1]/C"] == "completed"


@pytest.mark.req("G2", "G10")
@pytest.mark.parametrize(
    ("edges", "why"),
    [
        ("S>L L-loop>A A>B L-done>Z", "nothing leads back"),
        ("S>L L-loop>A A>B B>L B>Z L-done>Z", "Z does not lead back"),
        ("S>L S>B L-loop>A A>B B>L L-done>Z", "S leads into it from outside"),
    ],
)
def test_a_loop_whose_body_cannot_be_told_from_the_rest_is_refused(edges: str, why: str) -> None:
    problems = PlanBuilder(registry()).check(looped(edges))

    assert [problem.code for problem in problems] == ["LOOP_NOT_STRUCTURED"]
    assert problems[0].node == "L"
    assert why in problems[0].message


@pytest.mark.req("N1")
def test_trigger_nodes_become_triggers_and_lead_from_the_start() -> None:
    hook = a("hook", "webhook", path="refunds", auth="bearer", credential="shop")
    nightly = a("nightly", "scheduled", cron="0 2 * * *", timezone="Europe/Berlin")
    body = chart([hook, nightly, a("A"), a("Z", "end")], "hook>A nightly>A A>Z")

    definition = PlanBuilder(registry()).build(body).definition.as_dict()

    assert [(t["id"], t["type"]) for t in definition["triggers"]] == [
        ("hook", "webhook"),
        ("nightly", "schedule"),
    ]
    assert definition["triggers"][1]["cron"] == "0 2 * * *"
    assert play(body)["steps"] == {"start": "completed", "A": "completed", "Z": "completed"}


@pytest.mark.req("N1", "G2")
def test_a_trigger_before_a_start_is_taken_off_and_a_wrong_one_is_told() -> None:
    fine = chart([a("m", "manual"), START, a("Z", "end")], "m>S S>Z")
    wrong = chart([a("m", "webhook", pth="x"), START, a("Z", "end")], "m>S S>Z")

    assert play(fine)["status"] == "completed"
    assert codes(wrong) == ["INVALID_TRIGGER"]
