"""EventStarts: starts the runs of the triggers of a broadcast event, before the waiting runs hear of it.

A worker that fans an event out does this first, and again after a crash: the keys of the runs make a repeat
harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from stepwell.domain.commit import Claim, Definition, NewRun, PublishedEvent
from stepwell.domain.ids import Ids
from stepwell.domain.triggers.event_runs import (
    TRIGGER,
    Condition,
    EventRuns,
    RefusedEvent,
    event_match,
    state_of,
    with_refusal,
)
from stepwell.domain.triggers.trigger import FIRE_MAX, Firing, Trigger, TriggerFilter
from stepwell.errors import StepwellError
from stepwell.store.base import Store

_log = logging.getLogger("stepwell.engine")


class EventStarts:
    def __init__(self, store: Store, ids: Ids, holds: Condition, *, payload_bytes_max: int) -> None:
        self._store = store
        self._runs = EventRuns(ids, holds, payload_bytes_max)

    async def start(self, claim: Claim) -> None:
        """Start what the event of this fan-out starts. Does nothing if another worker has the fan-out."""
        event = await self._store.read_fan_out(claim)
        after = ""
        while event is not None:
            page = await self._store.list_triggers(
                TriggerFilter(
                    type=TRIGGER,
                    workspace=event.workspace,
                    match=event_match(event.name),
                    after=after,
                    limit=FIRE_MAX,
                )
            )
            await self._start([trigger for trigger in page if self._runs.wants(trigger, event)], event)
            if len(page) < FIRE_MAX:
                return
            after = page[-1].name

    async def _start(self, triggers: Sequence[Trigger], event: PublishedEvent) -> None:
        definitions: dict[tuple[str, str], Definition | None] = {}
        started: list[tuple[Trigger, NewRun]] = []
        for trigger in triggers:
            wanted = (trigger.workflow, trigger.version)
            if wanted not in definitions:
                definitions[wanted] = await self._store.read_definition(trigger.workspace, *wanted)
            definition = definitions[wanted]
            if definition is None:
                await self._refuse(trigger, event, "no_workflow")
                continue
            try:
                run = self._runs.run(trigger, definition, event)
            except StepwellError as error:
                await self._refuse(trigger, event, error.code.lower(), error.message)
                continue
            if run is not None:
                started.append((trigger, run))
        if started:
            answers = await self._store.start([run for _, run in started])
            for (trigger, _), answer in zip(started, answers, strict=True):
                if answer.disabled:
                    await self._refuse(trigger, event, "disabled")

    async def _refuse(self, trigger: Trigger, event: PublishedEvent, reason: str, message: str = "") -> None:
        """Record on the trigger that this event started nothing, and why."""
        _log.warning("event %s starts no run of trigger %s: %s %s", event.name, trigger.name, reason, message)
        refused = RefusedEvent(event=event.id, at=event.at, reason=reason, message=message)
        current: Trigger | None = trigger
        while current is not None and current.id == trigger.id and current.paused is None:
            before = state_of(current)
            state = with_refusal(before, refused)
            if state is before:
                return  # recorded before a crash
            data = msgspec.json.encode(state)
            firing = Firing(current, (), current.slot, current.next_at, data, current.last_run)
            if await self._store.advance_trigger(firing, before=current.state):
                return
            current = await self._store.read_trigger(*trigger.place)
