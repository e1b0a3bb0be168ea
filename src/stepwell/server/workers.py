"""Routes of workers and queues: who runs workflows, and what waits for them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.domain.commit import DrainRequest
from stepwell.server import views
from stepwell.server.caller import Caller, caller_of
from stepwell.server.runs import WhoBody

_EXPLAINED_MAX = 20  # queues to explain, those with the longest wait first


class DrainView(BaseModel):
    """Who asked a worker to finish its steps and exit, and why."""

    by: str
    reason: str
    at: float = Field(description="seconds since 1970")


class WorkerView(BaseModel):
    """A process that runs workflows and steps."""

    id: str
    name: str = Field(examples=["host-1:4711"])
    queues: list[str]
    workflows: list[str] = Field(description="name@version of what it can run", examples=[["fulfil@1"]])
    steps: list[str] = Field(description="names of the remote steps that it can run")
    alive: bool = Field(description="false: it was silent for longer than its lease")
    lease_until: datetime | None
    leaving: bool = Field(description="whether it is stopping, and takes no new work")
    draining: DrainView | None = Field(
        description="who asked it to stop; shown in the server's own workspace"
    )


class WorkerList(BaseModel):
    workers: list[WorkerView]


class QueueView(BaseModel):
    """What a queue holds of this workspace: runs and remote steps."""

    name: str
    ready: int = Field(description="due, and no worker has it")
    waiting: int = Field(description="waiting for time or a message")
    active: int = Field(description="a worker has it")
    age: float = Field(description="seconds that the oldest one has been ready")
    workers: int = Field(description="live workers that serve it")
    reason: str = Field(
        default="", description="why its newest run does not begin: no_worker, limit, held or queued"
    )
    why: str = Field(default="", description="the reason in words")
    run: str = Field(default="", description="id of that run")


class QueueList(BaseModel):
    queues: list[QueueView]


async def list_workers(request: Request) -> WorkerList:
    """List the workers of the database.

    Workflows of other workspaces are left out.
    """
    caller = caller_of(request)
    now, rows = await caller.engine.store.now(), await caller.engine.workers()
    known = None if caller.is_home else await _own_names(caller)
    return WorkerList(
        workers=[
            WorkerView(
                id=row.id,
                name=row.name if caller.is_home else "",
                queues=list(row.queues) if caller.is_home else [],
                workflows=sorted(need for need in row.needs if "@" in need and _shown(need, known)),
                steps=sorted(
                    need.removeprefix("step:") for need in row.needs if need.startswith("step:") and not known
                ),
                alive=row.lease_until > now,
                lease_until=views.moment(row.lease_until),
                leaving=row.leaving,
                draining=_drain_view(row.draining) if caller.is_home else None,
            )
            for row in rows
        ]
    )


def _drain_view(asked: DrainRequest | None) -> DrainView | None:
    return None if asked is None else DrainView(by=asked.by, reason=asked.reason, at=asked.at)


async def _own_names(caller: Caller) -> frozenset[str]:
    definitions = await caller.engine.store.list_definitions(caller.principal.workspace)
    return frozenset(definition.name for definition in definitions) or frozenset({""})


def _shown(need: str, known: frozenset[str] | None) -> bool:
    return ":" not in need and (known is None or need.rpartition("@")[0] in known)


class DrainAsked(BaseModel):
    changed: bool = Field(description="false: it was asked before")


async def drain_worker(
    request: Request,
    worker_id: Annotated[str, Path(max_length=200, description="id, as in the list of workers")],
    body: WhoBody | None = None,
) -> DrainAsked:
    """Ask a worker to finish its steps and exit.

    Only for the server's own workspace, to which the workers belong.
    """
    caller, who = caller_of(request).at_home("workers"), body or WhoBody()
    changed = await caller.engine.drain(worker_id, by=caller.who(who.by), reason=who.reason)
    return DrainAsked(changed=changed)


async def list_queues(request: Request) -> QueueList:
    """Count what the queues hold, and how many workers serve them."""
    caller = caller_of(request)
    engine = caller.engine
    now = await engine.store.now()
    live = [worker for worker in await engine.workers() if worker.lease_until > now]
    uses = {use.queue: use for use in await engine.queues()}
    served = {queue for worker in live for queue in worker.queues} if caller.is_home else set()
    stuck = sorted((use for use in uses.values() if use.ready), key=lambda use: -use.age(now))
    reasons = {use.queue: await _reason(caller, use.queue) for use in stuck[:_EXPLAINED_MAX]}
    return QueueList(
        queues=[
            QueueView(
                name=name,
                ready=use.ready if (use := uses.get(name)) else 0,
                waiting=use.waiting if use else 0,
                active=use.active if use else 0,
                age=use.age(now) if use else 0.0,
                workers=sum(name in worker.queues for worker in live),
                **reasons.get(name, {}),
            )
            for name in sorted({*uses, *served})
        ]
    )


async def _reason(caller: Caller, queue: str) -> dict[str, str]:
    """Return why the newest unstarted run of a queue waits, or '' if all ready runs have begun."""
    for row in await caller.engine.runs(queue=queue, status=["pending"], limit=1):
        reason = await caller.engine.handle(row.id).why()
        return {"reason": reason.code, "why": reason.text, "run": row.id}
    return {}
