"""Routes of operators on one run: hold, release, skip, wake, set a variable, end by force, discard,
reassign, remind; and its steps' log lines."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from stepwell.server import views
from stepwell.server.caller import RunPath, caller_of
from stepwell.server.runs import MessageKey, WhoBody, idempotency_key

_LINES_MAX = 1000


class SkipBody(WhoBody):
    output: Any = None
    path: str = Field(default="", description="path of the failed step, so that no other step is skipped")


class VariableBody(WhoBody):
    name: str = Field(
        min_length=1, max_length=64, description="name of a variable of its graph, without `ctx.`"
    )
    value: Any
    id: str = Field(default="", max_length=200, description="the same id counts once")


class ReassignBody(WhoBody):
    assignees: list[str] = Field(min_length=1, max_length=100, description="names, or role:NAME")
    path: str = Field(default="", description="path of the approval; optional if only one is open")


class RemindBody(WhoBody):
    path: str = Field(default="", description="path of the approval; optional if only one is open")


class DelayBody(WhoBody):
    to: str | float = Field(
        description="when the timer fires, from now: seconds or text; 0 for at once", examples=["10m"]
    )
    path: str = Field(default="", description="path of the timer; optional if only one is open")


class LogLineView(BaseModel):
    """One line that the code of a step logged or printed."""

    n: int
    at: datetime
    path: str
    attempt: int
    stream: Literal["log", "stdout", "stderr"]
    level: str
    logger: str
    text: str


class LogPage(BaseModel):
    lines: list[LogLineView]
    after: int = Field(description="number of the last line here: pass it as `after` to continue")
    more: bool


class RunGlance(BaseModel):
    """A run in a few bytes, for pages that embed it."""

    id: str
    workflow: str
    status: str
    where: str
    seq: int = Field(description="seq of its last event")
    output: Any
    error: Any


async def hold_run(request: Request, run_id: RunPath, body: WhoBody | None = None) -> views.RunOutcome:
    """Stop a run until it is released: it begins nothing new."""
    caller, who = caller_of(request), body or WhoBody()
    run = await caller.handle(run_id)
    done = await run.hold(by=caller.who(who.by), reason=who.reason)
    return views.RunOutcome(done=done, status=await run.status())


async def release_run(request: Request, run_id: RunPath, body: WhoBody | None = None) -> views.RunOutcome:
    """Let a held run continue."""
    caller, who = caller_of(request), body or WhoBody()
    run = await caller.handle(run_id)
    done = await run.release(by=caller.who(who.by), reason=who.reason)
    return views.RunOutcome(done=done, status=await run.status())


async def skip_run(request: Request, run_id: RunPath, body: SkipBody) -> views.RunOutcome:
    """Continue a failed run as if its failed step had returned this output."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    await run.skip(body.output, path=body.path, by=caller.who(body.by), reason=body.reason)
    return views.RunOutcome(done=True, status=await run.status())


async def set_variable(
    request: Request, run_id: RunPath, body: VariableBody, key: MessageKey = None
) -> views.RunOutcome:
    """Set a variable of a graph run that waits or is held."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    who = caller.who(body.by)
    await run.set_variable(
        body.name, body.value, id=idempotency_key(key, body.id, "id"), by=who, reason=body.reason
    )
    return views.RunOutcome(done=True, status=await run.status())


async def force_run(request: Request, run_id: RunPath, body: WhoBody | None = None) -> views.RunOutcome:
    """End a run at once. None of its code runs again, not even its cleanup."""
    caller, who = caller_of(request), body or WhoBody()
    run = await caller.handle(run_id)
    done = await run.cancel(who.reason, by=caller.who(who.by), force=True)
    return views.RunOutcome(done=done, status=await run.status())


async def change_delay(request: Request, run_id: RunPath, body: DelayBody) -> views.RunOutcome:
    """Make the timer of a sleeping run fire sooner, later or at once."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    await run.change_delay(body.to, path=body.path, by=caller.who(body.by), reason=body.reason)
    return views.RunOutcome(done=True, status=await run.status())


async def discard_run(request: Request, run_id: RunPath, body: WhoBody | None = None) -> Response:
    """Stop a test run and delete it with all runs below it, without its cleanup. Refuses other runs."""
    caller, who = caller_of(request), body or WhoBody()
    run = await caller.handle(run_id)
    await run.discard(by=caller.who(who.by), reason=who.reason)
    return Response(status_code=204)


async def reassign_run(request: Request, run_id: RunPath, body: ReassignBody) -> views.RunOutcome:
    """Let others decide an open approval, as soon as the run takes in the change."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    await run.reassign(body.assignees, path=body.path, by=caller.who(body.by), reason=body.reason)
    return views.RunOutcome(done=True, status=await run.status())


async def remind_run(request: Request, run_id: RunPath, body: RemindBody | None = None) -> views.WaitView:
    """Record a reminder of an open approval. Programs that notify people follow the events of runs."""
    caller, body = caller_of(request), body or RemindBody()
    run = await caller.handle(run_id)
    return views.wait_view(await run.remind(path=body.path, by=caller.who(body.by), reason=body.reason))


async def list_log_lines(
    request: Request,
    run_id: RunPath,
    *,
    path: Annotated[str, Query(max_length=1000, description="path of a step; by default all steps")] = "",
    attempt: Annotated[int, Query(ge=0, le=2**31, description="attempt of that step; 0 for all")] = 0,
    after: Annotated[int, Query(ge=0, le=2**53 - 1, description="number of the last line you have")] = 0,
    limit: Annotated[int, Query(ge=1, le=_LINES_MAX - 1)] = 200,
) -> LogPage:
    """List what the steps of a run logged and printed, oldest first."""
    run = await caller_of(request).handle(run_id)
    rows = await run.logs(path, attempt=attempt, after=after, limit=limit + 1)
    lines = [
        LogLineView(
            n=row.n,
            at=row.at,
            path=row.path,
            attempt=row.attempt,
            stream=row.stream,
            level=row.level,
            logger=row.logger,
            text=row.text,
        )
        for row in rows[:limit]
    ]
    return LogPage(lines=lines, after=lines[-1].n if lines else after, more=len(rows) > limit)


async def glance_run(request: Request, run_id: RunPath) -> RunGlance:
    """Return status, output and last seq of a run in one small call."""
    caller = caller_of(request)
    run, row = await caller.run(run_id)
    rows = await caller.engine.store.read_log_end(run.id)
    url = f"{request.scope.get('root_path', '')}/api/v1/runs/{run_id}"
    return RunGlance(
        id=row.id,
        workflow=row.workflow,
        status=row.status,
        where=row.where_at,
        seq=rows[-1].seq if rows else 0,
        output=views.shown(row.output, views.GLANCE_MAX, url),
        error=views.shown(row.error, views.GLANCE_MAX, url),
    )
