"""Warnings: what a graph says in vain is told when it is saved, and does not keep it from running."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.testing.graphs.task import registry
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines


def warned(*nodes: dict[str, Any], edges: str = "S>A", **settings: Any) -> list[tuple[str, str, str]]:
    plan = PlanBuilder(registry()).build(chart([START, *nodes], edges, **settings))
    return [(warning.code, warning.node, warning.field) for warning in plan.warnings]


@pytest.mark.req("G2", "G17")
@pytest.mark.parametrize(
    ("node", "field"),
    [
        (a("A", "set", values={"x": 1}, queue="gpu"), "queue"),
        (a("A", "workflow", workflow="other", queue="gpu"), "queue"),
        (a("A", "approval", retry={"maxAttempts": 2}), "retry"),
        (a("A", "loop", times=4, batchSize=2), "batchSize"),
        (a("A", "loop", batchSize=2, **{"while": "false"}), "batchSize"),
    ],
)
def test_a_field_that_says_nothing_in_its_node_is_told(node: dict[str, Any], field: str) -> None:
    body = [a("B", parent="A")] if node["type"] == "loop" else []

    assert warned(node, *body) == [("FIELD_UNUSED", "A", field)]


@pytest.mark.req("G2", "G17")
def test_fields_that_count_are_not_told() -> None:
    work = a("A", queue="gpu", retry={"maxAttempts": 2}, timeoutMs=1_800_000)
    call = a("W", "workflow", workflow="other", retry={"maxAttempts": 2}, timeoutMs=86_400_000)
    ask = a("P", "approval", timeoutMs=86_400_000, message="{{run.id}} {{step.key}}")
    loop = a(
        "L", "loop", items="ctx.input.xs", batchSize=2, collect="loop.index", breakWhen="loop.carry == 1"
    )
    inside = a("X", "set", "L", values={"x": "{{ctx.input.xs.map(env, env + loop.index)}}"})
    join = a("J", "merge", strategy="custom", custom="branches[0].delta")

    assert warned(work, call, ask, loop, inside, join, edges="S>A A>W W>P P-approved>L L>J") == []


@pytest.mark.req("G2")
def test_work_that_may_take_longer_than_its_run_is_told() -> None:
    assert warned(a("A", timeoutMs=5001), maxExecutionMs=5000) == [("TIMEOUT_UNREACHABLE", "A", "timeoutMs")]
    assert warned(a("A", timeoutMs=5001), maxExecutionMs=None) == []


@pytest.mark.req("G2", "BI-G26")
@pytest.mark.parametrize("source", ["env.HOME", "input.x", "loop.item", "branches", "ctx.x + xtc.y"])
def test_a_name_that_nothing_has_is_told(source: str) -> None:
    text = a("A", "set", values={"x": [f"{{{{{source}}}}}"]})

    assert warned(text) == [("UNKNOWN_NAME", "A", "values")]
    assert warned(a("A", "transform", expression=source)) == [("UNKNOWN_NAME", "A", "expression")]


@pytest.mark.req("G2", "BI-G26")
@pytest.mark.parametrize("name", ["input", "error", "loop"])
def test_a_variable_that_hides_what_nodes_see_is_told(name: str) -> None:
    assert warned(a("A", outputVariable=name)) == [("VARIABLE_HIDDEN", "A", "outputVariable")]
    assert warned(a("A", "set", values={name: 1})) == [("VARIABLE_HIDDEN", "A", f"values.{name}")]


@pytest.mark.req("G18")
async def test_whoever_saves_a_graph_is_told(memory_engines: Engines) -> None:
    body = chart([START, a("A", "set", values={"x": "{{env.HOME}}"}), a("Z", "end")], "S>A A>Z", name="odd")
    async with memory_engines.new(chart([START], "")) as engine:
        saved = await engine.library.create(body)
        again = await engine.library.update("odd", body)

        assert saved.warnings == again.warnings == tuple(map(str, engine.graphs.warnings(body)))
        assert "'env'" in saved.warnings[0]
        assert engine.graphs.check(body) == []
        assert engine.graphs.warnings(chart([], "")) == []
