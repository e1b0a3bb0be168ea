"""A run that is started where it can be worked on is owned from its first moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace

import pytest
from msgspec import structs

from stepwell import Context, Engine, Settings, Status, step, workflow
from stepwell.client.options import checked_options
from stepwell.domain.commit import ClaimRequest, Claims, NewRun, Started
from stepwell.domain.program import Program
from stepwell.errors import InvalidInput, OutcomeUnknown, StoreUnavailable
from tests.engines import DEAF, SETTINGS, SHORT_LEASE, Engines, suspended, until

request_id: ContextVar[str] = ContextVar("request_id", default="nobody's")
gates: list[asyncio.Event] = []
inside: list[int] = []
most: list[int] = []


@pytest.fixture(autouse=True)
def gate() -> Iterator[asyncio.Event]:
    gates.append(asyncio.Event())
    yield gates[0]
    for kept in (gates, inside, most):
        kept.clear()


@step
async def enter(number: int) -> int:
    inside.append(number)
    most.append(len(inside))
    await gates[0].wait()
    inside.remove(number)
    return number


@workflow
async def visits(ctx: Context, number: int) -> int:
    return await ctx.step(enter, number)


@workflow
async def doubles(ctx: Context, number: int) -> int:
    return 2 * number


@workflow
async def whose(ctx: Context) -> str:
    return request_id.get()


@workflow
async def waits(ctx: Context) -> str:
    return str(await ctx.signal("go"))


class Asked:
    """Counts what an engine asks its store for; the store is the real one."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.claims = 0
        real = engine.store.claim

        async def claim(request: ClaimRequest) -> Claims:
            self.claims += 1
            return await real(request)

        monkeypatch.setattr(engine.store, "claim", claim)


@asynccontextmanager
async def caught_up(
    engines: Engines, *workflows: Program, settings: Settings = SETTINGS
) -> AsyncIterator[Engine]:
    """An engine whose worker has looked through the queue once and has nothing to do."""
    async with engines.new(*workflows, settings=settings) as engine:
        worker = engine.worker
        assert worker is not None
        await until(lambda: worker._claimer.room > 0)
        yield engine


