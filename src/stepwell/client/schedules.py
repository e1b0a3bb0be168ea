"""Schedules: workflows that start by time. Workers start their runs; no other process is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.client.options import Moment, checked_moment, checked_options
from stepwell.client.triggers import NamedTriggers, checked_name
from stepwell.client.workflows import Workflows
from stepwell.domain.codec import encoded_by_type, limited
from stepwell.domain.commit import Definition, NewRun
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.ids import RunId
from stepwell.domain.new_run import NO_INPUT, default_of
from stepwell.domain.schema import Schema
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.text import checked_text
from stepwell.domain.triggers.input import check_references, filled
from stepwell.domain.triggers.schedule import (
    SCHEDULE_KNOWN,
    ScheduleSettings,
    checked_settings,
    described,
    next_slot,
    slots,
    spread_of,
)
from stepwell.domain.triggers.scheduled_runs import ScheduledRuns, settings_of, state_of
from stepwell.domain.triggers.trigger import SCHEDULE, Pause, Trigger, TriggerStart
from stepwell.domain.triggers.triggered_runs import start_of
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import BadTimeZone, Conflict, InvalidInput, excerpt

if TYPE_CHECKING:
    from stepwell.client.client import Client
    from stepwell.client.handle import RunHandle

BACKFILL_MAX = 1000
PREVIEW_MAX = 100
_CHUNK = 500
_LAST_TIME = 221_845_392_000.0  # the end of the year 8999


class ScheduleOptions(TypedDict, total=False):
    """When a schedule is due, and what input its runs get."""

    cron: str
    every: Duration | None
    timezone: str
    overlap: str
    missed: str
    spread: Duration
    version: str
    tags: Mapping[str, str] | None
    queue: str
    priority: int | None
    timeout: Duration | None
    paused: bool
    by: str


class ScheduleChanges(ScheduleOptions, total=False):
    workflow: Any
    input: Any
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule. Times are in seconds since 1970."""

    name: str
    workflow: str
    version: str = ""  # '': the latest version
    words: str = ""  # when it is due, in words
    cron: str = ""
    every: float | None = None
    timezone: str = "UTC"
    overlap: str = "queue"
    missed: str = "one"
    spread: float = 0.0
    input: Any = None
    tags: dict[str, str] = field(default_factory=dict)
    queue: str = ""
    priority: int | None = None
    timeout: float | None = None
    paused: bool = False
    paused_by: str = ""
    paused_at: float | None = None
    reason: str = ""  # why it was paused
    next_at: float | None = None
    next_times: tuple[float, ...] = ()  # its next five times
    started: int = 0  # runs
    skipped: int = 0  # slots that started no run
    last_slot: float | None = None  # the last slot that started a run
    last_run: str = ""
    skipped_slot: float | None = None  # the last slot without a run
    skip_reason: str = ""  # why: overlap, missed, disabled, no_workflow, or an error code
    origin: str = ""  # the graph that declares it
    revision: int = 1  # pass it as `expected`, to change only what you have read
    created_at: float | None = None
    created_by: str = ""
    updated_at: float | None = None
    updated_by: str = ""


class SchedulePreview(NamedTuple):
    """A schedule in words, and its next times in seconds since 1970."""

    words: str
    times: tuple[float, ...]


class Backfill(NamedTuple):
    """The slots of a backfill. `started` runs are new; the other slots already had theirs."""

    slots: int
    started: int


