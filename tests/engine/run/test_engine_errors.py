"""An error of the engine itself, wherever it strikes: the run is given back and goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from stepwell import Context, Retry, step, workflow
from stepwell.engine.run.activation import Activation
from stepwell.engine.run.steps import Steps
from stepwell.engine.worker import releaser
from stepwell.errors import StepError
from stepwell.store.memory import MemoryStore
from tests.engines import SHORT_LEASE, Engines, suspended, until


@step
async def on_the_loop() -> str:
    return "done"


@step
def in_a_thread() -> str:
    return "done"


@step(retry=Retry(1))
async def failing() -> str:
    raise ValueError("of the step")


@step(transactional=True, retry=Retry(1))
async def failing_transaction(connection: Any) -> str:
    raise ValueError("of the step")


@pytest.mark.req("K4")
@pytest.mark.parametrize(
    ("place", "doomed"),
    [
        ((Steps, "_encoded"), on_the_loop),
        ((Steps, "_encoded"), in_a_thread),
        ((Steps, "_failed"), failing),
        ((Steps, "_failed"), failing_transaction),
        ((Activation, "_go_on"), on_the_loop),  # after a commit
    ],
)
async def test_a_run_with_which_the_engine_failed_is_given_back(
    memory_engines: Engines,
    place: tuple[type, str],
    doomed: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    right, faults = getattr(*place), [ZeroDivisionError("a bug of the engine")]

    def broken(*args: Any, **options: Any) -> Any:
        if faults:
            raise faults.pop()
        return right(*args, **options)

    monkeypatch.setattr(releaser, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(*place, broken)

    @workflow
    async def short(ctx: Context) -> str:
        try:
            await ctx.step(doomed)
        except StepError:
            return "failed"
        return await ctx.step(on_the_loop)

    async with memory_engines.new(short) as engine:
        run = await engine.start(short)

        assert await run.result(40) in {"done", "failed"}
        assert not faults
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.message for record in told] == [f"run {run.id}: the engine failed; the run is given back"]
    assert all(record.exc_info and record.exc_info[0] is ZeroDivisionError for record in told)


@workflow
async def waits_for_news(ctx: Context) -> str:
    return str(await ctx.event("news"))


def fails_once(monkeypatch: pytest.MonkeyPatch, place: type, name: str) -> list[Exception]:
    """The first call of it is a bug; returns what has not struck yet."""
    right = getattr(place, name)
    faults: list[Exception] = [ZeroDivisionError("a bug of the engine")]

    async def broken(*args: Any, **options: Any) -> Any:
        if faults:
            raise faults.pop()
        return await right(*args, **options)

    monkeypatch.setattr(place, name, broken)
    return faults


@pytest.mark.req("K4", "K15")
async def test_a_run_whose_look_for_an_event_failed_is_given_back(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releaser, "_AGAIN_SECONDS", 0.01)
    faults = fails_once(monkeypatch, MemoryStore, "published")

    async with memory_engines.new(waits_for_news) as engine:
        run = await engine.start(waits_for_news)
        await until(lambda: not faults)
        await suspended(run)
        await engine.emit("news", "good")

        assert await run.result(10) == "good"


@pytest.mark.req("K4", "K15")
async def test_an_event_that_could_not_be_told_is_told_later(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = fails_once(monkeypatch, MemoryStore, "fan_out")

    async with memory_engines.new(waits_for_news, settings=SHORT_LEASE) as engine:
        run = await engine.start(waits_for_news)
        await suspended(run)
        await engine.emit("news", "good")

        assert await run.result(10) == "good"
        assert not faults
