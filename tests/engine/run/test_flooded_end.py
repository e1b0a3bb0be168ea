"""A run that is about to end does end, however fast messages come in: each is in the log, none is lost."""

from __future__ import annotations

import asyncio

import pytest

from stepwell import Context, workflow
from stepwell.domain.status import Status
from stepwell.errors import RunEnded, SignalLimit
from tests.engines import Engines, all_events, until

SENDERS = 24


@pytest.mark.slow
@pytest.mark.req("K15", "K1")
async def test_flood_of_signals_cannot_keep_a_run_from_its_end(engines: Engines) -> None:
    floods, gate = asyncio.Event(), asyncio.Event()

    async def last_step() -> str:
        floods.set()
        await gate.wait()
        return "done"

    @workflow
    async def ends(ctx: Context) -> str:
        return await ctx.step(last_step)

    async with engines.new(ends) as engine, engines.client() as client:
        run = await engine.start(ends)
        await floods.wait()
        sent: list[str] = []

        async def send(sender: int) -> None:
            number, far = 0, client.handle(run.id)
            while True:
                number += 1
                key = f"{sender}-{number}"
                try:
                    await far.signal("noise", number, id=key)
                except (RunEnded, SignalLimit):
                    return
                sent.append(f"signal/{key}")

        async with asyncio.TaskGroup() as group:
            for sender in range(SENDERS):
                group.create_task(send(sender))
            await until(lambda: len(sent) > 2 * SENDERS)
            gate.set()
            assert await run.result(60) == "done"  # a second most often; they would never stop

        assert await run.status() is Status.COMPLETED
        events = await all_events(run)
        received = [e.data["key"] for e in events if e.kind == "received"]
        assert len(received) == len(set(received))
        assert set(sent) <= set(received) | set(events[-1].data["unconsumed"])
