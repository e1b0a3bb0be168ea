"""The demo itself: a folder with a database, two workers, a server with Studio, and a few runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepwell.app import Engine
from stepwell.demo import workflows
from stepwell.demo.routes import demo_routes
from stepwell.demo.workers import DemoWorkers
from stepwell.server.app import ServerApp, asgi
from stepwell.server.listener import Listener

_HISTORY = 10_000  # events of the long run


async def show(
    folder: Path, listener: socket.socket, ready: Callable[[ServerApp], None], *, history: int = _HISTORY
) -> None:
    """Serve the demo until a signal comes; then stop its workers, which leave nothing half done."""
    database = str(folder / "demo.db")
    workers = DemoWorkers(database, folder)
    engine = Engine(database, workflows=_known(), steps=_steps(), worker=False)
    app = asgi(engine, more=demo_routes(workers))
    try:
        async with asyncio.TaskGroup() as group:

            def started(_: str) -> None:
                workers.start()
                group.create_task(seed(engine, history))
                ready(app)

            await Listener(app).serve_engine(engine, listener, started)
    finally:
        workers.stop()


def _known() -> list[Any]:
    return [
        workflows.nightly_report,
        workflows.checkout,
        workflows.RefundApproval,
        workflows.catalogue_import,
        workflows.order_fulfilment,
    ]


def _steps() -> list[Any]:
    return [workflows.load_order, workflows.print_label, workflows.count_shelf]


async def seed(engine: Engine, history: int) -> None:
    """Start the runs that the page shows; keys make a second start of the same folder find them."""
    start = engine.start
    await start("nightly_report", "2026-11-17", key="report-1117")
    await start("checkout", "8841", key="order-8841")
    await start("refund_approval", 199_900, key="refund-7781")
    await start("order_fulfilment", {"order": "8842", "parcels": 2}, key="order-8842")
    await start("order_fulfilment", {"order": "8840", "parcels": 9}, key="order-8840")
    await engine.start_graph(workflows.STOCK_COUNT, {}, key="stock-1117")
    if history:
        await start("catalogue_import", history, key="import-1117")
