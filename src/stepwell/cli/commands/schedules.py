"""`stepwell schedules`: workflows that start by time."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Input, Limit, Reason, json_value, pairs
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text
from stepwell.errors import InvalidRequest

if TYPE_CHECKING:
    from stepwell.client.schedules import ScheduleInfo

commands = Commands("Start workflows by time.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]
Cron = Annotated[
    str, typer.Option("--cron", metavar="FIELDS", help="Minute, hour, day, month, weekday: '30 2 * * 1-5'.")
]
Every = Annotated[str | None, typer.Option("--every", metavar="DURATION", help="Interval, such as 15m.")]
Tz = Annotated[str, typer.Option("--tz", metavar="ZONE", help="Time zone of --cron.")]
Overlap = Annotated[
    str, typer.Option("--overlap", metavar="WORD", help="While the last run is live: queue, skip or allow.")
]
Missed = Annotated[
    str, typer.Option("--missed", metavar="WORD", help="Times without a worker: skip, one or all.")
]
Spread = Annotated[
    str | None, typer.Option("--spread", metavar="DURATION", help="Start up to this much later.")
]
Tag = Annotated[list[str], typer.Option("--tag", metavar="NAME=VALUE", help="Tag of its runs.")]
Queue = Annotated[str, typer.Option("--queue", metavar="NAME", help="Queue of its runs.")]
Version = Annotated[str, typer.Option("--version", metavar="VERSION", help="Version; by default the latest.")]


@commands.add(
    "list", "stepwell schedules list", "stepwell schedules list --json | jq '.[] | select(.paused)'"
)
async def list_(
    session: CliSession,
    workflow: Annotated[
        str, typer.Option("--workflow", "-w", metavar="NAME", help="Only schedules of this workflow.")
    ] = "",
    limit: Limit = 100,
) -> None:
    """List the schedules by name."""
    async with session.client() as client:
        infos = await client.schedules.list(workflow=workflow, limit=max(1, limit))
        now = await session.now(client)
    if session.out.as_json:
        session.out.json([schedule_data(info) for info in infos])
        return
    heads = [
        Column("NAME", lambda info: str(info.name), share=1),
        Column("WORKFLOW", lambda info: str(info.workflow), share=1),
        Column("WHEN", lambda info: str(info.words), share=2),
        Column(
            "NEXT",
            lambda info: "paused" if info.paused else time_text(info.next_at) or "never",
            lambda info: "paused" if info.paused else short_time(info.next_at, now) or "never",
            style=lambda info: "yellow" if info.paused else "",
        ),
        Column("STARTED", lambda info: str(info.started)),
        Column(
            "SKIPPED", lambda info: str(info.skipped), style=lambda info: "yellow" if info.skipped else ""
        ),
        Column("OVERLAP", lambda info: str(info.overlap), wide=True),
        Column("MISSED", lambda info: str(info.missed), wide=True),
    ]
    empty = "there are no schedules; create one: stepwell schedules create NAME WORKFLOW --every 15m"
    session.out.table(heads, infos, empty=empty)


@commands.add(
    "create",
    "stepwell schedules create nightly report --cron '30 2 * * 1-5' --tz Europe/Berlin",
    'stepwell schedules create sync pull --every 15m --overlap skip --input \'{"at": "{{trigger.slot}}"}\'',
)
async def create(
    session: CliSession,
    name: Name,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Name of the workflow.")],
    cron: Cron = "",
    every: Every = None,
    tz: Tz = "UTC",
    input: Input = None,
    overlap: Overlap = "queue",
    missed: Missed = "one",
    spread: Spread = None,
    tag: Tag = [],
    queue: Queue = "",
    version: Version = "",
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.", show_default=False)] = False,
    by: By = "",
) -> None:
    """Create a schedule: a workflow that starts by cron or at an interval."""
    arguments = () if input is None else (json_value("--input", input),)
    options: Any = {"cron": cron, "every": every, "timezone": tz, "overlap": overlap, "missed": missed}
    options |= {"tags": _tags(tag), "queue": queue, "version": version, "paused": paused}
    if spread is not None:
        options["spread"] = spread
    async with session.client() as client:
        info = await client.schedules.create(name, workflow, *arguments, **options, by=by or session.user)
    _tell(session, info, "is created")


@commands.add("update", "stepwell schedules update nightly --cron '0 3 * * *'")
async def update(
    session: CliSession,
    name: Name,
    cron: Cron = "",
    every: Every = None,
    tz: Tz = "",
    input: Input = None,
    overlap: Overlap = "",
    missed: Missed = "",
    spread: Spread = None,
    tag: Tag = [],
    queue: Queue = "",
    version: Version = "",
    by: By = "",
) -> None:
    """Change the settings that the options name."""
    given: dict[str, Any] = {"cron": cron, "every": every, "timezone": tz, "overlap": overlap}
    given |= {"missed": missed, "spread": spread, "queue": queue, "version": version, "tags": _tags(tag)}
    changes: Any = {name: value for name, value in given.items() if value}
    if input is not None:
        changes["input"] = json_value("--input", input)
    if not changes:
        raise InvalidRequest("no option names a setting to change", hint="such as --cron '0 3 * * *'")
    async with session.client() as client:
        info = await client.schedules.update(name, **changes, by=by or session.user)
    _tell(session, info, "is changed")


@commands.add("show", "stepwell schedules show nightly")
async def show(session: CliSession, name: Name) -> None:
    """Show a schedule with its next times and its last run."""
    async with session.client() as client:
        session.out.fields(schedule_data(await client.schedules.get(name)))


@commands.add(
    "preview",
    "stepwell schedules preview --cron '30 2 * * 1-5' --tz Europe/Berlin",
    "stepwell schedules preview --every 90m --count 10",
)
async def preview(
    session: CliSession,
    cron: Cron = "",
    every: Every = None,
    tz: Tz = "UTC",
    count: Annotated[int, typer.Option("--count", metavar="N", help="How many times.", min=1)] = 5,
) -> None:
    """Describe when a schedule would be due, with its next times. It needs no database."""
    from stepwell.client.schedules import checked_schedule, previewed
    from stepwell.domain.triggers.schedule import ScheduleSettings, zone
    from stepwell.system import SystemClock

    now = float(int(SystemClock.time()))
    asked = checked_schedule({"cron": cron, "every": every, "timezone": tz})
    shown = previewed(asked.settings(ScheduleSettings(anchor=now)), None, count, now)
    if session.out.as_json:
        session.out.json({"words": shown.words, "times": [time_text(at) for at in shown.times]})
        return
    session.out.say(shown.words)
    for at in shown.times:
        session.out.line(datetime.fromtimestamp(at, zone(tz)).strftime("%Y-%m-%d %H:%M:%S %Z, %A"))


@commands.add("pause", "stepwell schedules pause nightly --reason 'the warehouse moves'")
async def pause(session: CliSession, name: Name, reason: Reason = "", by: By = "") -> None:
    """Pause a schedule: it starts nothing until it is resumed."""
    async with session.client() as client:
        changed = await client.schedules.pause(name, by=by or session.user, reason=reason)
    session.out.changed(name, changed, "is paused", "was paused before")


@commands.add("resume", "stepwell schedules resume nightly")
async def resume(session: CliSession, name: Name, by: By = "") -> None:
    """Resume a schedule, from its next time on."""
    async with session.client() as client:
        changed = await client.schedules.resume(name, by=by or session.user)
    session.out.changed(name, changed, "is due again", "was not paused")


@commands.add("trigger", "stepwell schedules trigger nightly")
async def trigger(session: CliSession, name: Name, by: By = "") -> None:
    """Start a run of the schedule now, and print its id."""
    async with session.client() as client:
        run = await client.schedules.trigger(name, by=by or session.user)
    if session.out.as_json:
        session.out.json({"id": run.id})
    else:
        session.out.line(run.id)


@commands.add(
    "backfill", "stepwell schedules backfill nightly --since 2026-01-01 --until 2026-02-01T12:00:00+01:00"
)
async def backfill(
    session: CliSession,
    name: Name,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="Slots from this time on.")],
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Slots before this time.")],
    by: By = "",
) -> None:
    """Start the runs of past slots. A slot that has a run keeps it."""
    first, last = _moment("--since", since), _moment("--until", until)
    async with session.client() as client:
        done = await client.schedules.backfill(name, first, last, by=by or session.user)
    if session.out.as_json:
        session.out.json(done._asdict())
    else:
        others = "" if done.started == done.slots else "; the others had one"
        session.out.say(f"{done.started} of {done.slots} slots started a run{others}")


@commands.add("delete", "stepwell schedules delete nightly")
async def delete(session: CliSession, name: Name, by: By = "") -> int:
    """Delete a schedule; its runs continue."""
    async with session.client() as client:
        done = await client.schedules.delete(name, by=by or session.user)
    return session.out.deleted(name, done, names="stepwell schedules list")


def schedule_data(info: ScheduleInfo) -> dict[str, Any]:
    """Return a schedule as JSON shows it."""
    data = asdict(info)
    for name in ("paused_at", "next_at", "last_slot", "skipped_slot", "created_at", "updated_at"):
        data[name] = time_text(data[name])
    data["next_times"] = [time_text(at) for at in info.next_times]
    return data


def _tell(session: CliSession, info: ScheduleInfo, what: str) -> None:
    if session.out.as_json:
        session.out.json(schedule_data(info))
    else:
        due = "paused" if info.paused else f"next {time_text(info.next_at) or 'never'}"
        session.out.say(f"{info.name} {what}: {info.words}; {due}")


def _tags(texts: list[str]) -> dict[str, str]:
    return {name: str(value) for name, value in pairs("--tag", texts).items()}


def _moment(option: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{option} is {text!r}",
            hint="write 2026-01-31 or 2026-01-31T12:00:00+01:00; without a zone it is UTC",
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
