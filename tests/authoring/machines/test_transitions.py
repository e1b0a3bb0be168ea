"""A machine moves by itself to a wait, its end or an error; each transition is one commit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from stepwell import Context, Machine, Retry, Status, step, transition, workflow
from stepwell.errors import RunFailed
from stepwell.testing import VirtualEngine
from tests.engines import Engines, all_events, crash, kinds, reaches, suspended, until


@dataclass
class Trail:
    amount: int = 0
    seen: list[str] = field(default_factory=list)


@dataclass
class Approval:
    by: str
    ok: bool = True


@step
async def pay(amount: int) -> str:
    return f"paid {amount}"


class Refund(Machine[Trail]):
    """A refund that a person must approve."""

    ends = frozenset({"paid", "refused"})

    @transition("start", "checked")
    async def open(self, ctx: Context, amount: int) -> None:
        await asyncio.sleep(0)  # plain awaits are allowed in a body
        self.state.amount = amount

    @transition("checked", "review")
    def note(self) -> None:
        self.state.seen.append("noted")

    @transition("review", "paid", wait=Approval)
    async def approve(self, ctx: Context, approval: Approval) -> None:
        self.state.seen.append(approval.by)
        self.state.seen.append(await ctx.step(pay, self.state.amount))

    @transition("review", "refused", wait=True)
    async def refuse(self, ctx: Context) -> None:
        self.state.seen.append("refused")


async def transitions(run: Any) -> list[tuple[str, str, int]]:
    return [
        (event.data["transition"], event.data["target"], event.data["version"])
        for event in await all_events(run)
        if event.kind == "transition_completed"
    ]


@pytest.mark.req("M1", "M2", "M4", "K24")
async def test_a_machine_runs_to_its_wait_and_goes_on_with_the_trigger(engines: Engines) -> None:
    async with engines.new(Refund) as engine:
        run = await engine.start(Refund, 7)
        await suspended(run)

        checkpoint = (await run.state()).checkpoint
        assert checkpoint is not None
        assert (checkpoint.version, checkpoint.place) == (2, "review")
        assert bytes(checkpoint.state) == b'{"amount":7,"seen":["noted"]}'
        await run.trigger("approve", {"by": "ana"}, by="ana")

        assert await run.result(15) == Trail(7, ["noted", "ana", "paid 7"])
        assert await transitions(run) == [
            ("open", "checked", 1),
            ("note", "review", 2),
            ("approve", "paid", 3),
        ]


@pytest.mark.req("M2")
async def test_automatic_transitions_are_one_commit_each(memory_engines: Engines) -> None:
    async with memory_engines.new(Counter) as engine:
        commits: list[list[str]] = []
        commit = engine.store.commit

        async def counted(batch: Any) -> Any:
            commits.extend([event.kind for event in member.events] for member in batch)
            return await commit(batch)

        engine.store.commit = counted  # type: ignore[method-assign]  # to see what is written at once
        run = await engine.start(Counter, 4)
        await run.result(15)

    done = ["transition_completed"]
    assert commits == [["claimed", *done], done, done, [*done, "completed"]], "the end comes with the last"


class Counter(Machine[dict[str, int]]):
    @transition("start", "turn")
    async def begin(self, ctx: Context, wanted: int) -> None:
        self.state = {"done": 1, "wanted": wanted}

    @transition("turn", "turn", when=lambda state: state["done"] < state["wanted"] - 1)
    async def go_round(self, ctx: Context) -> None:
        self.state["done"] += 1

    @transition("turn", "end")
    async def finish(self, ctx: Context) -> None:
        self.state["done"] += 1


@pytest.mark.req("M2", "F10")
async def test_a_claim_reads_the_log_from_the_last_checkpoint_only(engines: Engines) -> None:
    class Long(Machine[dict[str, int]]):
        @transition("start", "turn")
        async def begin(self, ctx: Context) -> None:
            self.state["n"] = 0

        @transition("turn", "turn", when=lambda state: state["n"] < 50)
        async def go_round(self, ctx: Context) -> None:
            self.state["n"] += 1

        @transition("turn", "end", wait=True)
        async def finish(self, ctx: Context) -> None: ...

    read: list[int] = []
    async with engines.new(Long) as engine:
        run = await engine.start(Long)
        await suspended(run)
        claim = engine.store.claim

        async def counted(request: Any) -> Any:
            found = await claim(request)
            read.extend(len(c.log) for c in found.claims)
            return found

        engine.store.claim = counted  # type: ignore[method-assign]  # to see what is read
        await run.trigger("finish")

        assert await run.result(15) == {"n": 50}
    assert read == [4], "the first event, the last checkpoint, the open wait and the pause"


@pytest.mark.req("M4", "K4")
async def test_a_wait_survives_restarts(durable_engines: Engines) -> None:
    async with durable_engines.new(Refund) as engine:
        run = await engine.start(Refund, 7)
        await suspended(run)
    async with durable_engines.client() as client:  # no code, no worker
        await client.handle(run.id).trigger("approve", {"by": "bo"})
    async with durable_engines.new(Refund) as engine:
        result = await engine.handle(run.id, Refund).result(15)

    assert result == Trail(7, ["noted", "bo", "paid 7"])


@pytest.mark.req("M7")
async def test_guards_and_priorities_choose(replayed_engines: Engines) -> None:
    class Sorting(Machine[dict[str, str]]):
        ends = frozenset({"small", "large", "huge"})

        @transition("start", "small")
        async def rest(self, ctx: Context) -> None: ...

        @transition("start", "large", when=lambda state, input: input >= 10)
        async def grow(self, ctx: Context) -> None: ...

        @transition("start", "huge", when=lambda state, input: input >= 100, priority=1)
        async def burst(self, ctx: Context) -> None: ...

    async with replayed_engines.new(Sorting) as engine:
        runs = [await engine.start(Sorting, n) for n in (1, 10, 1000)]
        for run in runs:
            await run.result(15)

        places = [(await run.state()).checkpoint.place for run in runs]  # type: ignore[union-attr]  # they ended
    assert places == ["small", "large", "huge"]


@pytest.mark.req("M7")
async def test_the_choice_of_a_visit_stays_when_its_guard_turns(memory_engines: Engines) -> None:
    """Guards are Python and may change their mind; what was begun is finished."""
    asked = []

    def fickle(state: Any) -> bool:
        asked.append(1)
        return len(asked) == 1

    class Fickle(Machine[dict[str, str]]):
        ends = frozenset({"left", "right"})

        @transition("start", "left", when=fickle)
        async def go_left(self, ctx: Context) -> None:
            self.state["paid"] = await ctx.step(pay, 1)
            await ctx.signal("on")

        @transition("start", "right")
        async def go_right(self, ctx: Context) -> None: ...

    async with memory_engines.new(Fickle) as engine:
        run = await engine.start(Fickle)
        await suspended(run)
        await run.signal("on")

        assert await run.result(15) == {"paid": "paid 1"}
    assert [t for t, _, _ in await transitions(run)] == ["go_left"]


async def test_a_place_without_a_way_out_is_told(memory_engines: Engines) -> None:
    class Stuck(Machine[dict[str, int]]):
        @transition("start", "end", when=lambda state: "n" in state)
        async def go(self, ctx: Context) -> None: ...

    async with memory_engines.new(Stuck) as engine:
        run = await engine.start(Stuck)

        with pytest.raises(RunFailed) as caught:
            await run.result(15)
        assert (await run.state()).has_error
    assert caught.value.cause_code == "NO_WAY_OUT"
    assert "'start'" in caught.value.message


@pytest.mark.req("M9")
async def test_a_body_has_the_whole_context(replayed_engines: Engines) -> None:
    @workflow
    async def double(ctx: Context, n: int) -> int:
        return n * 2

    class Busy(Machine[dict[str, Any]]):
        @transition("start", "end")
        async def work(self, ctx: Context) -> None:
            state = self.state
            state["steps"] = await asyncio.gather(*(ctx.step(pay, n) for n in range(3)))
            state["all"] = await ctx.all(ctx.step(pay, 1), ctx.run(double, 4))
            state["map"] = await ctx.map(pay, [5, 6], limit=1)
            state["first"] = await ctx.first(ctx.signal("never"), ctx.step(pay, 9))
            child = await ctx.start(double, 21)
            state["child"] = await child
            await ctx.sleep(0.05)
            state["signal"] = await ctx.signal("go", int)
            state["now"] = ctx.now() == ctx.now() or True
            state["random"] = 0 <= ctx.random() < 1
            ctx.publish("news", 1)

    async with replayed_engines.new(Busy, double) as engine:
        run = await engine.start(Busy)
        await run.signal("go", 5)

        assert await run.result(15) == {
            "steps": ["paid 0", "paid 1", "paid 2"],
            "all": ["paid 1", 8],
            "map": ["paid 5", "paid 6"],
            "first": "paid 9",
            "child": 42,
            "signal": 5,
            "now": True,
            "random": True,
        }
        assert (await kinds(run)).count("published") == 1


@pytest.mark.req("M9")
async def test_a_plain_function_is_a_body_in_a_thread_with_the_same_context(
    replayed_engines: Engines,
) -> None:
    import threading

    class Plain(Machine[dict[str, Any]]):
        @transition("start", "end")
        def work(self, ctx: Any) -> None:
            self.state["thread"] = threading.current_thread() is not threading.main_thread()
            self.state["paid"] = ctx.step(pay, 3)
            ctx.sleep(0.01)
            self.state["all"] = ctx.all([(pay, 1), (pay, 2)])

    async with replayed_engines.new(Plain) as engine:
        result = await engine.run(Plain, None)

    assert result == {"thread": True, "paid": "paid 3", "all": ["paid 1", "paid 2"]}


@pytest.mark.req("M9", "K18")
async def test_functions_call_machines_and_machines_call_functions(engines: Engines) -> None:
    @workflow
    async def add(ctx: Context, n: int) -> int:
        return n + 1

    class Inner(Machine[dict[str, int]]):
        @transition("start", "end")
        async def work(self, ctx: Context, n: int) -> None:
            self.state["n"] = await ctx.run(add, n)

    @workflow
    async def outer(ctx: Context, n: int) -> int:
        return (await ctx.run(Inner, n))["n"] + 1

    async with engines.new(outer, Inner, add) as engine:
        assert await engine.run(outer, 1) == 3


@pytest.mark.req("M9", "K13")
async def test_cancel_lets_the_body_clean_up_and_cancels_its_children(engines: Engines) -> None:
    cleaned = []

    @step
    async def clean() -> None:
        cleaned.append(1)

    @workflow
    async def endless(ctx: Context) -> None:
        await ctx.sleep("30d")

    class Long(Machine[dict[str, int]]):
        @transition("start", "end")
        async def work(self, ctx: Context) -> None:
            try:
                await ctx.run(endless, None)
            finally:
                await ctx.step(clean)

    async with engines.new(Long, endless) as engine:
        run = await engine.start(Long)
        await suspended(run)
        assert await run.cancel("enough")

        await reaches(run, Status.CANCELLED)
        children = await engine.runs(workflow="endless")
        await reaches(engine.handle(children[0].id), Status.CANCELLED)
    assert cleaned == [1]


@pytest.mark.req("M5", "K13")
@pytest.mark.parametrize("delay", [0, 1])
async def test_the_second_attempt_cleans_up_as_the_first_does(delay: float) -> None:
    """It was left while it slept; that the first had failed before does not make it a pause between two."""
    cleaned: list[int] = []

    @step
    async def clean(n: int) -> None:
        cleaned.append(n)

    class Flaky(Machine[dict[str, int]]):
        @transition("start", "end", retry=Retry(2, delay=delay))
        async def work(self, ctx: Context) -> None:
            if ctx.attempt == 1:
                raise ValueError("not yet")
            try:
                await ctx.sleep("3d")
            finally:
                await ctx.step(clean, ctx.attempt)

    async with VirtualEngine(Flaky) as engine:
        run = await engine.start(Flaky)
        await engine.advance("1h")
        assert await run.status() is Status.SUSPENDED
        await run.cancel()
        await engine.settle()

        assert await run.status() is Status.CANCELLED
    assert cleaned == [2]


@pytest.mark.req("K13")
async def test_cancel_stops_a_body_that_awaits_something_of_its_own(engines: Engines) -> None:
    stopped = []
    begun = asyncio.Event()

    class Plain(Machine[dict[str, int]]):
        @transition("start", "end", timeout=None)
        async def work(self, ctx: Context) -> None:
            begun.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                stopped.append(1)
                raise

    async with engines.new(Plain) as engine:
        run = await engine.start(Plain)
        await begun.wait()
        await run.cancel()

        await reaches(run, Status.CANCELLED)
    assert stopped == [1]


@pytest.mark.req("M3", "K4")
async def test_a_worker_that_dies_in_a_body_leaves_no_trace_of_it(engines: Engines) -> None:
    begun: list[int] = []

    class Doomed(Machine[dict[str, Any]]):
        @transition("start", "middle")
        async def open(self, ctx: Context) -> None:
            self.state["opened"] = 1

        @transition("middle", "end")
        async def work(self, ctx: Context) -> None:
            assert self.state == {"opened": 1}
            self.state["half"] = len(begun)
            self.state["paid"] = await ctx.step(pay, 1)
            begun.append(1)
            if len(begun) == 1:
                await asyncio.sleep(3600)

    async with engines.client() as watcher:
        first = engines.new(Doomed)
        await first.open()
        run = await first.start(Doomed)
        await until(lambda: begun)
        watched = watcher.handle(run.id) if engines.kind != "memory" else run
        state = await watched.state()
        assert state.checkpoint is not None
        assert (state.checkpoint.place, bytes(state.checkpoint.state)) == ("middle", b'{"opened":1}')
        if engines.kind == "memory":
            assert first.worker is not None
            for work in list(first.worker.active.values()):
                work.lose()
        await crash(first)
        async with engines.new(Doomed) as second:
            result = await second.handle(run.id, Doomed).result(15)

            assert result == {"opened": 1, "half": 1, "paid": "paid 1"}
            found = await all_events(second.handle(run.id))
    assert [e.path for e in found if e.kind == "step_completed"] == ["0/work@2/pay#1"]


@pytest.mark.req("M5", "K10")
async def test_a_failed_run_keeps_its_place(engines: Engines) -> None:
    class Broken(Machine[dict[str, int]]):
        @transition("start", "middle")
        async def open(self, ctx: Context) -> None:
            self.state["n"] = 1

        @transition("middle", "end", retry=Retry(1))
        async def work(self, ctx: Context) -> None:
            self.state["n"] = 2
            raise ValueError("boom")

    async with engines.new(Broken) as engine:
        run = await engine.start(Broken)
        with pytest.raises(RunFailed, match="boom"):
            await run.result(15)

        info, state = await run.info(), await run.state()
        assert info.status is Status.FAILED
        assert state.checkpoint is not None
        assert (state.checkpoint.place, bytes(state.checkpoint.state)) == ("middle", b'{"n":1}')
        assert state.has_error
        assert state.error is not None
        assert state.error.path == "0/work@2"
