"""Routes that start, list and steer runs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Header, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from stepwell.app import Engine
from stepwell.client import RunHandle
from stepwell.client.options import WhoOptions
from stepwell.domain.commit import RunRow
from stepwell.domain.duration import seconds
from stepwell.domain.ids import DRAFT, RunId
from stepwell.domain.limits import Concurrency
from stepwell.domain.search import Page
from stepwell.domain.status import Status
from stepwell.errors import InvalidDefinition, NotEndedYet, RunError, RunNotFound
from stepwell.server import cursor as cursors
from stepwell.server import position, views
from stepwell.server.caller import Caller, RunPath, caller_of
from stepwell.server.json_body import read_body
from stepwell.server.refusal import Refusal

PAGE_MAX = 1000
_FIRST_ROWS, _LEAST_ROWS = 50, 10  # read at once for a page
_ROWS_BYTES = 32 * 1024 * 1024  # of payloads that are held at once
_LOGS_AT_ONCE = 4  # ends of logs: each may hold some megabytes
WAIT_MAX = 60.0  # seconds
_FIELDS_MAX = 100  # for an object with named fields
_TAGS_MAX = 1000
IMPORT_MAX = 64 * 1024 * 1024
_SLICE = 1.0  # a waiting request looks this often whether the server stops

Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="the same key and body give the same run"),
]
MessageKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="the same as `id`: the message counts once"),
]
Wait = Annotated[
    str,
    Query(description='wait this long for the end, at most 60 s: "30s"', max_length=20, examples=["30s"]),
]


Time = Annotated[  # with its zone, or seconds since 1970
    datetime,
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]}),
]
Statuses = Annotated[list[Status] | None, Query(description="may be repeated")]


class RequestBody(BaseModel):
    """Takes exactly the fields it names, in exactly their types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        """Refuse many unknown fields with one error: an error for each of 60,000 takes most of a second."""
        if isinstance(value, dict) and len(value) > _FIELDS_MAX:
            raise PydanticCustomError("extra_forbidden", "there are too many fields")
        return value


