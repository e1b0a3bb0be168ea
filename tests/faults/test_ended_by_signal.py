"""SIGTERM, and SIGKILL before the grace time is over: the platform ended the worker, not one of its runs."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from stepwell import Engine
from tests.faults.client import until
from tests.faults.environment import Environment
from tests.faults.fleet import Fleet
from tests.faults.patient_work import WORKFLOWS, outlasts

DEATHS = 4
LONG = {"STEPWELL_GRACE_SECONDS": "60"}


async def has_begun(file: Path, times: int) -> bool:
    return await asyncio.to_thread(lambda: file.exists() and len(file.read_text()) >= times)


async def is_leaving(log: Path) -> bool:
    return "stops" in await asyncio.to_thread(log.read_text)


@pytest.mark.slow
@pytest.mark.req("K41", "K34")
def test_a_worker_that_is_killed_after_sigterm_makes_no_suspect_of_its_runs(environment: Environment) -> None:
    file, gate = environment.folder / "begun", environment.folder / "gate"

    async def story(fleet: Fleet) -> None:
        async with Engine(environment.url, workflows=WORKFLOWS, worker=False) as engine:
            run = await engine.start(outlasts, [str(file), str(gate)])
            for death in range(1, DEATHS + 1):
                worker = fleet.start(**LONG)
                await until(lambda: has_begun(file, death))  # noqa: B023  # awaited at once
                worker.process.send_signal(signal.SIGTERM)
                await until(lambda: is_leaving(worker.log))  # noqa: B023
                fleet.kill(worker)
            gate.touch()
            fleet.start(**LONG)

            assert await run.result(timeout=60.0) == "done"

            kinds = [event.kind async for event in run.events()]
            assert "lease_lost" in kinds

    with environment.fleet("tests.faults.patient_work") as fleet:
        asyncio.run(story(fleet))
