"""A transition that a live run is in the middle of, and that the code no longer has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Context, Engine, Machine, RunFailed, RunHandle, step, transition
from stepwell.errors import RunCancelled
from tests.engines import Engines, crash, kinds, suspended, until

DONE: list[str] = []


def undo(result: str) -> None:
    DONE.append(f"undo {result}")


@step(compensate=undo)
def reserve(what: str) -> str:
    DONE.append(what)
    return what


@dataclass
class Trip:
    way: str = ""


async def by_train(self: Any, ctx: Context) -> None:
    await ctx.step(reserve, "train")
    await ctx.signal("go", str)
    self.state.way = "train"


async def by_thought(self: Any, ctx: Context) -> None:
    await asyncio.Event().wait()


async def by_bus(self: Any, ctx: Context) -> None:
    await ctx.step(reserve, "bus")
    self.state.way = "bus"


def travels(body: Any, name: str, **options: Any) -> Any:
    body = type(body)(body.__code__, body.__globals__, name)
    body.__annotations__ = {}
    return transition("start", "end", **options)(body)


def trip(**ways: Any) -> type[Machine[Any]]:
    class Journey(Machine[Trip]):
        for name, (body, options) in ways.items():
            vars()[name] = travels(body, name, **options)
        del name, body, options

    return Journey


WAITS: dict[str, Any] = {"wait": True}
ALWAYS: dict[str, Any] = {"when": lambda state: True}
NEVER: dict[str, Any] = {"when": lambda state: False}


async def halfway(engine: Engine, *, asked: bool) -> RunHandle[Any]:
    """A run that is in the middle of its journey by train."""
    DONE.clear()
    run = await engine.start("Journey")
    if asked:
        await run.signal("train")
    await until(lambda: DONE == ["train"])
    await suspended(run)
    return run


@pytest.mark.req("F8", "M3")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"train": (by_train, {})}, {"bus": (by_bus, {})}),
        ({"train": (by_train, ALWAYS), "bus": (by_bus, {})}, {"bus": (by_bus, {})}),
        ({"train": (by_train, ALWAYS), "bus": (by_bus, {})}, {"bus": (by_bus, ALWAYS)}),
        ({"train": (by_train, {})}, {"bus": (by_bus, WAITS)}),
        ({"train": (by_train, WAITS)}, {"bus": (by_bus, {})}),
        ({"train": (by_train, WAITS)}, {"bus": (by_bus, WAITS)}),
        ({"train": (by_train, WAITS)}, {"train": (by_train, {})}),
        ({"train": (by_train, {})}, {"train": (by_train, WAITS)}),
    ],
    ids=["other", "its rival", "guarded", "asked", "was asked", "both asked", "no longer asked", "now asked"],
)
async def test_a_transition_that_is_gone_in_the_middle_of_it_holds_the_run(
    durable_engines: Engines, before: dict[str, Any], after: dict[str, Any]
) -> None:
    async with durable_engines.new(trip(**before)) as engine:
        run = await halfway(engine, asked="wait" in before["train"][1])
    async with durable_engines.new(trip(**after)) as engine:
        run = engine.handle(run.id)
        await run.signal("go", "now")
        with pytest.raises(RunFailed) as failed:
            await run.result(15)
    assert failed.value.cause_code == "CODE_CHANGED"
    assert "has begun to leave 'start' by 'train'" in failed.value.message
    assert "new version=" in failed.value.hint

    async with durable_engines.new(trip(**before)) as engine:  # the old code again
        run = engine.handle(run.id)
        await run.retry()

        assert await run.result(15) == {"way": "train"}
    assert DONE == ["train"]  # nothing was undone or done twice


@pytest.mark.req("F8", "M3")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"train": (by_train, {})}, {"bus": (by_bus, ALWAYS), "train": (by_train, {})}),
        (
            {"train": (by_train, ALWAYS), "bus": (by_bus, {})},
            {"train": (by_train, NEVER), "bus": (by_bus, {})},
        ),
        ({"train": (by_train, WAITS)}, {"bus": (by_bus, ALWAYS), "train": (by_train, WAITS)}),
        ({"train": (by_train, WAITS)}, {"bus": (by_bus, WAITS), "train": (by_train, {**WAITS, **NEVER})}),
    ],
    ids=["new rival", "guard", "asked, new rival", "asked, guard"],
)
async def test_a_transition_that_is_begun_is_ended_whatever_the_ways_beside_it(
    durable_engines: Engines, before: dict[str, Any], after: dict[str, Any]
) -> None:
    async with durable_engines.new(trip(**before)) as engine:
        run = await halfway(engine, asked="wait" in before["train"][1])
    async with durable_engines.new(trip(**after)) as engine:
        run = engine.handle(run.id)
        await run.signal("go", "now")

        assert await run.result(15) == {"way": "train"}
    assert DONE == ["train"]


@pytest.mark.req("F8", "M4")
async def test_a_trigger_that_was_taken_and_is_gone_before_its_body_did_anything_holds_the_run(
    durable_engines: Engines,
) -> None:
    async with durable_engines.new(trip(train=(by_thought, WAITS))) as engine:
        run = await engine.start("Journey")
        await suspended(run)
        await run.trigger("train")

        async def taken() -> bool:
            return "wait_ended" in await kinds(run)

        await until(taken)
        await crash(engine)
    async with durable_engines.new(trip(bus=(by_bus, WAITS))) as engine:
        with pytest.raises(RunFailed) as failed:
            await engine.handle(run.id).result(15)

    assert failed.value.cause_code == "CODE_CHANGED"
    assert "by 'train', which can no longer be triggered there" in failed.value.message


@pytest.mark.req("F8", "M3")
@pytest.mark.parametrize("mended", [True, False], ids=["mended", "given up"])
async def test_a_run_whose_transition_is_gone_is_undone_when_a_person_says_so(
    memory_engines: Engines, mended: bool
) -> None:
    async with memory_engines.new(trip(train=(by_train, {}))) as engine:
        run = await halfway(engine, asked=False)
    async with memory_engines.new(trip(bus=(by_bus, {}))) as engine:
        run = engine.handle(run.id)
        await run.cancel()
        with pytest.raises(RunFailed) as failed:
            await run.result(15)  # its cleanup is gone too: a person decides
        assert failed.value.cause_code == "CODE_CHANGED"
        assert DONE == ["train"]
        if not mended:
            await run.compensate()
            await until(lambda: DONE == ["train", "undo train"])
            return
    async with memory_engines.new(trip(train=(by_train, {}))) as engine:
        run = engine.handle(run.id)
        await run.retry()
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(15)

    assert DONE == ["train", "undo train"]
