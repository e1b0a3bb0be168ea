"""`stepwell runs start | signal | decide | trigger | cancel | retry ...`: acting on runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import (
    By,
    Input,
    Reason,
    Run,
    Workflow,
    Yes,
    json_value,
    pairs,
    read_bytes,
    write_bytes,
)
from stepwell.cli.selection import Bulk, RunsOptions, WhichRuns, matching
from stepwell.cli.session import CliSession
from stepwell.errors import InvalidInput, InvalidRequest

if TYPE_CHECKING:
    from stepwell.client import RunHandle
    from stepwell.client.options import WhoOptions

commands = Commands()
_ANSWERS = "use approved, denied, or JSON: true, '\"text\"', '{\"amount\": 12}'"
_LIVE = ("pending", "running", "suspended")
Payload = Annotated[
    str | None, typer.Option("--payload", metavar="JSON", help="Payload as JSON, @FILE, or - for stdin.")
]
Key = Annotated[
    str, typer.Option("--key", metavar="KEY", help="Idempotency key: the same key is the same run.")
]


@commands.add(
    "start",
    "stepwell runs start fulfil --input '{\"id\": 42}' --key order-42",
    "stepwell runs start fulfil -i id=42 --tag customer=7",
)
async def start(
    session: CliSession,
    workflow: Workflow,
    input: Input = None,
    fields: Annotated[
        list[str], typer.Option("-i", "--field", metavar="NAME=VALUE", help="Field of the input.")
    ] = [],
    key: Key = "",
    version: Annotated[
        str, typer.Option("--version", metavar="N", help="Version; by default the latest.")
    ] = "",
    tag: Annotated[list[str], typer.Option("--tag", metavar="NAME=VALUE", help="Tag of the run.")] = [],
    priority: Annotated[int, typer.Option("--priority", metavar="N", help="Higher goes first.")] = 0,
    delay: Annotated[str, typer.Option("--delay", metavar="DURATION", help="Begin later, such as 10m.")] = "",
    by: By = "",
) -> None:
    """Start a run of a workflow that the database knows, and print its id."""
    options: dict[str, Any] = {"key": key, "version": version, "by": by or session.user}
    options |= {"tags": {name: str(value) for name, value in pairs("--tag", tag).items()}} if tag else {}
    options |= {"priority": priority} if priority else {}
    options |= {"delay": delay} if delay else {}
    given = input_of(input, fields)
    async with session.client() as client:
        with input_needed(given):
            run = await (
                client.start(workflow, given[0], **options) if given else client.start(workflow, **options)
            )
    _print_new(session, run)


def input_of(text: str | None, fields: list[str]) -> list[Any]:
    """Return the input of a start, or `{}` if none was given."""
    if fields:
        base = json_value("--input", text) if text is not None else {}
        if not isinstance(base, dict):
            raise InvalidRequest(
                "--input is not an object, so it has no fields", hint="leave --input or -i out"
            )
        return [{**base, **pairs("--field", fields)}]
    return [json_value("--input", text)] if text is not None else []


@contextmanager
def input_needed(given: list[Any]) -> Iterator[None]:
    """Say how an input is given, if none was and the workflow refuses that."""
    try:
        yield
    except InvalidInput as error:
        if not given:
            error.hint = "give its input: --input JSON, or its fields: -i NAME=VALUE"
        raise


def _print_new(session: CliSession, run: RunHandle[Any]) -> None:
    if session.out.as_json:
        session.out.json({"id": run.id})
    else:
        session.out.line(run.id)


@commands.add(
    "signal",
    'stepwell runs signal @waiting approve --payload \'{"by": "ben"}\'',
    "stepwell runs signal 0192f0c1 paid --payload @payment.json --id payment-7",
)
async def signal(
    session: CliSession,
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the signal.")],
    payload: Payload = None,
    id: Annotated[
        str, typer.Option("--id", metavar="ID", help="Safe to repeat: the same id counts once.")
    ] = "",
    by: By = "",
) -> None:
    """Send a signal to a run; it waits until the run asks for it."""
    value = json_value("--payload", payload) if payload is not None else None
    async with session.handle(run) as handle:
        await handle.signal(name, value, id=id, by=by or session.user)
    _done(session, handle.id, f"sent signal {name} to {handle.id}")


def _done(session: CliSession, run: str, text: str) -> None:
    if session.out.as_json:
        session.out.json({"id": run, "done": True, "text": text})
    else:
        session.out.say(text)


@commands.add(
    "decide",
    "stepwell runs decide @waiting approved --reason 'checked the invoice'",
    "stepwell runs decide @waiting '{\"amount\": 12}' --path 0/approval:refund#1",
)
async def decide(
    session: CliSession,
    run: Run,
    answer: Annotated[
        str, typer.Argument(metavar="ANSWER", help="approved, denied, or the answer of its form as JSON.")
    ],
    path: Annotated[
        str, typer.Option("--path", metavar="PATH", help="Path of the approval, if several are open.")
    ] = "",
    role: Annotated[list[str], typer.Option("--role", metavar="ROLE", help="Role that you have.")] = [],
    by: By = "",
    reason: Reason = "",
) -> None:
    """Answer an open approval of a run."""
    value = answer if answer in ("approved", "denied") else json_value("ANSWER", answer, _ANSWERS)
    async with session.handle(run) as handle:
        await handle.decide(value, path=path, by=by or session.user, roles=role, reason=reason)
    _done(session, handle.id, f"decided: {answer}")


@commands.add("trigger", "stepwell runs trigger @waiting ship --reason 'stock arrived'")
async def trigger(
    session: CliSession,
    run: Run,
    transition: Annotated[
        str, typer.Argument(metavar="TRANSITION", help="Transition that the machine waits for.")
    ],
    payload: Payload = None,
    by: By = "",
    reason: Reason = "",
) -> None:
    """Take a transition that a machine waits for."""
    value = json_value("--payload", payload) if payload is not None else None
    async with session.handle(run) as handle:
        await handle.trigger(transition, value, by=by or session.user, reason=reason)
    _done(session, handle.id, f"triggered {transition} of {handle.id}")


# Several runs at once


@commands.add(
    "cancel",
    "stepwell runs cancel @last --reason 'wrong order'",
    "stepwell runs cancel --workflow nightly --status running --status pending --yes",
)
async def cancel(session: CliSession, asked: RunsOptions) -> int:
    """Ask runs to clean up and end."""

    async def act(run: RunHandle[Any]) -> str:
        requested = await run.cancel(asked.reason, by=asked.by or session.user)
        status = await run.status()
        if not requested and status.terminal:
            return f"{run.id} had already ended: it is {status}"
        if requested and status.terminal:
            return f"{run.id} is {status}"
        return f"{run.id} is being cancelled" if requested else f"{run.id} was already being cancelled"

    return await Bulk(session, "cancel", "cancelled").act(asked, act, *_LIVE)


@commands.add(
    "retry",
    "stepwell runs retry @failed",
    "stepwell runs retry --status failed --since 24h --workflow fulfil",
)
async def retry(session: CliSession, asked: RunsOptions) -> int:
    """Retry failed or timed-out runs from where they stopped."""

    async def act(run: RunHandle[Any]) -> str:
        await run.retry(by=asked.by or session.user, reason=asked.reason)
        return f"retrying {run.id}"

    return await Bulk(session, "retry", "retried").act(asked, act, "failed", "timed_out")


@commands.add(
    "delete", "stepwell runs delete 0192f0c1d2e3", "stepwell runs delete --status cancelled --since 7d"
)
async def delete(session: CliSession, asked: RunsOptions) -> int:
    """Delete runs that have ended, and all runs below them, for good."""

    async def act(run: RunHandle[Any]) -> str:
        await run.delete(by=asked.by or session.user, reason=asked.reason)
        return f"deleted {run.id}"

    return await Bulk(session, "delete", "deleted").act(asked, act)


@commands.add(
    "hold", "stepwell runs hold @last --reason 'bank is down'", "stepwell runs hold --workflow pay --yes"
)
async def hold(session: CliSession, asked: RunsOptions) -> int:
    """Stop runs until they are released: they begin nothing new."""

    async def act(run: RunHandle[Any]) -> str:
        changed = await run.hold(by=asked.by or session.user, reason=asked.reason)
        return f"{run.id} {'is held' if changed else 'was held before'}"

    return await Bulk(session, "hold", "held").act(asked, act, *_LIVE)


@commands.add("release", "stepwell runs release @last", "stepwell runs release --workflow pay --yes")
async def release(session: CliSession, asked: RunsOptions) -> int:
    """Let held runs continue."""

    async def act(run: RunHandle[Any]) -> str:
        changed = await run.release(by=asked.by or session.user, reason=asked.reason)
        return f"{run.id} {'is released' if changed else 'was not held'}"

    return await Bulk(session, "release", "released").act(asked, act, *_LIVE)


@commands.add("force", "stepwell runs force @last --reason 'its worker hangs' --yes")
async def force(session: CliSession, run: Run, yes: Yes = False, by: By = "", reason: Reason = "") -> None:
    """End a run at once, as cancelled, without its cleanup: the last resort after cancel."""
    async with session.handle(run) as handle:
        await handle.info()
        question = f"End {handle.id} without letting it clean up?"
        if not session.out.confirm(question, yes=yes):
            session.out.say("nothing was changed")
            return
        ended = await handle.cancel(reason, by=by or session.user, force=True)
    _done(session, handle.id, f"{handle.id} {'is cancelled' if ended else 'had already ended'}")


@commands.add(
    "delay", "stepwell runs delay @waiting 0 --reason 'no need to wait'", "stepwell runs delay 0192f0c1 2h"
)
async def delay(
    session: CliSession,
    run: Run,
    to: Annotated[str, typer.Argument(metavar="DURATION", help="From now on, such as 10m; 0 for at once.")],
    path: Annotated[
        str, typer.Option("--path", metavar="PATH", help="Path of the timer, if several are open.")
    ] = "",
    by: By = "",
    reason: Reason = "",
) -> None:
    """Change when the timer of a sleeping run fires: sooner, later or at once."""
    async with session.handle(run) as handle:
        await handle.change_delay(0 if to == "0" else to, path=path, by=by or session.user, reason=reason)
    _done(session, handle.id, f"the timer of {handle.id} fires {'now' if to == '0' else f'in {to}'}")


@commands.add("discard", "stepwell runs discard @last --yes")
async def discard(session: CliSession, run: Run, yes: Yes = False, by: By = "", reason: Reason = "") -> None:
    """Stop a test run and delete it with all runs below it, without its cleanup."""
    async with session.handle(run) as handle:
        await handle.info()
        if not session.out.confirm(f"Stop and delete {handle.id}?", yes=yes):
            session.out.say("nothing was changed")
            return
        await handle.discard(by=by or session.user, reason=reason)
    _done(session, handle.id, f"discarded {handle.id}")


@commands.add("skip", "stepwell runs skip @failed --output '{\"paid\": true}' --reason 'paid by hand'")
async def skip(
    session: CliSession,
    run: Run,
    output: Annotated[
        str | None, typer.Option("--output", metavar="JSON", help="What the step returned; else null.")
    ] = None,
    path: Annotated[str, typer.Option("--path", metavar="PATH", help="Skip only if this step failed.")] = "",
    by: By = "",
    reason: Reason = "",
) -> None:
    """Continue a failed run as if its failed step had returned a value."""
    value = json_value("--output", output) if output is not None else None
    async with session.handle(run) as handle:
        await handle.skip(value, path=path, by=by or session.user, reason=reason)
    _done(session, handle.id, f"{handle.id} continues; the failed step counts as completed")


@commands.add("set-variable", "stepwell runs set-variable @last amount 120 --reason 'the invoice was wrong'")
async def set_variable(
    session: CliSession,
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a variable of its graph.")],
    value: Annotated[str, typer.Argument(metavar="JSON", help="New value, as JSON.")],
    by: By = "",
    reason: Reason = "",
) -> None:
    """Set a variable of a graph run that waits or is held."""
    given = json_value("JSON", value)
    async with session.handle(run) as handle:
        await handle.set_variable(name, given, by=by or session.user, reason=reason)
    _done(session, handle.id, f"{handle.id} gets the new value of {name}")


@commands.add("compensate", "stepwell runs compensate @failed --reason 'customer gave up'")
async def compensate(session: CliSession, run: Run, by: By = "", reason: Reason = "") -> None:
    """Undo the completed steps of a failed or timed-out run."""
    async with session.handle(run) as handle:
        await handle.compensate(by=by or session.user, reason=reason)
    _done(session, handle.id, f"compensating {handle.id}")


# Runs made from others


@commands.add("rerun", "stepwell runs rerun @last", "stepwell runs rerun @last --input '{\"id\": 43}'")
async def rerun(
    session: CliSession,
    run: Run,
    from_step: Annotated[
        str, typer.Option("--from-step", metavar="STEP", help="Keep all results recorded before this step.")
    ] = "",
    input: Input = None,
    version: Annotated[
        str, typer.Option("--version", metavar="N", help="Version; else the version of the run.")
    ] = "",
    key: Key = "",
    by: By = "",
    reason: Reason = "",
) -> None:
    """Start a new run with the same input, or from one of its steps, and print its id."""
    if from_step and (input is not None or version):
        raise InvalidRequest(
            f"--{'version' if input is None else 'input'} cannot be combined with --from-step",
            hint="the steps before it ran with the old one; use fork --at SEQ --input",
        )
    changed: dict[str, Any] = {"input": json_value("--input", input)} if input is not None else {}
    changed |= {"version": version} if version else {}
    who: WhoOptions = {"by": by or session.user, "reason": reason}
    async with session.engine() as engine:
        handle = await session.run(engine, run)
        if from_step:
            new = await engine.rerun_from(handle, from_step, key=key, **who)
        else:
            new = await engine.rerun(handle, key=key, **changed, **who)
        _print_new(session, new)


@commands.add("rerun-from", "stepwell runs rerun-from @failed charge")
async def rerun_from(
    session: CliSession,
    run: Run,
    step: Annotated[
        str, typer.Argument(metavar="STEP", help="Name or path of a step, or a node of a graph.")
    ],
    outputs: Annotated[
        list[str],
        typer.Option("--output", metavar="PATH=JSON", help="Replace the result of an earlier step."),
    ] = [],
    key: Key = "",
    by: By = "",
    reason: Reason = "",
) -> None:
    """Start a new run that keeps all results from before a step, and print its id."""
    who: WhoOptions = {"by": by or session.user, "reason": reason}
    edits = pairs("--output", outputs) or None
    async with session.engine() as engine:
        handle = await session.run(engine, run)
        _print_new(session, await engine.rerun_from(handle, step, outputs=edits, key=key, **who))


@commands.add(
    "fork",
    "stepwell runs fork @last --at 12",
    "stepwell runs fork @last --at 12 --output 0/charge#1='{\"paid\": true}'",
)
async def fork(
    session: CliSession,
    run: Run,
    at: Annotated[int, typer.Option("--at", metavar="SEQ", help="Last event to keep.", min=1)],
    input: Input = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="JSON", help="State of a machine as JSON, or @FILE.")
    ] = None,
    outputs: Annotated[
        list[str], typer.Option("--output", metavar="PATH=JSON", help="Replace the result of a step.")
    ] = [],
    key: Key = "",
    by: By = "",
    reason: Reason = "",
) -> None:
    """Start a new run from an event of this run's log, and print its id."""
    changed: dict[str, Any] = {"input": json_value("--input", input)} if input is not None else {}
    changed |= {"state": json_value("--state", state)} if state is not None else {}
    changed |= {"outputs": pairs("--output", outputs)} if outputs else {}
    who: WhoOptions = {"by": by or session.user, "reason": reason}
    async with session.engine() as engine:
        handle = await session.run(engine, run)
        _print_new(session, await engine.fork(handle, at=at, key=key, **changed, **who))


