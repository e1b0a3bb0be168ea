"""A machine as client and worker in one process: `python -m tests.faults.machine_work visit|finish URL ...`.

Its second transition changes the state, saves documents, does an inner step and fails, then succeeds
at the second attempt; its third waits for a trigger. STEPWELL_FAILPOINTS may kill the process anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any

from stepwell import Context, Engine, Machine, Retry, StepContext, step, transition
from stepwell.errors import AlreadyDecided, RunEnded, WrongPlace

EFFECTS = "MACHINE_EFFECTS"  # a file: one line for each execution of the step
FINISH_SECONDS = 60.0
DOCUMENTS = [{}, {"receipt": 2}, {"receipt": 2}]  # after each checkpoint
STATES = [{"opened": 1}, {"opened": 1, "booked": 7}, {"opened": 1, "booked": 7, "by": "ana"}]


@step
def book(ctx: StepContext, n: int) -> int:
    with open(os.environ[EFFECTS], "a", encoding="ascii") as file:
        file.write(f"{ctx.run_id} {ctx.path} {ctx.attempt}\n")
    return n


class Booking(Machine[dict[str, Any]]):
    @transition("start", "work")
    async def open(self, ctx: Context) -> None:
        self.state["opened"] = 1

    @transition("work", "review", retry=Retry(2, delay=0.02))
    async def prepare(self, ctx: Context) -> None:
        attempt = ctx.attempt
        ctx.save("receipt", attempt)
        if attempt == 1:
            self.state["half"] = "done"
            ctx.save("scrap", "of a failed attempt")
        self.state["booked"] = await ctx.step(book, 7)
        if attempt == 1:
            raise ValueError("after half of the work")

    @transition("review", "end", wait=str)
    async def approve(self, ctx: Context, by: str) -> None:
        self.state["by"] = by


async def visit(engine: Engine) -> None:
    run = await engine.start(Booking, None, key="booking")
    while not (await run.status()).terminal:
        if any(wait.what == "trigger" for wait in await run.waits()):
            with contextlib.suppress(AlreadyDecided, WrongPlace, RunEnded):
                await run.trigger("approve", "ana", by="ana")
        await asyncio.sleep(0.02)
    await run.result()


async def finish(url: str, turns: asyncio.Semaphore) -> None:
    async with turns, asyncio.timeout(FINISH_SECONDS), Engine(url, workflows=[Booking]) as engine:
        await visit(engine)


async def main(what: str, *urls: str) -> None:
    if what == "visit":
        async with Engine(urls[0], workflows=[Booking]) as engine:
            await visit(engine)
        print("unharmed", flush=True)
        return
    turns = asyncio.Semaphore(8)
    done = await asyncio.gather(*(finish(url, turns) for url in urls), return_exceptions=True)
    for url, error in zip(urls, done, strict=True):
        if error is not None:
            print("stuck", url, repr(error), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
