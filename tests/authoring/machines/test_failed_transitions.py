"""A failing transition leaves no trace; it is tried again, routed elsewhere, or stays for a person."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from stepwell import (
    Context,
    Machine,
    Permanent,
    Retry,
    RetryAfter,
    Status,
    SyncContext,
    step,
    transition,
    workflow,
)
from stepwell.errors import InvalidDefinition, NotRetryable, RunFailed, StepError
from stepwell.testing import VirtualEngine
from tests.engines import Engines, all_events, suspended


class Calls:
    """How often a body was run, and what it saw."""

    def __init__(self, failures: int = 10**9, error: type[Exception] = ValueError) -> None:
        self.left = failures
        self.error = error
        self.seen: list[Any] = []

    def fail(self, seen: Any = None) -> None:
        self.seen.append(seen)
        if self.left:
            self.left -= 1
            raise self.error(f"failure {len(self.seen)}")


async def failures(run: Any) -> list[float | None]:
    return [e.data.get("retry_in") for e in await all_events(run) if e.kind == "transition_failed"]


@pytest.mark.req("M5", "K9")
@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(4, delay="1s"), [1, 2, 4]),
        (Retry(5, delay="1s", max_delay="3s"), [1, 2, 3, 3]),
        (Retry(4, delay=2, backoff="linear"), [2, 4, 6]),
        (Retry(3, delay=5, backoff="fixed"), [5, 5]),
        (Retry(1), []),
    ],
)
async def test_backoff(retry: Retry, delays: list[float]) -> None:
    calls = Calls()

    class Flaky(Machine[dict[str, int]]):
        @transition("start", "end", retry=retry)
        async def call(self, ctx: Context) -> None:
            calls.fail(engine.clock.time())

    async with VirtualEngine(Flaky) as engine:
        run = await engine.start(Flaky)
        await engine.settle()
        if delays:
            assert await run.status() is Status.RUNNING, "a retry is no suspension"
            assert (await run.why()).code == "retry"
            assert "call" in (await run.why()).text
        with pytest.raises(RunFailed):
            await engine.outcome(run)

        assert await failures(run) == [*delays, None]
        gaps = [b - a for a, b in zip(calls.seen, calls.seen[1:], strict=False)]
        assert gaps == pytest.approx(delays)


@pytest.mark.req("M5", "K10")
async def test_permanent_is_not_retried_and_retry_after_says_when() -> None:
    permanent, later = Calls(error=Permanent), Calls(1, error=lambda text: RetryAfter(30))  # type: ignore[arg-type]  # makes an error

    class First(Machine[dict[str, int]]):
        @transition("start", "end", retry=Retry(5))
        async def call(self, ctx: Context) -> None:
            permanent.fail()

    class Second(Machine[dict[str, int]]):
        @transition("start", "end", retry=Retry(5))
        async def call(self, ctx: Context) -> None:
            later.fail()

    async with VirtualEngine(First, Second) as engine:
        run = await engine.start(First)
        with pytest.raises(RunFailed):
            await engine.outcome(run)
        other = await engine.start(Second)
        await engine.outcome(other)

        assert await failures(run) == [None]
        assert await failures(other) == [30]


@step
async def refused() -> None:
    raise Permanent("this card never works")


@step(isolation="process")
def refused_elsewhere() -> None:
    raise Permanent("this card never works")


@workflow
async def refusing(ctx: Context, _: None) -> None:
    await ctx.step(refused)


class Paying(Machine[dict[str, int]]):
    """Its input says where the inner step fails for good."""

    @transition("start", "end", retry=Retry(5, delay=0.01))
    async def pay(self, ctx: Context, where: str) -> None:
        if where == "step":
            await ctx.step(refused)
        elif where == "process":
            await ctx.step(refused_elsewhere)
        elif where == "child":
            await ctx.run(refusing, None)
        elif where == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.step(refused))
        elif where == "handled":
            try:
                await ctx.step(refused)
            except StepError:
                raise ValueError("worth another try") from None


@pytest.mark.req("M5", "M9", "K10")
@pytest.mark.parametrize(
    ("where", "attempts"), [("step", 1), ("process", 1), ("child", 1), ("group", 1), ("handled", 5)]
)
async def test_an_inner_step_that_fails_for_good_ends_the_retries_of_its_transition(
    memory_engines: Engines, where: str, attempts: int
) -> None:
    async with memory_engines.new(Paying, refusing) as engine:
        run = await engine.start(Paying, where)
        with pytest.raises(RunFailed):
            await run.result(30)

        assert len(await failures(run)) == attempts


@pytest.mark.req("M5")
@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"retry": Retry(2, delay=0, then="trouble")}, "trouble"),
        ({"on_error": "trouble", "retry": Retry(2, delay=0)}, "trouble"),
        ({"on_error": "trouble"}, "trouble"),
        ({"on_error": "trouble", "on_timeout": "late"}, "trouble"),
        ({"on_error": "trouble", "on_timeout": "late", "timeout": 0.05}, "late"),
        ({"retry": Retry(2, delay=0, then="trouble"), "on_timeout": "late", "timeout": 0.05}, "late"),
    ],
)
async def test_after_the_last_attempt_it_goes_elsewhere(
    engines: Engines, options: dict[str, Any], place: str
) -> None:
    class Routed(Machine[dict[str, Any]]):
        ends = frozenset({"good", "told"})

        @transition("start", "work")
        async def open(self, ctx: Context) -> None:
            self.state["n"] = 1

        @transition("work", "good", **options)
        async def call(self, ctx: Context) -> None:
            self.state["n"] = 2
            if "timeout" in options:
                await asyncio.sleep(60)
            raise ValueError("boom")

        @transition(["trouble", "late"], "told")
        async def tell(self, ctx: Context) -> None:
            assert self.error is not None
            self.state["because"] = self.error.message

        @transition("work", "trouble", when=lambda state: False)
        async def make_trouble(self, ctx: Context) -> None: ...

        @transition("work", "late", when=lambda state: False)
        async def be_late(self, ctx: Context) -> None: ...

    async with engines.new(Routed) as engine:
        run = await engine.start(Routed)
        result = await run.result(15)

        targets = [e.data["target"] for e in await all_events(run) if e.kind == "transition_completed"]
        assert targets == ["work", place, "told"]
        assert not (await run.state()).has_error
    expected = "longer than 0.05 s" if place == "late" else "boom"
    assert result["n"] == 1, "the state is as before the transition that failed"
    assert expected in result["because"]


@pytest.mark.req("M3", "M5", "K11")
async def test_a_failed_transition_stays_and_a_person_retries_the_same_visit(engines: Engines) -> None:
    calls, paid = Calls(2), []

    @step
    async def pay(n: int) -> int:
        paid.append(n)
        return n

    class Manual(Machine[dict[str, Any]]):
        @transition("start", "asked")
        async def open(self, ctx: Context) -> None: ...

        @transition("asked", "end", wait=True)
        async def go(self, ctx: Context, word: str) -> None:
            assert "word" not in self.state, "state of a failed attempt"
            self.state["word"] = word
            self.state["paid"] = await ctx.step(pay, 7)
            calls.fail()

    async with engines.new(Manual) as engine:
        run = await engine.start(Manual)
        await suspended(run)
        await run.trigger("go", "please")
        with pytest.raises(RunFailed, match="failure 1"):
            await run.result(15)
        state = await run.state()
        assert state.checkpoint is not None
        assert (state.checkpoint.place, bytes(state.checkpoint.state), state.has_error) == (
            "asked",
            b"{}",
            True,
        )

        await run.retry()
        with pytest.raises(RunFailed, match="failure 2"):
            await run.result(15)
        await run.retry()

        assert await run.result(15) == {"word": "please", "paid": 7}
        with pytest.raises(NotRetryable):
            await run.retry()
        failed = [(e.path, e.attempt) for e in await all_events(run) if e.kind == "transition_failed"]
    assert paid == [7], "a completed inner step is not done again"
    assert failed == [("0/go@2", 1), ("0/go@2", 2)]


@pytest.mark.req("M9", "K5")
async def test_inner_steps_are_shared_by_the_attempts_of_a_visit(replayed_engines: Engines) -> None:
    calls, done = Calls(2), []

    @step
    async def first(n: int) -> int:
        done.append(("first", n))
        return n

    @step
    async def second(n: int) -> int:
        done.append(("second", n))
        if len(done) < 3:
            raise OSError("not now")
        return n

    @workflow
    async def child(ctx: Context, n: int) -> int:
        done.append(("child", n))
        if calls.left:
            calls.fail()
        return n

    class Shared(Machine[dict[str, Any]]):
        @transition("start", "end", retry=Retry(6, delay=0.01))
        async def work(self, ctx: Context) -> None:
            self.state["a"] = await ctx.step(first, 1)
            self.state["b"] = await ctx.step(second, 2)
            self.state["c"] = await ctx.run(child, 3)

    async with replayed_engines.new(Shared, child) as engine:
        run = await engine.start(Shared)

        assert await run.result(15) == {"a": 1, "b": 2, "c": 3}
        attempts = [(e.path, e.attempt) for e in await all_events(run) if e.path.endswith("second#1")]
    assert [what for what, _ in done] == ["first", "second", "second", "child", "child", "child"]
    assert attempts == [("0/work@1/second#1", 1), ("0/work@1/second#1", 2)]


@pytest.mark.req("M9")
async def test_a_new_visit_is_a_new_scope(replayed_engines: Engines) -> None:
    done = []

    @step
    async def draft(n: int) -> int:
        done.append(n)
        return n

    class Loop(Machine[dict[str, int]]):
        @transition("start", "write")
        async def open(self, ctx: Context) -> None:
            self.state["n"] = 0

        @transition("write", "write", when=lambda state: state["n"] < 3)
        async def again(self, ctx: Context) -> None:
            self.state["n"] = 1 + await ctx.step(draft, self.state["n"])

        @transition("write", "end")
        async def close(self, ctx: Context) -> None: ...

    async with replayed_engines.new(Loop) as engine:
        assert await engine.run(Loop, None) == {"n": 3}
    assert done == [0, 1, 2]


@pytest.mark.req("M6", "K12")
async def test_a_timeout_stops_the_body_and_its_steps_and_is_a_failure_for_retry(engines: Engines) -> None:
    stopped: list[str] = []

    @step
    async def endless() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append("step")

    class Slow(Machine[dict[str, int]]):
        @transition("start", "end", timeout=0.5, retry=Retry(2, delay=0.01))
        async def work(self, ctx: Context) -> None:
            try:
                if not stopped:
                    await ctx.step(endless)
                await asyncio.sleep(3600)
            finally:
                stopped.append("body")

    async with engines.new(Slow) as engine:
        run = await engine.start(Slow)
        with pytest.raises(RunFailed, match=r"work took longer than 0\.5 s") as caught:
            await run.result(15)
        assert await failures(run) == [0.01, None]
    assert sorted(stopped) == ["body", "body", "step"]
    assert caught.value.cause_code == "TRANSITION_TIMED_OUT"
    assert "timeout=None" in caught.value.hint


@pytest.mark.req("M6", "K12")
async def test_durable_waits_do_not_count_for_the_timeout() -> None:
    class Patient(Machine[dict[str, int]]):
        @transition("start", "end", timeout="1s")
        async def work(self, ctx: Context) -> None:
            await ctx.sleep("3d")

    async with VirtualEngine(Patient) as engine:
        assert await engine.outcome(await engine.start(Patient)) == {}


@pytest.mark.req("M6", "K12")
def test_the_default_timeout_is_five_minutes_none_disables_it_and_zero_is_refused() -> None:
    class Timed(Machine[dict[str, int]]):
        @transition("start", "a")
        async def plain(self, ctx: Context) -> None: ...

        @transition("a", "end", timeout=None)
        async def endless(self, ctx: Context) -> None: ...

    timeouts = {transition.name: transition.timeout for transition in Timed._plan.transitions}
    assert timeouts == {"plain": 300, "endless": None}
    with pytest.raises(InvalidDefinition, match=r"timeout is 0.*timeout=None disables the timeout"):

        class Zero(Machine[dict[str, int]]):
            @transition("start", "end", timeout=0)
            async def never(self, ctx: Context) -> None: ...


@pytest.mark.req("M6", "K12")
async def test_five_minutes_without_an_end_are_a_failure() -> None:
    class Hangs(Machine[dict[str, int]]):
        @transition("start", "end")
        async def work(self, ctx: Context) -> None:
            begun.set()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    async with VirtualEngine(Hangs) as engine:
        run = await engine.start(Hangs)
        await begun.wait()
        engine.clock.advance(299)
        await asyncio.sleep(0.3)
        assert await run.status() is Status.RUNNING

        engine.clock.advance(2)

        with pytest.raises(RunFailed, match="longer than 300 s"):
            await run.result(15)


async def test_a_state_that_cannot_be_kept_fails_the_transition_with_its_field(
    memory_engines: Engines,
) -> None:
    class Odd(Machine[dict[str, Any]]):
        @transition("start", "end", retry=Retry(3))
        async def work(self, ctx: Context) -> None:
            self.state["bad"] = {"deep": object()}

    async with memory_engines.new(Odd) as engine:
        run = await engine.start(Odd)
        with pytest.raises(RunFailed, match=r"bad\.deep"):
            await run.result(15)
        assert await failures(run) == [None], "the same code would give the same value again"


class ReturnsValues(Machine[dict[str, int]]):
    """Its input says which of its transitions returns something."""

    @transition("start", "end", when=lambda state, input: input == "async", retry=Retry(3))
    async def later(self, ctx: Context) -> Any:
        self.state["n"] = 1
        return {"n": 2}

    @transition("start", "end", when=lambda state, input: input == "thread", retry=Retry(3))
    def aside(self, ctx: SyncContext) -> Any:
        return "end"

    @transition("start", "end", retry=Retry(3))
    def unawaited(self, ctx: SyncContext) -> Any:
        return asyncio.sleep(0)


@pytest.mark.req("M1", "M3")
@pytest.mark.parametrize(
    ("how", "text", "hint"),
    [
        ("async", r"later \(test_failed_transitions.py:\d+\) returned a value \(dict\)", "change self.state"),
        ("thread", r"aside \(test_failed_transitions.py:\d+\) returned a value \(str\)", "change self.state"),
        ("", r"unawaited \(test_failed_transitions.py:\d+\) returned a value \(coroutine\)", "async def"),
    ],
)
async def test_a_transition_that_returns_something_is_told_so(
    memory_engines: Engines, how: str, text: str, hint: str
) -> None:
    async with memory_engines.new(ReturnsValues) as engine:
        run = await engine.start(ReturnsValues, how)

        with pytest.raises(RunFailed, match=text) as told:
            await run.result(30)

        assert (told.value.cause_code, hint in told.value.hint) == (InvalidDefinition.code, True)
        assert await failures(run) == [None], "the same code would return it again"
        assert (await run.state()).checkpoint is None, "a failing transition leaves no trace"


@dataclass
class Basket:
    items: list[str] = field(default_factory=lambda: ["none yet"])


class FailsFirst(Machine[Basket]):
    """Its input says how its first transition ends."""

    @transition("start", "end", timeout=0.2, on_error="mended", on_timeout="late")
    async def begin(self, ctx: Context, how: str) -> None:
        self.state.items = ["lost"]
        ctx.save("note", "lost")
        if how == "error":
            raise ValueError("no")
        await asyncio.sleep(60)

    @transition(["mended", "late"], "end")
    async def mend(self, ctx: Context) -> None:
        assert self.error is not None
        self.state.items.append(self.error.code)


@pytest.mark.req("M5", "M3", "M6")
@pytest.mark.parametrize(("how", "code"), [("error", "ERROR"), ("timeout", "TRANSITION_TIMED_OUT")])
async def test_the_first_transition_that_fails_leaves_the_first_state(
    replayed_engines: Engines, how: str, code: str
) -> None:
    async with replayed_engines.new(FailsFirst) as engine:
        run = await engine.start(FailsFirst, how)

        assert (await run.result(30)).items == ["none yet", code]
        first, _ = await run.checkpoints()
        assert (first.place, first.read(Basket)) == ("late" if how == "timeout" else "mended", Basket())
        assert await run.documents() == []


KEPT: list[Any] = []


class Wrong(Machine[dict[str, int]]):
    """Its input says what is wrong with it."""

    @transition("start", "half", when=lambda state, input: len(input) / (input != "guard") > 0)
    async def first(self, ctx: Context, how: str) -> None:
        KEPT.append(ctx)
        if how == "trigger":
            await ctx.start(Wrong, "nothing", trigger="sendd")

    @transition("half", "end", when=lambda state, input: input == "kept")
    async def second(self, ctx: Context) -> None:
        KEPT[0].now()

    @transition("half", "end", wait=True)
    async def send(self, ctx: Context) -> None: ...


@pytest.mark.req("M7", "M9", "M4")
@pytest.mark.parametrize(
    ("how", "text", "hint"),
    [
        ("guard", "when= of first raised ZeroDivisionError", "a guard sees"),
        ("kept", "second used the ctx of a transition that had ended", "do not keep it"),
        ("trigger", "no transition of this machine is triggered by 'sendd'", "did you mean 'send'?"),
    ],
)
async def test_mistakes_of_a_machine_are_told_in_its_words(
    memory_engines: Engines, how: str, text: str, hint: str
) -> None:
    KEPT.clear()
    async with memory_engines.new(Wrong) as engine:
        run = await engine.start(Wrong, how)

        with pytest.raises(RunFailed) as told:
            await run.result(30)

        assert text in told.value.message
        assert hint in told.value.hint
