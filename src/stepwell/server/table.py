"""The kind of a route, and what happens before its handler.

A route declares its scope, whose workspace it reads, whether it is audited and whether it needs a check
against forged requests. There are no defaults for these, and a route outside the table stops the server
from starting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import SettingsInvalid, StepwellError, excerpt
from stepwell.server.access import Access
from stepwell.server.audit import AuditTrail
from stepwell.server.caller import Caller
from stepwell.server.guard import deny
from stepwell.server.json_body import BODY_MAX, check_content_type, parse, read_body
from stepwell.server.metrics import Requests
from stepwell.server.principal import Principal, Scope
from stepwell.server.refusal import MEDIA_TYPE, ProblemDetails, Refusal, answer, request_id_of

_audit = logging.getLogger("stepwell.audit")
_PROBLEM: dict[str, Any] = {
    "model": ProblemDetails,
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A row of the route table."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "WEBSOCKET"]
    path: str
    handler: Callable[..., Awaitable[Any]]
    scope: Scope | None  # None: anybody may call it
    workspace: Literal["principal", "none"]  # whose runs and definitions it may touch
    audited: bool
    csrf: bool  # a change, so a forged request of a browser must be refused
    tag: str
    status: int = 200
    errors: Sequence[int] = ()
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)  # other than JSON of the handler's type
    body_max: int = BODY_MAX
    any_query: bool = False  # the handler accepts any parameters
    raw: bool = False  # the handler reads the body itself, up to `body_max`
    example: Any = None  # of the request
    checks: Sequence[
        Callable[..., Awaitable[None]]
    ] = ()  # run before the handler, with parameters of their own

    @property
    def name(self) -> str:
        return self.handler.__name__


class DeclaredRoute(APIRoute):
    """A route of the app that has a row in the table."""

    row: Route
    access: Access
    engine: Any

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                await self._admit(request)
                response = await inner(request)
            except Exception as error:
                response = answer(error, request)
            if self.row.audited:
                await _record(self.row, request, response.status_code)
            return response

        async def measured(request: Request) -> Response:
            loop = asyncio.get_running_loop()
            began = loop.time()
            response = await handle(request)
            requests: Requests = request.app.state.metrics.requests
            requests.add(self.row.name, response.status_code, loop.time() - began)
            return response

        return measured

    async def _admit(self, request: Request) -> None:
        """Check the caller and the request, in this order, before the handler sees anything."""
        row = self.row
        if row.scope is not None:
            principal = await self.access.authenticate(request)
            request.state.principal = principal
            _check_scope(principal, row.scope)
            request.state.caller = Caller(self.engine, principal)
        if row.csrf:
            self.access.check_forgery(request)
        self._check_query(request)
        await self._take_body(request)

    def _check_query(self, request: Request) -> None:
        """Refuse parameters that are unknown or there twice: a typo must not widen a list."""
        if not request.url.query or self.row.any_query:
            return
        known = {param.alias: param for param in self.dependant.query_params}
        seen: set[str] = set()
        for name, _ in request.query_params.multi_items():
            if name not in known:
                raise _unknown_parameter(name, known)
            if name in seen and "list" not in str(known[name].field_info.annotation):
                raise Refusal(400, "PARAM_INVALID", f"{name} is there twice", field=name)
            seen.add(name)

    async def _take_body(self, request: Request) -> None:
        if self.row.raw or request.method == "GET":
            return
        data = await read_body(request, self.row.body_max)
        request._body = data
        if data and self.body_field is not None:
            check_content_type(request)
            request._json = parse(data)
        elif self.body_field is not None and self.body_field.field_info.is_required():
            raise Refusal(400, "BODY_REQUIRED", "this request needs a JSON body", hint="send a JSON object")


class DeclaredSocket(WebSocketRoute):
    """A socket that has a row in the table."""

    def __init__(self, row: Route, access: Access, engine: Any) -> None:
        self.row, self._access, self._engine = row, access, engine
        super().__init__(row.path, self._open, name=row.name)

    async def _open(self, socket: WebSocket) -> None:
        try:
            assert self.row.scope is not None, "nobody opens a socket without a key"
            principal = await self._access.authenticate(socket)
            _check_scope(principal, self.row.scope)
            self._access.check_socket_forgery(socket)
            for name in socket.query_params:
                raise _unknown_parameter(name, {})
            await self.row.handler(socket, Caller(self._engine, principal))
        except (Refusal, StepwellError) as error:
            await deny(error, socket.scope, socket.receive, socket.send)


def _check_scope(principal: Principal, scope: Scope) -> None:
    if not principal.may(scope):
        raise Refusal(
            403, "FORBIDDEN", f"this needs the scope {scope}", hint="ask an admin for a key with it"
        )


def _unknown_parameter(name: str, known: Collection[str]) -> Refusal:
    in_url = name in ("t", "token", "key", "access_token", "api_key")
    return Refusal(
        400,
        "KEY_IN_URL" if in_url else "PARAM_INVALID",
        f"there is no parameter {excerpt(name)}",
        hint=did_you_mean_one_of(name, sorted(known)) if known else "this route has none",
        field=name[:100],
    )


def install(app: FastAPI, rows: Iterable[Route], *, access: Access, engine: Any) -> None:
    """Add the rows of the table to the app."""
    for row in rows:
        if row.method == "WEBSOCKET":
            app.router.routes.append(DeclaredSocket(row, access, engine))
            continue
        kind = type("TableRoute", (DeclaredRoute,), {"row": row, "access": access, "engine": engine})
        route = kind(
            row.path,
            row.handler,
            methods=[row.method],
            status_code=row.status,
            tags=[row.tag],
            operation_id=row.name,
            summary=row.name.replace("_", " ").capitalize(),
            responses={**{code: _PROBLEM for code in _errors(row)}, **row.answers},
            openapi_extra=_extra(row),
            dependencies=[Depends(check) for check in row.checks],
            dependency_overrides_provider=app,
            response_model_exclude_none=False,
        )
        app.router.routes.append(route)


def _errors(row: Route) -> list[int]:
    always = [400, 403, 422, 500, 503] if row.scope is None else [400, 401, 403, 422, 429, 500, 503]
    with_id = [404] if "{" in row.path else []
    with_body = [408, 413, 415] if row.method in ("POST", "PUT", "PATCH") else []
    return sorted({*always, *with_id, *with_body, *row.errors} - set(row.answers))


def _extra(row: Route) -> dict[str, Any]:
    extra: dict[str, Any] = {"x-stepwell-scope": row.scope or "anonymous"}
    if row.scope is not None:
        extra["security"] = [{"bearer": []}]
    if row.raw:
        content = {"schema": {}, "example": row.example}
        extra["requestBody"] = {"required": True, "content": {"application/json": content}}
    elif row.example is not None:
        extra["requestBody"] = {"content": {"application/json": {"example": row.example}}}
    return extra


def check_complete(app: FastAPI, rows: Sequence[Route]) -> None:
    """Refuse to start with a route that the table does not declare."""
    declared = {id(row) for row in rows}
    for route in app.routes:
        if not isinstance(route, DeclaredRoute | DeclaredSocket) or id(route.row) not in declared:
            raise SettingsInvalid(
                f"route {getattr(route, 'path', route)} is not in the route table",
                hint="declare its scope, workspace, audit and csrf in stepwell/server/routes.py, "
                "or add it to your own app and mount this one beside it",
            )


async def _record(row: Route, request: Request, status: int) -> None:
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        return  # unknown caller
    trail: AuditTrail = request.app.state.audit
    await trail.add(row.name, principal, request, status)
    _audit.info(
        "%s",
        row.name,
        extra={
            "by": principal.name,
            "workspace": principal.workspace,
            "path": request.url.path,
            "status": status,
            "request_id": request_id_of(request),
        },
    )
