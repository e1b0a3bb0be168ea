"""Options of a start and words of a caller that cannot work: refused alike on every store."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Engine, SyncClient, step, workflow
from stepwell.errors import AskedWrongly, NotEndedYet, RunNotFound
from tests.stage import Stage


@workflow
async def echo(ctx: Context, value: Any) -> Any:
    return value


@workflow
async def patient(ctx: Context) -> int:
    return await ctx.signal("go", int)


@pytest.mark.req("K21", "K8")
async def test_options_that_cannot_work_start_nothing(stage: Stage) -> None:
    wrong: list[dict[str, Any]] = [
        {"key": 5},
        {"key": None},
        {"priority": "high"},
        {"priority": 1.5},
        {"priority": 10**20},
        {"tags": 5},
        {"tags": {"a": 1}},
        {"tags": {1: "a"}},
        {"queue": 5},
        {"user": 5},
        {"version": "9"},
        {"concurrency": 5},
        {"prioritty": 5},
    ]
    async with stage.engine(echo) as engine:
        for options in wrong:
            with pytest.raises(AskedWrongly) as caught:
                await engine.start(echo, 1, **options)
            assert caught.value.hint, options

        assert list(await engine.runs()) == []


@pytest.mark.req("K8")
async def test_what_is_no_workflow_cannot_be_started(memory: Stage) -> None:
    @step
    async def charge() -> None: ...

    async with memory.engine(echo) as engine:
        for wrong in (None, 5, str, charge):
            with pytest.raises(AskedWrongly, match="is no workflow"):
                await engine.start(wrong, 1)  # type: ignore[call-overload]  # that is the test


@pytest.mark.req("K21")
async def test_each_input_has_its_key_or_none_has(memory: Stage) -> None:
    async with memory.engine(echo) as engine:
        with pytest.raises(AskedWrongly, match="2 inputs"):
            await engine.start_many(echo, [1, 2], keys=["a"])

        assert list(await engine.runs()) == []


@pytest.mark.req("K7")
async def test_runs_are_found_by_the_name_of_their_status(stage: Stage) -> None:
    async with stage.engine(echo) as engine:
        run = await engine.start(echo, 1)
        await run.result()

        assert [row.id for row in await engine.runs(status="completed")] == [run.id]
        assert list(await engine.runs(status=["failed", "cancelled"])) == []
        with pytest.raises(AskedWrongly) as caught:
            await engine.runs(status="finished")
        assert "completed" in caught.value.hint


@pytest.mark.req("K8")
async def test_ids_and_names_that_are_no_text(stage: Stage) -> None:
    async with stage.engine(patient) as engine:
        run = await engine.start(patient)
        for ask in (
            lambda: engine.handle(5).status(),  # type: ignore[call-overload]  # that is the test, here and below
            lambda: engine.find(5),  # type: ignore[arg-type]
            lambda: engine.emit(5),  # type: ignore[arg-type]
            lambda: run.signal(5),  # type: ignore[arg-type]
        ):
            with pytest.raises(AskedWrongly):
                await ask()
        with pytest.raises(RunNotFound):
            [event async for event in engine.handle("nobody").events()]


@pytest.mark.req("F11")
async def test_who_waits_in_vain_is_told_that_the_run_goes_on(memory: Stage) -> None:
    async with memory.engine(patient) as engine:
        run = await engine.start(patient)

        with pytest.raises(TimeoutError, match=f"run {run.id} has not ended") as caught:
            await run.result(timeout="10ms")

        assert isinstance(caught.value, NotEndedYet)
        await run.signal("go", 3)
        assert await run.result() == 3


@pytest.mark.req("A4")
def test_a_sync_client_is_used_inside_its_with() -> None:
    client = SyncClient(engine=Engine(":memory:", workflows=[echo]))
    with pytest.raises(AskedWrongly, match="not open"):
        client.start(echo, 1)

    with client:
        assert client.start(echo, 1).result(timeout="1m") == 1
    with pytest.raises(AskedWrongly, match="not open"):
        client.start(echo, 1)
