"""Forks of machines: from each checkpoint, with the state as it was or another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from stepwell import Context, Machine, RunFailed, RunHandle, step, transition, workflow
from stepwell.domain.commit import LogRow
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput, NotForkable
from tests.engines import Engines, all_events, suspended

ROUNDS = 20


@dataclass
class Count:
    n: int = 0
    said: list[str] = field(default_factory=list)


@dataclass
class Approval:
    by: str


done: list[str] = []
broken: list[str] = []


@step
async def say(what: str) -> str:
    done.append(what)
    return what


class Counter(Machine[Count]):
    """Twenty transitions: one in, eighteen round, one out."""

    @transition("start", "counting")
    async def begin(self, ctx: Context, first: int) -> None:
        self.state.n = first

    @transition("counting", "counting", when=lambda state: len(state.said) < ROUNDS - 2)
    async def turn(self, ctx: Context) -> None:
        self.state.n += 1
        self.state.said.append(await ctx.step(say, f"turn {self.state.n}"))

    @transition("counting", "end", when=lambda state: len(state.said) >= ROUNDS - 2)
    async def leave(self, ctx: Context) -> None:
        self.state.said = [*self.state.said[:1], "left"]


class Review(Machine[Count]):
    @transition("start", "open")
    async def submit(self, ctx: Context) -> None:
        self.state.n = 1

    @transition("open", "paid", wait=Approval)
    async def approve(self, ctx: Context, approval: Approval) -> None:
        self.state.said.append(await ctx.step(say, f"by {approval.by}"))
        await ctx.step(pay, self.state.n)
        self.state.n += 10

    @transition("paid", "end")
    async def close(self, ctx: Context) -> None:
        self.state.said.append("closed")


@step
async def pay(n: int) -> int:
    done.append(f"pay {n}")
    if broken:
        raise ValueError(broken[0])
    return n


@pytest.fixture(autouse=True)
def _clean() -> None:
    done.clear()
    broken.clear()


async def rows(run: RunHandle[Any]) -> list[LogRow]:
    return [row async for row in run.log()]


@pytest.mark.req("K26", "M2")
async def test_fork_from_each_checkpoint_of_twenty_transitions_with_another_state(engines: Engines) -> None:
    async with engines.new(Counter) as engine:
        old = await engine.start(Counter, 0)
        result = await old.result()
        assert result.n == ROUNDS - 2
        before, info = await rows(old), await old.info()
        checkpoints = await old.checkpoints()
        assert [c.version for c in checkpoints] == list(range(1, ROUNDS + 1))

        for checkpoint in checkpoints:
            state = Count(1000, ["edited", *["x"] * max(0, checkpoint.version - 2)])
            new = await engine.fork(old, at=checkpoint.seq, state=state)
            found = await new.result(15)
            left = ROUNDS - checkpoint.version
            assert found.n >= 1000
            assert found.said[0] == "edited"
            assert [c.version for c in await new.checkpoints()][-1] <= ROUNDS + 1
            assert left == 0 or len(await new.checkpoints()) > checkpoint.version

        assert await rows(old) == before
        assert await old.info() == info


@pytest.mark.req("K26")
async def test_fork_from_each_checkpoint_as_it_was_gives_the_same_end(replayed_engines: Engines) -> None:
    async with replayed_engines.new(Counter) as engine:
        old = await engine.start(Counter, 0)
        result, before = await old.result(), await rows(old)

        for checkpoint in await old.checkpoints():
            assert await (await engine.fork(old, at=checkpoint.seq)).result(15) == result
        assert await rows(old) == before


@pytest.mark.req("K26", "M9")
async def test_inner_steps_are_kept_unless_the_state_is_edited(engines: Engines) -> None:
    async with engines.new(Review) as engine:
        old = await engine.start(Review)
        await suspended(old)
        broken.append("bank away")
        await old.trigger("approve", {"by": "ana"})
        with pytest.raises(RunFailed, match="bank away"):
            await old.result()
        before = await rows(old)
        [opened] = [c for c in await old.checkpoints() if c.place == "open"]
        broken.clear()
        done.clear()

        same = await engine.fork(old, at=before[-1].seq)
        assert (await same.result(15)).said == ["by ana", "closed"]
        assert done == ["pay 1"]  # the trigger and what was said before are there

        done.clear()
        other = await engine.fork(old, at=before[-1].seq, state={"n": 5, "said": []})
        await suspended(other)
        await other.trigger("approve", {"by": "bob"})
        assert (await other.result(15)).n == 15
        assert done == ["by bob", "pay 5"]
        assert opened.seq == (await all_events(other))[0].data["origin"]["seq"]
        assert await rows(old) == before
        assert await old.status() is Status.FAILED


@pytest.mark.req("K26")
async def test_rerun_from_a_transition(engines: Engines) -> None:
    async with engines.new(Review) as engine:
        old = await engine.start(Review)
        await suspended(old)
        await old.trigger("approve", {"by": "ana"})
        await old.result(15)
        done.clear()

        new = await engine.rerun_from(old, "close")
        assert (await new.result(15)).said == ["by ana", "closed"]
        assert done == []
        again = await engine.rerun_from(old, "approve")
        assert (await again.result(15)).n == 11
        assert done == ["by ana", "pay 1"]


@pytest.mark.req("K26")
async def test_a_state_that_does_not_fit_or_has_no_place_is_refused(engines: Engines) -> None:
    async with engines.new(Review) as engine:
        old = await engine.start(Review)
        await suspended(old)
        [opened] = await old.checkpoints()

        with pytest.raises(InvalidInput):
            await engine.fork(old, at=opened.seq, state={"n": "many"})
        with pytest.raises(NotForkable, match="no checkpoint"):
            await engine.fork(old, at=1, state={"n": 1, "said": []})
        await old.cancel()
        with pytest.raises(Exception, match="cancelled"):
            await old.result(15)
        with pytest.raises(NotForkable, match="already ending") as refused:
            await engine.fork(old, at=(await rows(old))[-1].seq)

        assert refused.value.hint == f"fork at {opened.seq}, its last checkpoint"
        assert refused.value.context["run"] == old.id
        assert len(await engine.runs()) == 1


@pytest.mark.req("K25", "K26")
async def test_what_a_failed_attempt_saved_is_not_seen_in_its_fork(memory_engines: Engines) -> None:
    class Files(Machine[Count]):
        @transition("start", "filed")
        async def file(self, ctx: Context) -> None:
            await ctx.step(say, "filing")
            if broken:
                ctx.save("scrap", "of the attempt that failed")
                raise ValueError(broken[0])

        @transition("filed", "end", wait=True)
        async def close(self, ctx: Context) -> None: ...

    broken.append("no")
    async with memory_engines.new(Files) as engine:
        old = await engine.start(Files)
        with pytest.raises(RunFailed):
            await old.result(15)
        broken.clear()
        new = await engine.fork(old, at=len(await rows(old)))
        await suspended(new)

        assert await new.documents() == []
        assert [c.documents for c in await new.checkpoints()] == [()]
        assert done == ["filing"]


@pytest.mark.req("K26", "K28", "M4")
async def test_a_fork_tells_that_the_old_runs_child_does_not_call_it_back(memory_engines: Engines) -> None:
    @workflow
    async def check(ctx: Context) -> str:
        return await ctx.signal("word", str)

    class Delegates(Machine[Count]):
        @transition("start", "checking")
        async def ask(self, ctx: Context) -> None:
            await ctx.start(check, None, trigger="checked")

        @transition("checking", "end", wait=str)
        async def checked(self, ctx: Context, word: str) -> None:
            self.state.said.append(word)

    async with memory_engines.new(Delegates, check) as engine:
        old = await engine.start(Delegates)
        await suspended(old)
        [checkpoint] = await old.checkpoints()
        new = await engine.fork(old, at=checkpoint.seq)
        await suspended(new)

        child = "child 0/ask@1/child:check#1 reports to the run that this one was forked from"
        assert f"(checked: {child})" in (await new.why()).text
        await new.trigger("checked", "by hand")
        assert (await new.result(15)).said == ["by hand"]
        assert await old.status() is Status.SUSPENDED


class Awaiting(Machine[Count]):
    @transition("start", "asked")
    async def ask(self, ctx: Context) -> None:
        self.state.said.append(await ctx.step(say, "asked"))

    @transition("asked", "end")
    async def work(self, ctx: Context) -> None:
        self.state.said.append(await ctx.step(fail, "step"))
        self.state.said.append(await ctx.run(failing, "child"))
        self.state.said.append(await ctx.signal("answer", str, timeout=0.01))


@step
async def fail(what: str) -> str:
    raise ValueError(f"no {what}")


@workflow
async def failing(ctx: Context, what: str) -> str:
    return await ctx.step(fail, what)


@pytest.mark.req("K26")
async def test_what_failed_in_a_transition_is_skipped_by_giving_its_output(engines: Engines) -> None:
    async with engines.new(Awaiting, failing) as engine:
        run = await engine.start(Awaiting)
        for path in ["0/work@2/fail#1", "0/work@2/child:failing#1", "0/work@2/signal:answer#1"]:
            with pytest.raises(RunFailed):
                await run.result(15)
            run = await engine.fork(run, at=(await rows(run))[-1].seq, outputs={path: f"given {path[9]}"})

        assert (await run.result(15)).said == ["asked", "given f", "given c", "given s"]


@pytest.mark.req("K26")
async def test_an_output_that_is_in_the_state_already_is_not_edited_in_vain(memory_engines: Engines) -> None:
    async with memory_engines.new(Awaiting, failing) as engine:
        old = await engine.start(Awaiting)
        with pytest.raises(RunFailed):
            await old.result(15)
        [checkpoint] = await old.checkpoints()
        edited = {"0/ask@1/say#1": "edited"}

        with pytest.raises(NotForkable, match="the state there depends on it") as refused:
            await engine.fork(old, at=checkpoint.seq, outputs=edited)
        with pytest.raises(NotForkable):
            await engine.rerun_from(old, "work", outputs=edited)
        assert refused.value.hint == f"edit that state (state=), or fork at {checkpoint.seq - 1}"

        new = await engine.fork(old, at=checkpoint.seq - 1, outputs=edited)
        with pytest.raises(RunFailed):
            await new.result(15)
        assert (await new.checkpoints())[0].read(Count).said == ["edited"]
