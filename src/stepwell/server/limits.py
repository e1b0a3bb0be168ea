"""Routes of limits: how many runs may be active at once, and the largest sizes this server accepts."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from stepwell.domain.limits import Limit
from stepwell.server import views
from stepwell.server.caller import Caller, caller_of
from stepwell.server.json_body import BODY_MAX, DEPTH_MAX, ELEMENTS_MAX
from stepwell.server.live import STREAMS_MAX
from stepwell.server.refusal import Refusal
from stepwell.server.runs import IMPORT_MAX, PAGE_MAX, RequestBody

Kind = Literal["workspace", "workflow", "queue", "key"]


class LimitBody(RequestBody):
    kind: Kind
    name: str = ""
    limit: int | None
    hold: Literal["active", "run"] = "active"
    by: str = Field(default="", max_length=500, description="local mode only: who sets it")


async def list_limits(request: Request) -> views.LimitList:
    """List the limits that are set, and the largest sizes."""
    caller = caller_of(request)
    engine = caller.engine
    limits = [limit for limit in await engine.limits() if caller.is_home or limit.kind != "queue"]
    return views.LimitList(
        limits=[_view(limit) for limit in limits],
        sizes={
            "body_bytes": BODY_MAX,
            "import_bytes": IMPORT_MAX,
            "payload_bytes": engine.payload_bytes_max,
            "payload_bytes_in_lists": views.SHOWN_MAX,
            "json_depth": DEPTH_MAX,
            "json_elements": ELEMENTS_MAX,
            "page": PAGE_MAX,
            "streams": STREAMS_MAX,
        },
    )


async def put_limit(request: Request, body: LimitBody) -> views.LimitView:
    """Set or replace a limit; active runs are not stopped."""
    caller = _allowed(caller_of(request), body.kind)
    by = caller.who(body.by)
    await caller.engine.set_limit(body.kind, body.name, body.limit, hold=body.hold, by=by)
    return views.LimitView(kind=body.kind, name=body.name, limit=body.limit, hold=body.hold, by=by)


async def drop_limit(
    request: Request,
    kind: Kind,
    name: Annotated[str, Query(max_length=500)] = "",
    by: Annotated[str, Query(max_length=500, description="local mode only: who removes it")] = "",
) -> views.LimitView:
    """Remove a limit; those that runs were started with apply again."""
    caller = _allowed(caller_of(request), kind)
    if not await caller.engine.drop_limit(kind, name, by=caller.who(by)):
        raise Refusal(404, "LIMIT_NOT_FOUND", f"no limit is set for {kind} {name}".rstrip())
    return views.LimitView(kind=kind, name=name, limit=None, hold="active")


def _allowed(caller: Caller, kind: Kind) -> Caller:
    """Refuse to change what all workspaces share, except for the server's own workspace."""
    if kind == "queue" and not caller.is_home:
        raise Refusal(
            403, "FORBIDDEN", "queues are shared by all workspaces", hint="limit your workflows instead"
        )
    return caller


def _view(limit: Limit) -> views.LimitView:
    return views.LimitView(kind=limit.kind, name=limit.name, limit=limit.limit, hold=limit.hold, by=limit.by)
