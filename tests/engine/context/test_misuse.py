"""Code that would harm its worker or its log: ctx in the wrong place, loops without a wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, RunFailed, step, workflow
from stepwell.engine.run import workflow_loop
from stepwell.errors import NotDurable
from tests.engines import Engines


@workflow
async def fine(ctx: Context, x: int) -> int:
    return await ctx.step(abs, x)


async def _failure(engines: Engines, body: Callable[[Context], Awaitable[Any]]) -> RunFailed:
    flow = workflow(name="misuse")(body)
    async with engines.new(flow, fine) as engine:
        with pytest.raises(RunFailed) as caught:
            await engine.run(flow, None)
        assert await engine.run(fine, -3) == 3  # the worker is as it was
    return caught.value


@pytest.mark.req("F2")
@pytest.mark.parametrize("verb", ["step", "now", "random", "sleep", "patched", "continue_as_new"])
async def test_ctx_in_a_step_is_refused(replayed_engines: Engines, verb: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {"step": (abs, 1), "sleep": ("1s",), "patched": ("x",)}

    async def body(ctx: Context) -> None:
        async def inside() -> None:
            answer = getattr(ctx, verb)(*arguments.get(verb, ()))
            if asyncio.iscoroutine(answer):
                await answer

        await ctx.step(inside)

    error = await _failure(replayed_engines, body)

    assert "outside its workflow's code" in error.message
    assert error.context["where"] == "0/inside#1"
    assert "StepContext" in error.hint


@pytest.mark.req("F2")
async def test_ctx_in_a_thread_or_after_the_end_is_refused(memory_engines: Engines) -> None:
    kept: list[Context] = []
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            kept[0].now()
        except BaseException as error:
            errors.append(error)

    @workflow
    async def leaky(ctx: Context) -> None:
        kept.append(ctx)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()

    async with memory_engines.new(leaky) as engine:
        await engine.run(leaky, None)
    ask()
    with pytest.raises(NotDurable):
        await kept[0].step(abs, 1)

    assert [type(error) for error in errors] == [NotDurable, NotDurable]


@pytest.mark.req("F1")
async def test_a_loop_without_a_wait_does_not_hold_its_worker(
    replayed_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_loop, "_TURN", range(2_000))

    async def body(ctx: Context) -> None:
        while await ctx.step(abs, 1):
            while True:  # noqa: ASYNC110  # that is the test
                await asyncio.sleep(0)

    error = await _failure(replayed_engines, body)

    assert error.cause_code == "NOT_DURABLE"
    assert "round and round" in error.message
    assert "ctx.sleep" in error.hint


@pytest.mark.req("K11")
async def test_an_error_says_its_type_and_line(memory_engines: Engines) -> None:
    def missing() -> None:
        raise KeyError("price")

    async def body(ctx: Context) -> None:
        await ctx.step(missing)

    async def own(ctx: Context) -> None:
        raise KeyError("price")

    inner = await _failure(memory_engines, body)
    outer = await _failure(memory_engines, own)

    assert "KeyError: 'price'" in inner.message
    assert inner.context["code"] == f"{__file__}:{missing.__code__.co_firstlineno + 1} in missing"
    assert "KeyError: 'price'" in outer.message
    assert outer.context["code"] == f"{__file__}:{own.__code__.co_firstlineno + 1} in own"
    assert Path(__file__).name in outer.trace


@pytest.mark.req("F9")
async def test_a_forgotten_await_is_called_by_its_name(memory_engines: Engines) -> None:
    @step
    async def later() -> int:
        return 1

    async def body(ctx: Context) -> Any:
        return {"parts": [asyncio.ensure_future(ctx.step(later)), ctx.key]}

    error = await _failure(memory_engines, body)

    assert "parts[0]" in error.message


@pytest.mark.req("F4")
async def test_only_workflows_can_be_children(memory_engines: Engines) -> None:
    async def body(ctx: Context) -> Any:
        return await ctx.run("fine", 1)  # type: ignore[arg-type]  # that is the test

    error = await _failure(memory_engines, body)

    assert "'fine' is not a workflow" in error.message
    assert "@workflow" in error.hint
