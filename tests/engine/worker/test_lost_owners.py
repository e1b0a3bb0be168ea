"""A run that lost two owners is taken alone; until then it must not keep a worker from its other runs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, Engine, RunFailed, workflow
from stepwell.engine.run.activation import Activation
from stepwell.engine.worker import releaser
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.stores.scene import Scene
from tests.engines import SETTINGS, SHORT_LEASE, Engines, crash, suspended, ticket, until

HASTY = replace(SETTINGS, reap_seconds=0.1, poll_seconds=0.3)
FULL = replace(HASTY, slots=2)


class Gates:
    """Steps that wait until the test opens their gate."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

    def open(self, name: str) -> None:
        self._gates.setdefault(name, asyncio.Event()).set()

    async def pass_through(self, name: str) -> str:
        self.begun.append(name)
        await self._gates.setdefault(name, asyncio.Event()).wait()
        return name


@pytest.fixture
def gates() -> Gates:
    return Gates()


async def kill_two_owners(engines: Engines, gates: Gates, suspect: Any) -> Any:
    """A run of it that has lost two owners."""
    [run_id] = await kill_owners(engines, gates, suspect, runs=1, deaths=2)
    return run_id


async def kill_owners(engines: Engines, gates: Gates, suspect: Any, *, runs: int, deaths: int) -> list[Any]:
    """So many runs of it, which have lost so many owners."""
    patient = replace(SHORT_LEASE, lost_leases_max=deaths + 1)
    async with engines.new(plain, settings=patient) as client:  # finds them dead
        started = [await client.start(suspect) for _ in range(runs)]
        begun = gates.begun.count("suspect")
        for death in range(1, deaths + 1):
            dying = engines.new(suspect, settings=patient)
            await dying.open()
            await until(lambda: gates.begun.count("suspect") == begun + death * runs)  # noqa: B023  # awaited at once
            await crash(dying, found_dead=False)  # its lease runs out: that counts

            async def freed(death: int = death) -> bool:
                found = [await ticket(run) for run in started]
                return all(one is not None and one.losses == death for one in found)

            await until(freed)
        return [run.id for run in started]


SWEEP_SECONDS = 2.0
SLOW_SWEEPS = replace(SETTINGS, lease_seconds=10.0, reap_seconds=SWEEP_SECONDS, poll_seconds=1.0)


@pytest.mark.slow
@pytest.mark.req("K41", "K33")
async def test_suspects_come_back_one_after_the_other_and_not_one_a_sweep(
    engines: Engines, gates: Gates
) -> None:
    @workflow
    async def suspect(ctx: Context) -> str:
        return await ctx.step(gates.pass_through, "suspect")

    suspects = await kill_owners(engines, gates, suspect, runs=12, deaths=2)
    gates.open("suspect")
    began = time.monotonic()

    async with engines.new(suspect, settings=SLOW_SWEEPS) as engine:
        results = [await engine.handle(run_id).result(60) for run_id in suspects]

    assert results == ["suspect"] * 12
    assert time.monotonic() - began < 3 * SWEEP_SECONDS, "at one a sweep it takes eleven of them"


@pytest.mark.slow
@pytest.mark.req("K41", "K33")
async def test_suspect_that_makes_progress_is_no_longer_alone(engines: Engines, gates: Gates) -> None:
    @workflow
    async def quick(ctx: Context) -> str:
        return await ctx.step(str, "quick")

    @workflow
    async def suspect(ctx: Context) -> str:
        await ctx.step(gates.pass_through, "suspect")
        return await ctx.step(gates.pass_through, "second")

    [run_id] = await kill_owners(engines, gates, suspect, runs=1, deaths=2)
    async with engines.new(suspect, quick, settings=HASTY) as engine:
        await until(lambda: gates.begun.count("suspect") == 3)
        await _alone(engine)
        gates.open("suspect")
        await until(lambda: "second" in gates.begun)

        assert await (await engine.start(quick)).result(10) == "quick"

        gates.open("second")
        assert await engine.handle(run_id).result(10) == "second"


@pytest.mark.slow
@pytest.mark.req("K41", "K33")
async def test_next_suspect_shares_the_worker_with_nobody_not_even_the_one_before(
    engines: Engines, gates: Gates
) -> None:
    @workflow
    async def suspect(ctx: Context) -> str:
        await ctx.step(gates.pass_through, "suspect")
        return await ctx.step(gates.pass_through, "second")

    suspects = await kill_owners(engines, gates, suspect, runs=3, deaths=2)
    async with engines.new(suspect, settings=SLOW_SWEEPS) as engine:
        gates.open("suspect")
        await until(lambda: gates.begun.count("second") == 3)
        firsts = [name for name in gates.begun if name in ("suspect", "second")][6:9]
        gates.open("second")
        results = [await engine.handle(run_id).result(10) for run_id in suspects]

    assert firsts == ["suspect"] * 3, "a second step began beside a suspect"
    assert results == ["second"] * 3


