"""All transactions: a short script that makes every transaction, as client and worker in one process.

    python -m tests.faults.all_transactions visit URL       the whole script; STEPWELL_FAILPOINTS may kill it
    python -m tests.faults.all_transactions reap URL        meets a dead worker's row and reaps it
    python -m tests.faults.all_transactions finish URL ...  a clean process continues what others left

Every call has a key, so that repeating it is harmless. Answers are printed at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from stepwell import (
    Context,
    Engine,
    Permanent,
    RunFailed,
    RunHandle,
    StepContext,
    Workflow,
    create_record,
    step,
    workflow,
)
from stepwell.domain.commit import WorkerInfo
from stepwell.domain.ids import WorkerId
from stepwell.errors import NotRetryable, NotSkippable, RunCancelled, RunEnded, TriggerExists
from stepwell.secrets.keyring import Keyring
from tests.faults.fleet import LEASE_SECONDS
from tests.faults.ledger_client import effect
from tests.faults.rerouted import reroute
from tests.faults.workload import FAR, add, add_far, keep, stopped

FINISH_SECONDS = 60.0
BEAT_SECONDS = 0.7  # longer than a heartbeat
HELD_SECONDS = 5.0  # until a run would begin that is held; less than a script takes, and what follows it


@step
async def fail_at_first(ctx: StepContext, n: int) -> int:
    await effect(ctx)
    if ctx.attempt == 1:
        raise Permanent("not this time")
    return n + 1


@step
async def fail_always(n: int) -> int:
    raise Permanent("never")


@workflow
async def little(ctx: Context, n: int) -> int:
    return await ctx.step(add, n, 1)


@workflow
async def everything(ctx: Context, n: int) -> int:
    n = await ctx.step(add, n, 1)
    n = await ctx.step(keep, ctx.run_id, n)
    await ctx.step(create_record, "kept", {"run": ctx.run_id})  # a second one would fail: the key is taken
    n = await ctx.step.on(queue=FAR)(add_far, n, 1)
    n += await ctx.signal("go", int)
    n += await ctx.event("weather", key=ctx.run_id)
    n = await ctx.run(little, n)
    await ctx.sleep(BEAT_SECONDS)
    return await ctx.step(add, n, 1)


@workflow
async def second_chance(ctx: Context, n: int) -> int:
    return await ctx.step(fail_at_first, n)


@workflow
async def skipped(ctx: Context, n: int) -> int:
    return await ctx.step(fail_always, n)


@workflow
async def retired(ctx: Context, n: int) -> int:
    """Disabled before anything else happens, and never started."""
    return n


@workflow
async def held(ctx: Context, n: int) -> int:
    """Held before anybody claims it, and never released."""
    return n


@workflow
async def held_too(ctx: Context, n: int) -> int:
    """Started when its workflow is held, which is never released."""
    return n


@workflow
async def forced(ctx: Context, n: int) -> int:
    """Ended by force while it waits."""
    return await ctx.signal("never", int)


WORKFLOWS: list[Workflow[int, int]] = [
    *(everything, forced, held, held_too, little, retired, second_chance, skipped, stopped)
]
EXPECTED = {"everything": 1 + 3 + 10 + 5 + 1 + 1, "second_chance": 2, "stopped": None}


def report(*words: str) -> None:
    print(*words, flush=True)


async def visit(engine: Engine) -> None:
    await engine.records.define("kept", key="run")
    await engine.records.create("kept", {"run": "visited"}, id="visited")
    await engine.disable(retired, by="ann", reason="replaced")
    report("disabled", "retired")
    await engine.keys.create("ann", by="ann")
    await _operated(engine)
    run = await engine.start(everything, 1, key="everything")
    report("started", "everything", run.id)
    with contextlib.suppress(RunEnded):
        await run.signal("go", 10, id="go")
        report("signalled", run.id)
    while not (await run.info()).status.terminal:
        if any(wait.name == "weather" for wait in await run.waits()):
            await engine.emit("weather", 5, key=run.id, id="weather-1")
            report("emitted", run.id)
            break
        await asyncio.sleep(0.02)
    other = await engine.start(stopped, 1, key="stopped")
    report("started", "stopped", other.id)
    await other.cancel()
    with contextlib.suppress(RunCancelled):
        await other.result()
    await _second_chance(engine)
    await _copied(engine)
    await _scheduled(engine)
    engine.keyring = Keyring({"k": b"k" * 32}, current="k")
    await engine.secrets.set("shop", "a value of a secret")
    await reroute(engine, little, 1, key="rerouted")
    await run.result()


async def _operated(engine: Engine) -> None:
    """One run is held before it is due, another one is ended by force."""
    kept = await engine.start(held, 1, key="held", delay=HELD_SECONDS)
    with contextlib.suppress(RunEnded):  # if we died before the hold, it has begun meanwhile
        await kept.hold(by="ann", reason="check the price")
        report("held", kept.id)
    await engine.store.register(WorkerInfo(id=WorkerId("guest"), lease_seconds=LEASE_SECONDS))
    await engine.drain("guest", by="ann")
    await engine.store.deregister(WorkerId("guest"))
    await engine.hold("workflow", "held_too", by="ann", reason="audit")
    report("held_workflow", "held_too")
    await engine.start(held_too, 1, key="held_too")
    failing: RunHandle[int] = await engine.start(skipped, 1, key="skipped")
    await _ended(failing)
    with contextlib.suppress(NotSkippable):  # if we died after it
        await failing.skip(5, by="ann", reason="counted by hand")
        report("skipped", failing.id)
    assert await failing.result() == 5
    other = await engine.start(forced, 1, key="forced")
    await other.cancel("hangs", by="ann", force=True)
    report("forced", other.id)


async def _second_chance(engine: Engine) -> None:
    run: RunHandle[int] = await engine.start(second_chance, 1, key="second_chance")
    report("started", "second_chance", run.id)
    await _ended(run)
    with contextlib.suppress(NotRetryable):
        await run.retry()
        report("retried", run.id)
    await _ended(run)


async def _copied(engine: Engine) -> None:
    """Make a run with limits from another one, then remove the copy and everything that is old."""
    await engine.set_limit("workflow", "little", 5)
    await engine.set_start_rate("workflow", 1000)
    run = await engine.start(little, 1, key="copied")
    await engine.drop_start_rate("workflow")
    await run.result()
    await engine.drop_limit("workflow", "little")
    copy = await engine.rerun(run, key="copy")
    await copy.result()
    await copy.delete()
    await engine.store.purge(1e9)
    await engine.store.purge_events(1e9)


async def _scheduled(engine: Engine) -> None:
    """Start a run each second by a schedule; a process may die at any point of it."""
    with contextlib.suppress(TriggerExists):
        await engine.schedules.create("ticks", little, 1, every=1, overlap="allow", missed="all")
    while True:
        if len(await engine.runs(trigger="schedule", status="completed")) >= 2:
            break
        await asyncio.sleep(0.02)
    await engine.schedules.delete("ticks")
    with contextlib.suppress(TriggerExists):
        await engine.triggers.create("unclear", little, event="unclear", condition="trigger.payload")
    await engine.emit("unclear", 1, id="unclear-1")  # its payload is not a condition: refused
    while True:
        if (await engine.triggers.get("unclear")).refused:
            break
        await asyncio.sleep(0.02)


async def _ended(run: RunHandle[int]) -> None:
    with contextlib.suppress(RunFailed):
        await run.result()


def engine_for(url: str) -> Engine:
    return Engine(url, workflows=WORKFLOWS, steps=[add_far], queues=["default", FAR])


async def finish(url: str, turns: asyncio.Semaphore) -> None:
    async with turns, asyncio.timeout(FINISH_SECONDS), engine_for(url) as engine:
        await visit(engine)


async def main(what: str, *urls: str) -> None:
    if what == "finish":
        turns = asyncio.Semaphore(16)  # ten connections each, and a server accepts 200
        done = await asyncio.gather(*(finish(url, turns) for url in urls), return_exceptions=True)
        for url, error in zip(urls, done, strict=True):
            if error is not None:
                report("stuck", url, repr(error))
        return
    async with engine_for(urls[0]) as engine:
        if what == "reap":
            await asyncio.sleep(LEASE_SECONDS * 1.5)  # in touch for a lease, so that silence counts
            await engine.store.reap()
        await visit(engine)
    report("unharmed")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
