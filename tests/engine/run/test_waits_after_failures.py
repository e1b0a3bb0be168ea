"""Waits and children that a function asked for behind a failure, when a person sends the run on.

What is recorded counts only for the same question: see `test_behind_failures` for steps.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from stepwell import Context, Machine, Retry, Status, step, transition, workflow
from stepwell.errors import StepError, WaitTimedOut
from stepwell.testing import VirtualEngine

helped: list[str] = []
broken: list[str] = []


@step
async def pay() -> None:
    if broken:
        raise ValueError(broken[0])


@step
async def help_with(what: str) -> str:
    helped.append(what)
    return what


@workflow
async def helper(ctx: Context, what: str) -> str:
    await ctx.sleep("1h")
    return await ctx.step(help_with, what)


@workflow
async def leaves_children(ctx: Context) -> list[str]:
    try:
        await ctx.step(pay)
    finally:
        child = await ctx.start(helper, "tidy")  # the failure cancels it
        other = await ctx.start(helper, "alone", detached=True)
    found = [await child, other.id]
    await ctx.sleep("1m")  # the code is replayed behind it
    return found


@workflow
async def gives_up_a_child(ctx: Context) -> str:
    try:
        async with asyncio.TaskGroup() as group:
            child = group.create_task(ctx.run(helper, "beside it"))
            group.create_task(ctx.step(pay))
    except* StepError:
        await ctx.sleep("1m")  # the end of the child comes meanwhile
        raise
    await ctx.sleep("1m")
    return child.result()


@workflow
async def sleeps(ctx: Context) -> str:
    try:
        await ctx.step(pay)
    except StepError:
        await ctx.sleep("1m")
        raise
    await ctx.sleep("3h")
    await ctx.sleep("1m")
    return "rested"


@workflow
async def asks(ctx: Context) -> str:
    try:
        await ctx.step(pay)
    except StepError:
        await ctx.approval(str, title="Give up?")
        raise
    answer: str = await ctx.approval(str, title="Ship it?")
    await ctx.sleep("1m")
    return answer


@workflow
async def waits_longer(ctx: Context) -> str:
    try:
        await ctx.step(pay)
    except StepError:
        with suppress(WaitTimedOut):
            await ctx.signal("go", timeout="1m")
        raise
    answer: str = await ctx.signal("go", timeout="3h")
    await ctx.sleep("1m")
    return answer


@workflow
async def hires(ctx: Context) -> str:
    try:
        await ctx.step(pay)
    except StepError:
        await ctx.run(helper, "bad news")
        raise
    answer: str = await ctx.run(helper, "good news")
    await ctx.sleep("1m")
    return answer


class Order(Machine[list[str]], name="order"):
    @transition("start", "end", retry=Retry(2, delay="1h"))
    async def pay(self, ctx: Context) -> None:
        try:
            await ctx.step(pay)
        except StepError:
            await ctx.sleep("1m")
            await ctx.approval(str, title="Give up?")
            await ctx.run(helper, "bad news")
            raise
        await ctx.sleep("3h")
        self.state.append(await ctx.approval(str, title="Ship it?"))
        self.state.append(await ctx.run(helper, "good news"))
        await ctx.sleep("1m")


@pytest.fixture(autouse=True)
def _clean() -> None:
    helped.clear()
    broken[:] = ["no money"]


both = pytest.mark.parametrize("replayed", [True, False])


@both
@pytest.mark.req("K5", "K11", "K18")
async def test_a_child_that_a_failure_cancelled_is_started_again_behind_it(replayed: bool) -> None:
    async with VirtualEngine(leaves_children, helper, replay_always=replayed) as engine:
        run = await engine.start(leaves_children)
        await engine.settle()
        assert await run.status() is Status.FAILED
        broken.clear()
        await run.retry()
        await engine.advance("3h")

        assert await run.status() is Status.COMPLETED
        result, alone = await run.result(1)
        assert result == "tidy"
        assert sorted(helped) == ["alone", "tidy"]
        assert alone in {other.id for other in await engine.runs()}


@both
@pytest.mark.req("K5", "K11", "K18")
async def test_a_child_that_the_code_gave_up_because_of_a_failure_is_started_again(replayed: bool) -> None:
    async with VirtualEngine(gives_up_a_child, helper, replay_always=replayed) as engine:
        run = await engine.start(gives_up_a_child)
        await engine.advance("2m")
        assert await run.status() is Status.FAILED
        broken.clear()
        await run.retry()
        await engine.advance("2h")

        assert await run.result(1) == "beside it"
        assert helped == ["beside it"]


@both
@pytest.mark.parametrize("mended", [True, False])
@pytest.mark.req("K5", "K11", "K16")
async def test_another_sleep_behind_a_failure_is_slept(mended: bool, replayed: bool) -> None:
    async with VirtualEngine(sleeps, replay_always=replayed) as engine:
        run = await engine.start(sleeps)
        await engine.advance("2m")
        assert await run.status() is Status.FAILED
        if mended:
            broken.clear()
        await run.retry()
        await engine.settle()

        if not mended:
            assert await run.status() is Status.FAILED  # that sleep is over
            return
        await engine.advance("170m")
        assert await run.status() is Status.SUSPENDED
        await engine.advance("12m")
        assert await run.result(1) == "rested"


@both
@pytest.mark.req("K5", "K11", "K15")
async def test_the_answer_to_a_question_behind_a_failure_is_not_that_of_another(replayed: bool) -> None:
    async with VirtualEngine(asks, replay_always=replayed) as engine:
        run = await engine.start(asks)
        await engine.settle()
        await run.decide("yes, give up")
        await engine.settle()
        assert await run.status() is Status.FAILED
        broken.clear()
        await run.retry()
        await engine.settle()

        assert [wait.title for wait in await run.waits()] == ["Ship it?"]
        await run.decide("yes, ship it")
        await engine.advance("2m")
        assert await run.result(1) == "yes, ship it"


@both
@pytest.mark.req("K5", "K11", "K15")
async def test_a_wait_that_timed_out_behind_a_failure_is_not_a_longer_one(replayed: bool) -> None:
    async with VirtualEngine(waits_longer, replay_always=replayed) as engine:
        run = await engine.start(waits_longer)
        await engine.advance("2m")
        assert await run.status() is Status.FAILED
        broken.clear()
        await run.retry()
        await engine.advance("1h")
        await run.signal("go", "on")
        await engine.advance("2m")

        assert await run.result(1) == "on"


@both
@pytest.mark.req("K5", "K11", "K18")
async def test_a_child_with_another_input_behind_a_failure_is_another_child(replayed: bool) -> None:
    async with VirtualEngine(hires, helper, replay_always=replayed) as engine:
        run = await engine.start(hires)
        await engine.advance("2h")
        assert await run.status() is Status.FAILED
        broken.clear()
        await run.retry()
        await engine.advance("2h")

        assert await run.result(1) == "good news"
        assert helped == ["bad news", "good news"]


@both
@pytest.mark.req("K5", "K11", "K15", "K18")
async def test_the_next_attempt_of_a_transition_gets_no_answers_to_other_questions(replayed: bool) -> None:
    async with VirtualEngine(Order, helper, replay_always=replayed) as engine:
        run = await engine.start(Order)
        await engine.advance("2m")
        await run.decide("yes, give up")
        await engine.advance("61m")  # then its next attempt is due in an hour
        broken.clear()
        await engine.advance("150m")
        assert [wait.what for wait in await run.waits()] == ["timer"]
        await engine.advance("2h")
        assert [wait.title for wait in await run.waits()] == ["Ship it?"]
        await run.decide("yes, ship it")
        await engine.advance("2h")

        assert await run.result(1) == ["yes, ship it", "good news"]
        assert helped == ["bad news", "good news"]
