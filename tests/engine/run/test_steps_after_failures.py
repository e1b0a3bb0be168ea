"""What a function did behind a failure (in `except` or `finally`) when a person sends the run on."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from stepwell import Context, Machine, RunFailed, Status, step, transition, workflow
from stepwell.errors import StepError
from stepwell.testing import VirtualEngine
from tests.engines import Engines, all_events, suspended

did: list[str] = []
broken: list[str] = []


async def undo(result: str, what: str) -> None:
    did.append(f"undo {what}")


@step
async def pay() -> str:
    did.append("pay")
    if broken:
        raise ValueError(broken[0])
    return "paid"


@step(compensate=undo)
async def tell(what: str) -> str:
    did.append(what)
    return what


@workflow
async def helper(ctx: Context, _: None) -> str:
    await ctx.sleep("1h")
    return await ctx.step(tell, "helped")


@workflow(on_failure="hold")
async def tidy(ctx: Context) -> list[Any]:
    try:
        await ctx.step(pay)
    finally:
        found = [await ctx.step(tell, "tidied"), await ctx.run(helper, None), await ctx.approval(str)]
        await ctx.sleep("1h")
    await ctx.sleep("1h")  # the code is replayed behind it
    return found


@workflow(on_failure="hold")
async def talk(ctx: Context) -> str:
    try:
        await ctx.step(pay)
    except StepError:
        await ctx.step(tell, "failed")
        raise
    said = await ctx.step(tell, "went well")
    await ctx.sleep("1h")
    await ctx.signal("go on")
    raise ValueError(said)


class Talks(Machine[list[str]], on_failure="hold", name="talks"):
    @transition("start", "told")
    async def talk(self, ctx: Context) -> None:
        try:
            await ctx.step(pay)
        except StepError:
            await ctx.step(tell, "failed")
            raise
        self.state.append(await ctx.step(tell, "went well"))

    @transition("told", "end", wait=True)
    async def close(self, ctx: Context) -> None: ...


@pytest.fixture(autouse=True)
def _clean() -> None:
    did.clear()
    broken[:] = ["no money"]


@pytest.mark.req("K5", "K11", "K15", "K27")
@pytest.mark.parametrize("mended", [True, False])
@pytest.mark.parametrize("replayed", [True, False])
async def test_what_is_recorded_behind_a_failure_is_not_done_again(mended: bool, replayed: bool) -> None:
    """Neither the step nor the child; and the person who was asked is not asked again."""
    async with VirtualEngine(tidy, helper, replay_always=replayed) as engine:
        run = await engine.start(tidy)
        await engine.advance("2h")
        await run.decide("fine", by="ana")
        await engine.advance("2h")
        assert await run.status() is Status.FAILED
        assert did == ["pay", "tidied", "helped"]

        did.clear()
        if mended:
            broken.clear()
        await run.retry()
        await engine.advance("2h")

        assert await run.status() is (Status.COMPLETED if mended else Status.FAILED)
        assert did == ["pay"]
        assert len(await engine.runs()) == 2
        if mended:
            assert await run.result() == ["tidied", "helped", "fine"]
        else:
            await run.compensate()
            await engine.settle()
            assert did == ["pay", "undo tidied"]
    if mended:
        completed = [e.path for e in await all_events(run) if e.kind == "step_completed"]
        assert len(completed) == len(set(completed))


@pytest.mark.req("K5", "K11", "K27")
@pytest.mark.parametrize("style", [talk, Talks], ids=["function", "machine"])
async def test_a_step_of_that_name_with_other_arguments_is_another_step(
    replayed_engines: Engines, style: Any
) -> None:
    """Else the good news would be taken for the bad that were told before; all of it can be undone."""
    async with replayed_engines.new(style) as engine:
        run = await engine.start(style)
        with pytest.raises(RunFailed, match="no money"):
            await run.result(15)
        broken.clear()
        await run.retry()
        await suspended(run)

        assert did == ["pay", "failed", "pay", "went well"]
        did.clear()
        await run.cancel()
        with pytest.raises(Exception, match="cancelled"):
            await run.result(15)

    assert did == ["undo went well", "undo failed"]


class News(pydantic.BaseModel):
    words: set[str]


@step
async def publish(news: News) -> None:
    did.append(" ".join(sorted(news.words)))


@workflow(on_failure="hold")
async def publishes(ctx: Context) -> None:
    try:
        await ctx.step(pay)
    except StepError:
        await ctx.step(publish, News(words={"not", "paid"}))
        raise
    await ctx.step(publish, News(words={"well", "paid"}))
    await ctx.sleep("1h")


@pytest.mark.req("K5", "K11", "F2")
async def test_models_as_arguments_tell_steps_apart_as_well() -> None:
    async with VirtualEngine(publishes, replay_always=True) as engine:
        run = await engine.start(publishes)
        await engine.settle()
        assert await run.status() is Status.FAILED
        broken.clear()
        await run.retry()
        await engine.advance("2h")

        assert await run.status() is Status.COMPLETED
        assert did == ["pay", "not paid", "pay", "paid well"]


@pytest.mark.req("K26")
async def test_a_fork_that_mends_a_failure_forgets_what_the_code_did_because_of_it(
    memory_engines: Engines,
) -> None:
    async with memory_engines.new(talk) as engine:
        old = await engine.start(talk)
        with pytest.raises(RunFailed, match="no money"):
            await old.result(15)
        did.clear()
        last = (await all_events(old))[-1].seq

        new = await engine.fork(old, at=last, outputs={"0/pay#1": "by hand"})
        await suspended(new)

        assert did == ["went well"]
