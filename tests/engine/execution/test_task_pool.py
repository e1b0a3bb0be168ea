"""Async steps share a few tasks; no step may notice."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

import pytest

from stepwell import Context, Engine, RunFailed, step, workflow
from stepwell.engine.execution.task_pool import TaskPool

request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")


@step
async def look_and_leave(name: str) -> str:
    seen = request.get()
    request.set(name)
    return seen


@step
async def keep_over_a_wait(name: str) -> str:
    token = request.set(name)
    await asyncio.sleep(0)
    seen = request.get()
    request.reset(token)  # fails in another context than the one it was set in
    return seen


@workflow
async def looks(ctx: Context) -> list[str]:
    return [await ctx.step(look_and_leave, str(n)) for n in range(3)]


@workflow
async def keeps(ctx: Context) -> list[str]:
    return await ctx.all(*(ctx.step(keep_over_a_wait, str(n)) for n in range(3)))


@pytest.mark.req("F1")
async def test_context_variables_of_a_step_are_its_own() -> None:
    async with Engine(":memory:", workflows=[looks, keeps]) as engine:
        assert await (await engine.start(looks)).result() == ["none", "none", "none"]
        assert await (await engine.start(keeps)).result() == ["0", "1", "2"]


@step
async def asks_for_both() -> str:
    return await meet.wait_for_the_other()


class Meeting:
    """Two who can only go on together."""

    def __init__(self) -> None:
        self._here = 0
        self._both = asyncio.Event()

    async def wait_for_the_other(self) -> str:
        self._here += 1
        if self._here == 2:
            self._both.set()
        await self._both.wait()
        return "met"


meet: Meeting


@workflow
async def meets(ctx: Context) -> list[str]:
    return await ctx.all(ctx.step(asks_for_both), ctx.step(asks_for_both))


@pytest.mark.req("F4")
async def test_a_step_that_waits_does_not_keep_the_next_from_running() -> None:
    global meet  # noqa: PLW0603  # an event belongs to the loop of its test
    meet = Meeting()
    async with Engine(":memory:", workflows=[meets]) as engine:
        assert await (await engine.start(meets)).result(timeout=10) == ["met", "met"]


@step(timeout="0.05s")
async def hangs() -> None:
    await asyncio.Event().wait()


@step
async def gives_up_by_itself() -> str:
    try:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
    except TimeoutError:
        return "gave up"
    return "never"


@step
async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


@workflow
async def troubled(ctx: Context, which: str) -> str:
    if which == "hangs":
        await ctx.step(hangs)
    if which == "cancels":
        await ctx.step(cancels_itself)
    return await ctx.step(gives_up_by_itself)


@pytest.mark.req("K12")
async def test_a_step_that_is_stopped_or_cancels_itself_leaves_the_others_alone() -> None:
    async with Engine(":memory:", workflows=[troubled, looks]) as engine:
        for _ in range(3):
            hung = await engine.start(troubled, "hangs")
            cancelled = await engine.start(troubled, "cancels")
            fine = await engine.start(troubled, "fine")
            with pytest.raises(RunFailed, match="longer than"):
                await hung.result(timeout=10)
            with pytest.raises(RunFailed, match="cancelled"):
                await cancelled.result(timeout=10)
            assert await fine.result(timeout=10) == "gave up"
            assert await (await engine.start(looks)).result(timeout=10) == ["none", "none", "none"]


@step
async def nothing(n: int) -> int:
    return n


@workflow
async def many(ctx: Context) -> int:
    return sum(await ctx.map(nothing, range(1000), limit=1000))


@pytest.mark.req("F4")
async def test_a_thousand_steps_at_once() -> None:
    async with Engine(":memory:", workflows=[many]) as engine:
        assert await (await engine.start(many)).result(timeout=30) == 499500


@step
async def leaves_oddly(waits: bool) -> None:
    if waits:
        await asyncio.sleep(0)
    raise GeneratorExit("odd")


@workflow
async def odd(ctx: Context, waits: bool) -> None:
    await ctx.step(leaves_oddly, waits)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.req("F4")
async def test_a_step_that_raises_generator_exit_fails_like_any_other(waits: bool) -> None:
    async with Engine(":memory:", workflows=[odd, looks]) as engine:
        with pytest.raises(RunFailed, match="odd"):
            await (await engine.start(odd, waits)).result(timeout=10)
        assert await (await engine.start(looks)).result(timeout=10) == ["none", "none", "none"]


class Noted:
    """A job whose end is written down."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self.coroutine: Coroutine[Any, Any, Any] | None = work
        self.variables = contextvars.Context()
        self.ends: list[BaseException | None] = []

    def waits(self, task: asyncio.Task[None]) -> None:
        pass

    def done(self, result: Any, error: BaseException | None) -> None:
        self.ends.append(error)


@pytest.mark.req("F4")
@pytest.mark.parametrize("at_the_end", ["returns", "raises"])
def test_a_step_whose_loop_is_gone_unwinds_and_tells_nobody(at_the_end: str) -> None:
    unwound: list[str] = []

    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            unwound.append("yes")
            if at_the_end == "raises":
                raise OSError("too late")

    loop = asyncio.new_event_loop()
    job = Noted(waits_for_ever())

    async def serve() -> Coroutine[Any, Any, None]:
        runners = TaskPool()
        runners.put(job)
        await asyncio.sleep(0)
        [task] = runners._tasks
        found: Coroutine[Any, Any, None] = task.get_coro()  # type: ignore[assignment]  # a coroutine, in fact
        return found

    serving = loop.run_until_complete(serve())
    serving.close()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    assert unwound == ["yes"]
    assert job.ends == []
