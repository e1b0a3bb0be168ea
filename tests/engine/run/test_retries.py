"""Attempts, delays, permanent errors, and what a person's retry of a failed run does."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from stepwell import Context, Permanent, Retry, RetryAfter, RunFailed, StepContext, step, workflow
from stepwell.domain.commit import RetryOutcome
from stepwell.domain.program import Program
from stepwell.domain.status import Status
from stepwell.errors import NotRetryable, OutcomeUnknown, StepError
from tests.engines import Engines, all_events, crash, kinds, log, reaches, ticket, until


class Flaky:
    """A step that fails a number of times."""

    def __init__(self, failures: int, error: type[BaseException] | BaseException = ValueError) -> None:
        self.left = failures
        self.error = error
        self.times: list[float] = []

    async def __call__(self) -> str:
        self.times.append(asyncio.get_running_loop().time())
        if self.left:
            self.left -= 1
            raise self.error
        return "ok"


def calling(flaky: Flaky, retry: Retry) -> Program:
    @step(retry=retry, name="flaky")
    async def flaky_step() -> str:
        return await flaky()

    @workflow
    async def calls(ctx: Context) -> str:
        return await ctx.step(flaky_step)

    return calls


async def delays_in_log(run: Any) -> list[float | None]:
    return [e.data.get("retry_in") for e in await all_events(run) if e.kind == "step_failed"]


@pytest.mark.req("K9")
@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (Retry(4, delay=0.02), [0.02, 0.04, 0.08]),
        (Retry(4, delay=0.02, backoff="linear"), [0.02, 0.04, 0.06]),
        (Retry(4, delay=0.02, backoff="fixed"), [0.02, 0.02, 0.02]),
        (Retry(4, delay=0.02, max_delay=0.03), [0.02, 0.03, 0.03]),
        (Retry(4, delay="20ms"), [0.02, 0.04, 0.08]),
    ],
)
async def test_delays_follow_the_policy_and_are_never_short(
    memory_engines: Engines, retry: Retry, expected: list[float]
) -> None:
    flaky = Flaky(3)
    calls = calling(flaky, retry)

    async with memory_engines.new(calls) as engine:
        run = await engine.start(calls)  # type: ignore[call-overload]  # a program of any style
        assert await run.result() == "ok"

        assert await delays_in_log(run) == pytest.approx(expected)
    waited = [later - earlier for earlier, later in pairwise(flaky.times)]
    assert all(gap >= wanted - 0.001 for gap, wanted in zip(waited, expected, strict=True))


@pytest.mark.req("K9")
async def test_default_delays_are_one_two_four_seconds() -> None:
    retry = Retry(10)

    assert [retry.wait_after(n, ValueError(), 0.5) for n in range(1, 6)] == [1, 2, 4, 8, 16]


@pytest.mark.req("K9")
async def test_jitter_shortens_a_delay_by_at_most_its_share(memory_engines: Engines) -> None:
    calls = calling(Flaky(5), Retry(6, delay=0.04, backoff="fixed", jitter=0.5))

    async with memory_engines.new(calls) as engine:
        run = await engine.start(calls)  # type: ignore[call-overload]  # a program of any style
        await run.result()
        found = await delays_in_log(run)

    assert all(0.02 <= delay <= 0.04 for delay in found if delay is not None)
    assert len(set(found)) > 1


@pytest.mark.req("K9")
@pytest.mark.parametrize(
    ("retry", "error", "tries"),
    [
        (Retry(3, delay=0), ValueError, 3),
        (Retry(3, delay=0, on=(KeyError,)), ValueError, 1),
        (Retry(3, delay=0, on=(LookupError,)), KeyError, 3),
        (Retry(3, delay=0, never=(ValueError,)), ValueError, 1),
        (Retry(3, delay=0, never=(KeyError,)), ValueError, 3),
        (Retry(1), ValueError, 1),
        (Retry(5, delay=0), Permanent("no"), 1),
    ],
)
@pytest.mark.req("K10")
async def test_errors_worth_another_try_are_told_from_those_that_are_not(
    memory_engines: Engines, retry: Retry, error: Any, tries: int
) -> None:
    flaky = Flaky(100, error)
    calls = calling(flaky, retry)

    async with memory_engines.new(calls) as engine:
        run = await engine.start(calls)  # type: ignore[call-overload]  # a program of any style
        with pytest.raises(RunFailed):
            await run.result()

    assert len(flaky.times) == tries


@pytest.mark.req("K9")
async def test_plain_function_is_tried_once(memory_engines: Engines) -> None:
    flaky = Flaky(1)

    @workflow
    async def plain(ctx: Context) -> str:
        return await ctx.step(flaky)

    async with memory_engines.new(plain) as engine:
        with pytest.raises(RunFailed):
            await (await engine.start(plain)).result()

    assert len(flaky.times) == 1


@pytest.mark.req("K9")
async def test_retry_after_wins_over_the_backoff(memory_engines: Engines) -> None:
    calls = calling(Flaky(2, RetryAfter(0.05)), Retry(3, delay="1h"))

    async with memory_engines.new(calls) as engine:
        run = await engine.start(calls)  # type: ignore[call-overload]  # a program of any style
        assert await run.result() == "ok"

        assert await delays_in_log(run) == [0.05, 0.05]


@pytest.mark.req("K9")
async def test_attempts_are_counted_and_share_one_key(replayed_engines: Engines) -> None:
    seen: list[tuple[int, str]] = []

    @step(retry=Retry(3, delay=0.01))
    async def numbered(me: StepContext, what: str) -> str:
        seen.append((me.attempt, me.key))
        if me.attempt < 3:
            raise ValueError(what)
        return what

    @workflow
    async def calls(ctx: Context) -> str:
        return await ctx.step(numbered, "x")

    async with replayed_engines.new(calls) as engine:
        run = await engine.start(calls)
        assert await run.result() == "x"

    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    assert len({key for _, key in seen}) == 1
    assert run.id in seen[0][1]


@pytest.mark.req("K9")
async def test_waiting_for_a_retry_holds_no_lease_and_survives_a_restart(engines: Engines) -> None:
    flaky = Flaky(1)
    calls = calling(flaky, Retry(2, delay=1.5))

    async with engines.new(calls) as engine:
        run = await engine.start(calls)  # type: ignore[call-overload]  # a program of any style

        async def parked() -> bool:
            row = await ticket(run)
            return row is not None and not row.lease and len(flaky.times) == 1

        await until(parked)
        assert await run.status() is Status.RUNNING  # a retry is work, not a wait
        reason = await run.why()
        assert reason.code == "retry"
        assert "attempt 2" in reason.text
    async with engines.new(calls) as engine:
        assert await engine.handle(run.id).result(15) == "ok"

    assert flaky.times[1] - flaky.times[0] >= 1.49


@pytest.mark.req("K11")
async def test_last_failure_fails_the_run_at_that_step_and_keeps_its_state(engines: Engines) -> None:
    calls = calling(Flaky(9), Retry(2, delay=0))

    async with engines.new(calls) as engine:
        run = await engine.start(calls)  # type: ignore[call-overload]  # a program of any style
        with pytest.raises(RunFailed) as caught:
            await run.result()

        assert "0/flaky#1" in str(caught.value)
        assert await run.status() is Status.FAILED
        state = await run.state()
        assert state.steps["0/flaky#1"].attempt == 2
        assert (await run.info()).where_at == "0/flaky#1"
        assert (await kinds(run)).count("step_failed") == 2


@pytest.mark.req("K11", "K5")
async def test_retry_continues_exactly_where_it_failed(engines: Engines) -> None:
    done: list[str] = []
    broken = True

    async def charge() -> str:
        done.append("charge")
        return "charged"

    @step(retry=Retry(2, delay=0))
    async def ship() -> str:
        done.append("ship")
        if broken:
            raise OSError("no van")
        return "shipped"

    @workflow
    async def fulfil(ctx: Context) -> list[str]:
        return [await ctx.step(charge), await ctx.step(ship), await ctx.step(charge)]

    async with engines.new(fulfil) as engine:
        run = await engine.start(fulfil)
        with pytest.raises(RunFailed):
            await run.result()
        assert done == ["charge", "ship", "ship"]
        await run.retry()
        with pytest.raises(RunFailed):  # still broken: a person's retry has its full attempts again
            await run.result()
        assert done == ["charge", "ship", "ship", "ship", "ship"]
        broken = False
        await run.retry()

        assert await run.result() == ["charged", "shipped", "charged"]
        assert done == ["charge", "ship", "ship", "ship", "ship", "ship", "charge"]
        attempts = [e.attempt for e in await all_events(run) if e.path == "0/ship#1"]
        assert attempts == [1, 2, 3, 4, 5]


@pytest.mark.req("K11", "K7")
async def test_only_a_failed_run_can_be_retried(engines: Engines) -> None:
    @workflow
    async def fine(ctx: Context) -> int:
        return 1

    async with engines.new(fine) as engine:
        run = await engine.start(fine)
        await run.result()

        with pytest.raises(NotRetryable) as caught:
            await run.retry()

        assert "completed" in str(caught.value)
        assert caught.value.hint


@pytest.mark.req("K11")
async def test_two_retries_at_once_count_as_one(engines: Engines) -> None:
    calls = calling(Flaky(1), Retry(1))

    async with engines.new(calls) as engine:
        run = await engine.start(calls)  # type: ignore[call-overload]  # a program of any style
        with pytest.raises(RunFailed):
            await run.result()

        outcomes = await asyncio.gather(*(run.retry() for _ in range(4)), return_exceptions=True)

        assert await run.result() == "ok"
        assert sum(outcome is None for outcome in outcomes) == 1
        assert (await log(run)).count("retried") == 1


@pytest.mark.req("K11")
async def test_error_that_workflow_code_handles_does_not_fail_the_run(replayed_engines: Engines) -> None:
    @workflow
    async def careful(ctx: Context) -> str:
        try:
            await ctx.step(Flaky(9))
        except StepError as error:
            return f"{error.code} {error.error_type} {error.path}"
        return "?"

    async with replayed_engines.new(careful) as engine:
        assert await (await engine.start(careful)).result() == "STEP_FAILED ValueError 0/Flaky#1"


@pytest.mark.req("K11")
async def test_result_after_a_retry_by_somebody_else_is_the_new_one(durable_engines: Engines) -> None:
    calls = calling(Flaky(1), Retry(1))

    async with durable_engines.new(calls) as engine, durable_engines.client() as other:
        run = await engine.start(calls)  # type: ignore[call-overload]  # a program of any style
        with pytest.raises(RunFailed):
            await run.result()
        await other.handle(run.id).retry()

        assert await run.result(15) == "ok"


@pytest.mark.req("K11", "K4")
async def test_retried_run_survives_a_crash(engines: Engines) -> None:
    gate = asyncio.Event()
    tries = 0

    async def hard() -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ValueError("first")
        await gate.wait()
        return "ok"

    @workflow
    async def work(ctx: Context) -> str:
        return await ctx.step(hard)

    dying = engines.new(work)
    await dying.open()
    run = await dying.start(work)
    with pytest.raises(RunFailed):
        await run.result()
    await run.retry()
    await until(lambda: tries == 2)
    await crash(dying)
    gate.set()
    async with engines.new(work) as engine:
        assert await engine.handle(run.id).result(15) == "ok"


@pytest.mark.req("K11")
async def test_a_retry_whose_answer_is_lost_sends_the_run_on_once_although_it_fails_again(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky = Flaky(10)
    program = calling(flaky, Retry(1))
    async with memory_engines.new(program) as engine:
        run = await engine.start("calls")
        with pytest.raises(RunFailed):
            await run.result(15)
        real = engine.store.retry

        async def retry(*args: Any, **options: Any) -> RetryOutcome:
            await real(*args, **options)
            engine.notifier.notify_work()
            await until(lambda: len(flaky.times) >= 2)
            await reaches(run, Status.FAILED)
            raise OutcomeUnknown("the answer was lost")

        monkeypatch.setattr(engine.store, "retry", retry)
        await run.retry()

        with pytest.raises(RunFailed):
            await run.result(15)
        assert [kind for kind in await kinds(run) if kind == "retried"] == ["retried"]
        assert len(flaky.times) == 2
