"""SourceRunner: asks the sources of this program for events, and starts a run for each.

One worker at a time asks a source: it takes a lease, which is part of the trigger's state. Runs, cursor and
lease are written together, and only while the worker holds the lease. So a worker that was presumed dead
changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain.commit import Definition, NewRun
from stepwell.domain.ids import Ids
from stepwell.domain.text import clean
from stepwell.domain.triggers.event_runs import (
    TRIGGER,
    Condition,
    RefusedEvent,
    SourceEvent,
    TriggerState,
    settings_of,
    source_match,
    state_of,
    with_refusal,
)
from stepwell.domain.triggers.trigger import DueTrigger, Firing, Trigger
from stepwell.domain.triggers.triggered_runs import TriggeredRuns, start_of
from stepwell.engine.worker.next_look import NextLook
from stepwell.errors import StepwellError, StoreError
from stepwell.store.base import Store

_log = logging.getLogger("stepwell.engine")
_LONGEST = 300.0  # seconds between attempts after failures
_AT_ONCE = 100  # events written in one transaction


class FindsEvents(Protocol):
    @property
    def every(self) -> float: ...

    def batches(self, config: bytes, cursor: object) -> AsyncIterator[Sequence[SourceEvent]]: ...


class SourceRunner:
    def __init__(
        self,
        store: Store,
        ids: Ids,
        holds: Condition,
        *,
        sources: Mapping[str, FindsEvents],
        next_look: NextLook,
        lease_seconds: float,
        poll_seconds: float,
        payload_bytes_max: int,
        started: Callable[[], None],
    ) -> None:
        self._store = store
        self._ids = ids
        self._holds = holds
        self._sources = sources
        self._next_look = next_look
        self._lease_seconds = lease_seconds
        self._poll_seconds = poll_seconds
        self._started = started
        self._runs = TriggeredRuns(ids, payload_bytes_max)

    async def run(self) -> None:
        if not self._sources:
            return
        async with asyncio.TaskGroup() as group:
            while True:
                self._next_look.begin()
                wait = self._poll_seconds
                for name in self._sources:
                    try:
                        wait = min(wait, await self._take(name, group))
                    except StoreError as error:
                        _log.warning("sources could not be checked: %s", error.message)
                await self._next_look.sleep(max(wait, 0.02))

    async def _take(self, name: str, group: asyncio.TaskGroup) -> float:
        """Take the sources that are due, and return the seconds until the next one."""
        taken: list[DueTrigger] = []

        def take(due: Sequence[DueTrigger], now: float) -> list[Firing]:
            taken[:] = []
            firings = []
            for each in due:
                trigger, state = each.trigger, state_of(each.trigger)
                if each.disabled or each.definition is None:
                    later = now + self._every(trigger)
                    firings.append(Firing(trigger, (), None, later, trigger.state, trigger.last_run))
                    continue
                mine = msgspec.json.encode(replace(state, lease=self._ids.token()))
                taken.append(each._replace(trigger=replace(trigger, state=mine)))
                until = now + self._lease_seconds
                firings.append(Firing(trigger, (), None, until, mine, trigger.last_run))
            return firings

        fired = await self._store.fire_due(take, type=TRIGGER, match=source_match(name))
        for each in taken:
            assert each.definition is not None
            group.create_task(self._look(each.trigger, each.definition))
        return self._poll_seconds if fired.next_in is None else fired.next_in

    def _every(self, trigger: Trigger) -> float:
        settings = settings_of(trigger)
        return settings.every or self._sources[settings.source].every

    async def _look(self, trigger: Trigger, definition: Definition) -> None:
        """Ask a source for as long as this worker holds its lease."""
        owned = OwnedTrigger(self._store, trigger, self._lease_seconds)
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(self._ask(owned, definition))
            renewing = group.create_task(owned.keep())
            await asyncio.wait([asking, renewing], return_when=asyncio.FIRST_COMPLETED)
            asking.cancel()
            renewing.cancel()
        self._next_look.wake()  # it may be due again before the next look

    async def _ask(self, owned: OwnedTrigger, definition: Definition) -> None:
        """Ask a leased source, start runs for its events, and release the lease."""
        trigger = owned.trigger
        source = self._sources[settings_of(trigger).source]
        cursor = state_of(trigger).cursor
        try:
            known = msgspec.json.decode(cursor)
            async for batch in source.batches(bytes(start_of(trigger).config), known):
                for at in range(0, len(batch), _AT_ONCE):
                    if not await self._start(owned, definition, batch[at : at + _AT_ONCE]):
                        return  # another worker has it now, or it is paused
            await owned.release(self._every(trigger), failure="")
        except Exception as error:  # an error of a source must not end the worker
            _log.warning("source of trigger %s failed: %r", trigger.name, error)
            failure = clean(f"{type(error).__name__}: {error}")
            await owned.release(self._every(trigger), failure=failure)

    async def _start(
        self, owned: OwnedTrigger, definition: Definition, events: Sequence[SourceEvent]
    ) -> bool:
        trigger, now = owned.trigger, await self._store.now()
        runs: list[NewRun] = []
        refusals: list[RefusedEvent] = []
        for event in events:
            try:
                run = self._run(trigger, definition, event, now)
            except StepwellError as error:
                reason, message = error.code.lower(), error.message
                refusals.append(RefusedEvent(event=event.id, at=now, reason=reason, message=message))
                continue
            runs += [run] if run is not None else []

        def found(state: TriggerState) -> TriggerState:
            for refused in refusals:
                state = with_refusal(state, refused)
            state = replace(state, started=state.started + len(runs), looked_at=now)
            if events and events[-1].cursor is not None:
                state = replace(state, cursor=Raw(msgspec.json.encode(events[-1].cursor)))
            return state

        done = await owned.change(found, runs)
        if runs:
            self._started()
        return done

    def _run(self, trigger: Trigger, definition: Definition, event: SourceEvent, now: float) -> NewRun | None:
        settings = settings_of(trigger)
        payload = msgspec.to_builtins(event.payload)
        known = {"payload": payload, "id": event.id, "at": now}
        known |= {"source": settings.source, "name": trigger.name}
        if settings.condition and not self._holds(settings.condition, {"trigger": known}):
            return None
        return self._runs.build(
            trigger,
            definition,
            known,
            run_id=self._ids.run_id(),
            key=f"source/{trigger.id}/{event.id}",
            what=settings.source,
            tag=TRIGGER,
            by=f"source {settings.source}",
        )


class OwnedTrigger:
    """A trigger whose lease this worker holds. A change is given the state that was written last."""

    def __init__(self, store: Store, trigger: Trigger, lease_seconds: float) -> None:
        self.trigger = trigger
        self._store = store
        self._lease_seconds = lease_seconds
        self._turn = asyncio.Lock()

    async def change(
        self,
        change: Callable[[TriggerState], TriggerState],
        runs: Sequence[NewRun] = (),
        *,
        after: float | None = None,
    ) -> bool:
        """Write the changed state, and start runs.

        False, with nothing written: another worker has the lease, or the trigger is paused.
        """
        async with self._turn:
            before = self.trigger.state
            data = msgspec.json.encode(change(state_of(self.trigger)))
            next_at = await self._store.now() + (self._lease_seconds if after is None else after)
            last = runs[-1].id if runs else self.trigger.last_run
            firing = Firing(self.trigger, runs, None, next_at, data, last)
            done = await self._store.advance_trigger(firing, before=before)
            if done:
                self.trigger = replace(self.trigger, state=data, last_run=last)
            return done

    async def keep(self) -> None:
        """Renew the lease; return when it is lost."""
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            try:
                if not await self.renew():
                    return
            except StoreError as error:
                _log.warning("the lease of source %s was not renewed: %s", self.trigger.name, error.message)

    async def renew(self) -> bool:
        return await self.change(lambda state: state)

    async def release(self, every: float, *, failure: str) -> None:
        """Release the lease. The source is asked again after `every`, later after failures."""
        failures = state_of(self.trigger).failures + 1 if failure else 0
        pause = min(every * 2 ** min(failures, 10), max(_LONGEST, every))
        try:
            await self.change(
                lambda state: replace(state, lease="", failures=failures, error=failure), after=pause
            )
        except StoreError as error:
            _log.warning("source %s is released when its lease ends: %s", self.trigger.name, error.message)
