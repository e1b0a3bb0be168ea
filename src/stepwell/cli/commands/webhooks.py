"""`stepwell webhooks`: addresses at which other services start workflows."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Limit, Reason
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import time_text

if TYPE_CHECKING:
    from stepwell.client.webhooks import WebhookInfo

commands = Commands("Let other services start workflows.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the webhook.")]


@commands.add(
    "create",
    "stepwell webhooks create refunds refund --secret shop",
    "stepwell webhooks create pushes build --scheme hmac --header X-Hub-Signature-256 --secret github",
    "stepwell webhooks create paid --event paid --event-key '{{trigger.body.order}}' --secret shop",
)
async def create(
    session: CliSession,
    name: Name,
    workflow: Annotated[
        str, typer.Argument(metavar="WORKFLOW", help="Workflow that a request starts; or use --event.")
    ] = "",
    scheme: Annotated[
        str, typer.Option("--scheme", metavar="WORD", help="standard, hmac, bearer, basic or none.")
    ] = "standard",
    secret: Annotated[
        str, typer.Option("--secret", metavar="NAME", help="Secret that the sender signs with.")
    ] = "",
    header: Annotated[
        str, typer.Option("--header", metavar="NAME", help="Header of the signature, for hmac.")
    ] = "",
    id_header: Annotated[
        str, typer.Option("--id-header", metavar="NAME", help="Header of the delivery id.")
    ] = "",
    reply: Annotated[
        str, typer.Option("--reply", metavar="WORD", help="accepted, or result to wait for the run.")
    ] = "accepted",
    event: Annotated[
        str, typer.Option("--event", metavar="NAME", help="Publish this event instead of starting a run.")
    ] = "",
    event_key: Annotated[str, typer.Option("--event-key", metavar="KEY", help="Key of the event.")] = "",
    by: By = "",
) -> None:
    """Create a webhook and print its path, which nobody can guess."""
    given = {"secret": secret, "header": header, "id_header": id_header, "event": event}
    options: Any = {name: value for name, value in {**given, "event_key": event_key}.items() if value}
    async with session.client() as client:
        info = await client.webhooks.create(
            name, workflow or None, scheme=scheme, reply=reply, by=by or session.user, **options
        )
    if session.out.as_json:
        session.out.json(webhook_data(info))
    else:
        session.out.line(info.path)
        session.out.say("send requests to this path of a server: stepwell serve")


@commands.add("list", "stepwell webhooks list", "stepwell webhooks list --json | jq '.[].path'")
async def list_(session: CliSession, limit: Limit = 100) -> None:
    """List the webhooks by name."""
    async with session.client() as client:
        infos = await client.webhooks.list(limit=max(1, limit))
    if session.out.as_json:
        session.out.json([webhook_data(info) for info in infos])
        return
    heads = [
        Column("NAME", lambda info: str(info.name), share=1),
        Column("STARTS", lambda info: str(info.workflow or f"event {info.event}"), share=1),
        Column("SCHEME", lambda info: str(info.scheme)),
        Column("SECRET", lambda info: str(info.secret)),
        Column(
            "STATE",
            lambda info: "paused" if info.paused else "open",
            style=lambda info: "yellow" if info.paused else "",
        ),
        Column("PATH", lambda info: str(info.path), share=2),
    ]
    empty = "there are no webhooks; create one: stepwell webhooks create NAME WORKFLOW --secret SECRET"
    session.out.table(heads, infos, empty=empty)


@commands.add("delete", "stepwell webhooks delete refunds")
async def delete(session: CliSession, name: Name, by: By = "") -> int:
    """Delete a webhook. Its path stops working; its runs continue."""
    async with session.client() as client:
        done = await client.webhooks.delete(name, by=by or session.user)
    return session.out.deleted(name, done, names="stepwell webhooks list")


@commands.add("pause", "stepwell webhooks pause refunds --reason 'the shop sends twice'")
async def pause(session: CliSession, name: Name, reason: Reason = "", by: By = "") -> None:
    """Pause a webhook: it refuses requests until it is resumed."""
    async with session.client() as client:
        done = await client.webhooks.pause(name, by=by or session.user, reason=reason)
    session.out.changed(name, done, "is paused", "was paused before")


@commands.add("resume", "stepwell webhooks resume refunds")
async def resume(session: CliSession, name: Name, by: By = "") -> None:
    """Resume a webhook: it accepts requests again."""
    async with session.client() as client:
        done = await client.webhooks.resume(name, by=by or session.user)
    session.out.changed(name, done, "is resumed", "was not paused")


def webhook_data(info: WebhookInfo) -> dict[str, Any]:
    return {**asdict(info), "created_at": time_text(info.created_at)}
