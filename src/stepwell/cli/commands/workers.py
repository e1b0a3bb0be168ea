"""`stepwell workers list` and `stepwell queues list`: who runs workflows, and what waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Reason
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import duration_text, time_text

if TYPE_CHECKING:
    from stepwell.client import Client

commands = Commands("List and drain the workers of a database.")


@commands.add("list", "stepwell workers list", "stepwell workers list --json")
async def list_(session: CliSession) -> None:
    """List the workers: their queues and workflows, and whether they are alive."""
    async with session.client(payloads=False) as client:
        rows = await worker_rows(session, client)
    if session.out.as_json:
        session.out.json(rows)
        return
    heads = [
        Column("STATE", _state, style=lambda row: "green" if row["alive"] else "red"),
        Column("WORKER", lambda row: str(row["name"] or row["id"])),
        Column("QUEUES", lambda row: ", ".join(row["queues"])),
        Column("HAS", lambda row: ", ".join(row["workflows"]), share=1),
    ]
    session.out.table(heads, rows, empty=f"no workers; start one: {session.command('worker FILE')}")


def _state(row: dict[str, Any]) -> str:
    return "draining" if row["draining"] or row["leaving"] else "alive" if row["alive"] else "silent"


async def worker_rows(session: CliSession, client: Client) -> list[dict[str, Any]]:
    """Return the workers as a server describes them."""
    if session.remote:
        return await session.fetched(client, "/workers", "workers")
    now = await client.store.now()
    return [
        {
            "id": worker.id,
            "name": worker.name,
            "queues": list(worker.queues),
            "workflows": sorted(need for need in worker.needs if "@" in need and ":" not in need),
            "steps": sorted(need.removeprefix("step:") for need in worker.needs if need.startswith("step:")),
            "alive": worker.lease_until > now,
            "lease_until": time_text(worker.lease_until),
            "leaving": worker.leaving,
            "draining": worker.draining,
        }
        for worker in await client.workers()
    ]


async def queue_rows(session: CliSession, client: Client) -> list[dict[str, Any]]:
    """Return the queues as a server describes them."""
    if session.remote:
        return await session.fetched(client, "/queues", "queues")
    now, uses = await client.store.now(), {use.queue: use for use in await client.queues()}
    live = [worker for worker in await client.workers() if worker.lease_until > now]
    names = sorted({*uses, *(queue for worker in live for queue in worker.queues)})
    return [
        {
            "name": name,
            "ready": use.ready if (use := uses.get(name)) else 0,
            "waiting": use.waiting if use else 0,
            "active": use.active if use else 0,
            "age": round(use.age(now), 3) if use else 0.0,
            "workers": sum(name in worker.queues for worker in live),
        }
        for name in names
    ]


@commands.add("drain", "stepwell workers drain host-1:4711 --reason 'new release'")
async def drain(
    session: CliSession,
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Id or name, as `workers list` shows it.")],
    by: By = "",
    reason: Reason = "",
) -> None:
    """Ask a worker to finish its steps and exit."""
    async with session.client(payloads=False) as client:
        rows = await worker_rows(session, client)
        ids = [row["id"] for row in rows if worker in (row["id"], row["name"])]
        changed = await client.drain(ids[0] if ids else worker, by=by or session.user, reason=reason)
    if session.out.as_json:
        session.out.json({"worker": worker, "changed": changed})
    else:
        session.out.say(f"{worker} {'is draining' if changed else 'was asked before'}")


queues = Commands("List the queues with their runs and workers.")


@queues.add("list", "stepwell queues list", "stepwell queues list --json")
async def list_queues(session: CliSession) -> None:
    """List the queues: how many runs are ready, waiting and active, and how many workers serve them."""
    async with session.client(payloads=False) as client:
        rows = await queue_rows(session, client)
    if session.out.as_json:
        session.out.json(rows)
        return
    heads = [
        Column("QUEUE", lambda row: str(row["name"])),
        Column("READY", lambda row: str(row["ready"])),
        Column("WAITING", lambda row: str(row["waiting"])),
        Column("ACTIVE", lambda row: str(row["active"])),
        Column("OLDEST", lambda row: duration_text(row["age"]) if row["ready"] else ""),
        Column(
            "WORKERS",
            lambda row: str(row["workers"]),
            style=lambda row: "red" if row["ready"] and not row["workers"] else "",
        ),
    ]
    lonely = [row["name"] for row in rows if row["ready"] and not row["workers"]]
    end = (
        f"no worker serves {', '.join(lonely)}: {session.command(f'worker FILE --queue {lonely[0]}')}"
        if lonely
        else ""
    )
    session.out.table(heads, rows, empty="the queues are empty, and no worker is alive", end=end)
