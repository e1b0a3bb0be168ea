"""Health: whether the server lives and is ready; and the launch address. These routes need no caller."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from stepwell.server.access import Access
from stepwell.server.live import Streams
from stepwell.server.readiness import STOPPING, NotReady, check_ready
from stepwell.server.refusal import Refusal


class HealthView(BaseModel):
    status: str


async def healthz() -> HealthView:
    """Say that the process answers."""
    return HealthView(status="ok")


async def readyz(request: Request) -> HealthView:
    """Say that the database answers and that the server is not stopping."""
    engine, streams = request.app.state.engine, request.app.state.streams
    assert isinstance(streams, Streams)
    if streams.draining:
        raise Refusal(503, "DRAINING", "the server is stopping", hint=STOPPING, headers={"Retry-After": "1"})
    try:
        await check_ready(engine)
    except NotReady as reason:
        raise Refusal(
            503, reason.code, reason.message, hint=reason.hint, headers={"Retry-After": "1"}
        ) from None
    return HealthView(status="ready")


async def launch(
    request: Request, t: Annotated[str, Query(max_length=200, description="launch token")] = ""
) -> Response:
    """Exchange the launch token for a cookie; without one, say where the API is."""
    access: Access = request.app.state.access
    root = request.scope.get("root_path", "")
    if not t:
        return JSONResponse({"name": "stepwell", "api": f"{root}/api/v1"})
    if not access.accepts(t):
        raise Refusal(401, "UNAUTHENTICATED", "the launch token is wrong", hint="use the printed address")
    answer = RedirectResponse(f"{root}/", status_code=303)
    access.set_cookie(request, answer, access.session, None)
    return answer