@pytest.mark.req("K3", "K31")
async def test_runs_that_are_started_here_are_not_asked_for(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caught_up(engines, doubles, settings=DEAF) as engine:
        asked = Asked(engine, monkeypatch)

        results = [await engine.run(doubles, number) for number in range(20)]

    assert results == [2 * number for number in range(20)]
    assert asked.claims == 0


@pytest.mark.req("K3")
async def test_it_is_running_when_start_returns(engines: Engines, gate: asyncio.Event) -> None:
    async with caught_up(engines, visits) as engine:
        run = await engine.start(visits, 1)

        assert (await run.info()).status is Status.RUNNING
        gate.set()
        assert await run.result() == 1


async def test_no_more_at_once_than_slots(engines: Engines, gate: asyncio.Event) -> None:
    async with caught_up(engines, visits, settings=replace(SETTINGS, slots=3)) as engine:
        runs = [*await engine.start_many(visits, range(4)), await engine.start(visits, 9)]
        await until(lambda: len(inside) == 3)
        gate.set()

        assert [await run.result() for run in runs] == [0, 1, 2, 3, 9]
    assert max(most) == 3


async def test_what_waits_longer_goes_first(engines: Engines, gate: asyncio.Event) -> None:
    """While something may wait for a slot, nobody is let in by the side door."""
    async with caught_up(engines, visits, settings=replace(SETTINGS, slots=1)) as engine:
        runs = [await engine.start(visits, number) for number in range(6)]

        await until(lambda: len(inside) == 1)
        gate.set()
        [await run.result() for run in runs]

        begun = [(await run.info()).started_at or 0.0 for run in runs]
    assert begun == sorted(begun)


@pytest.mark.req("F1")
async def test_workflow_code_sees_nothing_of_who_started_it(engines: Engines) -> None:
    async with caught_up(engines, whose) as engine:
        request_id.set("the caller's")

        assert await engine.run(whose, None) == "nobody's"


@pytest.mark.req("K19")
async def test_a_limit_counts_for_them_too(engines: Engines, gate: asyncio.Event) -> None:
    async with caught_up(engines, visits) as engine:
        await engine.set_limit("workflow", "visits", 2)
        assert [row.limit for row in await engine.limits()] == [2]

        runs = [await engine.start(visits, number) for number in range(5)]
        await until(lambda: len(inside) == 2)
        gate.set()
        [await run.result() for run in runs]

    assert max(most) == 2


@pytest.mark.req("K22")
async def test_what_this_worker_cannot_do_is_left_to_others(engines: Engines) -> None:
    async with caught_up(engines, doubles) as engine:
        elsewhere = await engine.start(doubles, 1, queue="gpu")
        later = await engine.start(doubles, 2, delay="1h")

        assert (await elsewhere.info()).status is Status.PENDING
        assert (await later.info()).status is Status.PENDING


@pytest.mark.req("K13")
async def test_starts_that_are_under_way_when_the_engine_closes(durable_engines: Engines) -> None:
    """Whatever was accepted goes on; nothing is left in the hands of one who has gone."""
    async with caught_up(durable_engines, doubles, waits) as engine:
        starts = [asyncio.create_task(engine.start(waits)) for _ in range(5)]
        await asyncio.sleep(0)
        assert engine.worker is not None
        await engine.worker.stop()
        runs = [await start for start in starts]
        tickets = [await engine.store.read_tickets(run.id) for run in runs]

    assert [ticket.owner for own in tickets for ticket in own] == [""] * 5
    async with durable_engines.new(waits) as other:
        for run in runs:
            again = other.handle(run.id)
            await suspended(again)
            await again.signal("go", 1)
            assert await again.result() == "1"


class Held:
    """Starts are executed by the real store; their answers wait until they are let go."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go = asyncio.Event()
        self.executed = asyncio.Event()
        real = engine.store.start

        async def start(runs: Sequence[NewRun]) -> Sequence[Started]:
            answer = await real(runs)
            self.executed.set()
            await self.let_go.wait()
            return answer

        monkeypatch.setattr(engine.store, "start", start)


@pytest.mark.req("K4")
async def test_an_answer_that_comes_too_late_begins_nothing_twice(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch, gate: asyncio.Event
) -> None:
    """The heartbeat has shown the run as ours, and it was taken up by that."""
    async with caught_up(memory_engines, visits, settings=SHORT_LEASE) as engine:
        gate.set()
        held = Held(engine, monkeypatch)
        start = asyncio.create_task(engine.start(visits, 1))
        await until(lambda: most and not inside)  # it ran, long before the start was answered

        held.let_go.set()

        assert await (await start).result() == 1
    assert len(most) == 1


@pytest.mark.req("K4")
async def test_a_worker_that_was_buried_meanwhile_takes_nothing(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch, gate: asyncio.Event
) -> None:
    async with caught_up(memory_engines, visits, settings=SHORT_LEASE) as engine:
        gate.set()
        assert engine.worker is not None
        worker, buried = engine.worker, engine.worker.id
        held = Held(engine, monkeypatch)
        start = asyncio.create_task(engine.start(visits, 1))
        await held.executed.wait()

        await engine.store.deregister(buried)
        await until(lambda: worker.id != buried)
        held.let_go.set()

        assert await (await start).result() == 1
    assert len(most) == 1


async def test_a_caller_that_leaves_does_not_hold_up_what_it_started(
    durable_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = replace(DEAF, lease_seconds=120, heartbeat_seconds=50)
    async with caught_up(durable_engines, doubles, settings=patient) as engine:
        held = Held(engine, monkeypatch)
        start = asyncio.create_task(engine.start(doubles, 21, key="k"))
        await held.executed.wait()

        start.cancel()
        held.let_go.set()
        run = await until(lambda: engine.find("k"))

        assert await run.result() == 42
        assert engine.worker is not None
        assert engine.worker.roster.starting == 0


@pytest.mark.req("K19")
async def test_an_unanswered_claim_may_have_filled_slots(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch, gate: asyncio.Event
) -> None:
    async with caught_up(memory_engines, visits, settings=replace(SETTINGS, slots=2)) as engine:
        real, failed = engine.store.claim, asyncio.Event()

        async def claim(request: ClaimRequest) -> Claims:
            found = await real(request)
            if not failed.is_set():
                failed.set()
                raise OutcomeUnknown("the answer was lost")
            return found

        monkeypatch.setattr(engine.store, "claim", claim)
        async with memory_engines.client() as other:
            runs = [await other.start("visits", number) for number in range(2)]
            engine.notifier.notify_work()
            await failed.wait()
            await asyncio.sleep(0)
            runs += [await engine.start(visits, number) for number in range(2, 4)]
            await until(lambda: len(inside) == 2)
            gate.set()
            assert sorted([await run.result() for run in runs]) == [0, 1, 2, 3]
    assert max(most) == 2


async def test_a_start_that_is_cancelled_before_it_is_sent_holds_up_nobody(engines: Engines) -> None:
    async with caught_up(engines, doubles) as engine:
        assert engine.worker is not None
        roster = engine.worker.roster
        caller = asyncio.ensure_future(engine.start(doubles, 1, key="k"))
        for _ in range(
            1_000_000
        ):  # turns of the loop, until it waits to be sent; it reads from the store before
            if roster.starting:
                break
            await asyncio.sleep(0)
        assert roster.starting == 1
        caller.cancel()

        assert await engine.run(doubles, 2) == 4
        assert roster.starting == 0
        assert await engine.find("k") is None


async def _new_runs(engine: Engine, count: int) -> list[NewRun]:
    prepared = await engine._prepared(doubles, "")
    return [engine._new_run(prepared, number, "", checked_options({})) for number in range(count)]


async def test_starts_that_come_together_are_one_call(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caught_up(engines, doubles) as engine:
        real, sizes = engine.store.start, list[int]()

        async def start(runs: Sequence[NewRun]) -> Sequence[Started]:
            sizes.append(len(runs))
            return await real(runs)

        monkeypatch.setattr(engine.store, "start", start)
        handles = await asyncio.gather(*(engine.start(doubles, number) for number in range(20)))

        assert [await handle.result() for handle in handles] == [2 * number for number in range(20)]
    assert sizes == [20]


@pytest.mark.req("R3")
async def test_a_start_that_the_store_refuses_spoils_no_other(durable_engines: Engines) -> None:
    async with caught_up(durable_engines, doubles) as engine:
        assert engine.worker is not None
        local_starts, roster = engine.worker.local_starts, engine.worker.roster
        good, bad, fine = await _new_runs(engine, 3)
        bad = structs.replace(bad, key="no character: \ud800")

        answers = await asyncio.gather(
            *(local_starts.start([run]) for run in (good, bad, fine)), return_exceptions=True
        )

        assert isinstance(answers[1], InvalidInput)
        assert [await engine.handle(run.id).result() for run in (good, fine)] == [0, 4]
        assert roster.starting == 0


@pytest.mark.req("K13")
async def test_starts_that_a_dying_worker_leaves_behind_are_sent_again(
    durable_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executed, but the worker that waited for the answer is gone: the caller asks once more."""
    async with caught_up(durable_engines, doubles) as engine:
        held = Held(engine, monkeypatch)
        start = asyncio.create_task(engine.start(doubles, 1))
        await held.executed.wait()
        assert engine._task is not None
        engine._task.cancel()
        held.let_go.set()

        run = await start

        assert (await run.info()).workflow == "doubles"


async def test_starts_that_are_sent_one_by_one_when_the_worker_dies_are_all_answered(
    durable_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caught_up(durable_engines, doubles) as engine:
        assert engine.worker is not None
        local_starts, roster = engine.worker.local_starts, engine.worker.roster
        good, bad, fine = await _new_runs(engine, 3)
        bad = structs.replace(bad, key="no character: \ud800")
        real, alone = engine.store.start, asyncio.Event()

        async def start(runs: Sequence[NewRun]) -> Sequence[Started]:
            if len(runs) == 1:
                alone.set()
                await asyncio.Event().wait()
            return await real(runs)

        monkeypatch.setattr(engine.store, "start", start)
        callers = [asyncio.ensure_future(local_starts.start([run])) for run in (good, bad, fine)]
        await alone.wait()
        assert engine._task is not None
        engine._task.cancel()

        async with asyncio.timeout(20):
            answers = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(answer) for answer in answers] == [OutcomeUnknown, StoreUnavailable, StoreUnavailable]
        assert roster.starting == 0
