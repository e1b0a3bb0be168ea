"""What a Python programmer expects of asyncio: cancelling, context variables, as_completed."""

from __future__ import annotations

import asyncio
import contextvars
import decimal
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, RunFailed, Status, SyncContext, step, workflow
from stepwell.errors import RunCancelled
from stepwell.testing import VirtualEngine
from tests.engines import Engines, crash, suspended, until

heard: list[str] = []


@pytest.fixture(autouse=True)
def nothing_heard() -> None:
    heard.clear()


@step
async def note(text: str) -> None:
    heard.append(text)


# Cancelling


async def sleeps(ctx: Context) -> None:
    await ctx.sleep("1h")


async def asks(ctx: Context) -> None:
    await ctx.signal("go")


async def gathers(ctx: Context) -> None:
    await asyncio.gather(ctx.sleep("1h"), ctx.signal("go"), return_exceptions=True)
    heard.append("went on")


async def groups(ctx: Context) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.signal("one"))
        group.create_task(ctx.signal("two"))
    heard.append("went on")


async def all_of(ctx: Context) -> None:
    await ctx.all(ctx.sleep("1h"), ctx.signal("go"))


async def first_of(ctx: Context) -> None:
    await ctx.first(ctx.sleep("1h"), ctx.signal("go"))


async def maps(ctx: Context) -> None:
    await ctx.map(endless, [1, 2])


async def waits_for_an_event(ctx: Context) -> None:
    go = asyncio.Event()

    async def later() -> None:
        await ctx.sleep("1h")
        go.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(later())
        await go.wait()


async def calls(ctx: Context) -> None:
    await ctx.run(child)


@workflow
async def child(ctx: Context) -> None:
    await ctx.signal("go")


async def endless(number: int) -> None:
    await asyncio.Event().wait()


WAYS = [sleeps, asks, gathers, groups, all_of, first_of, waits_for_an_event, calls]


def careful_of(way: Callable[[Context], Awaitable[None]]) -> Any:
    @workflow
    async def careful(ctx: Context) -> None:
        try:
            await way(ctx)
        except asyncio.CancelledError:
            await ctx.step(note, "cleaned up")
            await ctx.sleep(0.01)
            await ctx.step(note, "and told")
            raise

    return careful


@pytest.mark.req("F13", "K13")
@pytest.mark.parametrize("way", WAYS)
async def test_except_cancelled_error_runs_when_the_run_is_cancelled(
    replayed_engines: Engines, way: Callable[[Context], Awaitable[None]]
) -> None:
    careful = careful_of(way)
    async with replayed_engines.new(careful, child) as engine:
        run = await engine.start(careful)
        await suspended(run)
        assert heard == []  # to be put aside is not to be cancelled
        await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result(30)

    assert heard == ["cleaned up", "and told"]


@pytest.mark.req("F13", "K13")
async def test_on_every_store_and_in_the_middle_of_a_step(engines: Engines) -> None:
    careful = careful_of(maps)
    async with engines.new(careful) as engine:
        run = await engine.start(careful)
        await until(lambda: engine.worker is not None and engine.worker._runner.running)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(30)

    assert heard == ["cleaned up", "and told"]


@pytest.mark.req("F13", "K13", "K4")
async def test_the_cleanup_goes_on_after_a_crash(engines: Engines) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        heard.append("slow")
        await gate.wait()

    @workflow
    async def careful(ctx: Context) -> None:
        try:
            await ctx.signal("go")
        except asyncio.CancelledError:
            await ctx.step(note, "first")
            await ctx.step(slow)
            raise

    dying = engines.new(careful)
    await dying.open()
    run = await dying.start(careful)
    await suspended(run)
    await run.cancel()
    await until(lambda: "slow" in heard)
    await crash(dying)
    gate.set()
    async with engines.new(careful) as engine:
        with pytest.raises(RunCancelled):
            await engine.handle(run.id).result(30)

    assert heard == ["first", "slow", "slow"]


@pytest.mark.req("F13", "K13")
async def test_a_plain_function_hears_it_too_and_its_thread_is_free_again(memory_engines: Engines) -> None:
    @workflow
    def careful(ctx: SyncContext) -> None:
        try:
            ctx.signal("go")
        except asyncio.CancelledError:
            ctx.step(note, "cleaned up")
            raise

    async with memory_engines.new(careful) as engine:
        for _ in range(3):
            run = await engine.start(careful)
            await suspended(run)
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result(30)
        assert engine.worker is not None
        assert engine.worker._runner.workflow_threads._count >= 1

    assert heard == ["cleaned up"] * 3