class Schedules(NamedTriggers[ScheduleInfo]):
    """`engine.schedules`: which workflows start by time. A resumed one continues with its next time."""

    _type = SCHEDULE

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._client = client

    async def create(
        self, name: str, workflow: Any, input: Any = NO_INPUT, **options: Unpack[ScheduleOptions]
    ) -> ScheduleInfo:
        """Start a workflow by `cron` in a time zone, or `every` so often. TriggerExists: the name is taken.

        `overlap` says what happens if the last run has not ended: "queue" makes the next one wait, "skip"
        leaves it out, "allow" runs both. `missed` says what happens to times at which there was no worker:
        "skip" starts nothing, "one" starts one run for all of them, "all" starts the last 100. `spread`
        delays each start by up to that time, always by the same amount for one schedule. In `input`,
        "{{trigger.slot}}" stands for the time that the run is for.
        """
        return await self._create(await self.built(name, workflow, input, {**options}))

    async def built(
        self, name: str, workflow: Any, input: Any, options: dict[str, Any], *, origin: str = ""
    ) -> Trigger:
        """Return the schedule as it is to be stored."""
        now = await self._client.store.now()
        by = checked_text(options.get("by", ""), "by")
        asked = checked_schedule({**options})
        settings = asked.settings(ScheduleSettings(anchor=float(int(now))))
        definition = await self._definition(workflow, options.get("version", ""))
        id = str(self._client.ids.run_id())
        start = self._start(definition, input, asked, TriggerStart())
        trigger = Trigger(
            id=id,
            type=SCHEDULE,
            name=checked_name(name, SCHEDULE),
            workflow=definition.name,
            version=asked.version or "",
            workspace=self._client.workspace,
            settings=msgspec.json.encode(settings),
            start=msgspec.json.encode(start),
            origin=origin,
            created_at=now,
            created_by=by,
            updated_at=now,
            updated_by=by,
        )
        if asked.paused:
            trigger = replace(trigger, paused=msgspec.json.encode(Pause(by=by, at=now)))
        return timed(trigger, settings, now)

    async def update(self, name: str, **changes: Unpack[ScheduleChanges]) -> ScheduleInfo:
        """Change some settings of a schedule. With `expected`, only that revision is changed: Conflict."""
        expected = changes.pop("expected", 0)
        workflow, input = changes.pop("workflow", ""), changes.pop("input", NO_INPUT)
        by = checked_text(changes.get("by", ""), "by")
        asked = checked_schedule({**changes})
        while True:
            trigger, now = await self._read(name), await self._client.store.now()
            self._check_own(trigger)
            if expected not in (0, trigger.revision):
                raise Conflict(
                    f"schedule {excerpt(name)} was changed by {trigger.updated_by or 'somebody'}",
                    hint="read it again, and repeat the change with its revision",
                    revision=trigger.revision,
                )
            version = trigger.version if asked.version is None else asked.version
            definition = await self._definition(workflow or trigger.workflow, version)
            before = settings_of(trigger)
            settings = asked.settings(before)
            old = start_of(trigger)
            given = msgspec.json.decode(old.input) if input is NO_INPUT else input
            start = self._start(definition, given, asked, old)
            changed = replace(
                trigger,
                workflow=definition.name,
                version=version,
                settings=msgspec.json.encode(settings),
                start=msgspec.json.encode(start),
            )
            if asked.paused is not None and asked.paused != (trigger.paused is not None):
                pause = msgspec.json.encode(Pause(by=by, at=now)) if asked.paused else None
                changed = replace(changed, paused=pause)
            if settings != before or changed.paused != trigger.paused:
                changed = timed(changed, settings, now)
            if await self._change(trigger, changed, by, now):
                return await self.get(name)
            # Somebody changed it meanwhile: read it again.

    async def trigger(self, name: str, *, key: str = "", by: str = "") -> RunHandle[Any]:
        """Start a run of the schedule now, even if it is paused. Its slot is the current time."""
        trigger, now = await self._read(name), await self._client.store.now()
        key = f"sched/{trigger.id}/now/{checked_text(key, 'key') or self._client.token()}"
        run = await self._run(trigger, now, key=key, by=by)
        [run_id] = await self._start_runs([run])
        return self._client.handle(run_id)

    async def backfill(self, name: str, since: Moment, until: Moment, *, by: str = "") -> Backfill:
        """Start the runs of past slots from `since` to before `until`. A slot that has a run keeps it.

        At most 1000 slots. `overlap` applies, except that "skip" leaves out none of them.
        """
        trigger, now = await self._read(name), await self._client.store.now()
        times = backfilled(settings_of(trigger), since, until, now)
        definition = await self._definition(trigger.workflow, trigger.version)
        runs = [await self._run(trigger, slot, by=by, definition=definition) for slot in times]
        started = 0
        for at in range(0, len(runs), _CHUNK):
            chunk = runs[at : at + _CHUNK]
            ids = await self._start_runs(chunk)
            started += sum(run.id == id for run, id in zip(chunk, ids, strict=True))
        return Backfill(len(times), started)

    async def _start_runs(self, runs: Sequence[NewRun]) -> Sequence[RunId]:
        """Start the runs once each. Returns all ids, including those of runs that exist already."""
        self._client.check_usable()
        answers = await self._client.call_idempotent(lambda: self._client.starter.start(runs))
        self._client.notifier.notify_work()
        if any(answer.disabled for answer in answers):
            raise await Workflows(self._client).refusal(runs[0].workflow)
        return [answer.run_id for answer in answers]

    async def preview(
        self,
        *,
        cron: str = "",
        every: Duration | None = None,
        timezone: str = "UTC",
        after: Moment | None = None,
        count: int = 5,
    ) -> SchedulePreview:
        """Describe when such a schedule would be due, with its next times. Nothing is stored."""
        now = await self._client.store.now()
        settings = checked_schedule({"cron": cron, "every": every, "timezone": timezone})
        return previewed(settings.settings(ScheduleSettings(anchor=float(int(now)))), after, count, now)

    # Parts

    def _info(self, trigger: Trigger) -> ScheduleInfo:
        return info_of(trigger)

    def _switched(self, trigger: Trigger, now: float) -> Trigger:
        return timed(trigger, settings_of(trigger), now)

    def _start(
        self, definition: Definition, input: Any, asked: CheckedSchedule, old: TriggerStart
    ) -> TriggerStart:
        if input is NO_INPUT:
            input = default_of(definition.input_schema)
        data = limited(
            encoded_by_type(input), f"the input of {definition.name}", self._client.payload_bytes_max
        )
        value = msgspec.json.decode(data)
        check_references(value, SCHEDULE_KNOWN)
        sample = filled(value, SCHEDULE_KNOWN)
        Schema(definition.input_schema.decode()).check(sample, workflow=definition.name)
        return replace(old, input=Raw(data), **asked.start)

    async def _run(
        self,
        trigger: Trigger,
        slot: float,
        *,
        key: str = "",
        by: str = "",
        definition: Definition | None = None,
    ) -> NewRun:
        if definition is None:
            definition = await self._definition(trigger.workflow, trigger.version)
        run_id = self._client.ids.run_id()
        return ScheduledRuns(self._client.ids, self._client.payload_bytes_max).run(
            trigger, definition, slot, run_id=run_id, key=key, by=checked_text(by, "by")
        )


