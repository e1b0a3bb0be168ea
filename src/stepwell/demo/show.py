"""The demo itself: a folder with a database, two workers, a server with Studio, and a few runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepwell.app import Engine
from stepwell.client import RunHandle
from stepwell.demo import workflows
from stepwell.demo.routes import demo_routes
from stepwell.demo.story import DemoStory
from stepwell.demo.workers import DemoWorkers
from stepwell.server.app import ServerApp, asgi
from stepwell.server.listener import Listener

_HISTORY = 10_000  # events in the long run


async def show(
    folder: Path,
    listener: socket.socket,
    ready: Callable[[ServerApp], None],
    say: Callable[[str], None],
    *,
    history: int = _HISTORY,
) -> None:
    """Serve the demo until a signal comes, then stop its workers gracefully."""
    database = str(folder / "demo.db")
    workers = DemoWorkers(database, folder)
    engine = Engine(database, workflows=workflows.WORKFLOWS, steps=workflows.STEPS, worker=False)
    story = DemoStory(engine, workers, say)
    app = asgi(engine, more=demo_routes(workers, story))
    server = Listener(app)

    async def tell() -> None:
        story.seeded = await seed(engine, history)
        await story.play()

    try:
        async with engine, asyncio.TaskGroup() as group:
            workers.start()
            ready(app)
            tasks = [group.create_task(each) for each in (tell(), story.supervise())]
            await server.serve(sockets=[listener])
            for task in tasks:
                task.cancel()
    finally:
        workers.stop()


async def seed(engine: Engine, history: int) -> dict[str, str]:
    """Start one run of every kind and status, and return their ids by key.

    Because of the keys, a second start in the same folder finds the runs of the first.
    """
    seeded: dict[str, str] = {}

    async def start(name: str, input: Any, key: str, **options: Any) -> RunHandle[Any]:
        run = await engine.start(name, input, key=key, **options)
        seeded[key] = run.id
        return run

    boxes = list(workflows.BOXES[:2])
    await start("order_fulfilment", {"order": workflows.DECLINED, "boxes": boxes}, "order-8841")
    await start("refund_approval", 48, "refund-7781")
    await start("nightly_report", "2026-11-16", "report-1116")
    await start("parcel_release", {"order": "8839", "parcels": 2}, "release-8839")
    await start("parcel_release", {"order": "8840", "parcels": 9}, "release-8840")
    await start("nightly_report", "2026-11-18", "report-1118", delay="6h")
    await start("carrier_pickup", workflows.UNREACHED, "pickup-311", timeout="2s")
    called_off = await start("carrier_pickup", "parcel 312", "pickup-312")
    await called_off.cancel("the customer came by", by="ana")
    await engine.start_graph(workflows.STOCK_COUNT, {}, key="stock-1117")
    if history:
        await start("catalogue_import", history, "import-1117")
    return seeded
