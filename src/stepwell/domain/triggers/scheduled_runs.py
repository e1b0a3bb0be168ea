"""ScheduledRuns: the runs that due schedules start.

A store calls this inside the transaction that locks the schedules, so runs and next due times are written
together. Nothing here fails as a whole: a schedule that cannot start its run skips the slot and says why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from stepwell.domain.commit import Definition, NewRun
from stepwell.domain.ids import Ids, RunId
from stepwell.domain.limits import Concurrency
from stepwell.domain.triggers.schedule import (
    ScheduleSettings,
    ScheduleState,
    Skipped,
    SlotDecision,
    decide,
    slot_key,
    slot_text,
    spread_of,
    zone,
)
from stepwell.domain.triggers.trigger import SCHEDULE, DueTrigger, Firing, Trigger
from stepwell.domain.triggers.triggered_runs import TriggeredRuns
from stepwell.errors import StepwellError

POSTPONED_SECONDS = 30.0  # seconds until a schedule that could not be decided is tried again

_settings = msgspec.json.Decoder(ScheduleSettings)
_state = msgspec.json.Decoder(ScheduleState)


def settings_of(trigger: Trigger) -> ScheduleSettings:
    return _settings.decode(trigger.settings)


def state_of(trigger: Trigger) -> ScheduleState:
    return _state.decode(trigger.state)


class ScheduledRuns:
    """Decides what due schedules start."""

    def __init__(self, ids: Ids, payload_bytes_max: int) -> None:
        self._runs = TriggeredRuns(ids, payload_bytes_max)

    def fire(self, due: Sequence[DueTrigger], now: float) -> list[Firing]:
        """Decide what each of these schedules starts at that time."""
        return [self._fire_or_postpone(each, now) for each in due]

    def _fire_or_postpone(self, due: DueTrigger, now: float) -> Firing:
        try:
            return self._fire(due, now)
        except Exception as error:  # must not hold up the other schedules of this transaction
            reason = error.code.lower() if isinstance(error, StepwellError) else type(error).__name__
            return _postponed(due.trigger, now, reason)

    def _fire(self, due: DueTrigger, now: float) -> Firing:
        trigger = due.trigger
        settings, state = settings_of(trigger), state_of(trigger)
        delay = spread_of(settings, trigger.id)
        assert trigger.slot is not None, "a schedule that is due has a slot"
        decision = decide(settings, trigger.slot, now - delay, live=due.live)
        runs: list[NewRun] = []
        reason = "disabled" if due.disabled else "" if due.definition else "no_workflow"
        if decision.starts and not reason and due.definition is not None:
            try:
                runs = [
                    self.run(trigger, due.definition, slot, run_id=_run_id(trigger, slot, now))
                    for slot in decision.starts
                ]
            except StepwellError as error:
                reason = error.code.lower()
        if reason and decision.starts:
            count = decision.skipped + len(decision.starts)
            decision = SlotDecision([], count, decision.starts[-1], reason, decision.next_slot)
        return Firing(
            trigger,
            runs,
            decision.next_slot,
            None if decision.next_slot is None else decision.next_slot + delay,
            msgspec.json.encode(_changed(state, decision)),
            runs[-1].id if runs else trigger.last_run,
        )

    def run(
        self,
        trigger: Trigger,
        definition: Definition,
        slot: float,
        *,
        run_id: RunId,
        key: str = "",
        by: str = "",
    ) -> NewRun:
        """Return the run of a slot. InvalidInput if its input no longer fits the workflow."""
        settings = settings_of(trigger)
        local = datetime.fromtimestamp(slot, zone(settings.timezone))
        known = {"slot": slot_text(slot), "local": local.isoformat(), "name": trigger.name}
        return self._runs.build(
            trigger,
            definition,
            known | {"date": local.date().isoformat()},
            run_id=run_id,
            key=key or slot_key(trigger.id, slot),
            what=SCHEDULE,
            tag=SCHEDULE,
            by=by or trigger.updated_by or trigger.created_by,
            concurrency=Concurrency(f"schedule/{trigger.id}", 1, "run")
            if settings.overlap == "queue"
            else None,
        )


def _postponed(trigger: Trigger, now: float, reason: str) -> Firing:
    """Leave the slot to a later attempt: another worker may know the time zone that this one lacks."""
    assert trigger.slot is not None, "a schedule that is due has a slot"
    state = replace(state_of(trigger), last_skip=Skipped(slot=trigger.slot, reason=reason))
    later = now + POSTPONED_SECONDS
    return Firing(trigger, (), trigger.slot, later, msgspec.json.encode(state), trigger.last_run)


def _run_id(trigger: Trigger, slot: float, now: float) -> RunId:
    """Derive a run id that sorts by time, without randomness: a store may ask for it on its own thread."""
    digest = hashlib.blake2b(slot_key(trigger.id, slot).encode(), digest_size=10).hexdigest()
    return RunId(f"{int(now * 1000):012x}{digest}")


def _changed(state: ScheduleState, decision: SlotDecision) -> ScheduleState:
    skip = state.last_skip
    if skip is not None and skip.slot in decision.starts:
        skip = None  # it was only postponed, and starts now
    if decision.skipped and decision.last_skipped is not None:
        skip = Skipped(slot=decision.last_skipped, reason=decision.reason)
    return replace(
        state,
        started=state.started + len(decision.starts),
        skipped=state.skipped + decision.skipped,
        last_slot=decision.starts[-1] if decision.starts else state.last_slot,
        last_skip=skip,
    )
