"""Routes of the demo, beside those of the server: what it shows, and the button that kills a worker."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.demo.workers import LEASE_SECONDS, DemoWorkers
from stepwell.server.caller import caller_of
from stepwell.server.refusal import Refusal
from stepwell.server.routes import API
from stepwell.server.runs import RequestBody
from stepwell.server.table import Route

LIVE = "nightly_report"


class DemoWorker(BaseModel):
    id: str
    pid: int
    alive: bool
    lease_until: datetime | None


class DemoView(BaseModel):
    """What the demo's page shows."""

    run: str = Field(description="the run that moves")
    workers: list[DemoWorker]
    killed_pid: int | None
    killed_at: datetime | None
    lease_seconds: float


class KillBody(RequestBody):
    worker: str = Field(description="id of the worker to kill")


def demo_routes(workers: DemoWorkers) -> tuple[Route, ...]:
    async def get_demo(request: Request) -> DemoView:
        """Return what the demo shows."""
        return await _view(request, workers)

    async def kill_worker(request: Request, body: KillBody) -> DemoView:
        """Kill a worker of the demo with SIGKILL."""
        pid = next((each.pid for each in await _workers(request) if each.id == body.worker), 0)
        if not workers.kill(pid):
            raise Refusal(404, "NOT_FOUND", "the demo has no such worker", hint="it may be dead already")
        return await _view(request, workers)

    return (
        Route(
            method="GET",
            path=f"{API}/demo",
            handler=get_demo,
            scope="read",
            workspace="principal",
            audited=False,
            csrf=False,
            tag="server",
        ),
        Route(
            method="POST",
            path=f"{API}/demo/kill",
            handler=kill_worker,
            scope="admin",
            workspace="principal",
            audited=True,
            csrf=True,
            tag="server",
        ),
    )


async def _workers(request: Request) -> list[DemoWorker]:
    engine = caller_of(request).engine
    now = await engine.store.now()
    return [
        DemoWorker(
            id=row.id,
            pid=int(row.name.rpartition(":")[2]) if row.name.rpartition(":")[2].isdigit() else 0,
            alive=row.lease_until > now,
            lease_until=datetime.fromtimestamp(row.lease_until, tz=UTC),
        )
        for row in await engine.workers()
    ]


async def _view(request: Request, workers: DemoWorkers) -> DemoView:
    rows = await caller_of(request).engine.runs(workflow=LIVE, limit=1)
    killed = workers.killed[-1] if workers.killed else None
    return DemoView(
        run=rows[0].id if rows else "",
        workers=await _workers(request),
        killed_pid=killed.pid if killed else None,
        killed_at=datetime.fromtimestamp(killed.at, tz=UTC) if killed else None,
        lease_seconds=LEASE_SECONDS,
    )
