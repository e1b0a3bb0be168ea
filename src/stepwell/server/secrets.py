"""Routes of secrets: set, listed and deleted here. No route shows a value."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.client.secrets import SecretInfo
from stepwell.domain.secret import HOSTS_MAX, VALUE_MAX
from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.runs import PAGE_MAX, RequestBody

SecretPath = Annotated[str, Path(max_length=200, description="name of a secret", examples=["stripe"])]


class SecretBody(RequestBody):
    value: str = Field(max_length=VALUE_MAX, description="at least 8 characters; it can never be read again")
    hosts: list[str] = Field(
        default=[],
        max_length=HOSTS_MAX,
        description="where http nodes may send it",
        examples=[["api.example.com"]],
    )
    use: str = Field(default="bearer", max_length=20, description="bearer, basic or header")
    header: str = Field(default="", max_length=100, description="the name of the header, for use header")
    by: str = Field(default="", max_length=500, description="local mode only: who sets it")


class SecretView(BaseModel):
    """A secret, without its value."""

    name: str
    version: int = Field(description="counts the values that this name has had")
    use: str
    header: str
    hosts: list[str]
    key: str = Field(description="the name of the key that seals it")
    created_at: datetime
    created_by: str


class SecretPage(BaseModel):
    secrets: list[SecretView]
    cursor: str | None


class SecretDeleted(BaseModel):
    name: str
    changed: bool = Field(description="false: there was none")


async def set_secret(request: Request, secret_name: SecretPath, body: SecretBody) -> SecretView:
    """Seal a value under this name. Workers use it within seconds."""
    caller = caller_of(request)
    info = await caller.engine.secrets.set(
        secret_name,
        body.value,
        hosts=body.hosts,
        use=body.use,
        header=body.header,
        by=caller.who(body.by),
    )
    return _view(info)


async def list_secrets(
    request: Request,
    after: Annotated[str, Query(max_length=200, description="a name: only later ones")] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX - 1)] = 100,
) -> SecretPage:
    """List the secrets of this workspace by name, without their values."""
    caller = caller_of(request)
    purpose = ("secrets", caller.principal.workspace)
    after = cursors.read_text(cursor, *purpose) if cursor else after
    rows = await caller.engine.secrets.list(after=after, limit=limit + 1)
    shown = rows[:limit]
    following = cursors.write(shown[-1].name, *purpose) if len(rows) > limit else None
    return SecretPage(secrets=[_view(row) for row in shown], cursor=following)


async def delete_secret(
    request: Request,
    secret_name: SecretPath,
    by: Annotated[str, Query(max_length=500, description="local mode only: who deletes it")] = "",
) -> SecretDeleted:
    """Delete a secret. Workers stop using it within seconds."""
    caller = caller_of(request)
    done = await caller.engine.secrets.delete(secret_name, by=caller.who(by))
    return SecretDeleted(name=secret_name, changed=done)


def _view(info: SecretInfo) -> SecretView:
    return SecretView(
        name=info.name,
        version=info.version,
        use=info.use,
        header=info.header,
        hosts=list(info.hosts),
        key=info.key,
        created_at=views.moment(info.created_at) or views.BEGINNING,
        created_by=info.created_by,
    )
