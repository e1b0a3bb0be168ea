"""Routes of schedules: workflows that start by time."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Header, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from stepwell.client.schedules import ScheduleInfo
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.named_triggers import NamedTriggerRoutes
from stepwell.server.refusal import Refusal
from stepwell.server.runs import PAGE_MAX, RequestBody, Time, WhoBody, url_of

ScheduleName = Annotated[str, Path(max_length=200, description="name of a schedule", examples=["nightly"])]
IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", description="revision of the schedule that was loaded, in double quotes"),
]
Interval = Annotated[str | float | None, Field(description='an interval: "15m", or seconds')]

_ROUTES = NamedTriggerRoutes("schedules")


class WhenBody(RequestBody):
    cron: str = Field(default="", max_length=200, description="five fields: minute hour day month weekday")
    every: Interval = None
    timezone: str = Field(default="UTC", max_length=100, examples=["Europe/Berlin"])


class PreviewBody(WhenBody):
    count: int = Field(default=5, ge=1, le=100)
    after: Time | None = Field(default=None, strict=False, description="times after this one; else now")


class ScheduleBody(WhenBody):
    """What a schedule starts, and when. A change may leave out all that stays as it is."""

    workflow: str = Field(default="", max_length=500)
    version: str = Field(default="", max_length=500, description="empty: the latest when it fires")
    input: Any = Field(default=None, description="may contain {{trigger.slot}}, the time that the run is for")
    overlap: str = Field(default="queue", max_length=20, description="queue, skip or allow")
    missed: str = Field(default="one", max_length=20, description="skip, one or all")
    spread: str | float = Field(default=0.0, description="start up to this much later")
    tags: dict[str, str] | None = None
    queue: str = Field(default="", max_length=500)
    priority: int | None = None
    timeout: str | float | None = None
    paused: bool = False
    by: str = Field(default="", max_length=500, description="local mode only: who does it")

    def options(self) -> dict[str, Any]:
        left_out = {"name", "workflow", "input", "by"}
        return {name: getattr(self, name) for name in self.model_fields_set - left_out}


class NewScheduleBody(ScheduleBody):
    name: str = Field(max_length=200)
    workflow: str = Field(max_length=500)


class TriggerNowBody(RequestBody):
    key: str = Field(default="", max_length=200, description="makes a repeat harmless")
    by: str = Field(default="", max_length=500, description="local mode only: who does it")


class BackfillBody(RequestBody):
    since: Time = Field(strict=False, description="slots from this time on")
    until: Time = Field(strict=False, description="slots before this time")
    by: str = Field(default="", max_length=500, description="local mode only: who does it")


class ScheduleView(BaseModel):
    """A schedule, when it is due, and what it did last."""

    name: str
    workflow: str
    version: str
    words: str = Field(examples=["At 02:30 on Monday through Friday, Europe/Berlin"])
    cron: str
    every: float | None
    timezone: str
    overlap: str
    missed: str
    spread: float
    input: Any
    tags: dict[str, str]
    queue: str
    priority: int | None
    timeout: float | None
    paused: bool
    paused_by: str
    paused_at: datetime | None
    reason: str = Field(description="why it was paused")
    next_at: datetime | None
    next_times: list[datetime] = Field(description="the next five")
    started: int = Field(description="runs")
    skipped: int = Field(description="slots that started no run")
    last_slot: datetime | None
    last_run: str
    skipped_slot: datetime | None
    skip_reason: str = Field(description="overlap, missed, disabled, no_workflow or the code of an error")
    origin: str = Field(description="the graph that declares it")
    revision: int = Field(description="send it as If-Match to change what was read")
    created_at: datetime | None
    created_by: str
    updated_at: datetime | None
    updated_by: str


class SchedulePage(BaseModel):
    schedules: list[ScheduleView]
    cursor: str | None


class PreviewView(BaseModel):
    words: str
    times: list[datetime]


class BackfillView(BaseModel):
    slots: int = Field(description="slots in that time")
    started: int = Field(description="runs that are new; the other slots had theirs")


async def list_schedules(
    request: Request,
    workflow: Annotated[str, Query(max_length=500)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> SchedulePage:
    """List the schedules by name."""
    page = await _ROUTES.page(request, view_of, workflow=workflow, cursor=cursor, limit=limit)
    return SchedulePage(**page)


async def create_schedule(request: Request, response: Response, body: NewScheduleBody) -> ScheduleView:
    """Start a workflow by cron or by interval."""
    caller = caller_of(request)
    arguments = (body.input,) if "input" in body.model_fields_set else ()
    info = await caller.engine.schedules.create(
        body.name, body.workflow, *arguments, **body.options(), by=caller.who(body.by)
    )
    return _tagged(response, info)


async def preview_schedule(request: Request, body: PreviewBody) -> PreviewView:
    """Say in words when such a schedule would be due, with its next times; nothing is stored."""
    preview = await caller_of(request).engine.schedules.preview(
        cron=body.cron, every=body.every, timezone=body.timezone, after=_aware(body.after), count=body.count
    )
    times = [datetime.fromtimestamp(at, UTC) for at in preview.times]
    return PreviewView(words=preview.words, times=times)


async def get_schedule(request: Request, response: Response, name: ScheduleName) -> ScheduleView:
    """Return a schedule with its next times and what it did last."""
    return _tagged(response, await caller_of(request).engine.schedules.get(name))


async def update_schedule(
    request: Request, response: Response, name: ScheduleName, body: ScheduleBody, if_match: IfMatch = None
) -> ScheduleView:
    """Change what the body names of a schedule; the rest stays as it is."""
    caller, changes = caller_of(request), body.options()
    for field in ("workflow", "input"):
        if field in body.model_fields_set:
            changes[field] = getattr(body, field)
    info = await caller.engine.schedules.update(
        name, **changes, expected=_revision(if_match), by=caller.who(body.by)
    )
    return _tagged(response, info)


async def delete_schedule(
    request: Request,
    name: ScheduleName,
    by: Annotated[str, Query(max_length=500, description="local mode only: who deletes it")] = "",
) -> views.TriggerChanged:
    """Delete a schedule; its runs continue."""
    await caller_of(request).engine.schedules.get(name)
    return await _ROUTES.delete(request, name, by)


async def pause_schedule(request: Request, name: ScheduleName, body: WhoBody) -> views.TriggerChanged:
    """Start nothing until it is resumed."""
    return await _ROUTES.pause(request, name, body)


async def resume_schedule(request: Request, name: ScheduleName, body: WhoBody) -> views.TriggerChanged:
    """Let it start runs again, from its next time on."""
    return await _ROUTES.resume(request, name, body)


async def trigger_schedule(request: Request, name: ScheduleName, body: TriggerNowBody) -> views.RunStarted:
    """Start a run of the schedule now, paused or not."""
    caller = caller_of(request)
    run = await caller.engine.schedules.trigger(name, key=body.key, by=caller.who(body.by))
    return views.RunStarted(id=run.id, url=url_of(request, run))


async def backfill_schedule(request: Request, name: ScheduleName, body: BackfillBody) -> BackfillView:
    """Start the runs of past slots; slots that have a run keep it."""
    caller = caller_of(request)
    since, until = _aware(body.since), _aware(body.until)
    assert since is not None
    assert until is not None
    done = await caller.engine.schedules.backfill(name, since, until, by=caller.who(body.by))
    return BackfillView(slots=done.slots, started=done.started)


def view_of(info: ScheduleInfo) -> ScheduleView:
    values = asdict(info)
    for name in ("paused_at", "next_at", "last_slot", "skipped_slot", "created_at", "updated_at"):
        values[name] = views.moment(values[name])
    values["next_times"] = [datetime.fromtimestamp(at, UTC) for at in info.next_times]
    return ScheduleView(**values)


def _tagged(response: Response, info: ScheduleInfo) -> ScheduleView:
    response.headers["ETag"] = f'"{info.revision}"'
    return view_of(info)


def _aware(moment: datetime | None) -> datetime | None:
    """A time without a zone is in UTC."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _revision(if_match: str | None) -> int:
    """Return the revision in an If-Match header; a header that cannot match must not overwrite."""
    if if_match is None or if_match == "*":
        return 0
    match = re.fullmatch(r'"([1-9][0-9]{0,8})"', if_match)
    if match is None:
        raise Refusal(400, "PARAM_INVALID", "If-Match is not an ETag", hint='send one: "3"', field="If-Match")
    return int(match[1])
