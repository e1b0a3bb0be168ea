"""Triggers that workflows declare: they exist as long as the workflow declares them."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest

from stepwell import (
    Context,
    Engine,
    GraphBuilder,
    Machine,
    on_event,
    on_schedule,
    on_webhook,
    transition,
    workflow,
)
from stepwell.errors import Conflict, InvalidDefinition, InvalidInput, TriggerExists
from tests.engines import Engines, until

NIGHTLY = {"id": "nightly", "type": "schedule", "cron": "0 2 * * *", "timezone": "Europe/Berlin"}
HOOK = {"id": "hook", "type": "webhook", "path": "refunds", "input": {"order": "{{trigger.body.id}}"}}
PAID = {"id": "paid", "type": "event", "event": "order.paid", "condition": "trigger.payload.big"}
PARCEL = (on_event("paid"), on_webhook(scheme="none"))
FORM = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}


def graph(*triggers: dict[str, Any], output: str = "{{ctx.input}}") -> dict[str, Any]:
    return {
        "name": "refund",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "end", "type": "end", "data": {"output": {"got": output}}},
        ],
        "edges": [{"source": "start", "target": "end"}],
        "triggers": list(triggers),
    }


async def names(engine: Engine) -> dict[str, list[str]]:
    kinds: dict[str, Any] = {
        "schedules": engine.schedules,
        "webhooks": engine.webhooks,
        "triggers": engine.triggers,
    }
    return {kind: [info.name for info in await verbs.list()] for kind, verbs in kinds.items()}


@pytest.mark.req("N2", "N3", "N4", "T1", "T2", "T3")
async def test_publishing_a_graph_lets_exactly_its_triggers_exist(engines: Engines) -> None:
    async with engines.new() as engine:
        library = engine.library
        await library.create(graph(NIGHTLY, HOOK, PAID))
        drafted = await names(engine)
        await library.publish("refund", by="ann")
        published = await names(engine)
        hook = await engine.webhooks.get("refund.hook")
        schedule = await engine.schedules.get("refund.nightly")
        await engine.schedules.pause("refund.nightly", by="bob", reason="holidays")

        await library.update("refund", graph({**NIGHTLY, "cron": "0 3 * * *"}, {**HOOK, "path": "back"}))
        unpublished = await engine.schedules.get("refund.nightly")
        await library.publish("refund", by="ann")
        changed = await names(engine)
        moved = await engine.webhooks.get("refund.hook")
        later = await engine.schedules.get("refund.nightly")
        await library.publish("refund")  # repeated: nothing is different
        same = await engine.schedules.get("refund.nightly")

        await library.delete("refund")
        left = await names(engine)

    assert drafted == {"schedules": [], "webhooks": [], "triggers": []}
    assert published == {
        "schedules": ["refund.nightly"],
        "webhooks": ["refund.hook"],
        "triggers": ["refund.paid"],
    }
    assert (schedule.words, schedule.origin, schedule.workflow) == (
        "At 02:00 every day, Europe/Berlin",
        "refund",
        "refund",
    )
    assert hook.path.startswith("/hooks/default/refunds-")
    assert changed == {"schedules": ["refund.nightly"], "webhooks": ["refund.hook"], "triggers": []}
    assert moved.path == hook.path.replace("refunds-", "back-")  # what cannot be guessed stays
    assert (unpublished.cron, later.cron) == ("0 2 * * *", "0 3 * * *")
    assert (later.paused, later.reason, later.next_at) == (True, "holidays", None)
    assert same == later
    assert left == drafted


@pytest.mark.req("N4", "T3")
async def test_an_event_starts_the_published_version_of_a_graph(engines: Engines) -> None:
    async with engines.new() as engine:
        await engine.library.create(graph(PAID, output="{{ctx.input.id}}"))
        await engine.library.publish("refund")
        await engine.emit("order.paid", {"id": 1, "big": False})
        await engine.emit("order.paid", {"id": 2, "big": True})

        async def ran() -> Any:
            return await engine.runs(trigger="event", status="completed")

        [row] = await until(ran)
        result = await engine.handle(row.id).result()

    assert (result, row.version) == ({"got": 2}, "1")


@pytest.mark.req("N3", "T1")
async def test_triggers_of_code_follow_the_latest_version(durable_engines: Engines) -> None:
    def flow(version: str, *triggers: Any) -> Any:
        @workflow(name="report", version=version, triggers=triggers)
        async def report(ctx: Context, day: str = "") -> str:
            return f"{version} {day}"

        return report

    old = flow("1", on_schedule("@daily", input="{{trigger.date}}"), on_event("told", id="e"))
    async with durable_engines.new(old) as engine:
        first = await names(engine)
        every = await engine.schedules.get("report.schedule")
    async with durable_engines.new(flow("2", on_schedule(every="1h", id="hourly"))) as engine:
        second = await names(engine)
        anchored = await engine.schedules.get("report.hourly")
    async with durable_engines.new(old) as engine:  # an older worker starts again
        third = await names(engine)
        still = await engine.schedules.get("report.hourly")
    async with durable_engines.new(flow("3")) as engine:
        fourth = await names(engine)

    assert first == {"schedules": ["report.schedule"], "webhooks": [], "triggers": ["report.e"]}
    assert (every.cron, every.input) == ("@daily", "{{trigger.date}}")
    assert second == third == {"schedules": ["report.hourly"], "webhooks": [], "triggers": []}
    assert still == anchored
    assert fourth == {"schedules": [], "webhooks": [], "triggers": []}


@pytest.mark.req("T2", "T3")
async def test_machines_and_graphs_in_code_declare_triggers_too(engines: Engines) -> None:
    class Parcel(Machine[dict[str, Any]], name="parcel", triggers=PARCEL):
        @transition("start", "end")
        async def pack(self, ctx: Context, order: dict[str, Any]) -> None:
            self.state |= order

    builder = GraphBuilder("letter")
    _ = builder.start() >> builder.end(output={"to": "{{ctx.input.to}}"})
    builder.trigger("event", event="paid", input={"to": "{{trigger.payload.id}}"})

    async with engines.new(Parcel, builder) as engine:
        await engine.emit("paid", {"id": 7})

        async def both() -> Any:
            rows = await engine.runs(trigger="event", status="completed")
            return rows if len(rows) == 2 else None

        rows = await until(both)
        results = {row.workflow: await engine.handle(row.id).result() for row in rows}
        hooks = [info.name for info in await engine.webhooks.list()]

    assert results == {"parcel": {"id": 7}, "letter": {"to": 7}}
    assert hooks == ["parcel.webhook"]


@pytest.mark.req("T1", "T3")
async def test_a_declared_trigger_is_changed_where_it_is_declared(engines: Engines) -> None:
    @workflow(triggers=[on_schedule(every="1h")])
    async def report(ctx: Context) -> None: ...

    async with engines.new(report) as engine:
        with pytest.raises(Conflict, match="declared by workflow 'report'"):
            await engine.schedules.update("report.schedule", every="2h")
        assert await engine.schedules.pause("report.schedule")
        assert await engine.schedules.delete("report.schedule")


@pytest.mark.req("T1", "T3")
async def test_a_name_that_somebody_uses_is_not_taken_over(engines: Engines) -> None:
    async with engines.new() as engine:
        await engine.library.create(graph(NIGHTLY))
        await engine.library.publish("refund")
        await engine.library.update("refund", graph())
        await engine.library.publish("refund")
        await engine.schedules.create("refund.nightly", "refund", {}, every="1h")
        await engine.library.update("refund", graph(NIGHTLY))
        with pytest.raises(TriggerExists, match="which exists"):
            await engine.library.publish("refund")
        info = await engine.schedules.get("refund.nightly")

    assert (info.every, info.origin) == (3600.0, "")


@pytest.mark.req("T1")
async def test_processes_that_declare_at_once_agree(durable_engines: Engines) -> None:
    @workflow(triggers=[on_schedule(every="1h"), *PARCEL])
    async def report(ctx: Context, input: Any = None) -> None: ...

    several = [durable_engines.new(report, worker=False) for _ in range(4)]
    await asyncio.gather(*(engine.open() for engine in several))
    found = await names(several[0])
    for engine in several:
        await engine.close()

    assert found == {
        "schedules": ["report.schedule"],
        "webhooks": ["report.webhook"],
        "triggers": ["report.paid"],
    }


@pytest.mark.req("N2", "N3", "N4", "BI-G25")
@pytest.mark.parametrize(
    ("trigger", "code", "field", "words"),
    [
        ({"type": "schedule", "cron": "61 * * * *"}, "CRON", "cron", "minute"),
        ({"type": "schedule", "cron": "* * * * * *"}, "CRON", "cron", "6 fields"),
        ({"type": "schedule"}, "CRON", "cron", "missing"),
        ({"type": "schedule", "everyMs": 10}, "INVALID_TRIGGER", "everyMs", "0.01"),
        ({"type": "schedule", "cron": "@daily", "timezone": "Mars/Base"}, "TIMEZONE", "timezone", "Mars"),
        ({"type": "schedule", "cron": "@daily", "path": "p"}, "INVALID_TRIGGER", "path", "take no path"),
        ({"type": "schedule", "cron": "@daily", "input": "{{trigger.body}}"}, "INVALID_TRIGGER", "input", ""),
        ({"type": "webhook", "path": "../etc"}, "INVALID_TRIGGER", "path", "etc"),
        ({"type": "webhook", "auth": "bearer"}, "INVALID_TRIGGER", "credential", "needs a secret"),
        (
            {"type": "webhook", "auth": "none", "credential": "k"},
            "INVALID_TRIGGER",
            "credential",
            "no secret",
        ),
        ({"type": "webhook", "waitMs": 999_000}, "INVALID_TRIGGER", "waitMs", "999"),
        ({"type": "event"}, "EVENT_NAME", "event", "no event"),
        ({"type": "event", "event": "e", "condition": "1 +"}, "BAD_EXPRESSION", "condition", ""),
        ({"type": "event", "event": "e", "condition": "ctx.a"}, "INVALID_TRIGGER", "condition", "'ctx'"),
        ({"type": "event", "event": "e", "cron": "@daily"}, "INVALID_TRIGGER", "cron", "take no cron"),
        ({"type": "manual", "form": {"type": "nothing"}}, "INVALID_TRIGGER", "form", "JSON Schema"),
        ({"type": "manual", "input": "{{trigger.body.x}}"}, "INVALID_TRIGGER", "input", "not known"),
        ({"type": "source"}, "INVALID_TRIGGER", "source", "no source"),
    ],
    ids=str,
)
async def test_wrong_triggers_are_found_when_a_graph_is_saved(
    memory_engines: Engines, trigger: dict[str, Any], code: str, field: str, words: str
) -> None:
    async with memory_engines.new() as engine:
        found = engine.graphs.check(graph({"id": "t", **trigger}))
        with pytest.raises(InvalidDefinition):
            await engine.library.create(graph({"id": "t", **trigger}))

    [problem] = found
    assert (problem.code, problem.node, problem.field) == (code, "t", f"triggers.t.{field}")
    assert words in problem.message
    assert problem.suggestion or code in ("INVALID_TRIGGER", "BAD_EXPRESSION")


@pytest.mark.req("N2")
async def test_a_person_starts_a_graph_with_its_form(engines: Engines) -> None:
    manual = {"id": "by_hand", "type": "manual", "form": FORM}
    async with engines.new() as engine:
        await engine.library.create(graph(NIGHTLY, manual))
        await engine.library.publish("refund")
        form = (await engine.definition("refund")).form
        program = engine.graphs.workflow(graph(manual))
        for start in (engine.library.start, engine.start):
            with pytest.raises(InvalidInput, match='7 is not of type "string" at order') as wrong:
                await start("refund", {"order": 7}, trigger="manual")
            with pytest.raises(InvalidInput, match='"order" is a required property'):
                await start("refund", {}, trigger="manual")
        with pytest.raises(InvalidInput, match="order"):
            await engine.start(program, {}, trigger="manual")
        with pytest.raises(InvalidInput, match=re.escape("inputs[1] of 2")):
            await engine.start_many("refund", [{"order": "o-1"}, {}], trigger="manual")
        by_program = await engine.library.start("refund", {})
        by_hand = await engine.library.start("refund", {"order": "o-1"}, trigger="manual")
        result = await by_hand.result(timeout="30s")
        runs = await engine.runs()

    assert form is not None
    assert msgspec.json.decode(form) == FORM
    assert wrong.value.context["field"] == "order"
    assert result == {"got": {"order": "o-1"}}
    assert {run.id: run.trigger for run in runs} == {by_hand.id: "manual", by_program.id: "api"}


@pytest.mark.req("N2")
async def test_what_a_person_filled_in_becomes_the_input_that_the_trigger_writes(engines: Engines) -> None:
    written = {"id": "{{trigger.form.order}}", "why": "by hand: {{trigger.form.why}}"}
    manual = {"id": "by_hand", "type": "manual", "form": FORM, "input": written}
    async with engines.new() as engine:
        await engine.library.create(graph(manual))
        await engine.library.publish("refund")
        with pytest.raises(InvalidInput, match='"order" is a required property'):
            await engine.start("refund", {"id": "o-1"}, trigger="manual")
        first = await engine.library.start("refund", {"order": "o-1", "why": 5}, trigger="manual", key="k")
        again = await engine.library.start("refund", {"order": "o-1", "why": 5}, trigger="manual", key="k")
        by_program = await engine.library.start("refund", {"order": "o-1"})

        assert await first.result(timeout="30s") == {"got": {"id": "o-1", "why": "by hand: 5"}}
        assert again.id == first.id
        assert await by_program.result(timeout="30s") == {"got": {"order": "o-1"}}


@pytest.mark.parametrize("triggers", [[], [NIGHTLY], [{"id": "by_hand", "type": "manual"}]], ids=str)
async def test_a_graph_without_a_form_is_started_with_any_input(
    memory_engines: Engines, triggers: list[dict[str, Any]]
) -> None:
    async with memory_engines.new() as engine:
        await engine.library.create(graph(*triggers))
        await engine.library.publish("refund")
        run = await engine.library.start("refund", {"order": 7}, trigger="manual")

        assert (await engine.definition("refund")).form is None
        assert await run.result(timeout="30s") == {"got": {"order": 7}}


def test_a_schedule_whose_input_does_not_fit_is_found_when_a_graph_is_saved(memory_engines: Engines) -> None:
    body = graph({**NIGHTLY, "input": {"day": "{{trigger.date}}"}})
    body["nodes"][0]["data"] = {"inputSchema": {"type": "object", "required": ["orderId"]}}

    [problem] = memory_engines.new().graphs.check(body)

    assert (problem.code, problem.field) == ("INVALID_TRIGGER", "triggers.nightly.input")
    assert "orderId" in problem.message


@pytest.mark.parametrize("triggers", [on_event("a"), ["a"], [on_event("a"), on_event("a")], 7])
def test_wrong_declarations_are_refused_where_they_are_written(triggers: Any) -> None:
    with pytest.raises(InvalidDefinition, match="report"):

        @workflow(triggers=triggers)
        async def report(ctx: Context) -> None: ...