@pytest.mark.slow
@pytest.mark.req("K41", "K33")
async def test_how_many_lost_leases_count_as_a_crash_is_a_setting(engines: Engines, gates: Gates) -> None:
    @workflow
    async def suspect(ctx: Context) -> str:
        return await ctx.step(gates.pass_through, "suspect")

    [run_id] = await kill_owners(engines, gates, suspect, runs=1, deaths=3)
    async with engines.new(suspect, settings=replace(HASTY, lost_leases_max=4)) as engine:
        await until(lambda: gates.begun.count("suspect") == 4)
        await crash(engine)  # this time it left: no loss
    async with engines.new(suspect, settings=HASTY) as engine:
        with pytest.raises(RunFailed, match="3 workers died"):
            await engine.handle(run_id).result(20)


@pytest.mark.slow
@pytest.mark.req("K33")
async def test_busy_worker_goes_on_with_others_while_a_suspect_waits(engines: Engines, gates: Gates) -> None:
    await busy_beside_a_suspect(engines, gates, ours=True)


@pytest.mark.slow
@pytest.mark.req("K33")
async def test_suspect_that_only_another_worker_can_run_does_not_matter(
    memory_engines: Engines, gates: Gates
) -> None:
    await busy_beside_a_suspect(memory_engines, gates, ours=False)


async def busy_beside_a_suspect(engines: Engines, gates: Gates, *, ours: bool) -> None:
    @workflow
    async def busy(ctx: Context, name: str) -> str:
        return await ctx.step(gates.pass_through, name)

    @workflow
    async def quick(ctx: Context) -> str:
        return await ctx.step(str, "quick")

    @workflow
    async def suspect(ctx: Context) -> str:
        return await ctx.step(gates.pass_through, "suspect")

    async with engines.new(busy, quick, *([suspect] if ours else []), settings=FULL) as engine:
        first, second = await engine.start(busy, "first"), await engine.start(busy, "second")
        await until(lambda: len(gates.begun) == 2)  # full: the suspect goes to others
        suspect_id = await kill_two_owners(engines, gates, suspect)
        gates.open("second")
        assert await second.result() == "second"

        for _ in range(3):  # while the first is still busy
            assert await (await engine.start(quick)).result(10) == "quick"

        gates.open("first")
        assert await first.result() == "first"
        if ours:
            await until(lambda: gates.begun.count("suspect") == 3)
            await _alone(engine)
            gates.open("suspect")
            assert await engine.handle(suspect_id).result(10) == "suspect"


async def _alone(engine: Engine) -> None:
    """Nothing is begun beside it, whatever is due."""
    beside = await engine.start("quick")
    await asyncio.sleep(2 * HASTY.poll_seconds)
    found = await ticket(beside)

    assert found is not None
    assert found.lease == ""


@workflow
async def plain(ctx: Context) -> str:
    return await ctx.step(str, "done")


@workflow
async def told(ctx: Context) -> str:
    return str(await ctx.event("news"))


async def lose_two_owners(scene: Scene, *, queue: str, needs: str) -> None:
    """Two workers die that had taken the one ticket which is due there."""
    for name in ("w1", "w2"):
        assert await scene.claimed_ids(await scene.worker(name), queues=(queue,), needs=(needs,))
        await scene.lose(name)


@pytest.mark.req("K33", "K15")
async def test_worker_goes_on_after_an_event_that_lost_two_owners() -> None:
    clock = FakeClock()
    engines = Engines("memory", MemoryStore(clock))
    async with engines.new(told, settings=HASTY) as engine:
        waiting = await engine.start(told)
        await suspended(waiting)
    async with engines.client() as client:
        await client.emit("news", "good")
        await lose_two_owners(Scene(client.store, clock), queue="", needs="emit")

    async with engines.new(told, plain, settings=HASTY) as engine:
        assert await engine.handle(waiting.id).result(10) == "good"
        assert await (await engine.start(plain)).result(10) == "done"


@pytest.mark.req("K33", "K4")
async def test_worker_goes_on_after_a_suspect_that_it_could_not_take_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    engines = Engines("memory", MemoryStore(clock))
    right, faults = Activation.__init__, [ZeroDivisionError("a bug of the engine")]

    def broken(*args: Any, **kwargs: Any) -> None:
        if faults:
            raise faults.pop()
        right(*args, **kwargs)

    monkeypatch.setattr(releaser, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(Activation, "__init__", broken)
    async with engines.new(plain, worker=False) as client:
        suspect = await client.start(plain)
        await lose_two_owners(Scene(client.store, clock), queue="default", needs="plain@1")

    async with engines.new(plain, settings=HASTY) as engine:
        assert await (await engine.start(plain)).result(10) == "done"
        assert await engine.handle(suspect.id).result(10) == "done"
