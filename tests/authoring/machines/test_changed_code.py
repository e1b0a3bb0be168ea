"""Code that changes under live machines: nothing is undone or lost, and people are told what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Context, Machine, RunFailed, step, transition
from stepwell.errors import InvalidInput, WrongPlace
from tests.engines import Engines, all_events, kinds, suspended, until

UNDONE: list[str] = []


def undo(result: str) -> None:
    UNDONE.append(result)


@step(compensate=undo)
def reserve() -> str:
    return "room"


@dataclass
class Booking:
    nights: int = 0


@dataclass
class Renamed:
    nights: str = ""


def booking(
    *, place: str = "review", trigger: str = "approve", wait: Any = int, state: Any = Booking
) -> type[Machine[Any]]:
    class Hotel(Machine[state]):
        ends = frozenset({"end", "trouble"})

        @transition("start", place)
        async def open(self, ctx: Context) -> None:
            await ctx.step(reserve)

        async def approve(self, ctx: Context, nights: Any) -> None:
            self.state.nights = int(nights)

        approve.__name__ = trigger
        vars()[trigger] = transition(place, "end", wait=wait, on_error="trouble")(approve)
        if trigger != "approve":
            del approve

    return Hotel


@pytest.mark.req("F8", "K27", "M3")
@pytest.mark.parametrize("changed", [{"place": "check"}, {"state": Renamed}], ids=["place", "state"])
async def test_what_live_runs_need_and_is_gone_holds_them(
    durable_engines: Engines, changed: dict[str, Any]
) -> None:
    UNDONE.clear()
    async with durable_engines.new(booking()) as engine:
        run = await engine.start("Hotel")
        await suspended(run)
    async with durable_engines.new(booking(**changed)) as engine:
        run = engine.handle(run.id)
        await run.trigger("approve", 3)
        with pytest.raises(RunFailed) as failed:
            await run.result(15)
        state = await run.state()
    assert failed.value.cause_code == "CODE_CHANGED"
    assert "'review'" in failed.value.message
    assert "new version=" in failed.value.hint
    assert state.checkpoint is not None
    assert (state.checkpoint.place, UNDONE) == ("review", [])

    async with durable_engines.new(booking()) as engine:  # the old code again
        run = engine.handle(run.id)
        await run.retry()

        assert await run.result(15) == {"nights": 3}  # what was decided has not been lost


@pytest.mark.req("F8", "M4")
@pytest.mark.parametrize(
    ("changed", "trigger", "payload"),
    [({"trigger": "accept"}, "accept", 3), ({"wait": str}, "approve", "3")],
    ids=["name", "type"],
)
async def test_a_question_that_changed_is_asked_anew(
    durable_engines: Engines, changed: dict[str, Any], trigger: str, payload: Any
) -> None:
    async with durable_engines.new(booking()) as engine:
        run = await engine.start("Hotel")
        await suspended(run)
    async with durable_engines.new(booking(**changed)) as engine:
        run = engine.handle(run.id)
        await run.trigger("approve", 3, by="ana")  # she was asked by the old code

        async def asked_anew() -> bool:
            return (await kinds(run)).count("wait_opened") == 2

        await until(asked_anew)
        await suspended(run)
        [wait] = await run.waits()
        assert [choice.name for choice in wait.choices] == [trigger]
        assert [e.data["name"] for e in await all_events(run) if e.data.get("rejected")] == ["approve"]
        with pytest.raises((WrongPlace, InvalidInput)):
            await run.trigger("approve", 3)
        await run.trigger(trigger, payload)

        assert await run.result(15) == {"nights": 3}


def guarded(taken: Any, wait: bool) -> type[Machine[Any]]:
    class Guarded(Machine[Booking]):
        @transition("start", "review")
        async def open(self, ctx: Context) -> None:
            await ctx.step(reserve)

        async def sleep(self, ctx: Context, nights: Any) -> None:
            await ctx.signal("wake")

        @transition("review", "asked", when=lambda state, input: input is not None)
        async def ask(self, ctx: Context) -> None: ...

        @transition("asked", "end", wait=wait, when=lambda state, input: input is not None)
        async def close(self, ctx: Context) -> None: ...

        sleep.__annotations__["nights"] = taken
        nap = transition("start", "end", when=lambda state: False)(sleep)
        del sleep

    return Guarded


@pytest.mark.req("F8", "M3")
@pytest.mark.parametrize("wait", [False, True], ids=["automatic", "triggered"])
async def test_an_input_that_a_guard_cannot_read_any_more_holds_the_run(
    durable_engines: Engines, wait: bool
) -> None:
    UNDONE.clear()
    async with durable_engines.new(guarded(int, True)) as engine:
        run = await engine.start("Guarded", 3)
        await suspended(run)
    async with durable_engines.new(guarded(list[int], wait)) as engine:
        run = engine.handle(run.id)
        await run.trigger("close")
        with pytest.raises(RunFailed) as failed:
            await run.result(15)

    assert failed.value.cause_code == "CODE_CHANGED"
    assert "'asked'" in failed.value.message
    assert UNDONE == []


@pytest.mark.req("F8")
async def test_a_guard_that_raises_is_no_change_of_code(memory_engines: Engines) -> None:
    def refuse(state: Booking) -> bool:
        raise InvalidInput("what the guard itself says")

    class Strict(Machine[Booking]):
        @transition("start", "end", when=refuse)
        async def go(self, ctx: Context) -> None: ...

    async with memory_engines.new(Strict) as engine:
        with pytest.raises(RunFailed) as failed:
            await engine.run(Strict, None)

    assert failed.value.cause_code == "NO_WAY_OUT"
