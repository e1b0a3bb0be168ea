"""Options of a start and words of a caller that cannot work: refused alike on every store."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Concurrency, Context, Engine, SyncClient, step, workflow
from stepwell.errors import (
    InvalidInput,
    InvalidRequest,
    NotEndedYet,
    PayloadTooLarge,
    RunCancelled,
    RunNotFound,
)
from tests.engines import Engines


@workflow
async def echo(ctx: Context, value: Any) -> Any:
    return value


@workflow
async def patient(ctx: Context) -> int:
    return await ctx.signal("go", int)


@pytest.mark.req("K21", "K8")
async def test_options_that_cannot_work_start_nothing(engines: Engines) -> None:
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
        {"concurrency": Concurrency("a", 0)},
        {"concurrency": Concurrency("a", "x")},  # type: ignore[arg-type]  # that is the test, here and below
        {"concurrency": Concurrency(5, 1)},  # type: ignore[arg-type]
        {"concurrency": Concurrency("a\x00", 1)},
        {"concurrency": Concurrency("a", 1, "for ever")},  # type: ignore[arg-type]
        {"tags": {"a": "\ud800"}},
        {"tags": {"a": "x" * 100_000}},
        {"prioritty": 5},
    ]
    async with engines.new(echo) as engine:
        for options in wrong:
            with pytest.raises(InvalidRequest) as caught:
                await engine.start(echo, 1, **options)
            assert caught.value.hint, options

        assert list(await engine.runs()) == []
        assert await engine.run(echo, 1) == 1  # a limit that no worker can read would stop them all


@pytest.mark.req("K19")
async def test_limits_that_no_worker_could_read_are_not_set(engines: Engines) -> None:
    wrong: list[tuple[Any, Any, Any]] = [
        ("workflow", "echo", "3"),
        ("workflow", "echo", 1.5),
        ("workflow", "echo", 10**20),
        ("workflow", 5, 1),
        ("key", "a\x00", 1),
        ("nothing", "echo", 1),
    ]
    async with engines.new(echo) as engine:
        for kind, name, limit in wrong:
            with pytest.raises(InvalidRequest):
                await engine.set_limit(kind, name, limit)
        with pytest.raises(InvalidRequest):
            await engine.drop_limit("nothing", "echo")  # type: ignore[arg-type]  # that is the test

        assert await engine.limits() == []
        assert await engine.run(echo, 1) == 1


@pytest.mark.req("K13")
async def test_a_reason_is_text_and_any_text_is_kept(engines: Engines) -> None:
    async with engines.new(patient) as engine:
        run = await engine.start(patient)
        with pytest.raises(InvalidRequest, match="reason is 5"):
            await run.cancel(5)  # type: ignore[arg-type]  # that is the test

        await run.cancel("two\nlines and \x00")
        with pytest.raises(RunCancelled, match="two\nlines"):
            await run.result()


@pytest.mark.req("K26", "K29")
async def test_verbs_on_what_is_no_run(memory_engines: Engines) -> None:
    async with memory_engines.new(echo) as engine:
        run = await engine.start(echo, 1)
        await run.result()
        for ask in (
            lambda: engine.export(5),  # type: ignore[arg-type]  # that is the test, here and below
            lambda: engine.rerun(5),  # type: ignore[call-overload]
            lambda: engine.fork(5, at=1),  # type: ignore[call-overload]
            lambda: engine.fork(run, at=1, outputs=[1]),  # type: ignore[call-overload]
        ):
            with pytest.raises(InvalidRequest) as caught:
                await ask()
            assert caught.value.hint


@pytest.mark.req("K8")
async def test_a_wrong_argument_is_an_input_and_no_definition(memory_engines: Engines) -> None:
    async with memory_engines.new(echo) as engine:
        run = await engine.start(echo, 1)
        for ask in (
            lambda: engine.runs(limit="many"),  # type: ignore[arg-type]  # that is the test, here and below
            lambda: engine.runs(limit=-1),
            lambda: engine.runs(workflow=5),  # type: ignore[arg-type]
            lambda: anext(run.events(after="x")),  # type: ignore[arg-type]
            lambda: engine.start(echo, 1, priority=1.5),  # type: ignore[call-overload]
            lambda: engine.start(echo, 1, concurrency=Concurrency("a", 0)),
        ):
            with pytest.raises(InvalidInput) as caught:
                await ask()
            assert caught.value.hint


@pytest.mark.req("K8")
async def test_what_is_no_workflow_cannot_be_started(memory_engines: Engines) -> None:
    @step
    async def charge() -> None: ...

    async with memory_engines.new(echo) as engine:
        for wrong in (None, 5, str, charge):
            with pytest.raises(InvalidRequest, match="is not a workflow"):
                await engine.start(wrong, 1)  # type: ignore[call-overload]  # that is the test


@pytest.mark.req("K21")
async def test_each_input_has_its_key_or_none_has(memory_engines: Engines) -> None:
    async with memory_engines.new(echo) as engine:
        with pytest.raises(InvalidInput, match="inputs is 7"):
            await engine.start_many(echo, 7)  # type: ignore[arg-type]  # meant
        with pytest.raises(InvalidRequest, match="2 inputs"):
            await engine.start_many(echo, [1, 2], keys=["a"])

        assert list(await engine.runs()) == []


@pytest.mark.req("K21")
async def test_the_wrong_one_of_many_inputs_is_named(memory_engines: Engines) -> None:
    @workflow
    async def count(ctx: Context, n: int) -> int:
        return n

    wrong: list[Any] = [1, "b", 3]
    async with memory_engines.new(count, echo) as engine:
        for many in (count, "count"):
            with pytest.raises(InvalidInput, match=r"inputs\[1\] of 3"):
                await engine.start_many(many, wrong)
        with pytest.raises(InvalidInput, match=r"inputs\[2\] of 3"):
            await engine.start_many(count, [1, 2, 3], keys=["a", "b", 7])  # type: ignore[list-item]  # meant
        with pytest.raises(PayloadTooLarge, match=r"inputs\[1\] of 2"):
            await engine.start_many(echo, [1, "x" * 3_000_000])

        assert list(await engine.runs()) == []


@pytest.mark.req("K8")
async def test_outputs_are_named_by_their_paths(memory_engines: Engines) -> None:
    async with memory_engines.new(echo) as engine:
        run = await engine.start(echo, 1)
        await run.result()
        wrong: list[Any] = [5, {5: 1}]
        for outputs in wrong:
            with pytest.raises(InvalidInput, match="outputs are"):
                await engine.fork(run, at=1, outputs=outputs)


@pytest.mark.req("K7")
async def test_runs_are_found_by_the_name_of_their_status(engines: Engines) -> None:
    async with engines.new(echo) as engine:
        run = await engine.start(echo, 1)
        await run.result()

        assert [row.id for row in await engine.runs(status="completed")] == [run.id]
        assert list(await engine.runs(status=["failed", "cancelled"])) == []
        with pytest.raises(InvalidRequest) as caught:
            await engine.runs(status="finished")
        assert "completed" in caught.value.hint


@pytest.mark.req("K8")
async def test_ids_and_names_that_are_no_text(engines: Engines) -> None:
    async with engines.new(patient) as engine:
        run = await engine.start(patient)
        for ask in (
            lambda: engine.handle(5).status(),  # type: ignore[call-overload]  # that is the test, here and below
            lambda: engine.find(5),  # type: ignore[arg-type]
            lambda: engine.emit(5),  # type: ignore[arg-type]
            lambda: run.signal(5),  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidRequest):
                await ask()
        with pytest.raises(RunNotFound):
            [event async for event in engine.handle("nobody").events()]


@pytest.mark.req("F11")
async def test_who_waits_in_vain_is_told_that_the_run_goes_on(memory_engines: Engines) -> None:
    async with memory_engines.new(patient) as engine:
        run = await engine.start(patient)

        with pytest.raises(TimeoutError, match=f"run {run.id} has not ended") as caught:
            await run.result(timeout="10ms")

        assert isinstance(caught.value, NotEndedYet)
        await run.signal("go", 3)
        assert await run.result() == 3


@pytest.mark.req("A4")
def test_a_sync_client_is_used_inside_its_with() -> None:
    client = SyncClient(engine=Engine(":memory:", workflows=[echo]))
    with pytest.raises(InvalidRequest, match="not open"):
        client.start(echo, 1)

    with client:
        assert client.start(echo, 1).result(timeout="1m") == 1
    with pytest.raises(InvalidRequest, match="not open"):
        client.start(echo, 1)
