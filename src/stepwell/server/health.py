"""Whether the server lives and is ready, and the launch address. The only routes without a caller."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from stepwell.errors import StepwellError
from stepwell.server.access import Access
from stepwell.server.live import Streams
from stepwell.server.refusal import Refusal

_READY_SECONDS = 3.0


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
        raise Refusal(503, "DRAINING", "the server is stopping", headers={"Retry-After": "1"})
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await engine.store.read_limits()
        engine.notifier.check()
    except TimeoutError:
        raise Refusal(
            503, "STORE_UNAVAILABLE", "the database does not answer", headers={"Retry-After": "1"}
        ) from None
    except StepwellError as error:
        raise Refusal(503, error.code, (type(error).__doc__ or "").strip()) from error
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
