"""Routes for operators: workers, queues, holds, the audit list, the database, and what this server is."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.client import database
from stepwell.domain.commit import DEFAULT_WORKSPACE, DrainRequest
from stepwell.domain.scope_holds import HoldKind
from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.caller import Caller, caller_of
from stepwell.server.refusal import Refusal
from stepwell.server.runs import PAGE_MAX, WhoBody

_EXPLAINED_MAX = 20  # queues whose wait is explained, the longest first


class DrainView(BaseModel):
    """Who asked a worker to let its steps end and exit, and why."""

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
    leaving: bool = Field(description="it takes no new work")
    draining: DrainView | None = Field(description="of the server's own workspace: who asked it to leave")


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
    reason: str = Field(
        default="", description="why its newest run does not begin: no_worker, limit, held or queued"
    )
    why: str = Field(default="", description="the same in words")
    run: str = Field(default="", description="id of that run")


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
    file: str = Field(default="", description="of a SQLite database, for callers with the scope admin")
    slots: int = Field(default=0, description="runs that this process drives at once, if it has a worker")
    keep_ended_seconds: float | None = Field(
        default=None, description="this process removes runs that long after their end; null: never"
    )


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
    worker_id: Annotated[str, Path(max_length=200, description="as in the list of workers")],
    body: WhoBody | None = None,
) -> DrainAsked:
    """Ask a worker to let its steps end and exit: for the server's own workspace, whose workers they are."""
    caller, who = _home(caller_of(request), "workers"), body or WhoBody()
    changed = await caller.engine.drain(worker_id, by=caller.who(who.by), reason=who.reason)
    return DrainAsked(changed=changed)


def _home(caller: Caller, what: str) -> Caller:
    """Refuse what all workspaces share, except for the server's own workspace."""
    if not caller.is_home:
        raise Refusal(
            403,
            "FORBIDDEN",
            f"{what} are shared by all workspaces",
            hint="ask the operator of the server: a key of its own workspace may",
        )
    return caller


async def list_queues(request: Request) -> QueueList:
    """Count what the queues hold, and who serves them."""
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
    """Why the newest run of a queue that was not begun waits; nothing if only begun ones are ready."""
    for row in await caller.engine.runs(queue=queue, status=["pending"], limit=1):
        reason = await caller.engine.handle(row.id).why()
        return {"reason": reason.code, "why": reason.text, "run": row.id}
    return {}


async def list_audit(
    request: Request,
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> AuditPage:
    """List who asked for which change, newest first."""
    caller = caller_of(request)
    purpose = ("audit", caller.principal.workspace)
    before = cursors.read_text(cursor, *purpose) if cursor else ""
    page = await caller.engine.audit(before=before, limit=limit)
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
            for row in page
        ],
        cursor=cursors.write(page.next, *purpose) if page.next else None,
    )


async def about(request: Request) -> AboutView:
    """Say what this server is."""
    caller = caller_of(request)
    engine = request.app.state.engine
    store = getattr(engine.store, "_store", engine.store)
    may_know = caller.is_home and "admin" in caller.principal.scopes
    return AboutView(
        version=request.app.version,
        api=f"{request.scope.get('root_path', '')}/api/v1",
        workspace=caller.principal.workspace,
        default_workspace=DEFAULT_WORKSPACE,
        works=engine.worker is not None,
        database=type(store).__module__.split(".")[2],
        file=_beneath_here(getattr(store, "path", "")) if may_know else "",
        slots=engine.settings.slots if engine.worker is not None else 0,
        keep_ended_seconds=engine.settings.keep_ended_seconds,
    )


def _beneath_here(path: str) -> str:
    """The path as a person would type it where the server was started."""
    short = os.path.relpath(path) if path else ""
    return path if short.startswith("..") else short


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


class DatabaseView(BaseModel):
    """The database of this server, with the rows of all workspaces."""

    schema_version: int = Field(alias="schema", description="version of its tables")
    newest: int = Field(description="version that this server knows")
    bytes: int
    encoded: bool = Field(description="its payloads are encrypted or compressed")
    counts: dict[str, int] = Field(description="number of rows of each kind", examples=[{"runs": 1200}])


class FaultView(BaseModel):
    run: str = Field(description="empty if no single run is damaged")
    text: str


class DatabaseCheck(BaseModel):
    sound: bool
    faults: list[FaultView]


async def get_database(request: Request) -> DatabaseView:
    """Return the version of its tables, its size, and how many rows it has."""
    caller = _home(caller_of(request), "the tables")
    return DatabaseView(**(await database.info(caller.engine.store))._asdict())


async def check_database(request: Request) -> DatabaseCheck:
    """Look for damage: pages of a file, gaps in logs, tickets that do not fit. Reads every log."""
    caller = _home(caller_of(request), "the tables")
    faults = await database.check(caller.engine.store)
    return DatabaseCheck(
        sound=not faults, faults=[FaultView(run=fault.run or "", text=fault.text) for fault in faults]
    )
