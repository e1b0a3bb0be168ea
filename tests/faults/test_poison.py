"""A step that kills its worker is set aside by name after three workers; the other runs continue."""

from __future__ import annotations

import asyncio

import pytest

from stepwell import Engine, RunFailed
from tests.faults.checks import read_ledger
from tests.faults.environment import Environment
from tests.faults.figures import Figures, note
from tests.faults.fleet import Fleet
from tests.faults.poison_work import WORKFLOWS, doomed, innocent


async def replace_the_dead(fleet: Fleet, deaths: list[int]) -> None:
    while True:
        for worker in fleet.find_dead():
            deaths.append(worker.process.returncode)
            fleet.workers.remove(worker)
            fleet.start()
        await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.req("K33", "R3")
def test_a_step_that_kills_its_workers_is_set_aside_and_the_others_go_on(environment: Environment) -> None:
    async def story(fleet: Fleet) -> None:
        deaths: list[int] = []
        fleet.start()
        fleet.start()
        async with Engine(environment.url, workflows=WORKFLOWS, worker=False) as engine:
            nursing = asyncio.ensure_future(replace_the_dead(fleet, deaths))
            others = [await engine.start(innocent, n) for n in range(10)]
            bad = await engine.start(doomed, 1)

            with pytest.raises(RunFailed) as failure:
                await bad.result(timeout=60.0)
            results = [await other.result(timeout=60.0) for other in others]
            events = [event async for event in bad.events()]
            for _ in range(200):  # the last death may not have been seen yet
                if len(deaths) >= 3:
                    break
                await asyncio.sleep(0.05)
            nursing.cancel()

        note(
            Figures(
                what="a step that kills its worker",
                store=environment.store,
                faults={"workers killed by their own step": len(deaths)},
                runs=len(others) + 1,
                condemned=1,
            )
        )
        error = events[-1].data["error"]
        assert error["code"] == "WORKER_CRASHED"
        assert error["path"] == "0/deadly#1"
        assert "deadly" in str(failure.value)
        assert results == [n + 5 for n in range(10)]
        assert deaths == [-9, -9, -9]
        entries = [e for e in read_ledger(environment.ledger.file) if e.run == bad.id and "deadly" in e.path]
        assert [e.phase for e in entries].count("start") == 3, "alone the third time, and never again"

    with environment.fleet("tests.faults.poison_work") as fleet:
        asyncio.run(story(fleet))
