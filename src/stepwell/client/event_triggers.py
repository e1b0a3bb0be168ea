"""EventTriggers: what starts runs when something happens: a broadcast event, or a source that finds one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, Unpack

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.client.options import checked_options
from stepwell.client.store_access import StoreAccess
from stepwell.client.triggers import NamedTriggers, checked_name
from stepwell.domain.codec import encoded_by_type, limited
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.events import NULL
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.text import checked_text
from stepwell.domain.triggers.event_runs import (
    EVENT_KNOWN,
    SOURCE_KNOWN,
    TRIGGER,
    TriggerSettings,
    event_match,
    settings_of,
    source_match,
    state_of,
)
from stepwell.domain.triggers.input import check_references
from stepwell.domain.triggers.trigger import Pause, Trigger, TriggerStart
from stepwell.domain.triggers.triggered_runs import start_of
from stepwell.errors import InvalidInput, excerpt

PAYLOAD = "{{trigger.payload}}"  # the default input of a run
EVERY_MIN = 0.1
_SETTINGS = ("event", "key", "condition", "source", "every")
_START = ("tags", "queue", "priority", "timeout")


class EventTriggerOptions(TypedDict, total=False):
    """Which events start a run, and what input it gets."""

    event: str
    key: str
    condition: str
    source: str
    config: Any
    every: Duration | None
    version: str
    tags: Mapping[str, str] | None
    queue: str
    priority: int | None
    timeout: Duration | None
    paused: bool
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTriggerInfo:
    """A trigger by event or by source. Times are in seconds since 1970."""

    name: str
    workflow: str
    version: str = ""  # '': the latest version
    event: str = ""  # the broadcast event that starts a run
    key: str = ""  # '': any key
    condition: str = ""
    source: str = ""  # or the type of the source whose events start it
    config: Any = None  # the configuration of the source
    every: float | None = None  # how often the source is asked
    input: Any = None
    tags: dict[str, str] = field(default_factory=dict)
    queue: str = ""
    priority: int | None = None
    timeout: float | None = None
    paused: bool = False
    paused_by: str = ""
    reason: str = ""  # why it was paused
    refused: int = 0  # events that should have started a run and did not
    refused_event: str = ""  # the last such event
    refused_at: float | None = None
    refused_reason: str = ""  # why: disabled, no_workflow, recursion_limit, or an error code
    refused_message: str = ""
    started: int = 0  # runs that the source started
    looked_at: float | None = None  # when the source last answered
    next_at: float | None = None  # when it is asked next
    failures: int = 0  # consecutive failures of the source
    error: str = ""  # the code of the last failure
    origin: str = ""  # the workflow that declares it
    created_at: float = 0.0
    created_by: str = ""


class SourceConfig(Protocol):
    """What a client knows about a source type."""

    @property
    def every(self) -> float: ...

    def check(self, config: Any) -> None:
        """Raise InvalidInput if the source does not take this configuration."""
        ...


class EventTriggers(NamedTriggers[EventTriggerInfo]):
    """`engine.triggers`: which workflows start when something happens.

    A paused trigger starts nothing, and broadcast events that it misses are not made up for. A source
    continues where it was.
    """

    _type = TRIGGER

    def __init__(
        self,
        access: StoreAccess,
        check_condition: Callable[[str], None] | None = None,
        sources: Mapping[str, SourceConfig] | None = None,
    ) -> None:
        super().__init__(access)
        self._check_condition = check_condition
        self._sources = sources

    async def create(
        self, name: str, workflow: Any, input: Any = PAYLOAD, **options: Unpack[EventTriggerOptions]
    ) -> EventTriggerInfo:
        """Start a workflow for each broadcast `event`, or for each event that a `source` finds.

        Each event starts one run. With `key`, only events with that key count; with `condition`, only those
        for which the expression is true: `trigger.payload.amount > 100`. In `input`,
        "{{trigger.payload.order}}" stands for a value of the event. `source` is a source type of the
        program, which is asked `every` so often with its `config`. TriggerExists: the name is taken.
        """
        return await self._create(await self.built(name, workflow, input, {**options}))

    async def built(
        self, name: str, workflow: Any, input: Any, options: dict[str, Any], *, origin: str = ""
    ) -> Trigger:
        """Return the trigger as it is to be stored."""
        given = checked_event_trigger(options, self._check_condition, self._sources)
        definition = await self._definition(workflow, given.version)
        data = limited(
            encoded_by_type(input), f"the input of {definition.name}", self._access.payload_bytes_max
        )
        check_references(msgspec.json.decode(data), EVENT_KNOWN if given.settings.event else SOURCE_KNOWN)
        now, settings = await self._access.store.now(), given.settings
        match = event_match(settings.event) if settings.event else source_match(settings.source)
        trigger = Trigger(
            id=str(self._access.ids.run_id()),
            type=TRIGGER,
            name=checked_name(name, TRIGGER),
            workflow=definition.name,
            version=given.version,
            workspace=self._access.workspace,
            settings=msgspec.json.encode(settings),
            start=msgspec.json.encode(replace(given.start, input=Raw(data))),
            match=match,
            origin=origin,
            created_at=now,
            created_by=given.by,
            updated_at=now,
            updated_by=given.by,
        )
        if given.paused:
            trigger = replace(trigger, paused=msgspec.json.encode(Pause(by=given.by, at=now)))
        return self._switched(trigger, now)

    def _info(self, trigger: Trigger) -> EventTriggerInfo:
        return info_of(trigger)

    def _switched(self, trigger: Trigger, now: float) -> Trigger:
        asked = settings_of(trigger).source and trigger.paused is None
        return replace(trigger, next_at=now if asked else None)


class CheckedEventTrigger(msgspec.Struct, frozen=True):
    settings: TriggerSettings
    start: TriggerStart
    version: str
    by: str
    paused: bool


def checked_event_trigger(
    options: dict[str, Any],
    check_condition: Callable[[str], None] | None,
    sources: Mapping[str, SourceConfig] | None,
) -> CheckedEventTrigger:
    """Check what needs no database. InvalidInput names the wrong option."""
    names = (*_SETTINGS, *_START, "config", "version", "paused", "by")
    for name in options:
        if name not in names:
            raise InvalidInput(
                f"a trigger has no option {excerpt(name)}", hint=did_you_mean_one_of(name, names), field=name
            )
    given: dict[str, Any] = {
        name: checked_text(options[name], name)
        for name in ("event", "key", "source")
        if options.get(name) is not None
    }
    condition = options.get("condition") or ""
    if not isinstance(condition, str):
        raise InvalidInput(
            f"condition is {excerpt(condition)}", hint="write an expression", field="condition"
        )
    settings = TriggerSettings(**given, condition=condition)
    if bool(settings.event) is bool(settings.source):
        raise InvalidInput(
            "a trigger is of an event or of a source",
            hint='pass one of event="order.placed" and source="inbox"',
            field="event",
        )
    if settings.condition and check_condition is not None:
        check_condition(settings.condition)
    config = NULL
    if settings.source:
        settings, config = _checked_source(settings, options, sources)
    elif options.get("config") is not None or options.get("every") is not None:
        field = "config" if options.get("config") is not None else "every"
        raise InvalidInput(f"an event takes no {field}", hint="it belongs to a source", field=field)
    if not isinstance(options.get("paused", False), bool):
        raise InvalidInput(
            f"paused is {excerpt(options['paused'])}", hint="pass True or False", field="paused"
        )
    asked = {name: options[name] for name in _START if options.get(name) is not None}
    checked = checked_options(dict(asked))
    start = TriggerStart(**{name: checked[name] for name in asked}, config=config)
    version, by = (
        checked_text(options.get("version", ""), "version"),
        checked_text(options.get("by", ""), "by"),
    )
    return CheckedEventTrigger(settings, start, version, by, bool(options.get("paused")))


def _checked_source(
    settings: TriggerSettings, options: dict[str, Any], sources: Mapping[str, SourceConfig] | None
) -> tuple[TriggerSettings, Raw]:
    if settings.key:
        raise InvalidInput("a source takes no key", hint="filter with condition=", field="key")
    known = None if sources is None else sources.get(settings.source)
    if sources and known is None:
        raise InvalidInput(
            f"there is no source {excerpt(settings.source)}",
            hint=did_you_mean_one_of(settings.source, sources),
            field="source",
        )
    config = msgspec.json.decode(encoded_by_type(options.get("config")))
    if known is not None:
        known.check(config)
    every = options.get("every")
    if every is not None:
        length = seconds(every, name="every")
        if length < EVERY_MIN:
            raise InvalidInput(f"every is {length:g} s", hint=f"at least {EVERY_MIN:g} s", field="every")
        settings = replace(settings, every=length)
    return settings, Raw(msgspec.json.encode(config))


def info_of(trigger: Trigger) -> EventTriggerInfo:
    """Return the trigger as people see it."""
    settings, state, start = settings_of(trigger), state_of(trigger), start_of(trigger)
    pause = None if trigger.paused is None else msgspec.json.decode(trigger.paused, type=Pause)
    refused = state.last_refused
    return EventTriggerInfo(
        name=trigger.name,
        workflow=trigger.workflow,
        version=trigger.version,
        event=settings.event,
        key=settings.key,
        condition=settings.condition,
        source=settings.source,
        config=msgspec.json.decode(start.config),
        every=settings.every,
        input=msgspec.json.decode(start.input),
        tags=dict(start.tags),
        queue=start.queue,
        priority=start.priority,
        timeout=start.timeout,
        paused=pause is not None,
        paused_by=pause.by if pause else "",
        reason=pause.reason if pause else "",
        refused=state.refused,
        refused_event=refused.event if refused else "",
        refused_at=refused.at if refused else None,
        refused_reason=refused.reason if refused else "",
        refused_message=refused.message if refused else "",
        started=state.started,
        looked_at=state.looked_at,
        next_at=trigger.next_at,
        failures=state.failures,
        error=state.error,
        origin=trigger.origin,
        created_at=trigger.created_at,
        created_by=trigger.created_by,
    )
