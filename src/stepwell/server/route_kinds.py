"""Kinds of routes: anonymous ones, those that read, and those that change something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stepwell.server import runs
from stepwell.server.principal import Scope
from stepwell.server.table import Route

API = "/api/v1"
RUN = f"{API}/runs/{{run_id}}"
WHY = {"reason": "the payment service was down"}  # the example reason in the documentation
Handler = Callable[..., Awaitable[Any]]


def anonymous(path: str, handler: Handler, **more: Any) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        scope=None,
        workspace="none",
        audited=False,
        csrf=False,
        tag="server",
        **more,
    )


def read(path: str, handler: Handler, tag: str, **more: Any) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        scope="read",
        workspace="principal",
        audited=False,
        csrf=False,
        tag=tag,
        **more,
    )


def admin_read(path: str, handler: Handler, tag: str, **more: Any) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        scope="admin",
        workspace="principal",
        audited=False,
        csrf=False,
        tag=tag,
        **more,
    )


def change(method: Any, path: str, handler: Handler, scope: Scope, tag: str, **more: Any) -> Route:
    if path.startswith(RUN):
        more |= {"checks": (runs.check_unchanged,), "errors": (*more.get("errors", ()), 409)}
    return Route(
        method=method,
        path=path,
        handler=handler,
        scope=scope,
        workspace="principal",
        audited=True,
        csrf=True,
        tag=tag,
        **more,
    )