# Runs as files


@commands.add(
    "export",
    "stepwell runs export @last -o run.json",
    "stepwell runs export @last | jq .runs",
    "stepwell runs export --status failed --since 7d -o failed/",
)
async def export(
    session: CliSession,
    asked: WhichRuns,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write, - is stdout; of several runs the folder."
        ),
    ] = "-",
) -> None:
    """Write a run and all runs below it as one JSON file; several runs as one file each."""
    asked.check("export")
    async with session.client() as client:
        if len(asked.runs) == 1:
            handle = await session.run(client, asked.runs[0])
            write_bytes(output, await client.export(handle))
            if output != "-":
                _done(session, handle.id, f"wrote {output}")
            return
        folder = _folder(output)
        ids = [(await session.run(client, run)).id for run in asked.runs]
        ids += [row.id async for row in matching(client, asked.choice)] if not asked.runs else []
        with session.out.progress("export", len(ids)) as advance:
            for run_id in ids:
                write_bytes(str(folder / f"run-{run_id}.json"), await client.export(run_id))
                advance(1)
    if session.out.as_json:
        session.out.json([{"id": run_id, "file": str(folder / f"run-{run_id}.json")} for run_id in ids])
    else:
        session.out.say(f"wrote {len(ids)} files to {folder}")


def _folder(output: str) -> Path:
    if output == "-":
        raise InvalidRequest(
            "several runs do not fit into one file", hint="name a folder: --output exported/"
        )
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"{output} cannot be a folder: {error.strerror}", hint="name another one"
        ) from None
    return folder


@commands.add(
    "import", "stepwell runs import run.json --database copy.db", "stepwell runs import - < run.json"
)
async def import_(
    session: CliSession,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Exported file; - is stdin.")],
    by: By = "",
) -> None:
    """Restore exported runs under their own ids; those that had not ended continue."""
    data = read_bytes(file)  # fails before a new database is created
    async with session.client(create=True) as client:
        run = await client.import_run(data, by=by or session.user)
    _print_new(session, run)
