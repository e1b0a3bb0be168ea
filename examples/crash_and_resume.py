"""An order is charged, labelled and shipped. Halfway through, the process is killed with `kill -9`.

Run it: the first process dies right after the labels; the second one continues where it stopped. The
file `crash_and_resume.db` remains, so you can read the log with any SQLite shell.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stepwell import Context, Engine, Retry, StepContext, step, workflow

DATABASE = "crash_and_resume.db"


@dataclass
class Order:
    id: str
    items: list[str]
    cents: int


@step(retry=Retry(5, delay="1s", max_delay="30s"), timeout="20s")
async def charge(ctx: StepContext, order: Order) -> str:
    print(f"    charging {order.cents / 100:.2f} (idempotency key {ctx.key})", flush=True)
    return f"receipt-{order.id}"


@step
async def make_label(item: str) -> str:
    print(f"    printing a label for {item}", flush=True)
    return f"label:{item}"


@step
def ship(labels: list[str]) -> str:
    print(f"    shipping {len(labels)} parcels", flush=True)
    return "TRACK-1"


@workflow
async def fulfil(ctx: Context, order: Order) -> str:
    receipt = await ctx.step(charge, order)
    labels = await ctx.map(make_label, order.items, limit=10)
    await ctx.sleep("1s")
    if os.environ.get("CRASH"):
        print("    kill -9, halfway through the workflow", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    tracking = await ctx.step(ship, labels)
    return f"{receipt} sent as {tracking}"


async def first_life() -> None:
    async with Engine(DATABASE, workflows=[fulfil]) as engine:
        run = await engine.start(fulfil, Order("42", ["book", "lamp", "tea"], 4200), key="order-42")
        await run.result()


async def second_life() -> None:
    async with Engine(DATABASE, workflows=[fulfil]) as engine:
        # Same key and input: this is the same run, not a second order.
        run = await engine.start(fulfil, Order("42", ["book", "lamp", "tea"], 4200), key="order-42")
        print(f"  result: {await run.result()}")
        print("  the log:")
        async for event in run.events():
            print(f"    {event.seq:>2} {event.kind:<16} {event.path}")


def main() -> None:
    for leftover in Path().glob(f"{DATABASE}*"):
        if leftover.is_file():
            leftover.unlink()
    print("first process:", flush=True)
    first = subprocess.run([sys.executable, __file__, "first"], env={**os.environ, "CRASH": "1"}, check=False)
    print(f"  it died with signal {-first.returncode}")
    print("second process:", flush=True)
    second = subprocess.run([sys.executable, __file__, "second"], check=True)
    assert second.returncode == 0
    print(f"charged once, labelled once, shipped once. Look: sqlite3 {DATABASE} 'SELECT * FROM event_view'")


if __name__ == "__main__":
    lives = {"first": first_life, "second": second_life}
    if len(sys.argv) > 1:
        asyncio.run(lives[sys.argv[1]]())
    else:
        main()
