"""Routes of search: lists of runs by filters, open waits and approvals of all runs, and counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel, Field

from stepwell.client.search import BUCKETS_MAX, DecidedInfo, WaitInfo
from stepwell.domain.search import Page
from stepwell.errors import InvalidInput, excerpt
from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.runs import PAGE_MAX, Statuses, Time, page_of

Text = Annotated[str, Query(max_length=500)]
Moment = Annotated[Time | None, Query(description="a time with its zone, or seconds since 1970")]
Cursor = Annotated[str, Query(max_length=3000)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


async def list_runs(
    request: Request,
    *,
    workflow: Text = "",
    version: Text = "",
    queue: Text = "",
    status: Statuses = None,
    key: Text = "",
    key_prefix: Text = "",
    id_prefix: Text = "",
    parent: Text = "",
    trigger: Text = "",
    tag: Annotated[list[str] | None, Query(description="name=value, repeatable: all of them")] = None,
    error: Annotated[str, Query(max_length=2000, description="words of the error")] = "",
    since: Moment = None,
    until: Moment = None,
    before: Annotated[str, Query(max_length=200, description="id of a run: only older ones")] = "",
    cursor: Cursor = "",
    limit: Limit = 50,
) -> views.RunPage:
    """List runs, newest first; with `key_prefix`, by key with the last one first."""
    return await page_of(
        request,
        status or [],
        cursor,
        limit,
        before=before,
        workflow=workflow,
        version=version,
        queue=queue,
        key=key,
        key_prefix=key_prefix,
        id_prefix=id_prefix,
        parent=parent,
        trigger=trigger,
        tags=dict(_tag(text) for text in tag or ()),
        error=error,
        since=_aware(since),
        until=_aware(until),
    )


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"tag is {excerpt(text)}", hint="write it as name=value", field="tag")
    return name, value


def _aware(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


async def count_runs(request: Request, *, workflow: Text = "", queue: Text = "") -> views.CountsView:
    """Count runs by status, and by status for each workflow and queue."""
    counts = await caller_of(request).engine.counts(workflow=workflow, queue=queue)
    return views.CountsView(
        total=counts.total, statuses=counts.statuses, workflows=counts.workflows, queues=counts.queues
    )


class BucketView(BaseModel):
    """How many runs were created from `start` until the next bucket, by status. Zeros are left out."""

    start: datetime
    statuses: dict[str, int]


class HistogramView(BaseModel):
    buckets: list[BucketView] = Field(description="buckets of equal width; the first begins at `since`")


async def count_by_time(
    request: Request,
    *,
    since: Annotated[Time, Query(description="a time with its zone, or seconds since 1970")],
    until: Moment = None,
    buckets: Annotated[int, Query(ge=1, le=BUCKETS_MAX)] = 60,
    workflow: Text = "",
    version: Text = "",
    queue: Text = "",
    status: Statuses = None,
) -> HistogramView:
    """Count the runs created from `since` to `until`, or to now, by status in buckets of time."""
    first = since if since.tzinfo is not None else since.replace(tzinfo=UTC)
    counted = await caller_of(request).engine.histogram(
        since=first,
        until=_aware(until),
        buckets=buckets,
        workflow=workflow,
        version=version,
        queue=queue,
        status=status or [],
    )
    return HistogramView(
        buckets=[
            BucketView(start=datetime.fromtimestamp(each.start, tz=UTC), statuses=each.statuses)
            for each in counted
        ]
    )


async def list_open_waits(
    request: Request,
    *,
    what: Annotated[
        list[str] | None, Query(description="signal, event, approval, trigger; repeatable")
    ] = None,
    name: Text = "",
    cursor: Cursor = "",
    limit: Limit = 50,
) -> views.OpenWaitPage:
    """List open waits of all runs that a person or program can answer, newest first."""
    caller = caller_of(request)
    purpose = ("waits", caller.principal.workspace, name, *sorted(what or ()))
    before = cursors.read_text(cursor, *purpose) if cursor else ""
    page = await caller.engine.waits(what=what or (), name=name, before=before, limit=limit)
    return _page(page, purpose)


async def list_approvals(
    request: Request,
    *,
    name: Text = "",
    assignee: Text = "",
    role: Annotated[list[str] | None, Query(description="roles of the assignee; repeatable")] = None,
    cursor: Cursor = "",
    limit: Limit = 50,
) -> views.OpenWaitPage:
    """List open approvals of all runs, newest first; with `assignee` or `role`, those they may decide."""
    caller = caller_of(request)
    purpose = ("approvals", caller.principal.workspace, name, assignee, *sorted(role or ()))
    before = cursors.read_text(cursor, *purpose) if cursor else ""
    page = await caller.engine.approvals(
        name=name, assignee=assignee, roles=role or (), before=before, limit=limit
    )
    return _page(page, purpose)


class DecidedApprovalView(BaseModel):
    """An approval of some run that people decided, or that timed out."""

    run: str
    workflow: str
    number: int
    path: str
    name: str
    title: str
    decision: str = Field(description="approved, denied or timed_out; '': not readable by this server")
    by: str
    reason: str
    answer: Any
    opened_at: datetime
    decided_at: datetime


class DecidedApprovalPage(BaseModel):
    approvals: list[DecidedApprovalView]
    cursor: str | None = Field(description="pass it to get the next page; null: this was the last")


async def list_decided(request: Request, *, cursor: Cursor = "", limit: Limit = 50) -> DecidedApprovalPage:
    """List decided approvals of all runs, the last decision first: who decided what, and when."""
    caller = caller_of(request)
    purpose = ("decided", caller.principal.workspace)
    before = cursors.read_text(cursor, *purpose) if cursor else ""
    page = await caller.engine.decided_approvals(before=before, limit=limit)
    after = cursors.write(page.next, *purpose) if page.next else None
    return DecidedApprovalPage(approvals=[_decided_view(one) for one in page], cursor=after)


def _decided_view(info: DecidedInfo) -> DecidedApprovalView:
    fields = {name: getattr(info, name) for name in DecidedApprovalView.model_fields}
    times = {name: views.moment(fields[name]) for name in ("opened_at", "decided_at")}
    return DecidedApprovalView(**fields | times | {"answer": views.plain(info.answer)})


def _page(page: Page[WaitInfo], purpose: tuple[str, ...]) -> views.OpenWaitPage:
    after = cursors.write(page.next, *purpose) if page.next else None
    return views.OpenWaitPage(waits=[views.open_wait_view(wait) for wait in page], cursor=after)
