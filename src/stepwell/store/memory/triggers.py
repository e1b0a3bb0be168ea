"""Triggers of the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.domain.commit import Definition
from stepwell.domain.ids import RunId
from stepwell.domain.triggers.trigger import (
    FIRE_MAX,
    SCHEDULE,
    DueTrigger,
    Fire,
    Fired,
    Firing,
    Trigger,
    TriggerFilter,
)
from stepwell.store.memory.starts import MemoryStarts
from stepwell.store.memory.verb import transaction


class MemoryTriggers(MemoryStarts):
    @transaction("put_trigger")
    async def put_trigger(self, trigger: Trigger, *, expected: int) -> bool:
        current = self._triggers.get(trigger.place)
        if current is not None and current.is_same_put(trigger):
            return True
        if (0 if current is None else current.revision) != expected:
            return False
        if current is not None:
            trigger = replace(trigger, state=current.state, last_run=current.last_run)
        self._triggers[trigger.place] = trigger
        return True

    async def read_trigger(self, workspace: str, type: str, name: str) -> Trigger | None:
        return self._triggers.get((workspace, type, name))

    async def list_triggers(self, filter: TriggerFilter) -> Sequence[Trigger]:
        fitting = [trigger for trigger in self._triggers.values() if filter.fits(trigger)]
        return sorted(fitting, key=lambda trigger: (trigger.type, trigger.name.encode()))[: filter.limit]

    @transaction("drop_trigger")
    async def drop_trigger(self, workspace: str, type: str, name: str) -> bool:
        return self._triggers.pop((workspace, type, name), None) is not None

    @transaction("fire_due")
    async def fire_due(
        self, fire: Fire, *, type: str = SCHEDULE, match: str = "", limit: int = FIRE_MAX
    ) -> Fired:
        now = self._clock()
        timed = [(t.next_at, t.id, t) for t in self._of_type(type, match) if t.next_at is not None]
        due = [trigger for _, _, trigger in sorted(timed, key=lambda row: row[:2]) if trigger.is_due(now)]
        firings = fire([self._due(trigger) for trigger in due[:limit]], now)
        for firing in firings:
            for run in firing.runs:
                self._start(run)
            self._triggers[firing.trigger.place] = firing.changed
        times = [t.next_at for t in self._of_type(type, match) if t.next_at is not None]
        runs = [run for firing in firings for run in firing.runs]
        return Fired(len(firings), runs, max(0.0, min(times) - now) if times else None, now)

    def _of_type(self, type: str, match: str) -> list[Trigger]:
        of_type = [trigger for trigger in self._triggers.values() if trigger.type == type]
        return [trigger for trigger in of_type if match in ("", trigger.match)]

    @transaction("advance_trigger")
    async def advance_trigger(self, firing: Firing, *, before: bytes) -> bool:
        current = self._triggers.get(firing.trigger.place)
        if current is None:
            return False
        if (current.id, current.state, current.paused) != (firing.trigger.id, before, None):
            return current.is_advanced(firing)
        for run in firing.runs:
            self._start(run)
        self._triggers[current.place] = replace(
            current, slot=firing.slot, next_at=firing.next_at, state=firing.state, last_run=firing.last_run
        )
        return True

    def _due(self, trigger: Trigger) -> DueTrigger:
        return DueTrigger(
            trigger,
            self._definition(trigger),
            self._is_disabled(trigger.workspace, trigger.workflow),
            (RunId(trigger.last_run), "") in self._tickets,
        )

    def _definition(self, trigger: Trigger) -> Definition | None:
        wanted = (trigger.workspace, trigger.workflow)
        versions = [d for (*place, _), d in self._definitions.items() if tuple(place) == wanted]
        fitting = [d for d in versions if trigger.version in ("", d.version)]
        return fitting[-1] if fitting else None
