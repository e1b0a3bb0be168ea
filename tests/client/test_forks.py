"""New runs from old ones: rerun, rerun from a step, fork. The old run stays as it was, byte by byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Context, RunFailed, RunHandle, StepContext, Workflow, step, workflow
from stepwell.domain.commit import LogRow
from stepwell.domain.status import Status
from stepwell.errors import (
    InvalidInput,
    KeyConflict,
    NotForkable,
    RunNotFound,
    StepNotFound,
    UnknownWorkflow,
    WaitTimedOut,
)
from tests.engines import Engines, all_events, kinds, log, reaches, suspended, until


@dataclass
class Receipt:
    id: str
    amount: int


class Calls:
    """Steps that note who called them, with which key."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.keys: list[str] = []
        self.broken = False

    def workflow(self) -> Workflow[int, list[int]]:
        @step
        async def double(me: StepContext, n: int) -> int:
            self.seen.append(f"double {n}")
            self.keys.append(me.key)
            return n * 2

        @step
        async def ship(n: int) -> int:
            self.seen.append(f"ship {n}")
            if self.broken:
                raise ValueError("no van")
            return n + 1

        @workflow
        async def order(ctx: Context, n: int) -> list[int]:
            first = await ctx.step(double, n)
            second = await ctx.step(double, first)
            return [first, second, await ctx.step(ship, second)]

        return order


async def rows(run: RunHandle[Any]) -> list[LogRow]:
    return [row async for row in run.log()]


async def seq_of(run: RunHandle[Any], path: str, kind: str = "step_completed") -> int:
    found: list[int] = [e.seq for e in await all_events(run) if (e.path, e.kind) == (path, kind)]
    return found[0]


@pytest.mark.req("K26")
async def test_rerun_is_a_new_run_with_the_same_input(engines: Engines) -> None:
    calls = Calls()
    order = calls.workflow()

    async with engines.new(order) as engine:
        old = await engine.start(order, 1)
        assert await old.result() == [2, 4, 5]
        before = await rows(old)
        new = await engine.rerun(old)

        assert await new.result() == [2, 4, 5]
        assert await rows(old) == before
        assert new.id != old.id
        assert calls.seen.count("double 1") == 2
        assert len(set(calls.keys)) == 4
        origin = (await all_events(new))[0].data["origin"]
        assert (origin["how"], origin["run"]) == ("rerun", old.id)
        assert (await new.info()).trigger == "rerun"


@pytest.mark.req("K26")
async def test_rerun_with_another_input_is_checked_against_the_schema(engines: Engines) -> None:
    order = Calls().workflow()

    async with engines.new(order) as engine:
        old = await engine.start(order, 1)
        await old.result()

        assert await (await engine.rerun(old.id, input=5)).result() == [10, 20, 21]
        with pytest.raises(InvalidInput):
            await engine.rerun(old, input="five")
        with pytest.raises(UnknownWorkflow):
            await engine.rerun(old, version="7")
        with pytest.raises(RunNotFound):
            await engine.rerun("nobody")


@pytest.mark.req("K26", "K22")
async def test_rerun_with_another_version(engines: Engines) -> None:
    @workflow(name="price")
    async def first(ctx: Context, n: int) -> int:
        return n

    @workflow(name="price", version="2")
    async def second(ctx: Context, n: int) -> int:
        return n * 100

    async with engines.new(first, second) as engine:
        old = await engine.start(first, 3)
        await old.result()
        new = await engine.rerun(old, version="2")

        assert await new.result() == 300
        assert (await new.info()).version == "2"


@pytest.mark.req("K26")
async def test_fork_goes_on_from_a_place_with_an_edited_output(engines: Engines) -> None:
    calls = Calls()
    order = calls.workflow()

    async with engines.new(order) as engine:
        old = await engine.start(order, 1)
        await old.result()
        before, info = await rows(old), await old.info()
        calls.seen.clear()
        new = await engine.fork(old, at=await seq_of(old, "0/double#1"), outputs={"0/double#1": 50})

        assert await new.result() == [50, 100, 101]
        assert calls.seen == ["double 50", "ship 100"]
        assert await rows(old) == before
        assert await old.info() == info
        assert "claimed" not in (await kinds(new))[:2]
        assert (await all_events(new))[0].data["origin"]["edited"] == ["0/double#1"]
        assert (await new.info()).parent == ""


