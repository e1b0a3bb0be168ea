"""Triggers: what starts runs by itself."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import Definition
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
from stepwell.store.sqlite.definitions import read_definition
from stepwell.store.sqlite.session import Row, Session
from stepwell.store.sqlite.starts import start


def put_trigger(session: Session, trigger: Trigger, *, expected: int) -> bool:
    t = trigger
    if expected:
        row = session.row(
            "replace_trigger",
            *(t.workspace, t.type, t.name, expected, t.workflow, t.version, t.settings, t.start, t.match),
            *(t.paused, t.slot, t.next_at, t.origin, t.revision, t.updated_at, t.updated_by),
        )
    else:
        row = session.row("create_trigger", *_values(t))
    if row is not None:
        return True
    current = read_trigger(session, *trigger.place)
    return current is not None and current.is_same_put(trigger)


def read_trigger(session: Session, workspace: str, type: str, name: str) -> Trigger | None:
    row = session.row("read_trigger", workspace, type, name)
    return None if row is None else _trigger(row)


def list_triggers(session: Session, filter: TriggerFilter) -> Sequence[Trigger]:
    values = (filter.workspace, filter.type, filter.after, filter.origin, filter.limit)
    if not filter.type:
        rows = session.rows("list_declared_triggers", filter.workspace, filter.origin, filter.limit)
    elif filter.workflow:
        rows = session.rows("list_triggers_of_workflow", *values, filter.workflow, filter.match)
    elif filter.match:
        rows = session.rows("list_triggers_matched", *values, filter.match)
    else:
        rows = session.rows("list_triggers", *values)
    return [_trigger(row) for row in rows]


def drop_trigger(session: Session, workspace: str, type: str, name: str) -> bool:
    return session.row("drop_trigger", workspace, type, name) is not None


def nothing_due(
    session: Session, fire: Fire, *, type: str = SCHEDULE, match: str = "", limit: int = FIRE_MAX
) -> Fired | None:
    """Return the answer if no trigger is due; None if there is work to do."""
    next_in = _next_in(session, type, match)
    return None if next_in is not None and next_in <= 0 else Fired(0, [], next_in, session.now)


def fire_due(
    session: Session, fire: Fire, *, type: str = SCHEDULE, match: str = "", limit: int = FIRE_MAX
) -> Fired:
    rows = session.rows("due_triggers", session.now, limit, type, match)
    disabled = set(session.rows("disabled_workflows"))
    definitions: dict[tuple[str, str, str], Definition | None] = {}
    due: list[DueTrigger] = []
    for *values, live in rows:
        trigger = _trigger(tuple(values))
        wanted = (trigger.workspace, trigger.workflow, trigger.version)
        if wanted not in definitions:
            definitions[wanted] = read_definition(session, *wanted)
        due.append(DueTrigger(trigger, definitions[wanted], wanted[:2] in disabled, bool(live)))
    firings = fire(due, session.now)
    runs = [run for firing in firings for run in firing.runs]
    if runs:
        start(session, [runs])
    session.many(
        "fire_trigger",
        [(f.trigger.id, f.slot, f.next_at, f.state, f.last_run) for f in firings],
    )
    return Fired(len(firings), runs, _next_in(session, type, match), session.now)


def advance_trigger(session: Session, firing: Firing, *, before: bytes) -> bool:
    trigger, values = firing.trigger, (firing.slot, firing.next_at, firing.state, firing.last_run)
    if session.row("advance_trigger", trigger.id, *values, before) is None:
        current = read_trigger(session, *trigger.place)
        return current is not None and current.is_advanced(firing)
    if firing.runs:
        start(session, [firing.runs])
    return True


def _next_in(session: Session, type: str, match: str) -> float | None:
    row = session.row("next_trigger", type, match)
    return None if row is None or row[0] is None else max(0.0, row[0] - session.now)


def _values(t: Trigger) -> Row:
    return (
        *(t.id, t.type, t.name, t.workflow, t.version, t.workspace, t.settings, t.start, t.match, t.paused),
        *(t.slot, t.next_at, t.origin, t.revision, t.created_at, t.created_by, t.updated_at, t.updated_by),
        *(t.state, t.last_run),
    )


def _trigger(row: Row) -> Trigger:
    id, type, name, workflow, version, workspace, settings, start, match, paused = row[:10]
    slot, next_at, origin, revision, created_at, created_by, updated_at, updated_by, state, last_run = row[
        10:
    ]
    return Trigger(
        id=id,
        type=type,
        name=name,
        workflow=workflow,
        version=version,
        workspace=workspace,
        settings=settings,
        start=start,
        match=match,
        paused=paused,
        slot=slot,
        next_at=next_at,
        origin=origin,
        revision=revision,
        created_at=created_at,
        created_by=created_by,
        updated_at=updated_at,
        updated_by=updated_by,
        state=state,
        last_run=last_run,
    )
