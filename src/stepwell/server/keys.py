"""Routes of access: who the caller is, and the API keys of the workspace."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import Field
from starlette.requests import Request

from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.access import Access
from stepwell.server.caller import caller_of
from stepwell.server.principal import Principal
from stepwell.server.runs import PAGE_MAX, RequestBody

KeyPath = Annotated[
    str,
    Path(pattern=r"^[0-9a-f]{32}$", description="id of a key", examples=["0192f0c1d2e3740f8a9b0c1d2e3f4a5b"]),
]


class KeyBody(RequestBody):
    name: str = Field(
        description="who uses it; recorded with everything that is done with it", max_length=200
    )
    scopes: list[str] = Field(default=["read"], max_length=20)
    roles: list[str] = Field(default=[], max_length=50, description="count as assignees of approvals")
    principal: Literal["person", "service"] = "service"
    expires: str | float | None = Field(default=None, description='how long it is valid: "90d"')
    by: str = Field(default="", max_length=500, description="local mode only: who creates it")


async def get_me(request: Request) -> views.MeView:
    """Say who calls: name, workspace, scopes and roles."""
    return me_view(caller_of(request).principal)


async def create_key(request: Request, body: KeyBody) -> views.KeyCreated:
    """Create a key of this workspace. Only this answer contains its text."""
    caller = caller_of(request)
    new = await caller.engine.keys.create(
        body.name,
        scopes=body.scopes,
        roles=body.roles,
        person=body.principal == "person",
        expires=body.expires,
        by=caller.who(body.by),
    )
    return views.KeyCreated(**views.key_view(new.credential).model_dump(), secret=new.text)


async def list_keys(
    request: Request,
    before: Annotated[str, Query(max_length=200, description="id of a key: only older ones")] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX - 1)] = 100,
) -> views.KeyPage:
    """List the keys of this workspace, newest first, without their secrets."""
    caller = caller_of(request)
    purpose = ("keys", caller.principal.workspace)
    before = cursors.read_text(cursor, *purpose) if cursor else before
    rows = await caller.engine.keys.list(before=before, limit=limit + 1)
    shown = rows[:limit]
    after = cursors.write(shown[-1].id, *purpose) if len(rows) > limit else None
    return views.KeyPage(keys=[views.key_view(row) for row in shown], cursor=after)


async def revoke_key(
    request: Request,
    key_id: KeyPath,
    by: Annotated[str, Query(max_length=500, description="local mode only: who revokes it")] = "",
) -> views.KeyRevoked:
    """Revoke a key. This server refuses it at once, other servers within a second."""
    caller = caller_of(request)
    revoked = await caller.engine.keys.revoke(key_id, by=caller.who(by))
    access: Access = request.app.state.access
    access.credentials.forget(key_id)
    return views.KeyRevoked(id=key_id, changed=revoked)


def me_view(principal: Principal) -> views.MeView:
    return views.MeView(
        name=principal.name,
        workspace=principal.workspace,
        principal=principal.kind,
        scopes=sorted(principal.scopes),
        roles=list(principal.roles),
        local=principal.local,
        expires_at=views.moment(principal.expires_at),
    )
