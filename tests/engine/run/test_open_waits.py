"""Code that changed while a run waits: what is open counts as what is recorded, and no decision is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, Engine, RunFailed, RunHandle, SyncContext, step, workflow
from stepwell.domain.program import Program
from tests.engines import Engines, all_events, log, parked, suspended

CHARGED: list[str] = []


@step
async def fee(who: str = "") -> str:
    CHARGED.append(who)
    return "fee"


@step
async def far(n: int) -> int:
    return n


@workflow(name="part")
async def part(ctx: Context, _: None) -> Any:
    return await ctx.signal("part")


Wait = Callable[[Context], Awaitable[Any]]
WAITS: dict[str, Wait] = {
    "signal": lambda ctx: ctx.signal("go"),
    "approval": lambda ctx: ctx.approval(dict[str, str]),
    "sleep": lambda ctx: ctx.sleep(1.5),
    "event": lambda ctx: ctx.event("go", key="k"),
    "remote": lambda ctx: ctx.step.on(queue="far")(far, 7),
    "child": lambda ctx: ctx.run(part, None),
}
ANSWERS = {
    "signal": "on",
    "approval": {"by": "ana"},
    "sleep": None,
    "event": "on",
    "remote": 7,
    "child": "on",
}
every_wait = pytest.mark.parametrize("kind", list(WAITS))


def order(wait: Wait, *, inserts: bool = False, patches: bool = False, after: str = "old") -> Program:
    @workflow(name="order")
    async def made(ctx: Context) -> list[Any]:
        if inserts or (patches and ctx.patched("fee")):
            await ctx.step(fee)
        return [after, await wait(ctx)]

    return made


async def answer(engine: Engine, run: RunHandle[Any], kind: str) -> None:
    """What the run waits for comes: accepted, whatever code the workers have."""
    if kind == "signal":
        await run.signal("go", "on")
    elif kind == "approval":
        await run.decide({"by": "ana"}, by="ana")
    elif kind == "event":
        await engine.emit("go", "on", key="k")
    elif kind == "child":
        [child] = [row for row in await engine.runs() if row.workflow == "part"]
        await engine.handle(child.id).signal("part", "on")


async def waiting(engines: Engines, kind: str) -> str:
    """A run of the old code that waits; its worker is gone."""
    CHARGED.clear()
    async with engines.new(order(WAITS[kind]), part) as engine:
        run = await engine.start("order")
        await parked(run)
    return run.id


def served(engines: Engines, kind: str, program: Program) -> Engine:
    queues = ("default", "far") if kind == "remote" else ("default",)
    return engines.new(program, part, steps=[far], queues=queues)


@pytest.mark.req("K36", "F8")
@every_wait
async def test_patched_is_false_where_a_run_already_waits_behind_it(engines: Engines, kind: str) -> None:
    run_id = await waiting(engines, kind)
    async with served(engines, kind, order(WAITS[kind], patches=True, after="new")) as engine:
        run = engine.handle(run_id)
        await answer(engine, run, kind)

        assert await run.result(30) == ["new", ANSWERS[kind]]
    assert CHARGED == []


@pytest.mark.req("K36", "F8", "K11")
@pytest.mark.parametrize("kind", ["signal", "approval", "sleep", "remote", "child", "event"])
async def test_a_step_inserted_before_an_open_wait_is_told_and_nothing_is_lost(
    engines: Engines, kind: str
) -> None:
    run_id = await waiting(engines, kind)
    async with served(engines, kind, order(WAITS[kind], inserts=True)) as engine:
        run = engine.handle(run_id)
        await answer(engine, run, kind)
        for _ in range(2):  # a retry on the same code changes nothing
            with pytest.raises(RunFailed) as caught:
                await run.result(30)
            assert caught.value.cause_code == "CODE_CHANGED"
            assert "0/fee#1" in str(caught.value)
            await run.retry()
        with pytest.raises(RunFailed):
            await run.result(30)
    assert CHARGED == []

    async with served(engines, kind, order(WAITS[kind], patches=True)) as engine:
        run = engine.handle(run_id)
        await run.retry()

        assert await run.result(30) == ["old", ANSWERS[kind]]
        rejected = [e for e in await all_events(run) if e.data.get("rejected")]
    assert (CHARGED, rejected) == ([], [])


@pytest.mark.req("K36", "F8")
@pytest.mark.parametrize("kind", ["signal", "approval", "sleep"])
async def test_a_wait_that_the_code_lacks_now_is_told(engines: Engines, kind: str) -> None:
    @workflow(name="order")
    async def shorter(ctx: Context) -> list[Any]:
        return ["gone"]

    run_id = await waiting(engines, kind)
    async with engines.new(shorter) as engine:
        run = engine.handle(run_id)
        await answer(engine, run, kind)
        with pytest.raises(RunFailed) as caught:
            await run.result(30)
    assert caught.value.cause_code == "CODE_CHANGED"

    async with engines.new(order(WAITS[kind])) as engine:
        run = engine.handle(run_id)
        await run.retry()
        assert await run.result(30) == ["old", ANSWERS[kind]]


def branches(*, behind: str = "", before: str = "") -> Program:
    """One branch waits for a person; the other goes on as signals come."""

    @workflow(name="pair")
    async def pair(ctx: Context) -> list[Any]:
        async def asks() -> Any:
            if before == "inserts" or (before == "patches" and ctx.patched("before")):
                await ctx.step(fee, "before")
            return await ctx.approval(str)

        async def works() -> list[Any]:
            done: list[Any] = [await ctx.step(far, 1)]
            done.append(await ctx.signal("next"))
            if behind == "inserts" or (behind == "patches" and ctx.patched("behind")):
                done.append(await ctx.step(fee, "behind"))
            done.append(await ctx.signal("next"))
            return done

        return list(await asyncio.gather(asks(), works()))

    return pair


@pytest.mark.req("K36", "F2")
@pytest.mark.parametrize("changed", ["inserts", "patches", ""])
async def test_other_branches_go_on_with_new_steps_while_one_waits(engines: Engines, changed: str) -> None:
    CHARGED.clear()
    async with engines.new(branches()) as engine:
        run = await engine.start("pair")
        await suspended(run)
    async with engines.new(branches(behind=changed)) as engine:
        run = engine.handle(run.id)
        await run.signal("next", "a")
        await run.signal("next", "b")
        await run.decide("yes", by="ana")

        new = ["fee"] if changed else []
        assert await run.result(30) == ["yes", [1, "a", *new, "b"]]
    assert (["behind"] if changed else []) == CHARGED


@pytest.mark.req("K36", "F2")
async def test_a_step_inserted_in_the_branch_that_waits_is_told(engines: Engines) -> None:
    CHARGED.clear()
    async with engines.new(branches()) as engine:
        run = await engine.start("pair")
        await suspended(run)
    async with engines.client() as client:  # no worker is there, so both are accepted before the run fails
        await client.handle(run.id).signal("next", "a")
        await client.handle(run.id).decide("yes", by="ana")
    async with engines.new(branches(before="inserts")) as engine:
        run = engine.handle(run.id)
        with pytest.raises(RunFailed) as caught:
            await run.result(30)
        assert caught.value.cause_code == "CODE_CHANGED"
        assert "0~1/approval:approval#1" in str(caught.value)
    async with engines.new(branches(before="patches")) as engine:
        run = engine.handle(run.id)
        await run.retry()
        await run.signal("next", "b")

        assert await run.result(30) == ["yes", [1, "a", "b"]]
    assert CHARGED == []


def asks(form: Any) -> Program:
    @workflow(name="asks")
    async def made(ctx: Context) -> Any:
        return await ctx.approval(form)

    return made


@pytest.mark.req("K36", "K11")
async def test_a_decision_that_fits_the_old_form_only_is_kept(engines: Engines) -> None:
    async with engines.new(asks(str)) as engine:
        run = await engine.start("asks")
        await suspended(run)
    async with engines.new(asks(int)) as engine:
        run = engine.handle(run.id)
        await run.decide("yes", by="ana")
        for _ in range(2):
            with pytest.raises(RunFailed) as caught:
                await run.result(30)
            assert caught.value.cause_code == "CODE_CHANGED"
            await run.retry()
        with pytest.raises(RunFailed):
            await run.result(30)
    async with engines.new(asks(str)) as engine:
        run = engine.handle(run.id)
        await run.retry()

        assert await run.result(30) == "yes"


@pytest.mark.req("K36")
async def test_a_form_that_takes_the_decision_as_well_is_no_change(memory_engines: Engines) -> None:
    async with memory_engines.new(asks(str)) as engine:
        run = await engine.start("asks")
        await suspended(run)
    async with memory_engines.new(asks(str | None)) as engine:
        run = engine.handle(run.id)
        await run.decide("yes", by="ana")

        assert await run.result(30) == "yes"


@pytest.mark.req("K36", "F8")
async def test_plain_functions_are_held_to_it_as_well(engines: Engines) -> None:
    def made(inserts: bool) -> Program:
        @workflow(name="plain")
        def plain(ctx: SyncContext) -> Any:
            if inserts:
                ctx.step(fee)
            return ctx.approval(str)

        return plain

    CHARGED.clear()
    async with engines.new(made(False)) as engine:
        run = await engine.start("plain")
        await suspended(run)
    async with engines.new(made(True)) as engine:
        run = engine.handle(run.id)
        await run.decide("yes", by="ana")
        with pytest.raises(RunFailed) as caught:
            await run.result(30)
        assert caught.value.cause_code == "CODE_CHANGED"
    async with engines.new(made(False)) as engine:
        run = engine.handle(run.id)
        await run.retry()
        assert await run.result(30) == "yes"
    assert CHARGED == []


@pytest.mark.req("K36", "K27")
async def test_what_was_open_behind_a_failed_step_need_not_be_asked_again(replayed_engines: Engines) -> None:
    """The step is mended, so the code goes another way; what was open before it must still be there."""
    broken = [True]

    @step
    async def pay() -> str:
        if broken:
            raise ValueError("no money")
        return "paid"

    @workflow(name="pays")
    async def pays(ctx: Context) -> list[Any]:
        beside = asyncio.create_task(ctx.approval(str, name="beside"))
        try:
            paid = await ctx.step(pay)
        except Exception:
            why = asyncio.create_task(ctx.approval(str, name="why"))
            await ctx.sleep(0.05)
            assert not why.done()
            raise
        await ctx.signal("on")
        return [paid, await beside]

    async with replayed_engines.new(pays) as engine:
        run = await engine.start(pays)
        with pytest.raises(RunFailed, match="no money"):
            await run.result(30)
        broken.clear()
        await run.retry()
        await suspended(run)
        await run.signal("on")
        await run.decide("yes", by="ana")

        assert await run.result(30) == ["paid", "yes"]
        assert "wait_opened 0~2/approval:why#1" in await log(run)
