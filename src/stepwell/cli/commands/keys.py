"""`stepwell keys create | list | revoke`: API keys of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Limit
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text

if TYPE_CHECKING:
    from stepwell.domain.access import Credential

commands = Commands("Create, list and revoke API keys.")


@commands.add(
    "create",
    "stepwell keys create ci --scope read --scope run --expires 90d",
    "stepwell keys create ann --person --scope approve --role finance > key.txt",
)
async def create(
    session: CliSession,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Who uses it; recorded with everything that is done with it."),
    ],
    scope: Annotated[
        list[str],
        typer.Option("--scope", metavar="SCOPE", help="read, run, approve, edit or admin; else read."),
    ] = [],
    role: Annotated[list[str], typer.Option("--role", metavar="ROLE", help="Role for approvals.")] = [],
    person: Annotated[
        bool, typer.Option("--person", help="A person uses it, not a service.", show_default=False)
    ] = False,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="How long it is valid, such as 90d.")
    ] = None,
    by: By = "",
) -> None:
    """Create a key and print it once."""
    async with session.client(payloads=False) as client:
        new = await client.keys.create(
            name, scopes=scope or ["read"], roles=role, person=person, expires=expires, by=by or session.user
        )
    if session.out.as_json:
        session.out.json({**key_data(new.credential), "secret": new.text})
        return
    session.out.line(new.text)
    session.out.say(
        "this is shown once; use it as the header Authorization: Bearer KEY, or\n"
        f"  export STEPWELL_API_KEY={new.text}"
    )


@commands.add("list", "stepwell keys list", "stepwell keys list --json | jq '.[] | select(.used_at == null)'")
async def list_(session: CliSession, limit: Limit = 100) -> None:
    """List the keys, newest first."""
    async with session.client(payloads=False) as client:
        keys = await client.keys.list(limit=limit)
        now = await session.now(client)
    if session.out.as_json:
        session.out.json([key_data(key) for key in keys])
        return
    heads = [
        Column("KEY", lambda key: str(key.id)),
        Column("NAME", lambda key: str(key.name), share=1),
        Column("SCOPES", lambda key: ",".join(key.scopes)),
        Column("ROLES", lambda key: ",".join(key.roles)),
        Column(
            "CREATED",
            lambda key: time_text(key.created_at) or "",
            lambda key: short_time(key.created_at, now),
        ),
        Column(
            "USED",
            lambda key: time_text(key.used_at) or "never",
            lambda key: short_time(key.used_at, now) or "never",
        ),
        Column(
            "STATE",
            lambda key: _state(key, now),
            style=lambda key: "" if _state(key, now) == "valid" else "red",
        ),
    ]
    session.out.table(
        heads, keys, empty="there are no keys; create one: stepwell keys create NAME --scope read"
    )


@commands.add("revoke", "stepwell keys revoke 7f3a9c")
async def revoke(
    session: CliSession,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of the key, or the beginning of its id.")],
    by: By = "",
) -> None:
    """Revoke a key. Its next request is refused."""
    async with session.client(payloads=False) as client:
        key = await session.whole_key(client, key)
        done = await client.keys.revoke(key, by=by or session.user)
    if session.out.as_json:
        session.out.json({"id": key, "revoked": done})
    else:
        session.out.say(f"{key} {'is revoked' if done else 'was revoked before'}")


def key_data(key: Credential) -> dict[str, Any]:
    """Return a key as JSON shows it, without its digest."""
    return {
        "id": key.id,
        "name": key.name,
        "workspace": key.workspace,
        "principal": key.principal,
        "scopes": key.scopes,
        "roles": key.roles,
        "created_at": time_text(key.created_at),
        "created_by": key.created_by,
        "expires_at": time_text(key.expires_at),
        "used_at": time_text(key.used_at),
        "revoked_at": time_text(key.revoked_at),
        "revoked_by": key.revoked_by,
    }


def _state(key: Credential, now: float) -> str:
    return "revoked" if key.revoked_at is not None else "expired" if key.is_expired(now) else "valid"
