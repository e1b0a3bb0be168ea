"""Values as in plain Python: the order of dicts, defaults of parameters, models in signals and events."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from stepwell import (
    Context,
    Engine,
    Machine,
    RunHandle,
    SyncClient,
    SyncContext,
    run_stateless,
    step,
    transition,
    workflow,
)
from stepwell.errors import InvalidInput, KeyConflict, NotSerialisable
from tests.engines import Engines, all_events, suspended, until


class RecordedResult(BaseModel):
    by: str


@dataclass
class Vote:
    by: str
    weight: int = 1


async def waits_for(run: RunHandle[Any], event: str) -> bool:
    return any((wait.what, wait.name) == ("event", event) for wait in await run.waits())


# The order of dicts


@step
async def turned(row: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(row.items()))


@step
async def untyped(row):  # type: ignore[no-untyped-def]  # that is the point
    return row


@dataclass
class Order:
    lines: dict[str, int] = field(default_factory=dict)


@workflow
async def keeps_order(ctx: Context, row: dict[str, int]) -> dict[str, list[str]]:
    signal = await ctx.signal("go")
    typed = await ctx.signal("order", Order)
    event = await ctx.event("news")
    ctx.save("row", row)
    return {
        "input": list(row),
        "step": list(await ctx.step(turned, row)),
        "untyped": list(await ctx.step(untyped, row)),
        "signal": list(signal),
        "typed": list(typed.lines),
        "event": list(event),
        "document": list(await ctx.document("row")),
        "child": await ctx.run(child, row),
    }


@workflow
async def child(ctx: Context, row: dict[str, int]) -> list[str]:
    return list(row)


ROW = {"zebra": 1, "apple": 2, "mango": 3}
KEYS = list(ROW)


@pytest.mark.req("F13")
async def test_a_dict_keeps_its_order_on_every_way(engines: Engines) -> None:
    async with engines.new(keeps_order, child) as engine:
        run = await engine.start(keeps_order, ROW)
        await suspended(run)
        await run.signal("go", ROW)
        await run.signal("order", Order(ROW))
        await until(lambda: waits_for(run, "news"))
        await engine.emit("news", ROW)

        result = await run.result(30)
        assert list(result) == ["input", "step", "untyped", "signal", "typed", "event", "document", "child"]
        assert result.pop("step") == KEYS[::-1]
        assert [*result.values()] == [KEYS] * 7
        assert (await run.info()).input == b'{"zebra":1,"apple":2,"mango":3}'
        assert list(await run.document("row")) == KEYS
        [accepted] = [event for event in await all_events(run) if event.kind == "accepted"]
        assert list(accepted.data["input"]) == KEYS


@pytest.mark.req("F13", "K1")
@pytest.mark.parametrize("input", ["plain", "typed", "named"])
async def test_a_key_belongs_to_a_dict_in_whatever_order(engines: Engines, input: str) -> None:
    @workflow
    async def plain(ctx: Context, row: Any) -> None: ...

    @workflow
    async def typed(ctx: Context, order: Order) -> None: ...

    def given(row: dict[str, int]) -> Any:
        return Order(row) if input == "typed" else row

    flow: Any = {"plain": plain, "typed": typed, "named": "plain"}[input]
    async with engines.new(plain, typed) as engine:
        first = await engine.start(flow, given(ROW), key="k")
        again = await engine.start(flow, given(dict(sorted(ROW.items()))), key="k")

        assert again.id == first.id
        with pytest.raises(KeyConflict):
            await engine.start(flow, given({**ROW, "apple": 3}), key="k")


@pytest.mark.req("F13", "K1")
async def test_a_key_of_an_older_version_is_known_again(memory_engines: Engines) -> None:
    """It made its digest of the input with sorted keys, and of a dataclass by its fields."""
    from stepwell.domain.codec import digest

    @workflow
    async def typed(ctx: Context, order: Order) -> None: ...

    async with memory_engines.new(typed, worker=False) as engine:
        prepared = await engine._prepared(typed, "")
        new = engine._new_run(prepared, Order(ROW), "k", {"trigger": "api"})

    assert new.input == b'{"lines":{"zebra":1,"apple":2,"mango":3}}'
    assert new.digest == digest(b'typed\0{"lines":{"apple":2,"mango":3,"zebra":1}}')


# Defaults of parameters


@workflow
async def with_default(ctx: Context, row: dict[str, int] = {"default": 1}) -> dict[str, int]:  # noqa: B006
    return row


@workflow
async def optional(ctx: Context, count: int | None = 5) -> int | None:
    return count


@workflow
def plain_default(ctx: SyncContext, vote: Vote = Vote("nobody")) -> str:  # noqa: B008
    return vote.by


@workflow
async def calls_them(ctx: Context) -> list[Any]:
    started = await ctx.start(optional)
    return [await ctx.run(with_default), await started, await ctx.run(optional, None)]


@workflow
async def goes_on(ctx: Context, rounds: int = 1) -> int:
    return ctx.continue_as_new() if rounds == 7 else rounds


@pytest.mark.req("F13", "F1")
async def test_a_default_of_the_parameter_counts(engines: Engines) -> None:
    nothing: Any = None
    flows = (with_default, optional, plain_default, calls_them, goes_on)
    async with engines.new(*flows) as engine:
        assert await engine.run(with_default) == {"default": 1}
        assert await engine.run(with_default, {"given": 2}) == {"given": 2}
        assert await engine.run(optional) == 5
        assert await engine.run(optional, None) is None  # given is given
        assert await engine.run(plain_default) == "nobody"
        assert await engine.run(calls_them) == [{"default": 1}, 5, None]
        assert await engine.run(goes_on, 7) == 1
        assert await (await engine.start("with_default")).result(30) == {"default": 1}
        assert await (await engine.start("optional")).result(30) == 5
        run = await engine.start(with_default)
        assert (await run.info()).input == b'{"default":1}'  # later defaults do not change it
        with pytest.raises(InvalidInput):
            await engine.start(with_default, nothing)
    assert await run_stateless(optional) == 5


@pytest.mark.req("F13")
async def test_a_changed_default_is_no_new_version(engines: Engines) -> None:
    @workflow(name="optional")
    async def changed(ctx: Context, count: int | None = 6) -> int | None:
        return count

    changed._function.__module__, changed._function.__qualname__ = __name__, "optional"
    assert changed.definition.hash == optional.definition.hash
    async with engines.new(optional) as engine:
        assert await engine.run(optional) == 5
    async with engines.new(changed) as engine:
        assert await engine.run(changed) == 6


# Models and dataclasses


@workflow
async def listens(ctx: Context) -> list[Any]:
    return [
        (await ctx.signal("model", RecordedResult)).by,
        (await ctx.signal("vote", Vote)).weight,
        (await ctx.event("model", RecordedResult)).by,
        await ctx.signal("untyped"),
    ]


@pytest.mark.req("F13", "K11")
async def test_signals_and_events_take_models_and_dataclasses(engines: Engines) -> None:
    async with engines.new(listens) as engine:
        run = await engine.start(listens)
        await run.signal("model", RecordedResult(by="ana"))
        await run.signal("vote", Vote("bob", 3))
        await run.signal("untyped", Vote("eve"))
        await until(lambda: waits_for(run, "model"))
        assert await engine.emit("model", RecordedResult(by="cid")) is True

        assert await run.result(30) == ["ana", 3, "cid", {"by": "eve", "weight": 1}]


@pytest.mark.req("F13", "K11")
async def test_the_sync_client_takes_them_too(tmp_path: Path) -> None:
    database = str(tmp_path / "a.db")

    def talk(run_id: str) -> None:
        with SyncClient(database) as client:
            handle = client.handle(run_id)
            handle.signal("model", RecordedResult(by="ana"))
            handle.signal("vote", Vote("bob", 3))
            handle.signal("untyped")

    def publish() -> None:
        with SyncClient(database) as client:
            client.emit("model", RecordedResult(by="cid"))

    async with Engine(database, workflows=[listens]) as engine:
        run = await engine.start(listens)
        await asyncio.to_thread(talk, run.id)
        await until(lambda: waits_for(run, "model"))
        await asyncio.to_thread(publish)

        assert await run.result(30) == ["ana", 3, "cid", None]


@pytest.mark.req("F13", "F12")
async def test_news_and_stateless_signals_take_them(memory_engines: Engines) -> None:
    @workflow
    async def tells(ctx: Context) -> str:
        ctx.publish("votes", Vote("ana"))
        return (await ctx.signal("model", RecordedResult)).by

    async with memory_engines.new(tells) as engine:
        run = await engine.start(tells)
        await run.signal("model", RecordedResult(by="bob"))
        assert await run.result(30) == "bob"
        [news] = [event.data for event in await all_events(run) if event.kind == "published"]
        assert news["data"] == {"by": "ana", "weight": 1}
    assert await run_stateless(tells, signals={"model": RecordedResult(by="cid")}) == "cid"


@pytest.mark.req("F13")
async def test_what_no_class_describes_is_refused_as_before(memory_engines: Engines) -> None:
    async with memory_engines.new(listens) as engine:
        run = await engine.start(listens)
        for value in (object(), [object()], lambda: None):
            with pytest.raises(NotSerialisable):
                await run.signal("model", value)
            with pytest.raises(NotSerialisable):
                await engine.emit("model", value)


class Counting(Machine[Order]):
    """The state of a machine keeps its order too."""

    ends = frozenset({"done"})

    @transition("start", "counted")
    async def begin(self, ctx: Context, order: Order) -> None:
        self.state = order

    @transition("counted", "done", wait=Vote)
    async def vote(self, ctx: Context, vote: Vote) -> None:
        self.state.lines[vote.by] = vote.weight


@pytest.mark.req("F13", "M1")
async def test_a_machine_keeps_the_order_and_takes_dataclasses(engines: Engines) -> None:
    async with engines.new(Counting) as engine:
        run = await engine.start(Counting, Order(ROW))
        await suspended(run)
        await run.trigger("vote", Vote("aaa"))

        assert list((await run.result(30)).lines) == [*KEYS, "aaa"]
