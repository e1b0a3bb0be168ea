"""SIGSTOP past the lease: another takes over, and the frozen worker writes nothing when it wakes."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from stepwell import Engine
from tests.faults.checks import Story, check
from tests.faults.client import Outside, gathered, opened, until
from tests.faults.figures import figures, note
from tests.faults.fleet import Fleet, Worker
from tests.faults.stage import Stage
from tests.faults.workload import SHAPES

CHAIN = next(shape for shape in SHAPES if shape.name == "chain")
AWAKE_SECONDS = 1.0


def logs_of(stories: list[Story]) -> dict[str, list[int]]:
    return {story.id: [event.seq for event in story.events] for story in stories}


async def is_writable(engine: Engine) -> bool:
    """A process that was stopped inside a transaction on SQLite holds up every other: not this test."""
    try:
        async with asyncio.timeout(1.0):
            await engine.emit("anything")
    except TimeoutError:
        return False
    return True


async def has_new_identity(fleet: Fleet, worker: Worker) -> bool:
    return list(fleet.identities().values()).count(worker.pid) >= 2


@pytest.mark.slow
@pytest.mark.req("R4", "K5")
def test_a_frozen_worker_writes_nothing_after_its_lease_is_gone(stage: Stage) -> None:
    async def story(fleet: Fleet) -> None:
        sleeper = fleet.start()
        fleet.ready(sleeper)
        async with opened(stage.url) as engine:
            outside = Outside(engine, spread_seconds=0.0)
            playing = asyncio.ensure_future(outside.play_shape(CHAIN, range(30)))
            await asyncio.sleep(0.25)
            with fleet.frozen(sleeper):
                assert await is_writable(engine)
                second = fleet.start()
                await playing
                before = logs_of(await outside.stories())

            await until(lambda: has_new_identity(fleet, sleeper))
            await asyncio.sleep(AWAKE_SECONDS)
            after = await gathered(outside, fleet, stage.ledger)

            assert logs_of(after.stories) == before
            found = check(after)
            note(figures("frozen past the lease", stage.store, after, found))
            assert found.violations == []
            assert any(event.kind == "lease_lost" for story in after.stories for event in story.events)

            assert fleet.stop(second) == 0
            await outside.play_shape(CHAIN, range(30, 40))
            workers = fleet.identities()
            last = [s for s in await outside.stories() if s.events[0].data["input"] >= 30]
            claims = [e.data["worker"] for s in last for e in s.events if e.kind == "claimed"]
            assert {workers[worker] for worker in claims} == {sleeper.pid}

    with stage.fleet() as fleet:
        asyncio.run(story(fleet))


@pytest.mark.slow
@pytest.mark.req("R4")
@pytest.mark.parametrize("stage", ["postgres"], indirect=True)
def test_a_worker_frozen_inside_a_transaction_holds_nobody_up_for_long(stage: Stage) -> None:
    async def story(fleet: Fleet) -> None:
        sleeper = fleet.start(STEPWELL_FAILPOINTS="commit.mid=stop:4")
        fleet.ready(sleeper)
        async with opened(stage.url) as engine:
            since = time.monotonic_ns()
            outside = Outside(engine, spread_seconds=0.0)
            playing = asyncio.ensure_future(outside.play_shape(CHAIN, range(10)))
            await asyncio.sleep(0.5)
            fleet.start()
            async with asyncio.timeout(30.0):
                await playing
            before = logs_of(await outside.stories())
            fleet.note("freeze", sleeper.pid, since)
            sleeper.process.send_signal(signal.SIGCONT)
            await until(lambda: has_new_identity(fleet, sleeper))
            await asyncio.sleep(AWAKE_SECONDS)

            after = await gathered(outside, fleet, stage.ledger)
            found = check(after)
            note(figures("frozen inside a transaction", stage.store, after, found))
            assert logs_of(after.stories) == before
            assert found.violations == []
            assert any(event.kind == "lease_lost" for story in after.stories for event in story.events)

    with stage.fleet() as fleet:
        asyncio.run(story(fleet))
