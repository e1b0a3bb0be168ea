"""`stepwell runs list | show | why | events | state | checkpoints | documents | waits`: reading runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import ErrorWords, Limit, OneWorkflow, Run, Since, Statuses, Tags
from stepwell.cli.output import Column, encoded
from stepwell.cli.session import CliSession
from stepwell.cli.text import STYLES, duration_text, marked, short_time, time_text
from stepwell.errors import LogDamaged

if TYPE_CHECKING:
    from stepwell.client import RunEvent, RunHandle
    from stepwell.client.step_logs import StepLogLine
    from stepwell.domain.commit import RunRow
    from stepwell.domain.state import OpenWait
    from stepwell.domain.trace import TraceEntry

commands = Commands("List, inspect and control runs.")
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Keep printing until the run ends.", show_default=False)
]
At = Annotated[
    int | None, typer.Option("--at", metavar="SEQ", help="As it was after this event of its log.", min=1)
]


@commands.add(
    "list",
    "stepwell runs list",
    "stepwell runs list --status failed --since 24h",
    "stepwell runs list --workflow fulfil --json | jq -r '.[].id'",
)
async def list_(
    session: CliSession,
    workflow: OneWorkflow = "",
    status: Statuses = [],
    since: Since = "",
    tag: Tags = [],
    error: ErrorWords = "",
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="Only the run with this key.")] = "",
    parent: Annotated[
        str, typer.Option("--parent", metavar="RUN", help="Only the children of this run.")
    ] = "",
    trigger: Annotated[
        str, typer.Option("--trigger", metavar="WORD", help="Only runs started by this, such as api.")
    ] = "",
    limit: Limit = 50,
) -> None:
    """List the newest runs."""
    from stepwell.cli.run_rows import columns, run_data

    session.must_exist()
    now = _now()
    rows: list[RunRow] = []
    heads = columns(now, rows)
    session.out.heading(heads)
    async with session.client() as client:
        from stepwell.cli.selection import RunChoice, matching

        choice = RunChoice(workflow=workflow, status=status, since=since, tag=tag, error=error)
        above = (await session.run(client, parent)).id if parent else ""
        more = {"key": key, "parent": above, "trigger": trigger}
        rows += [row async for row in matching(client, choice, limit, **more)]
    if session.out.as_json:
        session.out.json([run_data(row) for row in rows])
        return
    session.out.table(heads, rows, empty="no matching runs", end=_next_page(rows, limit))


def _now() -> float:
    from stepwell.system import SystemClock

    return SystemClock.time()


def _next_page(rows: list[Any], limit: int) -> str:
    return f"{len(rows)} runs; there may be more: --limit {limit * 10}" if len(rows) == limit else ""


@commands.add("show", "stepwell runs show @last", "stepwell runs show 0192f0c1d2e3 --json")
async def show(session: CliSession, run: Run) -> None:
    """Show a run, where it stands and why it does not move."""
    from stepwell.cli.run_rows import whole_run_data

    async with session.handle(run) as handle:
        row, why, overview = await handle.info(), await handle.why(), await _overview(handle)
    reason = {"code": why.code, "text": why.text, "until": time_text(why.until)}
    data = {**whole_run_data(row), **overview, "why": reason}
    shown = {"why": why.text}
    traceback = ""
    if error := data["error"]:
        shown["error"] = f"{error.get('message', '')} [{error.get('code', '')}]"
        traceback = str(error.get("traceback", ""))
    session.out.fields(data, shown=shown)
    if traceback and not session.out.as_json:
        session.out.line(f"\n{traceback.rstrip()}", "dim")


commands.add("get", "stepwell runs get @last", hidden=True)(show)  # its name in earlier releases


async def _overview(handle: RunHandle[Any]) -> dict[str, Any]:
    """Return time and steps, or nothing if the log cannot be read, which `why` explains."""
    try:
        overview = await handle.overview()
    except LogDamaged:
        return {}
    return {
        "elapsed": round(overview.elapsed, 3),
        "active": round(overview.active, 3),
        "steps": overview.steps,
        "suspended_at": time_text(overview.suspended_at),
    }


@commands.add("why", "stepwell runs why @waiting")
async def why(session: CliSession, run: Run) -> None:
    """Explain why a run does not move."""
    async with session.handle(run) as handle:
        reason = await handle.why()
        waits = [] if reason.code == "damaged" else await handle.waits()
    if session.out.as_json:
        session.out.json(
            {"id": handle.id, "code": reason.code, "text": reason.text, "until": time_text(reason.until)}
        )
        return
    session.out.line(reason.text)
    for wait in waits:
        session.out.say(f"  {next_step(session, handle.id, wait)}")


def _decider(wait: OpenWait) -> str:
    """Return the option that names somebody who may decide, if not everybody may."""
    if not wait.assignees:
        return ""
    kind, _, role = wait.assignees[0].partition(":")
    return f" --role {role}" if kind == "role" and role else f" --by {wait.assignees[0]}"


def next_step(session: CliSession, run: str, wait: OpenWait) -> str:
    """Return the command that answers an open wait, or when the wait ends by itself."""
    if wait.what == "signal":
        return session.command(f"runs signal {run} {wait.name} --payload JSON")
    if wait.what == "approval":
        return session.command(f"approvals approve {run} --path {wait.path}{_decider(wait)}")
    if wait.what == "trigger":
        names = "|".join(choice.name for choice in wait.choices) or wait.name
        return session.command(f"runs trigger {run} {names}")
    due = f", until {time_text(wait.due_at)}" if time_text(wait.due_at) else ""
    return f"{wait.what} {wait.name or wait.path}{due}"


@commands.add("events", "stepwell runs events @last", "stepwell runs events @last --follow --json")
async def events(
    session: CliSession,
    run: Run,
    follow: Follow = False,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", help="Only events after this one.", min=0)
    ] = 0,
) -> None:
    """Print the log of a run; with --json one object a line."""
    async with session.handle(run) as handle:
        async for event in handle.events(after=after, follow=follow):
            text = encoded(event_data(event)) if session.out.as_json else event_line(event)
            print(text, flush=follow)


def event_line(event: RunEvent) -> str:
    attempt = f" attempt {event.attempt}" if event.attempt > 1 else ""
    path = f" {event.path}" if event.path else ""
    return (
        f"{event.seq:>5}  {event.at:%Y-%m-%d %H:%M:%S.%f}  {event.kind}{path}{attempt}  {encoded(event.data)}"
    )


def event_data(event: RunEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": event.at.isoformat(),
        "kind": event.kind,
        "path": event.path,
        "attempt": event.attempt,
        "data": event.data,
    }


@commands.add(
    "logs",
    "stepwell runs logs @last",
    "stepwell runs logs @last 0/charge#1 --attempt 2",
    "stepwell runs logs @last -f",
)
async def logs(
    session: CliSession,
    run: Run,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Only the step at this path.")] = "",
    attempt: Annotated[
        int, typer.Option("--attempt", metavar="N", help="Only this attempt of the step.", min=0)
    ] = 0,
    follow: Follow = False,
) -> None:
    """Print what the steps of a run logged and printed; with --json one object a line."""
    async with session.handle(run) as handle:
        after = 0
        if follow:
            async for line in handle.follow_logs(path, attempt=attempt):
                _print_log(session, line)
            return
        while lines := await handle.logs(path, attempt=attempt, after=after):
            for line in lines:
                _print_log(session, line)
            after = lines[-1].n
    if not after:
        session.out.say("no step has logged or printed anything")


def _print_log(session: CliSession, line: StepLogLine) -> None:
    if session.out.as_json:
        session.out.json(line)
        return
    style = {"ERROR": "red", "CRITICAL": "red", "WARNING": "yellow"}.get(line.level, "")
    attempt = f" ({line.attempt})" if line.attempt > 1 else ""
    level = line.level or line.stream
    session.out.line(f"{line.at:%H:%M:%S.%f}  {line.path}{attempt}  {level:<7}  {line.text}", style)


@commands.add("steps", "stepwell runs steps @last", "stepwell runs steps @failed --json")
async def steps(session: CliSession, run: Run, limit: Limit = 1000) -> None:
    """List what a run did: steps, waits, children, transitions and nodes, with their attempts and errors."""
    async with session.handle(run) as handle:
        entries = await handle.trace(limit=limit, values=session.out.as_json)
    if session.out.as_json:
        session.out.json(entries)
        return
    now = _now()
    heads = [
        Column(
            "STATUS",
            lambda entry: str(entry.status),
            lambda entry: marked(entry.status),
            lambda entry: STYLES.get(entry.status, ""),
        ),
        Column("WHAT", lambda entry: "  " * min(entry.depth, 6) + (entry.title or entry.name), share=2),
        Column("KIND", lambda entry: " ".join(filter(None, [entry.kind, entry.type]))),
        Column("TOOK", lambda entry: _entry_took(entry, now)),
        Column("ATTEMPTS", lambda entry: str(len(entry.attempts)) if len(entry.attempts) > 1 else ""),
        Column("ERROR", lambda entry: " ".join(entry.error.message.split()) if entry.error else "", share=3),
        Column("PATH", lambda entry: str(entry.path), wide=True),
    ]
    session.out.table(heads, entries, empty=f"{handle.id} has done nothing yet")


def _entry_took(entry: TraceEntry, now: float) -> str:
    began = entry.started_at if entry.started_at is not None else entry.queued_at
    return duration_text((entry.ended_at or now) - began) if began is not None else ""


@commands.add("state", "stepwell runs state @last", "stepwell runs state @last --at 12 --json")
async def state(session: CliSession, run: Run, at: At = None) -> None:
    """Show the state of a run, now or after an earlier event: steps, waits and outputs."""
    async with session.handle(run) as handle:
        state = await handle.state(at)
    checkpoint = state.checkpoint
    session.out.fields(
        {
            "status": state.status.value,
            "place": checkpoint.place if checkpoint is not None else "",
            "state": checkpoint.state if checkpoint is not None else None,
            "input": state.input,
            "variables": state.variables,
            "nodes": state.nodes,
            "outputs": state.outputs,
            "steps": {path: step.status for path, step in state.steps.items()},
            "waits": [wait_data(wait) for wait in state.waits.values()],
            "error": state.error,
            "generation": state.generation,
        }
    )


def wait_data(wait: OpenWait) -> dict[str, Any]:
    """Return an open wait as JSON shows it."""
    return {
        "path": wait.path,
        "what": wait.what,
        "name": wait.name,
        "title": wait.title,
        "due_at": time_text(wait.due_at),
        "assignees": wait.assignees,
        "required": wait.required,
        "approved_by": wait.approved_by,
        "choices": [choice.name for choice in wait.choices],
        "form": wait.form,
    }


@commands.add("waits", "stepwell runs waits @waiting")
async def waits(session: CliSession, run: Run) -> None:
    """List what a run waits for, with the command that answers it."""
    async with session.handle(run) as handle:
        waits = await handle.waits()
    if session.out.as_json:
        session.out.json([wait_data(wait) for wait in waits])
        return
    heads = [
        Column("WHAT", lambda wait: str(wait.what)),
        Column("NAME", lambda wait: str(wait.name or wait.title)),
        Column("PATH", lambda wait: str(wait.path)),
        Column(
            "UNTIL", lambda wait: time_text(wait.due_at) or "", lambda wait: short_time(wait.due_at, _now())
        ),
        Column("ANSWER", lambda wait: next_step(session, handle.id, wait), share=1),
    ]
    session.out.table(heads, waits, empty=f"{handle.id} waits for nothing")


@commands.add("checkpoints", "stepwell runs checkpoints @last")
async def checkpoints(session: CliSession, run: Run) -> None:
    """List the checkpoints from which a run can be forked."""
    async with session.handle(run) as handle:
        points = await handle.checkpoints()
    data = [
        {
            "version": point.version,
            "place": point.place,
            "seq": point.seq,
            "at": time_text(point.at),
            "state": point.state,
            "documents": point.documents,
            "transition": point.transition,
            "forkable": point.forkable,
        }
        for point in points
    ]
    if session.out.as_json:
        session.out.json(data)
        return
    heads = [
        Column("SEQ", lambda point: str(point["seq"])),
        Column("PLACE", lambda point: str(point["place"]), share=2),
        Column("AT", lambda point: point["at"] or ""),
        Column("FORK", lambda point: f"stepwell runs fork {handle.id} --at {point['seq']}", share=3),
    ]
    session.out.table(heads, data, empty=f"{handle.id} has no checkpoints")


@commands.add(
    "documents", "stepwell runs documents @last", "stepwell runs documents @last invoice > invoice.json"
)
async def documents(
    session: CliSession,
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Print the value of this document.")] = "",
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="This version of the document.", min=1)
    ] = None,
    at: At = None,
) -> None:
    """List the documents of a run, or print one of them."""
    async with session.handle(run) as handle:
        if name:
            session.out.json(await handle.document(name, at=at, version=version))
            return
        saved = await handle.documents(at)
    if session.out.as_json:
        session.out.json(
            [{"name": d.name, "version": d.version, "type": d.type, "value": d.value} for d in saved]
        )
        return
    heads = [
        Column("NAME", lambda document: str(document.name)),
        Column("VERSION", lambda document: str(document.version)),
        Column("TYPE", lambda document: str(document.type)),
        Column("VALUE", lambda document: bytes(document.value).decode(), share=1),
    ]
    session.out.table(heads, saved, empty=f"{handle.id} has no documents")
