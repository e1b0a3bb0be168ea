"""What a graph says in vain is told when it is saved; and a node has one idempotency key."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, InvalidGraph, StepContext, node, step, workflow
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.workflow import GraphTools
from stepwell.domain.commit import Definition
from stepwell.domain.triggers.cron import cron_fault
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.engines import Engines


@workflow
async def other(ctx: Context, x: Any) -> None:
    pass


@node("keyed")
async def keyed(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> Any:
    return {"told": config["key"], "own": helpers.key}


@step
async def own_key(context: StepContext, told: str) -> list[str]:
    return [told, context.key]


@pytest.mark.req("K37", "G16")
async def test_a_node_has_one_key(engines: Engines) -> None:
    nodes = [
        START,
        a("L", "loop", items="[1]", collect="ctx.k", outputVariable="l"),
        a("K", "keyed", "L", key="{{step.key}}", outputVariable="k"),
        a("C", "call", step="own_key", args=["{{step.key}}"], outputVariable="c"),
        a("Z", "end", output={"k": "{{ctx.l.results[0]}}", "c": "{{ctx.c}}"}),
    ]
    body = chart(nodes, "S>L L>C C>Z")
    async with engines.new(body, nodes=[keyed], steps=[own_key]) as engine:
        run = await engine.start("chart", {})

        found = await run.result(timeout=60)

        assert found["k"] == {"told": f"{run.id}/0/L[0]/K", "own": f"{run.id}/0/L[0]/K"}
        assert found["c"] == [f"{run.id}/0/C"] * 2


def plain(**settings: Any) -> dict[str, Any]:
    return chart([START, a("A", "set", values={}), a("Z", "end")], "S>A A>Z", name="plain", **settings)


def problems(body: dict[str, Any], nodes: list[Any] | None = None) -> list[tuple[str, str, str]]:
    return [(p.code, p.node, p.field) for p in GraphTools(nodes or [], {}).check(body)]


@pytest.mark.req("K37", "G2")
def test_a_setting_from_which_nothing_follows_is_told() -> None:
    assert problems(plain(errorWorkflow="tell")) == [("NOT_SUPPORTED", "", "settings.errorWorkflow")]
    assert problems(plain()) == []


@pytest.mark.req("K37", "G2")
@pytest.mark.parametrize("where", ["node", "data"])
@pytest.mark.parametrize("type", ["set", "keyed", "merge"])
def test_a_join_mode_of_a_node_that_has_none_is_told(where: str, type: str) -> None:
    body = plain()
    body["nodes"][1] |= {"type": type, "data": {"values": {}} if type == "set" else {}}
    (body["nodes"][1] if where == "node" else body["nodes"][1]["data"])["joinMode"] = "any"

    assert problems(body, [keyed]) == [("INVALID_DATA", "A", "joinMode")]


@pytest.mark.req("K37", "G2")
@pytest.mark.parametrize(
    "cron",
    [
        *("", "*", "0 2 * *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 * 13 *", "0 0 * * 8"),
        *("*/0 * * * *", "5-1 * * * *", "0 0 31 2 *", "0 0 30,31 feb *", "x * * * *", "0 0 * * mon-"),
        *("@never", "0 2 * * * *"),
    ],
)
def test_an_invalid_cron_is_told(cron: str) -> None:
    body = {**plain(), "triggers": [{"id": "nightly", "type": "schedule", "cron": cron}]}

    assert problems(body) == [("CRON", "nightly", "triggers.nightly.cron")]


@pytest.mark.parametrize(
    "cron",
    ["0 2 * * *", "*/15 9-17 * * mon-fri", "0 0 29 feb *", "5/10 0 1,15 JAN-jun 0", "@daily", "0 0 31 2 1"],
)
def test_a_cron_that_comes_is_let_pass(cron: str) -> None:
    assert cron_fault(cron) == ""


@pytest.mark.req("K37", "G2")
def test_a_schedule_without_a_cron_or_in_an_unknown_time_zone_is_told() -> None:
    missing = {"id": "m", "type": "schedule"}
    lost = {"id": "z", "type": "schedule", "cron": "@daily", "timezone": "Mars/Olympus"}

    found = problems({**plain(), "triggers": [missing, lost]})

    assert found == [("CRON", "m", "triggers.m.cron"), ("TIMEZONE", "z", "triggers.z.timezone")]


@pytest.mark.req("K37", "G18")
async def test_a_graph_that_was_saved_before_is_run_as_it_is(engines: Engines) -> None:
    old = PlanBuilder(stored=True).build(plain(errorWorkflow="tell"))
    body = GraphTools([], {}).workflow(old.definition, stored=True).definition
    async with engines.new(other) as engine:
        with pytest.raises(InvalidGraph, match="errorWorkflow"):
            await engine.library.create(plain(errorWorkflow="tell"))
        await engine.library.create(plain())
        published = Definition(
            name="plain", version="1", kind="graph", hash=body.hash, body=body.body, options=body.options
        )
        await engine.store.put_definitions([published])

        run = await engine.library.start("plain", {})

        assert await run.result(timeout=60) == {}
        assert (await traced(run))["A"].status == "completed"
