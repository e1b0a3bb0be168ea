"""Machines as client and worker in one process, through every transaction of the protocol.

The second transition saves documents, changes the state, does inner steps of each kind, waits for an
event and fails; at its second attempt it succeeds. The third waits for a trigger, the fourth fails until
a person retries it. Another run is cancelled in the middle of a transition; a fork is made and removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepwell import (
    Context,
    Engine,
    Machine,
    Permanent,
    Retry,
    RunHandle,
    StepContext,
    step,
    transition,
    workflow,
)
from stepwell.domain.commit import WorkerInfo
from stepwell.domain.ids import WorkerId
from stepwell.errors import AlreadyDecided, NotRetryable, RunEnded, RunError, WrongPlace
from tests.faults.fleet import LEASE_SECONDS
from tests.faults.rerouted import reroute
from tests.faults.victims import Plan

EFFECTS = "MACHINE_EFFECTS"  # a file: one line for each execution of a step
BEAT_SECONDS = 0.4  # longer than a heartbeat
LOOK_SECONDS = 0.03
KEPT = {"receipt": 2, "slip": 7}
DOCUMENTS = [{}, KEPT, KEPT, KEPT]  # visible after each checkpoint
_BOOKED: dict[str, Any] = {"opened": 1, "booked": 7, "far": 8, "settled": 9, "weather": "fine"}
STATES: list[dict[str, Any]] = [
    {"opened": 1},
    _BOOKED,
    {**_BOOKED, "by": "ana"},
    {**_BOOKED, "by": "ana", "shipped": 2},
]
PLACES = ["work", "review", "packed", "end"]


def _note(ctx: StepContext) -> None:
    with open(os.environ[EFFECTS], "a", encoding="ascii") as file:
        file.write(f"{ctx.run_id} {ctx.path} {ctx.attempt}\n")


@step
def book(ctx: StepContext, n: int) -> int:
    _note(ctx)
    ctx.save("slip", n)
    return n


@step
def weigh(ctx: StepContext, n: int) -> int:
    _note(ctx)
    return n + 1


@step(transactional=True)
def settle(connection: Any, n: int) -> int:
    return n + 1


@dataclass
class Order:
    far: str  # the queue of its remote step
    stops: bool = False


class Booking(Machine[dict[str, Any]]):
    @transition("start", "work")
    async def open(self, ctx: Context) -> None:
        self.state["opened"] = 1

    @transition("work", "review", retry=Retry(2, delay=0.02))
    async def prepare(self, ctx: Context, order: Order) -> None:
        attempt = ctx.attempt
        ctx.save("receipt", attempt)
        if attempt == 1:
            self.state["half"] = "done"
            ctx.save("scrap", "of a failed attempt")
        self.state["booked"] = n = await ctx.step(book, 7)
        if order.stops:
            await ctx.signal("never")
        self.state["far"] = n = await ctx.step.on(queue=order.far)(weigh, n)
        self.state["settled"] = await ctx.step(settle, n)
        self.state["weather"] = await ctx.event("weather", key=ctx.run_id)
        if attempt == 1:
            raise ValueError("after most of the work")
        await ctx.sleep(BEAT_SECONDS)

    @transition("review", "packed", wait=str)
    async def approve(self, ctx: Context, by: str) -> None:
        self.state["by"] = by

    @transition("packed", "end")
    async def ship(self, ctx: Context) -> None:
        self.state["shipped"] = ctx.attempt
        if ctx.attempt == 1 and "copied" not in self.state:
            ctx.save("scrap", "of a failed attempt")
            raise Permanent("not before a person says so")


@workflow
async def retired(ctx: Context) -> None:
    """Disabled and enabled again, never started."""


def opened(url: str, plans: Sequence[Plan]) -> Engine:
    queues = [queue for plan in plans for queue in (plan.queue, _far(plan))]
    return Engine(url, workflows=[Booking, retired], steps=[weigh], queues=queues)


def _far(plan: Plan) -> str:
    return f"{plan.queue}.far"


async def visit(url: str, *planned: Any) -> None:
    plan = Plan(*planned)
    async with opened(url, [plan]) as engine:
        if plan.point.startswith("reap."):
            await asyncio.sleep(LEASE_SECONDS * 1.5)  # in touch for a lease, so that silence counts
            await engine.store.reap()
        await _lived(engine, plan)
        if plan.point.startswith("purge."):
            await engine.store.purge(0.0)


async def finish(url: str, plans: Sequence[Plan]) -> None:
    async with opened(url, plans) as engine:
        await asyncio.gather(*(_lived(engine, plan) for plan in plans))


async def _lived(engine: Engine, plan: Plan) -> None:
    """Both runs until their ends, and a copy of the first."""
    queue = plan.queue
    await engine.set_limit("queue", queue, 5)
    await engine.disable(retired)
    await engine.enable(retired)
    await engine.keys.create("ann")
    await _operated(engine, queue)
    await engine.set_start_rate("workflow", 1000)
    run = await engine.start(Booking, Order(_far(plan)), key=f"booking/{queue}", queue=queue)
    await engine.drop_start_rate("workflow")
    other = await engine.start(Booking, Order(_far(plan), True), key=f"stopped/{queue}", queue=queue)
    while (await run.status()) != "completed":
        await _help(engine, run)
        await asyncio.sleep(LOOK_SECONDS)
    while not (await other.status()).terminal:
        if any(wait.name == "never" for wait in await other.waits()):
            await other.cancel()
        await asyncio.sleep(LOOK_SECONDS)
    await engine.drop_limit("queue", queue)
    await reroute(engine, Booking, Order(_far(plan)), key=f"rerouted/{queue}", queue=queue)
    await _copied(engine, run, queue)


async def _operated(engine: Engine, queue: str) -> None:
    """A run that nobody claims in this script is held, released and ended by force."""
    run = await engine.start(retired, key=f"operated/{queue}", queue="nobody")
    guest = WorkerInfo(id=WorkerId(f"guest/{queue}"), lease_seconds=LEASE_SECONDS)
    await engine.store.register(guest)
    await engine.drain(guest.id)
    await engine.store.deregister(guest.id)
    await engine.hold("queue", "nobody")
    await engine.release("queue", "nobody")
    with contextlib.suppress(RunEnded):
        await run.hold()
        await run.release()
    await run.cancel(force=True)


async def _help(engine: Engine, run: RunHandle[Any]) -> None:
    """What users and other systems do for the run at its current place."""
    with contextlib.suppress(AlreadyDecided, WrongPlace, RunEnded, NotRetryable):
        state = await run.state()
        for wait in state.waits.values():
            if wait.what == "trigger":
                await run.trigger("approve", "ana", by="ana")
            elif wait.what == "event":
                await engine.emit("weather", "fine", key=run.id, id=f"weather/{run.id}")
        if state.status == "failed":
            await run.retry()


async def _copied(engine: Engine, run: RunHandle[Any], queue: str) -> None:
    """A run is made from this one's third checkpoint, and removed."""
    third = (await run.checkpoints())[2]
    copy = await engine.fork(run, at=third.seq, state={**STATES[2], "copied": 1}, key=f"copy/{queue}")
    with contextlib.suppress(RunError):
        await copy.result()
    await copy.delete()
