"""A report each night by a schedule: the nights that were missed are made up for, and none is reported twice.

Run it: it books the sales of a week, schedules the report, and stands in for the nights, as nobody waits for
them here: it backfills the last five and starts one run by hand. It leaves no file.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from stepwell import Context, Engine, step, workflow

TONIGHT = datetime(2025, 3, 31, tzinfo=UTC)  # the clocks of Berlin changed the night before
SALES = {"2025-03-26": [40, 12], "2025-03-27": [7, 8], "2025-03-29": [900, 30, 5], "2025-03-30": [60, 20]}


@step
async def read_sales(day: str) -> list[int]:
    return SALES.get(day, [])


@step
async def send_report(text: str) -> None:
    """Mail it, in real life: see the node `notify`."""


@workflow
async def report(ctx: Context, day: str) -> str:
    sales = await ctx.step(read_sales, day)
    text = f"{day}: {sum(sales)} euros in {len(sales)} orders"
    await ctx.step(send_report, text)
    return text


async def main() -> None:
    async with Engine(":memory:", workflows=[report]) as engine:
        nightly = await engine.schedules.create(
            "nightly",
            report,
            "{{trigger.date}}",
            cron="30 2 * * *",
            timezone="Europe/Berlin",
            missed="all",  # a report for each night at which no worker was there
        )
        print(nightly.words)
        shown = await engine.schedules.preview(
            cron=nightly.cron, timezone=nightly.timezone, after=TONIGHT - timedelta(days=2), count=2
        )
        print("in UTC:", ", ".join(f"{datetime.fromtimestamp(at, UTC):%d %B %H:%M}" for at in shown.times))

        for attempt in ("nights", "nights again"):
            done = await engine.schedules.backfill("nightly", TONIGHT - timedelta(days=5), TONIGHT)
            print(f"{attempt}: {done.slots} slots, {done.started} runs started")
        for run in sorted(await engine.runs(tags={"schedule": "nightly"}), key=lambda run: run.key):
            print(f"  {await engine.handle(run.id).result(30)}")

        today = await engine.schedules.trigger("nightly", by="ana")
        print("by hand:", (await today.result(30)).partition(": ")[2])


if __name__ == "__main__":
    asyncio.run(main())
