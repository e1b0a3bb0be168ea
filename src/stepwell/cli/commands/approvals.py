"""`stepwell approvals list | show | approve | deny | link | reassign | remind`: what people decide."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Limit, Reason, Run, json_value, pairs
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text
from stepwell.errors import AlreadyDecided, InvalidInput

if TYPE_CHECKING:
    from stepwell.client import RunHandle
    from stepwell.client.search import WaitInfo
    from stepwell.domain.state import OpenWait

commands = Commands("List and decide the open approvals of all runs.")
Path = Annotated[
    str, typer.Option("--path", metavar="PATH", help="Path of the approval, if the run has several.")
]
Roles = Annotated[list[str], typer.Option("--role", metavar="ROLE", help="Role that you have.")]
Fields = Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="Field of its form.")]
Answer = Annotated[str | None, typer.Option("--answer", metavar="JSON", help="The whole answer as JSON.")]


@commands.add(
    "list",
    "stepwell approvals list",
    "stepwell approvals list --assignee ann --role finance",
    "stepwell approvals list --done",
)
async def list_(
    session: CliSession,
    assignee: Annotated[
        str, typer.Option("--assignee", metavar="NAME", help="Only those that this person may decide.")
    ] = "",
    role: Roles = [],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Only approvals of this name.")] = "",
    done: Annotated[bool, typer.Option("--done", help="Decided approvals, the last one first.")] = False,
    limit: Limit = 50,
) -> None:
    """List the open approvals of all runs, newest first."""
    if done:
        if assignee or role or name:
            raise InvalidInput("--done lists all decided approvals", hint="leave out the other filters")
        await _list_decided(session, limit)
        return
    async with session.client() as client:
        rows = list(await client.approvals(name=name, assignee=assignee, roles=role, limit=limit))
        now = await session.now(client)
    if session.out.as_json:
        session.out.json([_data(row) for row in rows])
        return
    heads = [
        Column("RUN", lambda row: str(row.run)),
        Column("WORKFLOW", lambda row: f"{row.workflow} #{row.number}"),
        Column("APPROVAL", lambda row: str(row.title or row.name), share=2),
        Column("FOR", lambda row: ", ".join(row.assignees) or "anybody", share=1),
        Column(
            "OPENED", lambda row: time_text(row.opened_at) or "", lambda row: short_time(row.opened_at, now)
        ),
        Column("UNTIL", lambda row: time_text(row.due_at) or "", lambda row: short_time(row.due_at, now)),
    ]
    end = f"decide one: {session.command('approvals approve RUN')}"
    session.out.table(heads, rows, empty="nothing waits for a decision", end=end)


async def _list_decided(session: CliSession, limit: int) -> None:
    async with session.client() as client:
        rows = list(await client.decided_approvals(limit=limit))
        now = await session.now(client)
    if session.out.as_json:
        times = ("opened_at", "decided_at")
        session.out.json(
            [asdict(row) | {each: time_text(getattr(row, each)) for each in times} for row in rows]
        )
        return
    heads = [
        Column("RUN", lambda row: str(row.run)),
        Column("WORKFLOW", lambda row: f"{row.workflow} #{row.number}"),
        Column("APPROVAL", lambda row: str(row.title or row.name), share=2),
        Column("DECISION", lambda row: str(row.decision).replace("_", " ")),
        Column("BY", lambda row: str(row.by)),
        Column(
            "WHEN", lambda row: time_text(row.decided_at) or "", lambda row: short_time(row.decided_at, now)
        ),
        Column("REASON", lambda row: str(row.reason), share=1),
    ]
    session.out.table(heads, rows, empty="nothing was decided yet")


def _data(row: WaitInfo) -> dict[str, Any]:
    return {
        "run": row.run,
        "workflow": row.workflow,
        "number": row.number,
        "path": row.path,
        "name": row.name,
        "title": row.title,
        "assignees": row.assignees,
        "required": row.required,
        "bar_starter": row.bar_starter,
        "form": row.form,
        "opened_at": time_text(row.opened_at),
        "due_at": time_text(row.due_at),
    }


@commands.add("show", "stepwell approvals show @waiting")
async def show(session: CliSession, run: Run, path: Path = "") -> None:
    """Show an open approval of a run: its title, its assignees, and the form of its answer."""
    async with session.handle(run) as handle:
        wait = await _approval(handle, path)
    session.out.fields(
        {
            "run": handle.id,
            "path": wait.path,
            "name": wait.name,
            "title": wait.title,
            "assignees": wait.assignees,
            "required": wait.required,
            "approved_by": wait.approved_by,
            "bar_starter": wait.bar_starter,
            "due_at": time_text(wait.due_at),
            "form": wait.form,
        }
    )


async def _approval(handle: RunHandle[Any], path: str) -> OpenWait:
    waits = [wait for wait in await handle.waits() if wait.what == "approval" and path in ("", wait.path)]
    if len(waits) == 1:
        return waits[0]
    if waits:
        paths = ", ".join(wait.path for wait in waits)
        raise AlreadyDecided(f"run {handle.id} has several open approvals", hint=f"add --path: {paths}")
    raise AlreadyDecided(f"run {handle.id} has no open approval", hint="see `stepwell approvals list`")


@commands.add(
    "approve",
    "stepwell approvals approve @waiting",
    "stepwell approvals approve @waiting --set amount=12 --reason checked",
)
async def approve(
    session: CliSession,
    run: Run,
    path: Path = "",
    fields: Fields = [],
    answer: Answer = None,
    role: Roles = [],
    by: By = "",
    reason: Reason = "",
) -> None:
    """Approve: with the answer that its form asks for, `approved` or true."""
    await _decide(session, run, path, fields, answer, role, by, reason, approved=True)


@commands.add("deny", "stepwell approvals deny @waiting --reason 'no invoice'")
async def deny(
    session: CliSession,
    run: Run,
    path: Path = "",
    fields: Fields = [],
    answer: Answer = None,
    role: Roles = [],
    by: By = "",
    reason: Reason = "",
) -> None:
    """Deny: with the answer that its form asks for, `denied` or false."""
    await _decide(session, run, path, fields, answer, role, by, reason, approved=False)


async def _decide(
    session: CliSession,
    run: str,
    path: str,
    fields: list[str],
    answer: str | None,
    roles: list[str],
    by: str,
    reason: str,
    *,
    approved: bool,
) -> None:
    async with session.handle(run) as handle:
        wait = await _approval(handle, path)
        if answer is not None:
            value: Any = json_value("--answer", answer)
        else:
            value = pairs("--set", fields) if fields else _word(wait.form, approved=approved)
        who = by or session.user
        await handle.decide(value, path=wait.path, by=who, roles=roles, reason=reason)
    word = "approved" if approved else "denied"
    if session.out.as_json:
        session.out.json({"run": handle.id, "path": wait.path, "decision": word, "answer": value})
    else:
        session.out.say(f"{word}: {wait.title or wait.name} of {handle.id}")


def _word(form: Any, *, approved: bool) -> Any:
    """Return the answer for yes or no: a boolean where the form asks for one, else the word."""
    if isinstance(form, dict) and form.get("type") == "boolean":
        return approved
    return "approved" if approved else "denied"


@commands.add(
    "link",
    "stepwell approvals link @waiting --assignee ann",
    "stepwell approvals link @waiting --assignee ben --role finance --expires 2d",
)
async def link(
    session: CliSession,
    run: Run,
    assignee: Annotated[str, typer.Option("--assignee", metavar="NAME", help="Who decides with it.")],
    path: Path = "",
    role: Annotated[
        list[str], typer.Option("--role", metavar="ROLE", help="Role that the assignee has.")
    ] = [],
    expires: Annotated[
        str, typer.Option("--expires", metavar="DURATION", help="How long it is valid.", show_default=True)
    ] = "7d",
    by: By = "",
) -> None:
    """Create a link with which one person decides an open approval once, without a key."""
    async with session.client() as client:
        handle = await session.run(client, run)
        who = by if session.remote else by or session.user  # a server records it by the key
        new = await handle.approval_link(assignee, path=path, roles=role, expires=expires, by=who)
        root = client.connection.address.root if session.remote else ""  # type: ignore[attr-defined]
    page = f"{root}/approve#{new.text}"
    if session.out.as_json:
        shown = {"run": handle.id, "path": new.credential.path, "assignee": assignee, "secret": new.text}
        session.out.json({**shown, "expires_at": time_text(new.credential.expires_at), "page": page})
        return
    session.out.line(page)
    where = "" if session.remote else "; put the address of your server before it"
    session.out.say(f"{assignee} decides with it once; it is shown here and never again{where}")


@commands.add("reassign", "stepwell approvals reassign @waiting ann role:finance --reason 'ben is away'")
async def reassign(
    session: CliSession,
    run: Run,
    assignees: Annotated[list[str], typer.Argument(metavar="ASSIGNEE", help="Names, or role:NAME.")],
    path: Path = "",
    by: By = "",
    reason: Reason = "",
) -> None:
    """Let others decide an open approval. Approvals so far still count."""
    async with session.handle(run) as handle:
        await handle.reassign(assignees, path=path, by=by or session.user, reason=reason)
    if session.out.as_json:
        session.out.json({"run": handle.id, "assignees": assignees})
    else:
        session.out.say(f"{', '.join(assignees)} may decide it now")


@commands.add("remind", "stepwell approvals remind @waiting")
async def remind(session: CliSession, run: Run, path: Path = "", by: By = "", reason: Reason = "") -> None:
    """Record a reminder of an open approval. Its assignees are notified, if a channel is configured."""
    async with session.handle(run) as handle:
        wait = await handle.remind(path=path, by=by or session.user, reason=reason)
    if session.out.as_json:
        session.out.json({"run": handle.id, "path": wait.path, "assignees": wait.assignees})
    else:
        session.out.say(f"reminded {', '.join(wait.assignees) or 'everybody'} of {wait.title or wait.name}")