class CheckedSchedule:
    """The checked options of a schedule. Options that were not given stay as they are."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._spec = {name: options[name] for name in _SPEC if options.get(name) is not None}
        self.version: str | None = options.get("version")
        self.paused: bool | None = options.get("paused")
        self.start = {
            name: options[name] for name in ("tags", "queue", "priority", "timeout") if name in options
        }

    def settings(self, before: ScheduleSettings) -> ScheduleSettings:
        changes = dict(self._spec)
        if changes.get("cron"):
            changes["every"] = None
        elif changes.get("every"):
            changes["cron"] = ""
        both = self._spec.get("cron") and self._spec.get("every")
        return checked_settings(replace(before, **(self._spec if both else changes)))


_SPEC = ("cron", "every", "timezone", "overlap", "missed", "spread")
_START = ("tags", "queue", "priority", "timeout")
_NAMES = (*_SPEC, *_START, "version", "paused", "by")


def checked_schedule(options: dict[str, Any]) -> CheckedSchedule:
    """Check the options of a schedule that need no database. InvalidInput names the wrong one."""
    for name in options:
        if name not in _NAMES:
            raise InvalidInput(
                f"a schedule has no option {excerpt(name)}",
                hint=did_you_mean_one_of(name, _NAMES),
                field=name,
            )
    for name in ("cron", "timezone", "overlap", "missed", "version", "queue"):
        if options.get(name) is not None:
            checked_text(options[name], name)
    for name in ("every", "spread"):
        if options.get(name) is not None:
            options[name] = seconds(options[name], name=name)
    given: dict[str, Any] = {name: options[name] for name in _START if name in options}
    checked = checked_options(dict(given))
    for name in given:
        options[name] = checked[name]
    if options.get("tags", ...) is None:
        options["tags"] = {}
    if options.get("queue", ...) is None:
        options["queue"] = ""
    if not isinstance(options.get("paused", False), bool):
        raise InvalidInput(
            f"paused is {excerpt(options['paused'])}", hint="pass True or False", field="paused"
        )
    return CheckedSchedule(options)


def timed(trigger: Trigger, settings: ScheduleSettings, now: float) -> Trigger:
    """Return the trigger with its next slot; none while it is paused."""
    slot = None if trigger.paused is not None else next_slot(settings, now)
    next_at = None if slot is None else slot + spread_of(settings, trigger.id)
    return replace(trigger, slot=slot, next_at=next_at)


def previewed(settings: ScheduleSettings, after: Moment | None, count: int, now: float) -> SchedulePreview:
    number = whole_number(count, "count", least=1, most=PREVIEW_MAX)
    begin = _checked_time(after, "after", now)
    return SchedulePreview(described(settings), tuple(islice(slots(settings, begin), number)))


def _checked_time(moment: Moment | None, name: str, default: float) -> float:
    """Return a time whose year and neighbouring years Python can represent."""
    time = checked_moment(moment, name, default)
    if not 0 <= time <= _LAST_TIME:
        raise InvalidInput(f"{name} is {excerpt(moment)}", hint="give a time from 1970 to 9000", field=name)
    return time


def backfilled(settings: ScheduleSettings, since: Moment, until: Moment, now: float) -> list[float]:
    """Return the slots from `since` to before `until`, none of them in the future."""
    first, last = _checked_time(since, "since", now), _checked_time(until, "until", now)
    if first >= last or last > now:
        raise InvalidInput(
            "a backfill needs a span of time in the past",
            hint="pass since= before until=, both in the past",
            field="until",
        )
    times: list[float] = []
    for slot in slots(settings, first - 1e-3):
        if slot >= last:
            break
        times.append(slot)
        if len(times) > BACKFILL_MAX:
            raise InvalidInput(
                f"there are more than {BACKFILL_MAX} slots between these times",
                hint="backfill a shorter time, then the next",
                field="since",
            )
    return times


def _following(settings: ScheduleSettings, slot: float) -> tuple[float, ...]:
    """Return the next four slots; none if only other hosts know the time zone."""
    try:
        return tuple(islice(slots(settings, slot), 4))
    except BadTimeZone:
        return ()


def info_of(trigger: Trigger) -> ScheduleInfo:
    """Return the schedule as people see it."""
    settings, state, start = settings_of(trigger), state_of(trigger), start_of(trigger)
    pause = None if trigger.paused is None else msgspec.json.decode(trigger.paused, type=Pause)
    times: tuple[float, ...] = ()
    if trigger.slot is not None:
        times = (trigger.slot, *_following(settings, trigger.slot))
    skip = state.last_skip
    return ScheduleInfo(
        name=trigger.name,
        workflow=trigger.workflow,
        version=trigger.version,
        words=described(settings),
        cron=settings.cron,
        every=settings.every,
        timezone=settings.timezone,
        overlap=settings.overlap,
        missed=settings.missed,
        spread=settings.spread,
        input=msgspec.json.decode(start.input),
        tags=dict(start.tags),
        queue=start.queue,
        priority=start.priority,
        timeout=start.timeout,
        paused=pause is not None,
        paused_by=pause.by if pause else "",
        paused_at=pause.at if pause else None,
        reason=pause.reason if pause else "",
        next_at=trigger.next_at,
        next_times=times,
        started=state.started,
        skipped=state.skipped,
        last_slot=state.last_slot,
        last_run=trigger.last_run,
        skipped_slot=skip.slot if skip else None,
        skip_reason=skip.reason if skip else "",
        origin=trigger.origin,
        revision=trigger.revision,
        created_at=trigger.created_at,
        created_by=trigger.created_by,
        updated_at=trigger.updated_at,
        updated_by=trigger.updated_by,
    )