@pytest.mark.req("K26")
async def test_fork_at_each_place_where_nothing_was_open(replayed_engines: Engines) -> None:
    order = Calls().workflow()

    async with replayed_engines.new(order) as engine:
        old = await engine.start(order, 1)
        await old.result()
        before = await rows(old)

        for at in range(1, len(before) + 1):
            new = await engine.fork(old, at=at)
            assert await new.result() == [2, 4, 5]
        assert await rows(old) == before


@pytest.mark.req("K26")
async def test_a_failed_step_is_skipped_by_giving_its_output(engines: Engines) -> None:
    calls = Calls()
    order = calls.workflow()
    calls.broken = True

    async with engines.new(order) as engine:
        old = await engine.start(order, 1)
        with pytest.raises(RunFailed):
            await old.result()
        failed_at = await seq_of(old, "0/ship#1", "step_failed")
        new = await engine.fork(old, at=failed_at, outputs={"0/ship#1": 7})

        assert await new.result() == [2, 4, 7]
        assert await old.status() is Status.FAILED


@pytest.mark.req("K26")
async def test_a_signal_and_a_wait_that_ran_out_are_answered_otherwise(replayed_engines: Engines) -> None:
    @workflow
    async def asks(ctx: Context) -> list[Any]:
        first = await ctx.signal("go")
        try:
            return [first, await ctx.signal("more", timeout=0.01)]
        except WaitTimedOut:
            return [first, "late"]

    async with replayed_engines.new(asks) as engine:
        old = await engine.start(asks)
        await old.signal("go", 1)
        assert await old.result() == [1, "late"]
        last = len(await rows(old))
        new = await engine.fork(old, at=last, outputs={"0/signal:go#1": 2, "0/signal:more#1": 3})

        assert await new.result() == [2, 3]


@pytest.mark.req("K26")
async def test_rerun_from_a_step_takes_over_what_came_before(engines: Engines) -> None:
    calls = Calls()
    order = calls.workflow()
    calls.broken = True

    async with engines.new(order) as engine:
        old = await engine.start(order, 1)
        with pytest.raises(RunFailed):
            await old.result()
        before = await rows(old)
        calls.broken = False
        calls.seen.clear()
        by_name = await engine.rerun_from(old, "ship")
        by_path = await engine.rerun_from(old.id, "0/double#2", outputs={"0/double#1": 10})

        assert await by_name.result() == [2, 4, 5]
        assert await by_path.result() == [10, 20, 21]
        assert sorted(calls.seen) == ["double 10", "ship 20", "ship 4"]
        assert await rows(old) == before


@pytest.mark.req("K26")
async def test_a_step_that_is_not_there_or_not_unique_is_refused(engines: Engines) -> None:
    order = Calls().workflow()

    async with engines.new(order) as engine:
        old = await engine.start(order, 1)
        await old.result()

        with pytest.raises(StepNotFound, match="no step 'pay'"):
            await engine.rerun_from(old, "pay")
        with pytest.raises(StepNotFound) as twice:
            await engine.rerun_from(old, "double")
        with pytest.raises(StepNotFound):
            await engine.fork(old, at=2, outputs={"0/double#1": 1})

        assert "0/double#1, 0/double#2" in twice.value.hint
        assert [run.id for run in await engine.runs()] == [old.id]


@pytest.mark.req("K26")
async def test_where_something_was_open_there_is_no_fork(engines: Engines) -> None:
    @workflow
    async def waiting(ctx: Context, n: int) -> int:
        n = await ctx.step(lambda: n + 1)
        return n + await ctx.signal("more", int)

    async with engines.new(waiting) as engine:
        old = await engine.start(waiting, 1)
        await suspended(old)
        last = (await all_events(old))[-1].seq

        with pytest.raises(NotForkable, match="signal 0/signal:more#1") as refused:
            await engine.fork(old, at=last)
        with pytest.raises(NotForkable, match="not 99"):
            await engine.fork(old, at=99)
        with pytest.raises(InvalidInput, match="no state"):
            await engine.fork(old, at=1, state={"a": 1})

        place = int(refused.value.hint.split()[2].strip(","))
        new = await engine.fork(old, at=place)
        await new.signal("more", 10)
        assert await new.result() == 12
        await old.signal("more", 1)
        assert await old.result() == 3


