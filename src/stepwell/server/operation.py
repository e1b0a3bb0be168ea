"""Routes for those who operate the server: workers, queues, the audit list, and what this server is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.domain.scope_holds import HoldKind
from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.caller import Caller, caller_of
from stepwell.server.runs import PAGE_MAX, WhoBody


class WorkerView(BaseModel):
    """A process that runs workflows and steps."""

    id: str
    name: str = Field(examples=["host-1:4711"])
    queues: list[str]
    workflows: list[str] = Field(description="name@version of what it can run", examples=[["fulfil@1"]])
    steps: list[str] = Field(description="names of the remote steps that it can run")
    alive: bool = Field(description="false: it was silent for longer than its lease")
    lease_until: datetime | None


class WorkerList(BaseModel):
    workers: list[WorkerView]


class QueueView(BaseModel):
    """What a queue holds of this workspace: runs and remote steps."""

    name: str
    ready: int = Field(description="due, and no worker has it")
    waiting: int = Field(description="for time or a message")
    active: int = Field(description="a worker has it")
    age: float = Field(description="seconds that the oldest one has been ready")
    workers: int = Field(description="live workers that serve it")


class QueueList(BaseModel):
    queues: list[QueueView]


class AuditView(BaseModel):
    """One request that changed something, or tried to."""

    id: str
    at: datetime | None
    by: str
    action: str = Field(description="operation of this API", examples=["start_run"])
    path: str
    status: int
    credential: str = Field(description="id of the key or session")
    address: str


class AuditPage(BaseModel):
    entries: list[AuditView]
    cursor: str | None


class AboutView(BaseModel):
    """What this server is."""

    name: str = "stepwell"
    version: str
    api: str = Field(examples=["/api/v1"])
    workspace: str = Field(description="of the caller")
    default_workspace: str
    works: bool = Field(description="this process runs workflows, too")
    database: str = Field(description="memory, sqlite or postgres")


async def list_workers(request: Request) -> WorkerList:
    """List the workers of the database. Of other workspaces' workflows it says nothing."""
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
            )
            for row in rows
        ]
    )


async def _own_names(caller: Caller) -> frozenset[str]:
    definitions = await caller.engine.store.list_definitions(caller.principal.workspace)
    return frozenset(definition.name for definition in definitions) or frozenset({""})


def _shown(need: str, known: frozenset[str] | None) -> bool:
    return ":" not in need and (known is None or need.rpartition("@")[0] in known)


async def list_queues(request: Request) -> QueueList:
    """Count what the queues hold, and who serves them."""
    caller = caller_of(request)
    engine = caller.engine
    now = await engine.store.now()
    live = [worker for worker in await engine.workers() if worker.lease_until > now]
    uses = {use.queue: use for use in await engine.queues()}
    served = {queue for worker in live for queue in worker.queues} if caller.is_home else set()
    return QueueList(
        queues=[
            QueueView(
                name=name,
                ready=use.ready if (use := uses.get(name)) else 0,
                waiting=use.waiting if use else 0,
                active=use.active if use else 0,
                age=use.age(now) if use else 0.0,
                workers=sum(name in worker.queues for worker in live),
            )
            for name in sorted({*uses, *served})
        ]
    )


async def list_audit(
    request: Request,
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX - 1)] = 100,
) -> AuditPage:
    """List who asked for which change, newest first."""
    caller = caller_of(request)
    purpose = ("audit", caller.principal.workspace)
    before = cursors.read_text(cursor, *purpose) if cursor else ""
    store = caller.engine.store
    rows = await store.list_audit(caller.principal.workspace, before=before, limit=limit + 1)
    shown = rows[:limit]
    return AuditPage(
        entries=[
            AuditView(
                id=row.id,
                at=views.moment(row.at),
                by=row.by,
                action=row.action,
                path=row.path,
                status=row.status,
                credential=row.credential,
                address=row.address,
            )
            for row in shown
        ],
        cursor=cursors.write(shown[-1].id, *purpose) if len(rows) > limit else None,
    )


async def about(request: Request) -> AboutView:
    """Say what this server is."""
    caller = caller_of(request)
    store = request.app.state.engine.store
    kind = type(getattr(store, "_store", store)).__module__.split(".")[2]
    return AboutView(
        version=request.app.version,
        api=f"{request.scope.get('root_path', '')}/api/v1",
        workspace=caller.principal.workspace,
        default_workspace=DEFAULT_WORKSPACE,
        works=request.app.state.engine.worker is not None,
        database=kind,
    )


class HoldBody(WhoBody):
    kind: HoldKind
    name: str = Field(default="", max_length=500, description="of the workflow or queue")


class HoldView(BaseModel):
    """A workflow, queue or workspace whose runs begin nothing new."""

    kind: str = Field(examples=["workflow"])
    name: str
    by: str
    reason: str
    at: datetime | None


class HoldList(BaseModel):
    holds: list[HoldView]


class HoldChanged(BaseModel):
    changed: bool = Field(description="false: it was so before")


async def list_holds(request: Request) -> HoldList:
    """List what is held: workflows, queues and the workspace; not single runs."""
    holds = await caller_of(request).engine.holds()
    return HoldList(
        holds=[
            HoldView(kind=hold.kind, name=hold.name, by=hold.by, reason=hold.reason, at=views.moment(hold.at))
            for hold in holds
        ]
    )


async def hold_scope(request: Request, body: HoldBody) -> HoldChanged:
    """Hold a workflow, a queue or the workspace: its runs begin nothing new."""
    caller = caller_of(request)
    changed = await caller.engine.hold(body.kind, body.name, by=caller.who(body.by), reason=body.reason)
    return HoldChanged(changed=changed)


async def release_scope(request: Request, body: HoldBody) -> HoldChanged:
    """Let a held workflow, queue or workspace continue."""
    caller = caller_of(request)
    changed = await caller.engine.release(body.kind, body.name, by=caller.who(body.by), reason=body.reason)
    return HoldChanged(changed=changed)
