"""`stepwell secrets`: values that nodes and steps use by name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Limit
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text

if TYPE_CHECKING:
    from stepwell.client.secrets import SecretInfo

commands = Commands("Set, list, delete and rotate secrets.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the secret.")]


@commands.add(
    "set",
    "stepwell secrets set stripe --host api.stripe.com < key.txt",
    "stepwell secrets set erp --use basic --host erp.example.com",
)
async def set_(
    session: CliSession,
    name: Name,
    host: Annotated[
        list[str],
        typer.Option("--host", metavar="HOST", help="Where http nodes may send it."),
    ] = [],
    use: Annotated[
        str, typer.Option("--use", metavar="USE", help="How: bearer, basic (user:password) or header.")
    ] = "bearer",
    header: Annotated[str, typer.Option("--header", metavar="NAME", help="Header, for --use header.")] = "",
    by: By = "",
) -> None:
    """Store a value, sealed, under a name. The value is read from standard input or a prompt."""
    value = _typed(name) if sys.stdin.isatty() else sys.stdin.read().rstrip("\r\n")
    async with session.client(payloads=False) as client:
        info = await client.secrets.set(
            name, value, hosts=host, use=use, header=header, by=by or session.user
        )
    if session.out.as_json:
        session.out.json(secret_data(info))
    else:
        session.out.say(f"{name} is set, version {info.version}; nobody can read it back")


@commands.add("list", "stepwell secrets list", "stepwell secrets list --json | jq '.[].name'")
async def list_(session: CliSession, limit: Limit = 100) -> None:
    """List the secrets by name, without their values."""
    async with session.client(payloads=False) as client:
        secrets = await client.secrets.list(limit=limit)
        now = await session.now(client)
    if session.out.as_json:
        session.out.json([secret_data(info) for info in secrets])
        return
    heads = [
        Column("NAME", lambda info: str(info.name), share=1),
        Column("VERSION", lambda info: str(info.version)),
        Column("USE", lambda info: f"{info.use} {info.header}".strip()),
        Column("HOSTS", lambda info: ",".join(info.hosts), share=1),
        Column(
            "SET",
            lambda info: time_text(info.created_at) or "",
            lambda info: short_time(info.created_at, now),
        ),
        Column("BY", lambda info: str(info.created_by)),
    ]
    session.out.table(
        heads, secrets, empty="there are no secrets; set one: stepwell secrets set NAME --host HOST"
    )


@commands.add("delete", "stepwell secrets delete stripe")
async def delete(session: CliSession, name: Name, by: By = "") -> int:
    """Delete a secret; workers stop using it within seconds."""
    async with session.client(payloads=False) as client:
        done = await client.secrets.delete(name, by=by or session.user)
    return session.out.deleted(name, done, names="stepwell secrets list")


@commands.add("rotate", "stepwell secrets rotate")
async def rotate(session: CliSession) -> None:
    """Seal the secrets of all workspaces with the current key. The old key must still be configured."""
    async with session.client(payloads=False) as client:
        count = await client.secrets.rotate()
    if session.out.as_json:
        session.out.json({"rotated": count})
    else:
        done = f"{count} secret{' was' if count == 1 else 's were'} sealed anew; " if count else ""
        session.out.say(f"{done}all are sealed with the current key, so older keys can be removed")


def _typed(name: str) -> str:
    answer: str = typer.prompt(f"value of {name}", hide_input=True, err=True)
    return answer


def secret_data(info: SecretInfo) -> dict[str, Any]:
    """Return a secret as JSON shows it, without its value."""
    return {**info._asdict(), "created_at": time_text(info.created_at)}