@pytest.mark.req("K26", "K18")
async def test_children_that_had_ended_are_kept_and_those_that_ran_are_new(engines: Engines) -> None:
    @workflow
    async def child(ctx: Context, n: int) -> int:
        return n + await ctx.signal("go", int)

    @workflow
    async def parent(ctx: Context) -> list[int]:
        return [await ctx.run(child, 1), await ctx.run(child, 2)]

    async with engines.new(parent, child) as engine:
        old = await engine.start(parent)

        async def answer(run: RunHandle[Any], n: int) -> str:
            async def asked() -> str:
                waits = [w for w in await run.waits() if w.what == "child" and w.path.endswith(f"#{n}")]
                return waits[0].key if waits else ""

            child_id = str(await until(asked))
            await engine.handle(child_id).signal("go", 10 * n)
            return child_id

        await answer(old, 1)
        second = await answer(old, 2)
        assert await old.result() == [11, 22]
        with pytest.raises(NotForkable, match="child run"):
            await engine.fork(old, at=await seq_of(old, "0/child:child#2", "child_started"))
        new = await engine.rerun_from(old, "0/child:child#2")

        assert await answer(new, 2) != second
        assert await new.result() == [11, 22]


@pytest.mark.req("K26", "F5")
async def test_a_fork_draws_its_own_random_values_from_the_fork_on(replayed_engines: Engines) -> None:
    async def keep(value: str) -> str:
        return value

    @workflow
    async def drawing(ctx: Context) -> list[str]:
        early = str(ctx.uuid())
        kept = [await ctx.step(keep, early)]
        return [early, kept[0], await ctx.step(keep, str(ctx.uuid())), str(ctx.uuid())]

    async with replayed_engines.new(drawing) as engine:
        old = await engine.start(drawing)
        one = await old.result()
        new = await engine.fork(old, at=await seq_of(old, "0/keep#1"))
        other = await new.result()

        assert other[:2] == one[:2]
        assert not set(other[2:]) & set(one)
        assert len(set(await (await engine.rerun(old)).result()) & set(one)) == 0


@pytest.mark.req("K26", "K21")
async def test_a_fork_with_a_key_is_made_once(engines: Engines) -> None:
    order = Calls().workflow()

    async with engines.new(order) as engine:
        old = await engine.start(order, 1)
        await old.result()
        one = await engine.fork(old, at=3, key="again")
        two = await engine.fork(old, at=3, key="again")

        assert one.id == two.id
        with pytest.raises(KeyConflict):
            await engine.fork(old, at=4, key="again")
        with pytest.raises(KeyConflict):
            await engine.rerun(old, key="again")


@pytest.mark.req("K26", "F10")
async def test_fork_in_a_later_generation(engines: Engines) -> None:
    async def add(n: int) -> int:
        return n + 1

    @workflow
    async def counting(ctx: Context, n: int) -> int:
        n = await ctx.step(add, n)
        return n if n >= 4 else ctx.continue_as_new(n)

    async with engines.new(counting) as engine:
        old = await engine.start(counting, 0)
        assert await old.result() == 4
        second = await seq_of(old, "1/add#1")
        new = await engine.fork(old, at=second, outputs={"1/add#1": 100})

        assert await new.result() == 100
        assert (await log(new))[: len(await log(new)) - 2][0] == "accepted"


@pytest.mark.req("K26", "F9")
async def test_an_edited_output_may_be_of_the_steps_own_type(engines: Engines) -> None:
    @step
    async def charge(n: int) -> Receipt:
        return Receipt("r", n)

    @workflow
    async def paying(ctx: Context, n: int) -> int:
        return (await ctx.step(charge, n)).amount

    async with engines.new(paying) as engine:
        old = await engine.start(paying, 1)
        await old.result()
        at = await seq_of(old, "0/charge#1")

        assert await (await engine.fork(old, at=at, outputs={"0/charge#1": Receipt("x", 9)})).result() == 9


@pytest.mark.req("K26", "K13")
async def test_a_fork_is_made_before_the_cancel_not_after(engines: Engines) -> None:
    @workflow
    async def waiting(ctx: Context) -> int:
        n = await ctx.step(lambda: 1)
        return n + await ctx.signal("more", int)

    async with engines.new(waiting) as engine:
        old = await engine.start(waiting)
        await suspended(old)
        await old.cancel()
        await reaches(old, Status.CANCELLED)
        events = await all_events(old)

        with pytest.raises(NotForkable) as refused:
            await engine.fork(old, at=events[-1].seq)

        assert "or before" in refused.value.hint
