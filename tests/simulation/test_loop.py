"""The simulated loop itself: time jumps, a crash runs no `finally`, a freeze only delays."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.simulation.simulator.loop import Process, SimLoop, Stalled


def loop() -> SimLoop:
    return SimLoop(random.Random(1))  # type: ignore[abstract]  # no sockets, no threads


@pytest.mark.req("R1")
def test_time_jumps_to_the_next_timer() -> None:
    sim = loop()

    sim.run(asyncio.sleep(86_400))

    assert sim.time() == 86_400
    assert sim.handles < 10


@pytest.mark.req("R1")
def test_a_crashed_process_runs_no_cleanup() -> None:
    sim, process, said = loop(), Process("p"), []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            said.append("cleaned up")

    async def main() -> None:
        sim.spawn(process, work())
        await asyncio.sleep(1)
        sim.crash(process)
        await asyncio.sleep(100)

    sim.run(main())

    assert said == []
    sim.dispose()


@pytest.mark.req("R1")
def test_a_frozen_process_goes_on_when_it_is_thawed() -> None:
    sim, process, said = loop(), Process("p"), []

    async def work() -> None:
        await asyncio.sleep(2)
        said.append(sim.time())

    async def main() -> None:
        sim.spawn(process, work())
        await asyncio.sleep(1)
        sim.freeze(process)
        await asyncio.sleep(50)
        assert said == []
        sim.thaw(process)
        await asyncio.sleep(1)

    sim.run(main())

    assert said == [51.0]


@pytest.mark.req("R1")
def test_steps_belong_to_the_process_that_started_them() -> None:
    """A step's task has an empty context, but the loop still knows its process."""
    import contextvars

    sim, process, seen = loop(), Process("p"), []

    async def step() -> None:
        await asyncio.sleep(1)
        seen.append(sim.current.name)

    async def work() -> None:
        await sim.create_task(step(), context=contextvars.Context())

    async def main() -> None:
        await sim.spawn(process, work())

    sim.run(main())

    assert seen == ["p"]


@pytest.mark.req("R1")
def test_a_world_without_events_is_noticed() -> None:
    sim = loop()

    async def main() -> None:
        await sim.create_future()

    with pytest.raises(Stalled):
        sim.run(main())
    sim.dispose()
