"""Events that start runs, as client and worker in one process that may be killed at any point.

Each victim has an event of its own, two triggers of it, and one that refuses every event. It emits until it
is killed; the clean process emits the same ids again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from stepwell import Context, Engine, workflow
from stepwell.errors import TriggerExists
from tests.faults.victims import Plan

EVENTS = 6  # of each victim


@workflow
async def took(ctx: Context, n: int) -> int:
    return n


def event_of(plan: Plan) -> str:
    return f"paid-{plan.number}"


def engine_of(url: str, *queues: str) -> Engine:
    return Engine(url, workflows=[took], queues=queues)


async def subscribe(engine: Engine, plan: Plan) -> None:
    event = event_of(plan)
    for name, condition in (("a", ""), ("b", ""), ("refusing", "trigger.payload")):
        with contextlib.suppress(TriggerExists):
            await engine.triggers.create(
                f"{event}-{name}", took, event=event, queue=plan.queue, condition=condition
            )


async def emit(engine: Engine, plan: Plan) -> None:
    for number in range(EVENTS):
        await engine.emit(event_of(plan), number, id=f"{plan.number}-{number}")


async def visit(url: str, *parts: str) -> None:
    """Run until a failpoint kills this process."""
    plan = Plan(parts[0], int(parts[1]), int(parts[2]))
    async with engine_of(url, plan.queue) as engine, asyncio.timeout(60):
        await subscribe(engine, plan)
        while True:  # a kill at a later hit needs more events than one
            await emit(engine, plan)
            await _ended(engine, plan)


async def finish(url: str, plans: Sequence[Plan]) -> None:
    """Repeat what the victims asked for, and wait until all of it has happened."""
    async with engine_of(url, *(plan.queue for plan in plans)) as engine:
        for plan in plans:
            await subscribe(engine, plan)
            await emit(engine, plan)
        for plan in plans:
            await _ended(engine, plan)


async def _ended(engine: Engine, plan: Plan) -> None:
    while True:
        runs = await engine.runs(trigger="event", queue=plan.queue, limit=100)
        if sum(run.status == "completed" for run in runs) >= 2 * EVENTS:
            refusing = await engine.triggers.get(f"{event_of(plan)}-refusing")
            if refusing.refused >= EVENTS:
                return
        await asyncio.sleep(0.05)