def _few_tags(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > _TAGS_MAX:
        raise PydanticCustomError("too_long", "there are too many tags")
    return value


class ConcurrencyBody(RequestBody):
    key: str
    limit: int = 1
    hold: Literal["active", "run"] = "active"


class WhoBody(RequestBody):
    """Who acts, and why. Callers are recorded under their own name; only local mode may name another."""

    by: str = Field(default="", max_length=500, description="local mode only: who does it")
    reason: str = Field(default="", max_length=10_000)

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields that were sent, without who and why."""
        return self.model_dump(include=self.model_fields_set - {"by", "reason"})


class SharedOptions(RequestBody):
    by: str = Field(default="", max_length=500, description="local mode only: who starts it")
    workflow: str = Field(examples=["fulfil"])
    version: str = ""
    delay: str | float = 0
    priority: int | None = None
    queue: str = ""
    timeout: str | float | None = None
    tags: Annotated[dict[str, str] | None, BeforeValidator(_few_tags)] = None
    concurrency: ConcurrencyBody | None = None
    trigger: Literal["api", "manual"] = Field(
        default="api", description="manual: a person starts it, so the input must fit the form, too"
    )

    def options(self) -> dict[str, Any]:
        names = ("version", "delay", "priority", "queue", "timeout", "tags")
        options = {name: getattr(self, name) for name in names if name in self.model_fields_set}
        options["trigger"] = self.trigger
        if self.concurrency is not None:
            options["concurrency"] = Concurrency(**self.concurrency.model_dump())
        return options


class StartBody(SharedOptions):
    input: Any = None
    key: str = Field(default="", description="the same as the header Idempotency-Key")


class StartManyBody(SharedOptions):
    inputs: list[Any] = Field(max_length=10_000)
    keys: list[str] | None = Field(default=None, max_length=10_000)


class SignalBody(RequestBody):
    name: str
    payload: Any = None
    id: str = Field(default="", description="the same id counts once")
    by: str = Field(default="", max_length=500, description="local mode only: who sends it")


class EventBody(SignalBody):
    key: str = Field(default="", description="event key, which selects among waits")


class DecideBody(WhoBody):
    answer: Any
    path: str = Field(default="", description="path of the wait; optional if only one is open")
    roles: list[str] = Field(default=[], max_length=50, description="local mode only: roles of who decides")
    id: str = Field(default="", description="the same id counts once")


class TriggerBody(WhoBody):
    transition: str
    payload: Any = None
    id: str = Field(default="", description="the same id counts once")


class RerunBody(WhoBody):
    input: Any = None
    version: str = ""


class RerunFromBody(WhoBody):
    step: str = Field(description="path, or the name of a step that the run called once")
    outputs: dict[str, Any] | None = None


class ForkBody(WhoBody):
    at: int = Field(description="seq of the last event to keep", ge=1)
    input: Any = None
    state: Any = None
    outputs: dict[str, Any] | None = None


# Starting


async def start_run(
    request: Request, response: Response, body: StartBody, key: Key = None, wait: Wait = ""
) -> views.RunStarted:
    """Start a run. When this answers, the run is on disk and will reach an end."""
    caller, options = caller_of(request), body.options()
    options["by"] = caller.who(body.by)
    if chosen := idempotency_key(key, body.key):
        options["key"] = chosen
    limit = wait_seconds(wait)
    arguments = (body.input,) if "input" in body.model_fields_set else ()
    run = await _start(request, caller, body.workflow, arguments, options)
    if limit:
        await _wait(request, run, limit)
    response.headers["Location"] = url_of(request, run)
    return views.RunStarted(id=run.id, url=url_of(request, run), run=await _detail(run) if limit else None)


async def start_many_runs(request: Request, body: StartManyBody) -> views.RunsStarted:
    """Start many runs of one workflow, in few transactions."""
    caller = caller_of(request)
    runs: list[RunHandle[Any]] = await caller.engine.start_many(
        body.workflow,
        body.inputs,
        keys=body.keys,
        by=caller.who(body.by),
        **body.options(),
    )
    return views.RunsStarted(runs=[views.RunStarted(id=run.id, url=url_of(request, run)) for run in runs])


async def _start(
    request: Request, caller: Caller, name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> RunHandle[Any]:
    """Start the latest published version of a saved graph with its definition, so that any worker has it."""
    engine = caller.engine
    if await _is_saved_graph(request, caller, name):
        version = options.pop("version", "") or "published"
        run: RunHandle[Any] = await engine.library.start(name, *arguments, version=version, **options)
        return run
    return await engine.start(name, *arguments, **options)


async def _is_saved_graph(request: Request, caller: Caller, name: str) -> bool:
    """Look for a draft of that name. Names of workflows that are not graphs are remembered."""
    others: set[tuple[str, str]] = request.app.state.code_workflows
    store, workspace = caller.engine.store, caller.principal.workspace
    if (workspace, name) in others:
        return False
    definition = await store.read_definition(workspace, name, "")
    if definition is None:
        return False  # `start` says which names there are
    if definition.kind != "graph":
        others.add((workspace, name))
        return False
    return await store.read_definition(workspace, DRAFT + name, "draft") is not None


def idempotency_key(header: str | None, field: str, name: str = "key") -> str:
    """Return the key of a request: its header, or the field of that name in its body."""
    if header is not None and (not header or len(header) > 500 or not header.isprintable()):
        raise Refusal(
            400,
            "IDEMPOTENCY_KEY",
            "Idempotency-Key is empty, too long or not printable",
            hint="use 1 to 500 printable characters",
            field="Idempotency-Key",
        )
    if header and field and header != field:
        raise Refusal(400, "IDEMPOTENCY_KEY", f"Idempotency-Key and `{name}` differ", field=name)
    return header or field


def wait_seconds(text: str) -> float:
    try:
        return min(seconds(text, name="wait"), WAIT_MAX) if text else 0.0
    except InvalidDefinition as error:
        raise Refusal(400, "PARAM_INVALID", error.message, hint=error.hint, field="wait") from None


async def _wait(request: Request, run: RunHandle[Any], limit: float) -> None:
    """Wait for the end of the run, of the time, or of the server."""
    left = limit
    while left > 0 and not request.app.state.streams.draining:
        with suppress(RunError):
            try:
                await run.result(timeout=min(left, _SLICE))
            except NotEndedYet:
                left -= _SLICE
                continue
        return


# Reading


async def page_of(
    request: Request, status: list[Status], cursor: str, limit: int, *, before: str = "", **filter: Any
) -> views.RunPage:
    caller = caller_of(request)
    named = [f"{name}={value}" for name, value in sorted(filter.items()) if value]
    purpose = ("runs", caller.principal.workspace, *named, *sorted(status))
    before = cursors.read_text(cursor, *purpose) if cursor else before
    page: list[views.RunSummary] = []
    async for rows in in_parts(caller.engine, limit, before=before, status=status, **filter):
        page += [views.summary(row, _root(request)) for row in rows]
        before = rows.next
    await _place(caller.engine, page)
    return views.RunPage(runs=page, cursor=cursors.write(before, *purpose) if before else None)


async def in_parts(
    engine: Engine, limit: int, *, before: str = "", **filter: Any
) -> AsyncIterator[Page[RunRow]]:
    """Read a list of runs so that few large payloads are held at once."""
    size = _FIRST_ROWS
    while limit > 0:
        rows = await engine.runs(before=before, limit=min(size, limit), **filter)
        yield rows
        size, before, limit = _next_size(rows), rows.next, limit - len(rows)
        if not before:
            break


def _next_size(rows: Sequence[RunRow]) -> int:
    """How many rows to hold next: a row has its payloads, which may be megabytes."""
    length = sum(len(row.input) + len(row.output or b"") + len(row.error or b"") for row in rows)
    return max(_LEAST_ROWS, min(PAGE_MAX, len(rows) * _ROWS_BYTES // max(length, 1)))


async def _place(engine: Engine, page: list[views.RunSummary]) -> None:
    """Add to the first runs of a page where they are or how they ended, if their rows do not say it."""
    begun = [run for run in page if run.status in position.READ][: position.RUNS_MAX]
    queued = [run for run in page if run.status is Status.PENDING][: position.QUEUED_MAX]

    gate = asyncio.Semaphore(_LOGS_AT_ONCE)

    async def look(run: views.RunSummary) -> None:
        async with gate:
            run.position = position.position_of(
                await engine.store.read_log_end(RunId(run.id), count=position.LOOKED_AT)
            )

    async def ask(run: views.RunSummary) -> None:
        with suppress(RunNotFound):  # removed after the page was read
            reason = await engine.handle(run.id).why()
            run.position = views.PositionView(path="", attempt=0, text=reason.text)

    async with asyncio.TaskGroup() as group:
        for run in begun:
            group.create_task(look(run))
        for run in queued:
            group.create_task(ask(run))


async def get_run(
    request: Request,
    response: Response,
    run_id: RunPath,
    if_none_match: Annotated[str | None, Header(alias="If-None-Match")] = None,
    wait: Wait = "",
) -> Any:
    """Return a run with its whole input, output and error. The ETag changes with the run."""
    run, row = await caller_of(request).run(run_id)
    if (limit := wait_seconds(wait)) and not row.status.terminal:
        await _wait(request, run, limit)
        row = await run.info()
    seq = await _last_seq(run)
    tag = _etag(row, seq)
    if if_none_match is not None and tag in [part.strip() for part in if_none_match.split(",")]:
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return views.detail(row, seq)


# Steering


async def check_unchanged(
    request: Request,
    run_id: RunPath,
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match", description="ETag of the run: refuse if it has moved on since", max_length=1000
        ),
    ] = None,
) -> None:
    """Refuse to change a run that is no longer as its caller saw it."""
    if if_match is None or if_match.strip() == "*":
        return
    run, row = await caller_of(request).run(run_id)
    if _etag(row, await _last_seq(run)) not in [part.strip() for part in if_match.split(",")]:
        raise Refusal(
            409,  # as for the draft of a graph that was changed meanwhile
            "RUN_CHANGED",
            f"run {run_id} has changed since it was read: it is {row.status}",
            hint="read it again; nothing was done",
            field="If-Match",
        )


async def signal_run(
    request: Request, run_id: RunPath, body: SignalBody, key: MessageKey = None
) -> views.RunOutcome:
    """Send a signal; the run takes it when it waits for one."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    await run.signal(body.name, body.payload, id=idempotency_key(key, body.id, "id"), by=caller.who(body.by))
    return views.RunOutcome(done=True, status=await run.status())


async def send_event(
    request: Request, run_id: RunPath, body: EventBody, key: MessageKey = None
) -> views.RunOutcome:
    """Send an event to one run; the first matching wait takes it, even one opened later."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    by = caller.who(body.by)
    done = await run.event(
        body.name, body.payload, key=body.key, id=idempotency_key(key, body.id, "id"), by=by
    )
    return views.RunOutcome(done=done, status=await run.status())


async def emit_event(request: Request, body: EventBody, key: MessageKey = None) -> views.EventPublished:
    """Publish a broadcast event to every run that waits for it. The same id is published once."""
    caller = caller_of(request)
    by = caller.who(body.by)
    fresh = await caller.engine.emit(
        body.name, body.payload, key=body.key, id=idempotency_key(key, body.id, "id"), by=by
    )
    return views.EventPublished(published=fresh)


async def decide_run(
    request: Request, run_id: RunPath, body: DecideBody, key: MessageKey = None
) -> views.RunOutcome:
    """Answer an open approval."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    by, roles = caller.who(body.by), caller.roles(body.roles)
    await run.decide(
        body.answer,
        path=body.path,
        by=by,
        roles=roles,
        reason=body.reason,
        id=idempotency_key(key, body.id, "id"),
    )
    return views.RunOutcome(done=True, status=await run.status())


async def trigger_run(
    request: Request, run_id: RunPath, body: TriggerBody, key: MessageKey = None
) -> views.RunOutcome:
    """Take a transition that a machine waits for."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    by = caller.who(body.by)
    await run.trigger(
        body.transition, body.payload, by=by, reason=body.reason, id=idempotency_key(key, body.id, "id")
    )
    return views.RunOutcome(done=True, status=await run.status())


async def cancel_run(request: Request, run_id: RunPath, body: WhoBody | None = None) -> views.RunOutcome:
    """Ask a run to clean up and end."""
    caller, who = caller_of(request), body or WhoBody()
    run = await caller.handle(run_id)
    done = await run.cancel(who.reason, by=caller.who(who.by))
    return views.RunOutcome(done=done, status=await run.status())


async def retry_run(request: Request, run_id: RunPath, body: WhoBody | None = None) -> views.RunOutcome:
    """Retry a failed or timed-out run from where it stopped."""
    caller, who = caller_of(request), body or WhoBody()
    run = await caller.handle(run_id)
    await run.retry(by=caller.who(who.by), reason=who.reason)
    return views.RunOutcome(done=True, status=await run.status())


async def compensate_run(request: Request, run_id: RunPath, body: WhoBody | None = None) -> views.RunOutcome:
    """Undo the completed steps of a failed run."""
    caller, who = caller_of(request), body or WhoBody()
    run = await caller.handle(run_id)
    await run.compensate(by=caller.who(who.by), reason=who.reason)
    return views.RunOutcome(done=True, status=await run.status())


async def delete_run(
    request: Request,
    run_id: RunPath,
    by: Annotated[str, Query(max_length=500, description="local mode only: who does it")] = "",
    reason: Annotated[str, Query(max_length=10_000)] = "",
) -> Response:
    """Delete an ended run and all runs below it. This cannot be undone."""
    caller = caller_of(request)
    await (await caller.handle(run_id)).delete(by=caller.who(by), reason=reason)
    return Response(status_code=204)


# New runs from old ones


async def rerun_run(
    request: Request, run_id: RunPath, body: RerunBody | None = None, key: Key = None
) -> views.RunStarted:
    """Start a new run from the beginning, with the old input unless another is given."""
    caller = caller_of(request)
    old = await caller.handle(run_id)
    body = body or RerunBody()
    who: WhoOptions = {"by": caller.who(body.by), "reason": body.reason}
    new = await caller.engine.rerun(old, key=idempotency_key(key, ""), **who, **body.fields)
    return views.RunStarted(id=new.id, url=url_of(request, new))


async def rerun_run_from(
    request: Request, run_id: RunPath, body: RerunFromBody, key: Key = None
) -> views.RunStarted:
    """Start a new run that keeps the results from before a step and repeats the rest."""
    caller = caller_of(request)
    old, row = await caller.run(run_id)
    chosen = idempotency_key(key, "")
    who: WhoOptions = {"by": caller.who(body.by), "reason": body.reason}
    if row.kind == "graph":
        if body.outputs:
            raise Refusal(
                422, "FIELD_INVALID", "a graph is rerun without outputs", hint="fork it", field="outputs"
            )
        new = await caller.engine.rerun_from_node(old, body.step, key=chosen, **who)
    else:
        new = await caller.engine.rerun_from(old, body.step, outputs=body.outputs, key=chosen, **who)
    return views.RunStarted(id=new.id, url=url_of(request, new))


async def fork_run(request: Request, run_id: RunPath, body: ForkBody, key: Key = None) -> views.RunStarted:
    """Start a new run that begins as this one was at an event, apart from the edits."""
    caller = caller_of(request)
    old = await caller.handle(run_id)
    who: WhoOptions = {"by": caller.who(body.by), "reason": body.reason}
    new = await caller.engine.fork(old, key=idempotency_key(key, ""), **who, **body.fields)
    return views.RunStarted(id=new.id, url=url_of(request, new))


async def export_run(
    request: Request, run_id: RunPath, children: Annotated[bool, Query()] = True
) -> Response:
    """Return a run, and all runs below it, as one file."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    file = await caller.engine.export(run, children=children)
    name = f"attachment; filename=run-{run_id}.json"
    return Response(file, media_type="application/json", headers={"Content-Disposition": name})


async def import_run(
    request: Request,
    by: Annotated[str, Query(max_length=500, description="local mode only: who does it")] = "",
) -> views.RunStarted:
    """Restore an exported run under its own id."""
    caller = caller_of(request)
    run = await caller.engine.import_run(await read_body(request, IMPORT_MAX), by=caller.who(by))
    return views.RunStarted(id=run.id, url=url_of(request, run))


# Parts


async def _detail(run: RunHandle[Any]) -> views.RunView:
    return views.detail(await run.info(), await _last_seq(run))


async def _last_seq(run: RunHandle[Any]) -> int:
    rows = await run._client.store.read_log_end(run.id)
    return rows[-1].seq if rows else 0


def _etag(row: RunRow, seq: int) -> str:
    text = f"{row.id} {seq} {row.status} {row.where_at} {row.ended_at}"
    return f'"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"'


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))


def url_of(request: Request, run: RunHandle[Any]) -> str:
    return f"{_root(request)}/api/v1/runs/{run.id}"
