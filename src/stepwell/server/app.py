"""The ASGI app: an engine, the route table and the guard, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from stepwell import __version__
from stepwell.app import Engine
from stepwell.errors import StepwellError
from stepwell.server import record_routes, routes, trigger_routes
from stepwell.server.access import LOOPBACK, Access
from stepwell.server.audit import AuditTrail
from stepwell.server.bulk import BulkJobs
from stepwell.server.credentials import ATTEMPTS_MAX, Credentials, FailureCount
from stepwell.server.guard import Guard
from stepwell.server.live import Streams
from stepwell.server.metrics import Metrics
from stepwell.server.proxy import TrustedProxy
from stepwell.server.refusal import answer
from stepwell.server.route_kinds import API
from stepwell.server.stream import ListFeed
from stepwell.server.studio import Studio
from stepwell.server.table import DeclaredRoute, Route, check_complete, install

TAGS = [
    {"name": "runs", "description": "Start, list and steer runs."},
    {"name": "history", "description": "What happened in a run, and why it waits."},
    {"name": "live", "description": "Events as they happen."},
    {"name": "events", "description": "Broadcast events."},
    {"name": "workflows", "description": "Definitions that runs can be started from."},
    {"name": "graphs", "description": "Saved graphs: drafts, versions, differences."},
    {"name": "access", "description": "Who calls, and API keys."},
    {"name": "secrets", "description": "Values that nodes and steps use by name; set, never shown."},
    {"name": "schedules", "description": "Workflows that start by time."},
    {"name": "webhooks", "description": "Addresses at which other services start workflows."},
    {"name": "triggers", "description": "Events and sources that start workflows."},
    {"name": "records", "description": "Typed values in collections."},
    {"name": "alerts", "description": "What workers look out for, and which incidents are open."},
    {"name": "operation", "description": "Workers, queues, and who changed what."},
    {"name": "bulk", "description": "One action on all runs that match, as a job with progress."},
    {"name": "limits", "description": "How many runs may be active at once."},
    {"name": "server", "description": "Health, and this document."},
]


class ServerApp(FastAPI):
    """The HTTP API of one engine.

    Run it by itself, or mount it: `FastAPI(lifespan=api.opened)`, then `app.mount("/flows", api)`.
    """

    def __init__(self, engine: Engine, access: Access, more: Iterable[Route] = ()) -> None:
        super().__init__(
            title="Stepwell",
            version=__version__,
            openapi_url=None,  # a route of the table serves it
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            lifespan=self.opened,
            openapi_tags=TAGS,
        )
        self.access = access
        self.state.engine, self.state.access = engine, access
        access.use(Credentials(engine))
        self.state.delivery_failures = FailureCount(ATTEMPTS_MAX)  # of requests to webhooks
        self.state.streams = Streams()
        self.state.metrics = Metrics(engine, self.state.streams)
        self.state.audit = AuditTrail(engine)
        self.state.bulk = BulkJobs(engine)
        self.state.list_feeds = dict[str, ListFeed]()  # by workspace
        self.state.code_workflows = set()
        self.state.node_types = None
        self.table = (
            *(*routes.ANONYMOUS, *routes.RUNS, *routes.EVENTS, *routes.WORKFLOWS),
            *(
                *routes.LIMITS,
                *routes.ACCESS,
                *routes.ALERTS,
                *routes.SECRETS,
                *trigger_routes.SCHEDULES,
                *trigger_routes.WEBHOOKS,
                *trigger_routes.TRIGGERS,
                *record_routes.RECORDS,
                *routes.OPERATION,
                *routes.BULK,
            ),
            *(_OPENAPI, *more),
        )
        install(self, self.table, access=access, engine=engine)
        for kind in (StepwellError, RequestValidationError, HTTPException):
            self.add_exception_handler(kind, _answer)
        self.add_middleware(Studio)
        self.add_middleware(Guard, access=access)
        check_complete(self, self.table)

    @asynccontextmanager
    async def opened(self, app: object = None) -> AsyncIterator[None]:
        """Open the engine unless it is open; at the end close what was opened, and end the streams."""
        check_complete(self, self.table)
        engine: Engine = self.state.engine
        self.state.streams.begin()
        opens = not engine.is_open
        if opens:
            await engine.open()
        try:
            async with self.state.audit.writing(), self.state.bulk.working():
                yield
        finally:
            self.drain()
            if opens:
                await engine.close()

    async def end_sockets(self) -> None:
        """Let sockets say where to resume, before a listener closes them."""
        await self.state.streams.sockets_ended()

    def drain(self) -> None:
        """End the streams with a hint where to resume. Call it when the server begins to stop."""
        self.state.streams.drain()

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            schema = super().openapi()
            schema.setdefault("components", {})["securitySchemes"] = {
                "bearer": {"type": "http", "scheme": "bearer"}
            }
            self.openapi_schema = schema
        return self.openapi_schema


async def openapi(request: Request) -> dict[str, Any]:
    """Return this description of the API."""
    app: ServerApp = request.app
    return app.openapi()


_OPENAPI = Route(
    method="GET",
    path=f"{API}/openapi.json",
    handler=openapi,
    scope="read",
    workspace="none",
    audited=False,
    csrf=False,
    tag="server",
)


async def _answer(request: Request, error: Exception) -> Response:
    response = answer(error, request)
    if response.status_code == 405:  # several routes may have one address: name the methods of all
        matching = [route for route in request.app.routes if isinstance(route, DeclaredRoute)]
        matching = [route for route in matching if route.matches(request.scope)[0] is not Match.NONE]
        response.headers["Allow"] = ", ".join(sorted({route.row.method for route in matching}))
    return response


def asgi(
    engine: Engine,
    *,
    token: str | None = None,
    hosts: Iterable[str] = LOOPBACK,
    origins: Iterable[str] = (),
    auth: bool = True,
    proxy: TrustedProxy | None = None,
    more: Iterable[Route] = (),
) -> ServerApp:
    """Return the HTTP API of an engine as an ASGI app, to run or to mount under any path.

    `token` opens it (one is made if it is left out: `app.access.token`). `hosts` are the names under which
    it is reached, `origins` the other sites whose pages may call it. `auth=False` is for loopback only. A
    `proxy` in front of it may sign people in. API keys of the database open it too: `engine.keys`.
    `more` are further rows of the route table.
    """
    return ServerApp(engine, Access(token=token, hosts=hosts, origins=origins, auth=auth, proxy=proxy), more)
