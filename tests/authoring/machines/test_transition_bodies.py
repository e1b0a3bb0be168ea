"""What a transition's code may do with its ctx, and what it is told when it does something else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Machine, RunFailed, SyncContext, transition, workflow
from stepwell.errors import AlreadyDecided, InvalidDefinition, RunCancelled, WrongPlace
from tests.engines import Engines, suspended, until

FAR = "far"
_kept: dict[str, Any] = {}


async def asks_in_a_step() -> Any:
    return _kept["ctx"].step(abs, 1)


async def awaits_in_a_step() -> Any:
    return await _kept["ctx"].step(abs, 1)


def asks_in_a_thread() -> Any:
    return _kept["ctx"].now()


class Nested(Machine[dict[str, Any]]):
    @transition("start", "end")
    async def go(self, ctx: Context, plain: bool) -> None:
        _kept["ctx"] = ctx
        await ctx.step(asks_in_a_thread if plain else awaits_in_a_step)


class NestedPlain(Machine[dict[str, Any]]):
    @transition("start", "end")
    def go(self, ctx: SyncContext, plain: bool) -> None:
        _kept["ctx"] = ctx
        ctx.step(asks_in_a_thread if plain else asks_in_a_step)


@workflow
def nested(ctx: SyncContext, plain: bool) -> None:
    _kept["ctx"] = ctx
    ctx.step(asks_in_a_thread if plain else asks_in_a_step)


@pytest.mark.req("M9", "F2")
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("program", [Nested, NestedPlain, nested])
async def test_the_ctx_of_a_run_is_refused_in_its_steps(
    memory_engines: Engines, program: Any, plain: bool
) -> None:
    async with memory_engines.new(program) as engine:
        with pytest.raises(RunFailed, match=r"uses ctx outside|ctx was used outside") as caught:
            await engine.run(program, plain)

        assert caught.value.cause_code == "STEP_FAILED"


@pytest.mark.req("M8", "M9")
def test_a_transition_takes_the_context_that_fits_it() -> None:
    with pytest.raises(InvalidDefinition, match="`async def` and takes SyncContext") as caught:

        class Wrong(Machine[dict[str, Any]]):
            @transition("start", "middle")
            async def one(self, ctx: SyncContext) -> None: ...

            @transition("middle", "last")
            def two(self, ctx: Context) -> None: ...

            @transition("last", "end")
            async def three(self, order: Slow) -> None: ...

    assert "`def` and takes Context" in caught.value.message
    assert "takes 'order' as its first parameter, which is its context" in caught.value.message


@pytest.mark.req("M8")
def test_a_transition_that_another_replaces_is_told() -> None:
    with pytest.raises(InvalidDefinition, match="replaces the transition of that name at line"):

        class Twins(Machine[dict[str, Any]]):
            @transition("start", "end")
            async def go(self, ctx: Context) -> None: ...

            @transition("start", "end")  # type: ignore[no-redef]  # that is the test
            async def go(self, ctx: Context) -> None: ...  # noqa: F811


class Plain(Machine[dict[str, Any]]):
    @transition("start", "end")
    def go(self, ctx: SyncContext, n: int) -> None:
        self.state["near"] = ctx.step(abs, n)
        self.state["far"] = ctx.step.on(queue=FAR)(abs, n)


@pytest.mark.req("M9", "F6")
async def test_a_plain_transition_sends_steps_to_queues_too(engines: Engines) -> None:
    async with engines.new(Plain), engines.new(steps=[abs], queues=[FAR]) as far:
        assert await far.run(Plain, -3) == {"near": 3, "far": 3}


class Slow(Machine[dict[str, Any]]):
    @transition("start", "review")
    async def open(self, ctx: Context) -> None: ...

    @transition("review", "sending", wait=True)
    async def approve(self, ctx: Context) -> None:
        _kept["approving"].set()
        await _kept["gate"].wait()

    @transition("review", "end", wait=True)
    async def refuse(self, ctx: Context) -> None: ...

    @transition("sending", "end", wait=True)
    async def send(self, ctx: Context) -> None: ...


@pytest.mark.req("M4", "K15")
async def test_triggers_while_a_transition_runs_hear_who_decided(memory_engines: Engines) -> None:
    _kept["gate"], _kept["approving"] = asyncio.Event(), asyncio.Event()
    async with memory_engines.new(Slow) as engine:
        run = await engine.start(Slow, None)
        await suspended(run)
        await run.trigger("approve", by="ana")
        await _kept["approving"].wait()

        for late in ("approve", "refuse"):
            with pytest.raises(AlreadyDecided, match="ana decided 'approve'"):
                await run.trigger(late, by="ben")
        with pytest.raises(WrongPlace, match="the run is at 'review'"):
            await run.trigger("send", by="ben")
        _kept["gate"].set()
        await until(lambda: _at(run, "sending"))
        with pytest.raises(WrongPlace):
            await run.trigger("approve", by="ben")  # never the answer to the next question

        await run.cancel("the shop is closed")
        with pytest.raises(RunCancelled, match="the shop is closed"):
            await run.result()
        assert "the shop is closed" in (await run.why()).text


@pytest.mark.req("M4")
async def test_a_function_has_no_triggers(memory_engines: Engines) -> None:
    @workflow
    async def waits(ctx: Context) -> None:
        await ctx.signal("go")

    async with memory_engines.new(waits) as engine:
        run = await engine.start(waits)

        with pytest.raises(WrongPlace, match="not a machine") as caught:
            await run.trigger("go")
        assert "signal" in caught.value.hint


async def _at(run: Any, place: str) -> bool:
    state = await run.state()
    return bool(state.checkpoint and state.checkpoint.place == place and state.waits)
