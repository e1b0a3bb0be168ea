"""SIGSTOP past the lease: another worker takes over, and the frozen one writes nothing when it wakes."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from stepwell import Engine
from tests.faults.checks import Story, check, read_ledger
from tests.faults.client import Outside, gathered, opened, until
from tests.faults.environment import Environment
from tests.faults.figures import figures, note
from tests.faults.fleet import Fleet, LedgerProcess, Worker
from tests.faults.workload import SHAPES
from tools.postgres import processes

CHAIN = next(shape for shape in SHAPES if shape.name == "chain")
pytestmark = pytest.mark.alone
RUNS = 30
MIDWAY = 3 * RUNS  # entries of the ledger: each has done its first step and is in the second, the slow one
TRIES = 20
AWAKE_SECONDS = 1.0


def logs_of(stories: list[Story]) -> dict[str, list[int]]:
    return {story.id: [event.seq for event in story.events] for story in stories}


async def is_writable(engine: Engine) -> bool:
    """A process that is stopped inside a transaction on SQLite blocks every other."""
    try:
        async with asyncio.timeout(1.0):
            await engine.emit("anything")
    except TimeoutError:
        return False
    return True


async def is_midway(ledger: LedgerProcess, before: int) -> bool:
    return len(read_ledger(ledger.file)) >= before + MIDWAY


async def is_stopped(worker: Worker) -> bool:
    return processes.stopped(worker.pid)


async def has_new_identity(fleet: Fleet, worker: Worker) -> bool:
    return list(fleet.identities().values()).count(worker.pid) >= 2


@pytest.mark.slow
@pytest.mark.req("R4", "K5")
def test_a_frozen_worker_writes_nothing_after_its_lease_is_gone(environment: Environment) -> None:
    async def story(fleet: Fleet) -> None:
        sleeper = fleet.start()
        fleet.ready(sleeper)
        async with opened(environment.url) as engine:
            outside = Outside(engine, spread_seconds=0.0)
            for n in range(TRIES):  # until it stops outside a transaction, with runs that it owns
                entries = len(read_ledger(environment.ledger.file))
                playing = asyncio.ensure_future(outside.play_shape(CHAIN, range(n * RUNS, (n + 1) * RUNS)))
                await until(lambda entries=entries: is_midway(environment.ledger, entries))  # type: ignore[misc]  # bound
                with fleet.frozen(sleeper):
                    if await is_writable(engine) and not playing.done():
                        second = fleet.start(STEPWELL_LEASE_SECONDS="60")  # its own status does not matter
                        await playing
                        before = logs_of(await outside.stories())
                        break
                await playing
            else:
                pytest.fail("each time it was stopped inside a transaction")

            await until(lambda: has_new_identity(fleet, sleeper))
            await asyncio.sleep(AWAKE_SECONDS)
            after = await gathered(outside, fleet, environment.ledger)

            assert logs_of(after.stories) == before
            findings = check(after)
            note(figures("frozen past the lease", environment.store, after, findings))
            assert findings.violations == []
            assert any(event.kind == "lease_lost" for story in after.stories for event in story.events)

            assert fleet.stop(second) == 0
            await outside.play_shape(CHAIN, range(TRIES * RUNS, TRIES * RUNS + 10))
            workers = fleet.identities()
            last = [s for s in await outside.stories() if s.events[0].data["input"] >= TRIES * RUNS]
            claims = [e.data["worker"] for s in last for e in s.events if e.kind == "claimed"]
            assert {workers[worker] for worker in claims} == {sleeper.pid}

    with environment.fleet() as fleet:
        asyncio.run(story(fleet))


@pytest.mark.slow
@pytest.mark.req("R4")
@pytest.mark.parametrize("environment", ["postgres"], indirect=True)
def test_a_worker_frozen_inside_a_transaction_holds_nobody_up_for_long(environment: Environment) -> None:
    async def story(fleet: Fleet) -> None:
        sleeper = fleet.start(STEPWELL_FAILPOINTS="commit.mid=stop:4")
        fleet.ready(sleeper)
        async with opened(environment.url) as engine:
            since = time.monotonic_ns()
            outside = Outside(engine, spread_seconds=0.0)
            playing = asyncio.ensure_future(outside.play_shape(CHAIN, range(10)))
            await until(lambda: is_stopped(sleeper))
            fleet.start(STEPWELL_LEASE_SECONDS="60")
            async with asyncio.timeout(60.0):
                await playing
            before = logs_of(await outside.stories())
            fleet.note("freeze", sleeper.pid, since)
            sleeper.process.send_signal(signal.SIGCONT)
            await until(lambda: has_new_identity(fleet, sleeper))
            await asyncio.sleep(AWAKE_SECONDS)

            after = await gathered(outside, fleet, environment.ledger)
            findings = check(after)
            note(figures("frozen inside a transaction", environment.store, after, findings))
            assert logs_of(after.stories) == before
            assert findings.violations == []
            assert any(event.kind == "lease_lost" for story in after.stories for event in story.events)

    with environment.fleet() as fleet:
        asyncio.run(story(fleet))
