"""`stepwell audit list`: who changed what through a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import Limit
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text

if TYPE_CHECKING:
    from stepwell.domain.access import AuditEntry

commands = Commands("List who changed what through a server.")


@commands.add("list", "stepwell audit list", "stepwell audit list --by ci --json")
async def list_(
    session: CliSession,
    limit: Limit = 50,
    by: Annotated[
        str, typer.Option("--by", metavar="NAME", help="Only requests of this person or service.")
    ] = "",
) -> None:
    """List requests that changed something, or tried to, newest first."""
    async with session.client(payloads=False) as client:
        entries: list[AuditEntry] = []
        now, before = await session.now(client), ""
        while len(entries) < limit:
            page = await client.audit(before=before, limit=500 if by else limit - len(entries))
            entries += [entry for entry in page if by in ("", entry.by)]
            before = page.next
            if not before:
                break
    entries = entries[:limit]
    if session.out.as_json:
        session.out.json(
            [
                {
                    "id": entry.id,
                    "at": time_text(entry.at),
                    "by": entry.by,
                    "action": entry.action,
                    "path": entry.path,
                    "status": entry.status,
                    "credential": entry.credential,
                    "address": entry.address,
                }
                for entry in entries
            ]
        )
        return
    heads = [
        Column("AT", lambda entry: time_text(entry.at) or "", lambda entry: short_time(entry.at, now)),
        Column("BY", lambda entry: str(entry.by)),
        Column("ACTION", lambda entry: str(entry.action)),
        Column("PATH", lambda entry: str(entry.path), share=1),
        Column(
            "STATUS",
            lambda entry: str(entry.status),
            style=lambda entry: "red" if entry.status >= 400 else "",
        ),
        Column("ADDRESS", lambda entry: str(entry.address), wide=True),
    ]
    session.out.table(heads, entries, empty="nothing was changed through a server")
