"""Workload: workflows of mixed shape whose steps report to the ledger, and the expected results.

A workflow takes a number and returns one, so that a wrong, missing or repeated result shows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwell import Context, Retry, StepContext, SyncContext, Workflow, step, workflow
from tests.faults.ledger_client import effect, effect_in_thread

FAR = "far"  # the queue of remote steps
STORE_VARIABLE = "FAULTS_STORE"
SLOW_STEP_SECONDS = 0.3
KEPT_TABLE = "faults_kept"

SOON = Retry(6, delay=0.05, backoff="fixed")


@step
async def add(ctx: StepContext, value: int, more: int) -> int:
    await effect(ctx)
    return value + more


@step
async def add_slowly(ctx: StepContext, value: int, more: int) -> int:
    await effect(ctx, mode="slow", seconds=SLOW_STEP_SECONDS)
    return value + more


@step
def add_in_thread(ctx: StepContext, value: int, more: int) -> int:
    effect_in_thread(ctx, mode="idempotent")
    return value + more


@step
async def double(ctx: StepContext, value: int) -> int:
    await effect(ctx, mode="idempotent")
    return value * 2


@step(retry=SOON)
async def stumble_twice(ctx: StepContext, value: int) -> int:
    await effect(ctx)
    if ctx.attempt <= 2:
        raise ConnectionError(f"attempt {ctx.attempt} stumbles")
    return value + 1


@step
async def add_far(ctx: StepContext, value: int, more: int) -> int:
    await effect(ctx)
    return value + more


@step(queue=FAR, retry=SOON)
async def stumble_far(ctx: StepContext, value: int) -> int:
    await effect(ctx)
    if ctx.attempt <= 1:
        raise ConnectionError("the first attempt stumbles")
    return value + 1


@step(name="keep", transactional=True)
def keep_in_sqlite(connection: Any, run: str, value: int) -> int:
    connection.execute(f"CREATE TABLE IF NOT EXISTS {KEPT_TABLE} (run TEXT, value INTEGER)")
    connection.execute(f"INSERT INTO {KEPT_TABLE} (run, value) VALUES (?, ?)", (run, value))
    return value + 1


@step(name="keep", transactional=True)
async def keep_in_postgres(connection: Any, run: str, value: int) -> int:
    await connection.execute(f"INSERT INTO {KEPT_TABLE} (run, value) VALUES ($1, $2)", run, value)
    return value + 1


keep: Any = keep_in_postgres if os.environ.get(STORE_VARIABLE) == "postgres" else keep_in_sqlite


@workflow
async def chain(ctx: Context, n: int) -> int:
    n = await ctx.step(add, n, 1)
    n = await ctx.step(add_slowly, n, 2)
    n = await ctx.step(add_in_thread, n, 3)
    return await ctx.step(add, n, 4)


@workflow
async def fan(ctx: Context, n: int) -> int:
    async def branch(value: int) -> int:
        value = await ctx.step(add, value, 1)
        return await ctx.step(add_slowly, value, 1)

    left, right = await asyncio.gather(branch(n), branch(n + 100))
    doubled = await ctx.map(double, range(6), limit=3)
    return left + right + sum(doubled)


@workflow
async def naps(ctx: Context, n: int) -> int:
    n = await ctx.step(add, n, 1)
    await ctx.sleep(n % 7 * 0.5)
    return await ctx.step(add, n, 1)


@workflow
async def talk(ctx: Context, n: int) -> int:
    n = await ctx.step(add, n, 1)
    n += await ctx.signal("early", int)
    n = await ctx.step(add, n, 1)
    n += await ctx.signal("late", int)
    return await ctx.step(add, n, 1)


@workflow
async def family(ctx: Context, n: int) -> int:
    slow = await ctx.start(naps, n)
    first = await ctx.run(chain, n)
    second = await slow.result()
    return await ctx.step(add, first, second)


@workflow
async def stumble(ctx: Context, n: int) -> int:
    n = await ctx.step(stumble_twice, n)
    return await ctx.step(add, n, 1)


@workflow
async def far(ctx: Context, n: int) -> int:
    n = await ctx.step.on(queue=FAR)(add_far, n, 1)
    n = await ctx.step(stumble_far, n)
    return await ctx.step(add, n, 1)


@workflow
async def race(ctx: Context, n: int) -> int:
    async def later() -> int:
        await ctx.sleep(60)
        return -1000

    n = await ctx.first(ctx.step(add_slowly, n, 1), later())
    return await ctx.step(add, n, 1)


@workflow
async def keeping(ctx: Context, n: int) -> int:
    n = await ctx.step(add, n, 1)
    n = await ctx.step(keep, ctx.run_id, n)
    return await ctx.step(add, n, 1)


@workflow
def plain(ctx: SyncContext, n: int) -> int:
    n = ctx.step(add, n, 1)
    ctx.sleep(0.3)
    return ctx.step(add_in_thread, n, 1)


@workflow
async def news(ctx: Context, n: int) -> int:
    n = await ctx.step(add, n, 1)
    n += await ctx.event("weather", key=ctx.run_id)
    return await ctx.step(add, n, 1)


@workflow
async def rounds(ctx: Context, n: int) -> int:
    n = await ctx.step(add, n, 1)
    if n % 4:
        ctx.continue_as_new(n)
    return await ctx.step(add, n, 1)


@workflow
async def stopped(ctx: Context, n: int) -> int:
    try:
        await ctx.sleep(600)
    finally:
        await ctx.step(add, n, 1)
    return n


@dataclass(frozen=True, slots=True)
class Shape:
    workflow: Workflow[int, int]
    expected: Callable[[int], int | None]  # None: it is cancelled

    @property
    def name(self) -> str:
        return self.workflow.definition.name


def _napped(n: int) -> int:
    return n + 2


def _chained(n: int) -> int:
    return n + 10


SHAPES = (
    Shape(chain, _chained),
    Shape(fan, lambda n: 2 * n + 104 + 30),
    Shape(naps, _napped),
    Shape(talk, lambda n: n + 3 + 10 + 20),
    Shape(family, lambda n: _chained(n) + _napped(n)),
    Shape(stumble, lambda n: n + 2),
    Shape(far, lambda n: n + 3),
    Shape(race, lambda n: n + 2),
    Shape(keeping, lambda n: n + 3),
    Shape(plain, lambda n: n + 2),
    Shape(news, lambda n: n + 2 + 5),
    Shape(rounds, lambda n: n // 4 * 4 + 4 + 1),
    Shape(stopped, lambda n: None),
)
WORKFLOWS = [shape.workflow for shape in SHAPES]
STEPS = [add_far, stumble_far]
EFFECTS = {
    "add",
    "add_slowly",
    "add_in_thread",
    "double",
    "stumble_twice",
    "add_far",
    "stumble_far",
}
REMOTE = {"add_far", "stumble_far"}
