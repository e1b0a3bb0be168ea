"""EventRuns: the runs that a broadcast event starts.

A trigger of this kind has the name of an event in `match`. Its run has the key of event and trigger, so
however often an event is fanned out, each trigger starts one run for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain.commit import Definition, NewRun, PublishedEvent
from stepwell.domain.events import NULL
from stepwell.domain.hops import HOPS_MAX, hops_here
from stepwell.domain.ids import Ids
from stepwell.domain.triggers.trigger import Trigger
from stepwell.domain.triggers.triggered_runs import TriggeredRuns
from stepwell.errors import InvalidDefinition, RecursionLimit, excerpt

TRIGGER = "trigger"  # the type of trigger rows for events and sources
EVENT = "event"
_COUNTED_MAX = 100
EVENT_KNOWN = ("payload", "event", "key", "id", "at", "by", "name")  # the names that an input may refer to
SOURCE_KNOWN = ("payload", "id", "at", "source", "name")

Condition = Callable[[str, Mapping[str, Any]], bool]
"""Whether an expression is true of these values; StepwellError says why nobody can know."""


def unconditional(expression: str, values: Mapping[str, Any]) -> bool:
    """For workers that cannot evaluate expressions."""
    raise InvalidDefinition(f"this worker evaluates no expressions, such as {excerpt(expression)}")


class SourceEvent(NamedTuple):
    """An event that a source found. The same id starts nothing again; `cursor` is where to continue."""

    id: str
    payload: Any = None
    cursor: Any = None


class TriggerSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What starts a run: an event of this name, or an event from a source of this type."""

    event: str = ""
    key: str = ""  # '': any key
    condition: str = ""  # an expression over `trigger`; '': always true
    source: str = ""  # a source type of the program, asked every so often
    every: float | None = None


class RefusedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The last event that should have started a run and did not, and why."""

    event: str
    at: float
    reason: str  # disabled, no_workflow, recursion_limit, or an error code
    message: str = ""


class TriggerState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    refused: int = 0
    last_refused: RefusedEvent | None = None
    counted: list[str] = []  # hashes of the last refused events, which a crash may repeat
    # For sources
    lease: str = ""  # lease of the worker that asks the source
    cursor: Raw = NULL  # where the source continues
    failures: int = 0  # consecutive failures
    error: str = ""  # code of the last failure
    started: int = 0  # runs
    looked_at: float | None = None


_settings = msgspec.json.Decoder(TriggerSettings)
_state = msgspec.json.Decoder(TriggerState)


def settings_of(trigger: Trigger) -> TriggerSettings:
    return _settings.decode(trigger.settings)


def state_of(trigger: Trigger) -> TriggerState:
    return _state.decode(trigger.state)


def event_match(name: str) -> str:
    """Return the key by which the triggers of an event are found."""
    return f"event:{name}"


def source_match(type: str) -> str:
    """Return the key by which the triggers of a source are found."""
    return f"source:{type}"


def with_refusal(state: TriggerState, refused: RefusedEvent) -> TriggerState:
    """Return the state of a trigger after it started no run; the same state if that is already counted."""
    mark = hashlib.blake2b(refused.event.encode(), digest_size=6).hexdigest()
    if mark in state.counted:
        return state
    counted = [*state.counted, mark][-_COUNTED_MAX:]
    return replace(state, refused=state.refused + 1, last_refused=refused, counted=counted)


class EventRuns:
    def __init__(self, ids: Ids, holds: Condition, payload_bytes_max: int) -> None:
        self._ids = ids
        self._holds = holds
        self._runs = TriggeredRuns(ids, payload_bytes_max)

    def wants(self, trigger: Trigger, event: PublishedEvent) -> bool:
        """Return whether the event is for this trigger, before its condition is evaluated."""
        known_in_time = trigger.created_at <= event.at
        return trigger.paused is None and known_in_time and settings_of(trigger).key in ("", event.key)

    def run(self, trigger: Trigger, definition: Definition, event: PublishedEvent) -> NewRun | None:
        """Return the run of an event, or None if the condition is false. StepwellError if it cannot start."""
        if event.hops >= HOPS_MAX:
            raise RecursionLimit(f"{event.hops + 1} runs would have started one another in a chain")
        known = {
            "payload": msgspec.json.decode(event.payload),
            "event": event.name,
            "key": event.key,
            "id": event.id,
            "at": event.at,
            "by": event.by,
            "name": trigger.name,
        }
        condition = settings_of(trigger).condition
        if condition and not self._holds(condition, {"trigger": known}):
            return None
        before = hops_here.set(event.hops + 1)
        try:
            return self._runs.build(
                trigger,
                definition,
                known,
                run_id=self._ids.run_id(),
                key=f"evt/{event.id}/{trigger.id}",
                what=EVENT,
                tag=TRIGGER,
                by=event.by or f"event {event.name}",
            )
        finally:
            hops_here.reset(before)
