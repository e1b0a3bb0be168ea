"""Routes of limits: how many runs may be active at once, and the largest sizes this server accepts."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.app import Engine
from stepwell.authoring.graphs.build.checks import LOOPS_MAX
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.format.definition import GraphSettings
from stepwell.authoring.graphs.format.input_limits import EDGES_MAX, NODES_HARD_MAX
from stepwell.authoring.graphs.nodes.code import CODE_SECONDS
from stepwell.authoring.graphs.nodes.containers import ITEMS_MAX
from stepwell.client.approval_links import LASTING
from stepwell.client.rates import LIMIT_MAX, SECONDS_MAX, RatePer
from stepwell.domain.duration import seconds
from stepwell.domain.limits import Limit
from stepwell.outbound.request import RESPONSE_BYTES_MAX, TIMEOUT
from stepwell.server import views
from stepwell.server.caller import Caller, caller_of
from stepwell.server.json_body import BODY_MAX, DEFINITION_MAX, DEPTH_MAX, ELEMENTS_MAX
from stepwell.server.live import STREAMS_MAX
from stepwell.server.refusal import Refusal
from stepwell.server.runs import IMPORT_MAX, PAGE_MAX, RequestBody
from stepwell.store.base import INBOX_MAX

Kind = Literal["workspace", "workflow", "queue", "key"]
_OWN_LIMITS = "limit your workflows instead"


class LimitView(BaseModel):
    """At most `limit` runs of a workspace, workflow, queue or key may be active at once."""

    kind: str = Field(examples=["workflow"])
    name: str = Field(examples=["fulfil"])
    limit: int | None
    hold: str
    by: str = Field(default="", description="who set it")


class RateView(BaseModel):
    """At most `limit` runs may be started in any `seconds`, per workflow or per user, in all workspaces."""

    per: str = Field(examples=["user"])
    limit: int | None = Field(description="null: no rate, whatever the server was given")
    seconds: float
    by: str = Field(default="", description="who set it")
    stored: bool = Field(default=True, description="set in the database; else given to this server")


class LimitList(BaseModel):
    limits: list[LimitView]
    rates: list[RateView] = Field(description="how many runs may be started in a span of time")
    sizes: dict[str, int] = Field(description="the most of each that is accepted")
    seconds: dict[str, float | None] = Field(description="default timeouts; null: none")


class LimitBody(RequestBody):
    kind: Kind
    name: str = ""
    limit: int | None
    hold: Literal["active", "run"] = "active"
    by: str = Field(default="", max_length=500, description="local mode only: who sets it")


class RateBody(RequestBody):
    per: RatePer
    limit: int | None = Field(ge=1, le=LIMIT_MAX, description="null: no rate, whatever the server was given")
    seconds: float = Field(default=60.0, gt=0, le=SECONDS_MAX)
    by: str = Field(default="", max_length=500, description="local mode only: who sets it")


async def list_limits(request: Request) -> LimitList:
    """List the limits and start rates, and the largest sizes and times that this server accepts."""
    caller = caller_of(request)
    engine = caller.engine
    limits = [limit for limit in await engine.limits() if caller.is_home or limit.kind != "queue"]
    return LimitList(
        limits=[_view(limit) for limit in limits],
        rates=await _rates(caller),
        sizes=_sizes(engine),
        seconds=_seconds(engine),
    )


async def _rates(caller: Caller) -> list[RateView]:
    """Return the rates in the database, and those of this server that they do not replace."""
    stored = [RateView(**rate._asdict()) for rate in await caller.engine.start_rates()]
    known = {(rate.per, rate.seconds) for rate in stored}
    given = [rate for rate in caller.engine.rates.given if (rate.per, rate.seconds) not in known]
    return [*stored, *(RateView(**rate._asdict(), stored=False) for rate in given)]


def _sizes(engine: Engine) -> dict[str, int]:
    settings = engine.settings
    return {
        "body_bytes": BODY_MAX,
        "definition_bytes": DEFINITION_MAX,
        "import_bytes": IMPORT_MAX,
        "payload_bytes": engine.payload_bytes_max,
        "payload_bytes_in_lists": views.SHOWN_MAX,
        "json_depth": DEPTH_MAX,
        "json_elements": ELEMENTS_MAX,
        "page": PAGE_MAX,
        "streams": STREAMS_MAX,
        "graph_nodes": GraphSettings().max_nodes,
        "graph_nodes_at_most": NODES_HARD_MAX,
        "graph_edges": EDGES_MAX,
        "graph_loops_nested": LOOPS_MAX,
        "graph_nodes_run_outside_loops": GraphSettings().max_steps,
        "loop_items": ITEMS_MAX,
        "template_source_bytes": DEFAULT_LIMITS.source_bytes,
        "template_text_bytes": DEFAULT_LIMITS.string_length,
        "http_response_bytes": RESPONSE_BYTES_MAX,
        "child_depth": settings.child_depth_max,
        "waiting_messages": INBOX_MAX,
        "history_warned": settings.history_warn,
        "history": settings.history_max,
    }


def _seconds(engine: Engine) -> dict[str, float | None]:
    settings = engine.settings
    return {
        "step": settings.step_timeout_seconds,
        "graph_run": settings.graph_timeout_seconds,
        "graph_suspension": settings.suspension_seconds,
        "http_call": TIMEOUT,
        "code_node": CODE_SECONDS,
        "approval_link": seconds(LASTING),
    }


async def put_start_rate(request: Request, body: RateBody) -> RateView:
    """Set or replace a start rate of all workspaces. Other servers and workers follow within five seconds."""
    caller = caller_of(request).at_home("start rates", _OWN_LIMITS)
    by = caller.who(body.by)
    await caller.engine.set_start_rate(body.per, body.limit, seconds=body.seconds, by=by)
    return RateView(per=body.per, limit=body.limit, seconds=body.seconds, by=by)


async def drop_start_rate(
    request: Request,
    per: RatePer,
    seconds: Annotated[float, Query(gt=0, le=SECONDS_MAX)] = 60.0,
    by: Annotated[str, Query(max_length=500, description="local mode only: who removes it")] = "",
) -> RateView:
    """Remove a start rate. Those that servers and workers were given apply again."""
    caller = caller_of(request).at_home("start rates", _OWN_LIMITS)
    if not await caller.engine.drop_start_rate(per, seconds=seconds, by=caller.who(by)):
        raise Refusal(404, "LIMIT_NOT_FOUND", f"no start rate is set per {per} in {seconds:g} s")
    return RateView(per=per, limit=None, seconds=seconds)


async def put_limit(request: Request, body: LimitBody) -> LimitView:
    """Set or replace a limit. Active runs are not stopped."""
    caller = _allowed(caller_of(request), body.kind)
    by = caller.who(body.by)
    await caller.engine.set_limit(body.kind, body.name, body.limit, hold=body.hold, by=by)
    return LimitView(kind=body.kind, name=body.name, limit=body.limit, hold=body.hold, by=by)


async def drop_limit(
    request: Request,
    kind: Kind,
    name: Annotated[str, Query(max_length=500)] = "",
    by: Annotated[str, Query(max_length=500, description="local mode only: who removes it")] = "",
) -> LimitView:
    """Remove a limit. Limits that runs were started with apply again."""
    caller = _allowed(caller_of(request), kind)
    if not await caller.engine.drop_limit(kind, name, by=caller.who(by)):
        raise Refusal(404, "LIMIT_NOT_FOUND", f"no limit is set for {kind} {name}".rstrip())
    return LimitView(kind=kind, name=name, limit=None, hold="active")


def _allowed(caller: Caller, kind: Kind) -> Caller:
    return caller.at_home("queues", _OWN_LIMITS) if kind == "queue" else caller


def _view(limit: Limit) -> LimitView:
    return LimitView(kind=limit.kind, name=limit.name, limit=limit.limit, hold=limit.hold, by=limit.by)