@pytest.mark.req("F13", "K13")
async def test_tasks_in_the_background_clean_up_too(replayed_engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> None:
        async def helper() -> None:
            try:
                await ctx.sleep("1h")
            except asyncio.CancelledError:
                await ctx.step(note, "helper")
                raise

        task = asyncio.create_task(helper())
        await ctx.signal("go")
        await task

    async with replayed_engines.new(parent) as engine:
        run = await engine.start(parent)
        await suspended(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(30)

    assert heard == ["helper"]


@pytest.mark.req("F13", "K13")
async def test_a_shielded_task_comes_to_its_end_for_who_awaits_it(replayed_engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> None:
        async def critical() -> None:
            await ctx.sleep(0.05)
            await ctx.step(note, "done")

        task = asyncio.create_task(critical())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await task
            raise

    async with replayed_engines.new(parent) as engine:
        run = await engine.start(parent)
        await suspended(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(30)

    assert heard == ["done"]


@pytest.mark.req("F13", "K13")
async def test_code_that_takes_the_cancel_back_ends_cancelled_all_the_same(memory_engines: Engines) -> None:
    @workflow
    async def stubborn(ctx: Context) -> str:
        try:
            await ctx.signal("go")
        except asyncio.CancelledError:
            await ctx.step(note, "so what")
        return "done"

    async with memory_engines.new(stubborn) as engine:
        run = await engine.start(stubborn)
        await suspended(run)
        await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result(30)

        assert (await run.info()).status is Status.CANCELLED
    assert heard == ["so what"]


# Context variables

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


@step
async def on_the_loop(number: int) -> list[str]:
    was = user.get()
    user.set("changed by a step")
    await asyncio.sleep(0)
    return [was, user.get(), str(decimal.Decimal(1) / 3)]


@step
def in_a_thread(number: int) -> list[str]:
    was = user.get()
    user.set("changed by a step")
    return [was, user.get(), str(decimal.Decimal(1) / 3)]


@step(transactional=True)
def in_a_transaction(connection: Any, number: int) -> list[str]:
    return [user.get(), "changed by a step", str(decimal.Decimal(1) / 3)]


SEEN = ["changed by a step", "0.333"]


@pytest.mark.req("F13")
async def test_steps_see_the_context_variables_of_the_code_that_calls_them(engines: Engines) -> None:
    steps = (
        [on_the_loop, in_a_thread, in_a_transaction]
        if engines.kind != "memory"
        else [on_the_loop, in_a_thread]
    )

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        user.set("ana")
        decimal.getcontext().prec = 3
        seen = [await ctx.step(one, 1) for one in steps]  # type: ignore[call-overload]  # any of them
        seen += await ctx.map(on_the_loop, [1])

        async def branch() -> Any:
            user.set("bob")
            return await ctx.step(in_a_thread, 1)

        return [*seen, await asyncio.create_task(branch()), user.get()]

    @workflow
    def plain(ctx: SyncContext) -> list[Any]:
        before = user.get()
        user.set("cid")
        decimal.getcontext().prec = 3
        return [before, *(ctx.step(one, 1) for one in steps)]  # type: ignore[call-overload]  # any of them

    async with engines.new(flow, plain) as engine:
        *seen, of_branch, after = await engine.run(flow, None)
        assert seen == [["ana", *SEEN]] * (len(steps) + 1)
        assert of_branch == ["bob", *SEEN]
        assert after == "ana"
        for _ in range(2):  # in one thread, one after the other
            assert await engine.run(plain, None) == ["nobody", *[["cid", *SEEN]] * len(steps)]
    assert user.get() == "nobody"


@pytest.mark.req("F13")
async def test_each_attempt_begins_with_those_of_the_caller(memory_engines: Engines) -> None:
    from stepwell import Retry

    @step(retry=Retry(2, delay=0.001))
    async def second_time_lucky() -> str:
        was = user.get()
        user.set("left over")
        heard.append(was)
        if len(heard) < 2:
            raise ValueError("once")
        return was

    @workflow
    async def flow(ctx: Context) -> str:
        user.set("ana")
        return await ctx.step(second_time_lucky)

    async with memory_engines.new(flow) as engine:
        assert await engine.run(flow, None) == "ana"
    assert heard == ["ana", "ana"]


@pytest.mark.req("F13", "F2")
async def test_ctx_is_still_refused_in_a_step(memory_engines: Engines) -> None:
    @workflow
    async def flow(ctx: Context) -> list[str]:
        async def beside() -> str:
            return str(ctx.now())

        def beside_in_a_thread() -> str:
            return str(ctx.now())

        told: list[str] = []
        for one in (beside, beside_in_a_thread):
            try:
                told.append(str(await ctx.step(one)))
            except Exception as error:
                told.append(str(error))
        return told

    async with memory_engines.new(flow) as engine:
        told = await engine.run(flow, None)

    assert ["outside its workflow's code" in text for text in told] == [True, True]


# as_completed


@pytest.mark.req("F13", "F2")
async def test_as_completed_over_coroutines_is_refused_at_once() -> None:
    @workflow
    async def flow(ctx: Context) -> list[int]:
        async def branch(n: int) -> int:
            await ctx.step(note, f"begun {n}")
            await ctx.sleep(n)
            return n

        return [await each for each in asyncio.as_completed([branch(n) for n in range(8)])]

    async with VirtualEngine(flow) as engine:
        with pytest.raises(RunFailed) as caught:
            await engine.outcome(await engine.start(flow))

    assert caught.value.cause_code == "NOT_DURABLE"
    assert "asyncio.as_completed" in str(caught.value)
    assert "asyncio.create_task" in caught.value.hint
    assert heard == []
    gc.collect()  # nobody is told of coroutines that were never awaited


@pytest.mark.req("F13", "F2")
async def test_as_completed_over_tasks_gives_them_as_they_end() -> None:
    @workflow
    async def flow(ctx: Context) -> list[int]:
        async def branch(n: int) -> int:
            await ctx.sleep(10 - n)
            return n

        tasks = [asyncio.create_task(branch(n)) for n in range(8)]
        return [await each for each in asyncio.as_completed(tasks)]

    async with VirtualEngine(flow) as engine:
        assert await engine.outcome(await engine.start(flow)) == [7, 6, 5, 4, 3, 2, 1, 0]
