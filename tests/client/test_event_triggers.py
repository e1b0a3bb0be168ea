"""Triggers of broadcast events: each event starts one run of each workflow that wants it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stepwell import Context, Engine, Machine, step, transition, workflow
from stepwell.domain.hops import HOPS_MAX
from stepwell.errors import BadExpression, InvalidInput, TriggerExists, TriggerNotFound, UnknownWorkflow
from tests.engines import SETTINGS, Engines, until


@workflow
async def ship(ctx: Context, order: dict[str, Any]) -> str:
    return f"ship {order['id']}"


@workflow
async def count(ctx: Context, amount: int) -> int:
    return amount * 2


class Parcel(Machine[dict[str, Any]], name="parcel"):
    @transition(source="start", target="end")
    async def pack(self, ctx: Context, order: dict[str, Any]) -> None:
        self.state |= {"id": order["id"], "packed": True}


GRAPH = {
    "name": "letter",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "end", "type": "end", "data": {"output": {"to": "{{ctx.input.id}}"}}},
    ],
    "edges": [{"source": "start", "target": "end"}],
}


async def started(engine: Engine, count: int, **filter: Any) -> list[Any]:
    """The runs that triggers started, once there are so many, with their results."""

    async def there() -> list[Any] | None:
        rows = await engine.runs(trigger="event", **filter)
        return list(rows) if len(rows) >= count else None

    rows = await until(there)
    return [(row, await engine.handle(row.id).result(60)) for row in rows]


@pytest.mark.req("T3", "N4", "K17")
async def test_an_event_starts_a_run_of_each_subscribed_workflow_of_every_style(engines: Engines) -> None:
    async with engines.new(ship, Parcel, GRAPH) as engine:
        for name, flow in (("a", "ship"), ("b", "parcel"), ("c", "letter")):
            await engine.triggers.create(name, flow, event="order.paid", tags={"team": "x"})
        first = await engine.emit("order.paid", {"id": "o-1"}, id="e1", by="ann")
        again = await engine.emit("order.paid", {"id": "o-1"}, id="e1")
        await engine.emit("order.sent", {"id": "o-2"})
        runs = await started(engine, 3)

    assert (first, again) == (True, False)
    assert {row.workflow: result for row, result in runs} == {
        "ship": "ship o-1",
        "parcel": {"id": "o-1", "packed": True},
        "letter": {"to": "o-1"},
    }
    assert {(row.trigger, row.started_by) for row, _ in runs} == {("event", "ann")}
    tags = [msgspec.json.decode(row.tags) for row, _ in runs]
    assert sorted(each["trigger"] for each in tags) == ["a", "b", "c"]
    assert {each["team"] for each in tags} == {"x"}


@pytest.mark.req("T3")
async def test_key_condition_and_input_choose_what_starts(engines: Engines) -> None:
    async with engines.new(count) as engine:
        await engine.triggers.create(
            "big",
            count,
            "{{trigger.payload.amount}}",
            event="paid",
            key="eu",
            condition="trigger.payload.amount > 100 && trigger.event == 'paid'",
        )
        await engine.emit("paid", {"amount": 50}, key="eu")
        await engine.emit("paid", {"amount": 500}, key="us")
        await engine.emit("paid", {"amount": 200}, key="eu")
        [(_, result)] = await started(engine, 1)
        info = await engine.triggers.get("big")

    assert result == 400
    assert (info.refused, info.event, info.key) == (0, "paid", "eu")


@pytest.mark.req("T3")
async def test_an_event_that_can_start_nothing_says_so_on_its_trigger(engines: Engines) -> None:
    async with engines.new(count, ship) as engine:
        await engine.triggers.create("wrong", count, event="paid")
        await engine.triggers.create("unclear", ship, event="paid", condition="trigger.payload.missing")
        await engine.triggers.create("right", ship, event="paid")
        await engine.disable("count", by="ann")
        await engine.emit("paid", {"id": "o-1"}, id="first")

        async def refused() -> list[Any] | None:
            infos = [await engine.triggers.get(name) for name in ("wrong", "unclear")]
            return infos if all(info.refused for info in infos) else None

        wrong, unclear = await until(refused)
        [(_, result)] = await started(engine, 1)
        await engine.enable("count")

    assert (wrong.refused, wrong.refused_event) == (1, "event/first")
    assert wrong.refused_reason == "invalid_input"
    assert unclear.refused_reason == "expression_error"
    assert "missing" in unclear.refused_message
    assert result == "ship o-1"


@pytest.mark.req("T3")
@pytest.mark.parametrize(
    ("input", "length"),
    [
        (["{{trigger.payload}}"] * 20, 60_000),
        ({"id": "{{trigger.payload}} " * 20}, 60_000),
        (["{{trigger.payload.text}}", "x" * 600_000], 500_000),  # only together
    ],
    ids=["values", "text", "with the rest"],
)
async def test_an_event_fills_no_input_beyond_the_limit(
    memory_engines: Engines, input: Any, length: int
) -> None:
    @workflow
    async def keep(ctx: Context, input: Any) -> int:
        return len(input)

    settings = replace(SETTINGS, payload_bytes_max=1_000_000)
    async with memory_engines.new(keep, settings=settings) as engine:
        await engine.triggers.create("large", keep, input, event="paid")
        await engine.triggers.create("small", keep, ["{{trigger.payload.text}}"], event="paid")
        await engine.emit("paid", {"text": "x" * length}, id="first")

        async def refused() -> Any:
            info = await engine.triggers.get("large")
            return info if info.refused else None

        info = await until(refused)
        runs = await started(engine, 1)

    assert info.refused_reason == "payload_too_large"
    assert "1,000,000" in info.refused_message
    assert [result for _, result in runs] == [1]


@pytest.mark.req("T3")
async def test_disabled_workflows_and_paused_triggers_start_nothing(engines: Engines) -> None:
    async with engines.new(ship) as engine:
        await engine.triggers.create("a", ship, event="paid")
        await engine.disable("ship")
        await engine.emit("paid", {"id": "1"}, id="one")

        async def refused() -> Any:
            info = await engine.triggers.get("a")
            return info if info.refused else None

        info = await until(refused)
        await engine.enable("ship")
        assert await engine.triggers.pause("a", reason="later", by="ann")
        await engine.triggers.create("b", ship, event="paid")
        await engine.emit("paid", {"id": "2"}, id="two")
        await started(engine, 1, tags={"trigger": "b"})  # `a` was asked at the same time
        paused = await engine.triggers.get("a")
        assert await engine.triggers.resume("a")
        await engine.emit("paid", {"id": "3"}, id="three")
        runs = await started(engine, 1, tags={"trigger": "a"})

    assert info.refused_reason == "disabled"
    assert (paused.paused, paused.reason, paused.paused_by) == (True, "later", "ann")
    assert [result for _, result in runs] == ["ship 3"]


@pytest.mark.req("T3", "X5")
async def test_events_start_nothing_in_another_workspace(engines: Engines) -> None:
    async with engines.new(ship) as engine:
        acme = engine.within("acme")
        await engine.triggers.create("here", ship, event="paid")
        with pytest.raises(UnknownWorkflow):
            await acme.triggers.create("there", "ship", event="paid")
        await acme.emit("paid", {"id": "theirs"}, id="x")
        await engine.emit("paid", {"id": "ours"}, id="x")
        runs = await started(engine, 1)

    assert [result for _, result in runs] == ["ship ours"]


@pytest.mark.req("T3")
async def test_a_loop_of_events_ends(engines: Engines) -> None:
    @step
    async def tell(n: int) -> None:
        await engine.emit("again", n + 1)

    @workflow
    async def echo(ctx: Context, n: int) -> int:
        await ctx.step(tell, n)
        return n

    engine = engines.new(echo)
    async with engine:
        await engine.triggers.create("loop", echo, event="again")
        await engine.emit("again", 1)

        async def stopped() -> Any:
            info = await engine.triggers.get("loop")
            return info if info.refused else None

        info = await until(stopped)
        results = sorted(result for _, result in await started(engine, HOPS_MAX))

    assert results == list(range(1, HOPS_MAX + 1))
    assert info.refused_reason == "recursion_limit"


@pytest.mark.req("T3")
async def test_an_older_event_does_not_start_what_subscribes_later(memory_engines: Engines) -> None:
    engine = memory_engines.new(ship, worker=False)
    async with engine:
        await engine.emit("paid", {"id": "old"})
        await asyncio.sleep(0)
        await engine.triggers.create("a", ship, event="paid")
        trigger = await engine.store.read_trigger("default", "trigger", "a")
        [event] = await engine.store.published("paid", "", since=0.0)

    assert trigger is not None
    assert event.at <= trigger.created_at


@pytest.mark.req("T3")
async def test_triggers_are_listed_and_deleted_by_name(engines: Engines) -> None:
    async with engines.new(ship, count) as engine:
        await engine.triggers.create("b", ship, event="paid")
        await engine.triggers.create("a", count, event="paid")
        with pytest.raises(TriggerExists):
            await engine.triggers.create("a", count, event="paid")
        page = await engine.triggers.list(limit=1)
        rest = await engine.triggers.list(before=page.next)
        of_ship = await engine.triggers.list(workflow="ship")
        deleted = [await engine.triggers.delete("a") for _ in range(2)]
        with pytest.raises(TriggerNotFound, match="no trigger 'a'"):
            await engine.triggers.get("a")

    assert [[info.name for info in infos] for infos in (page, rest, of_ship)] == [["a"], ["b"], ["b"]]
    assert deleted == [True, False]


@pytest.mark.req("T3")
@pytest.mark.parametrize(
    ("options", "error", "field"),
    [
        ({}, InvalidInput, "event"),
        ({"event": "paid", "source": "inbox"}, InvalidInput, "event"),
        ({"event": "paid", "every": "1m"}, InvalidInput, "every"),
        ({"event": "paid", "config": {"a": 1}}, InvalidInput, "config"),
        ({"event": "paid", "conditon": "true"}, InvalidInput, "conditon"),
        ({"event": "paid", "condition": "trigger.payload >"}, BadExpression, ""),
        ({"event": "paid", "condition": "ctx.amount > 1"}, InvalidInput, "condition"),
        ({"event": "paid", "condition": 7}, InvalidInput, "condition"),
        ({"event": "paid", "input": "{{trigger.body}}"}, InvalidInput, "input"),
        ({"event": "x" * 501}, InvalidInput, "event"),
        ({"source": "inbox", "key": "k"}, InvalidInput, "key"),
        ({"event": "paid", "paused": "yes"}, InvalidInput, "paused"),
    ],
    ids=str,
)
async def test_wrong_triggers_are_refused_with_their_field(
    memory_engines: Engines, options: dict[str, Any], error: type[InvalidInput], field: str
) -> None:
    async with memory_engines.new(ship) as engine:
        with pytest.raises(error) as refused:
            await engine.triggers.create("a", ship, **options)
        page = await engine.triggers.list()

    assert refused.value.context.get("field", "") == field
    assert not list(page)
