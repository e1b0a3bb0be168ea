"""Routes of the demo, beside those of the server: what it shows, and the button that kills a worker."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.demo.story import DemoStory, pid_of
from stepwell.demo.workers import LEASE_SECONDS, DemoWorkers
from stepwell.server.caller import caller_of
from stepwell.server.refusal import Refusal
from stepwell.server.route_kinds import API
from stepwell.server.runs import RequestBody
from stepwell.server.table import Route


class DemoWorker(BaseModel):
    id: str
    pid: int
    alive: bool
    lease_until: datetime | None


class DemoView(BaseModel):
    """What the page of the demo shows."""

    run: str = Field(description="the run that moves")
    seeded: dict[str, str] = Field(description="ids of the other runs, by key")
    workers: list[DemoWorker]
    pids: dict[str, int] = Field(description="processes of all workers so far, by id")
    killed_pid: int | None
    killed_at: datetime | None
    lease_seconds: float


class KillBody(RequestBody):
    worker: str = Field(description="id of the worker to kill")


def demo_routes(workers: DemoWorkers, story: DemoStory) -> tuple[Route, ...]:
    async def get_demo(request: Request) -> DemoView:
        """Return what the demo shows."""
        return await _view(request, workers, story)

    async def kill_worker(request: Request, body: KillBody) -> DemoView:
        """Kill a worker of the demo with SIGKILL."""
        story.meet(await caller_of(request).engine.workers())
        if not workers.kill(story.pids.get(body.worker, 0)):
            raise Refusal(404, "NOT_FOUND", "the demo has no such worker", hint="it may be dead already")
        return await _view(request, workers, story)

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


async def _view(request: Request, workers: DemoWorkers, story: DemoStory) -> DemoView:
    engine = caller_of(request).engine
    now, rows = await engine.store.now(), await engine.workers()
    story.meet(rows)
    killed = workers.killed[-1] if workers.killed else None
    return DemoView(
        run=story.run,
        seeded=story.seeded,
        workers=[
            DemoWorker(
                id=row.id,
                pid=pid_of(row),
                alive=row.lease_until > now,
                lease_until=datetime.fromtimestamp(row.lease_until, tz=UTC),
            )
            for row in rows
        ],
        pids=story.pids,
        killed_pid=killed.pid if killed else None,
        killed_at=datetime.fromtimestamp(killed.at, tz=UTC) if killed else None,
        lease_seconds=LEASE_SECONDS,
    )
