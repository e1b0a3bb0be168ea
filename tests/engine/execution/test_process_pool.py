"""CPU work in processes of its own: typed, contained, retried."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from stepwell import Context, RunFailed, step, workflow
from stepwell.errors import StepError
from tests.engine.execution import process_steps as ps
from tests.engines import Engines


@pytest.mark.req("F7", "F9")
async def test_arguments_and_results_keep_their_types(memory_engines: Engines) -> None:
    seen: list[Any] = []

    @workflow
    async def weighs(ctx: Context) -> None:
        seen.append(await ctx.step(ps.weigh, ps.Parcel(Decimal("1.10"), ("a",)), factor=3))
        seen.append(await ctx.step(ps.asynchronous, "word"))

    async with memory_engines.new(weighs) as engine:
        await (await engine.start(weighs)).result()

    assert seen == [ps.Parcel(Decimal("3.30"), ("a", "weighed")), "WORD"]


@pytest.mark.req("F7", "K9")
async def test_crashing_child_fails_its_step_and_nothing_else(memory_engines: Engines) -> None:
    @workflow
    async def survives(ctx: Context) -> list[str]:
        try:
            await ctx.step(ps.die)
        except StepError as error:
            return [error.error_type, await ctx.step(ps.die_once)]
        return []

    async with memory_engines.new(survives) as engine:
        run = await engine.start(survives)
        kind, again = await run.result()

    assert kind == "ProcessCrashed"
    assert again == f"2 {run.id}/0/die_once#1"


@pytest.mark.req("F7", "K9", "K10")
@pytest.mark.parametrize(
    ("what", "outcome"), [("key", "attempt 2"), ("permanent", "Permanent"), ("value", "ValueError")]
)
async def test_retry_policy_knows_errors_of_another_process(
    memory_engines: Engines, what: str, outcome: str
) -> None:
    @workflow
    async def calls(ctx: Context) -> str:
        try:
            return await ctx.step(ps.fail_with, what)
        except StepError as error:
            return error.error_type

    async with memory_engines.new(calls) as engine:
        assert await (await engine.start(calls)).result() == outcome


@pytest.mark.req("F7")
async def test_step_that_cannot_be_imported_is_refused_with_a_hint(memory_engines: Engines) -> None:
    @step(isolation="process")
    def local() -> None: ...

    @workflow
    async def calls(ctx: Context) -> None:
        await ctx.step(local)

    async with memory_engines.new(calls) as engine:
        with pytest.raises(RunFailed, match="importable") as caught:
            await (await engine.start(calls)).result()

    assert "module" in caught.value.hint


@pytest.mark.req("F7")
async def test_a_step_and_its_programs_cannot_read_the_workers_questions(memory_engines: Engines) -> None:
    @workflow
    async def reads(ctx: Context) -> list[Any]:
        first = await ctx.step(ps.own_pid)
        return [await ctx.step(ps.read_input), first == await ctx.step(ps.own_pid)]

    async with memory_engines.new(reads) as engine:
        assert await engine.run(reads, None) == ["", True]


@pytest.mark.req("F7", "F9")
async def test_errors_of_another_process_say_what_and_where(memory_engines: Engines) -> None:
    @workflow
    async def calls(ctx: Context, name: str) -> None:
        await ctx.step(getattr(ps, name))

    async with memory_engines.new(calls) as engine:
        with pytest.raises(RunFailed) as stumbled:
            await engine.run(calls, "stumble")
        with pytest.raises(RunFailed) as refused:
            await engine.run(calls, "returns_nonsense")

    assert "ValueError: in its own process" in stumbled.value.message
    assert f"{ps.__file__}:" in str(stumbled.value.context["code"])
    assert "parts[0]" in refused.value.message
    assert "NOT_SERIALISABLE" not in refused.value.message  # the error of an error is hard to read
    assert refused.value.hint
