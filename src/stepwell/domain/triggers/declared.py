"""Declared triggers: what a workflow's code or graph says about how it starts by itself.

Storing the workflow creates, changes and removes its triggers, until exactly the declared ones exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from stepwell.domain.duration import Duration
from stepwell.domain.new_run import NO_INPUT
from stepwell.errors import InvalidDefinition, excerpt

TriggerKind = Literal["schedule", "webhook", "event", "source"]
DECLARED_MAX = 50  # triggers of one workflow


class DeclaredTrigger(NamedTuple):
    """A trigger that a workflow declares: `@workflow(triggers=[on_event("order.paid")])`."""

    kind: TriggerKind
    id: str  # unique within the workflow
    input: Any = NO_INPUT
    options: Mapping[str, Any] = {}


def on_schedule(
    cron: str = "",
    *,
    every: Duration | None = None,
    input: Any = NO_INPUT,
    id: str = "schedule",
    **options: Any,
) -> DeclaredTrigger:
    """Start the workflow by cron, or every so often. Options are those of `engine.schedules.create`."""
    return DeclaredTrigger("schedule", id, input, {"cron": cron, "every": every, **options})


def on_event(event: str, *, input: Any = NO_INPUT, id: str = "", **options: Any) -> DeclaredTrigger:
    """Start the workflow for each such broadcast event. Options are those of `engine.triggers.create`."""
    return DeclaredTrigger("event", id or event, input, {"event": event, **options})


def on_webhook(*, input: Any = NO_INPUT, id: str = "webhook", **options: Any) -> DeclaredTrigger:
    """Start the workflow for each request to an address. Options are those of `engine.webhooks.create`."""
    return DeclaredTrigger("webhook", id, input, options)


def on_source(
    source: str, config: Any = None, *, input: Any = NO_INPUT, id: str = "", **options: Any
) -> DeclaredTrigger:
    """Start the workflow for what a source finds. Options are those of `engine.triggers.create`."""
    return DeclaredTrigger("source", id or source, input, {"source": source, "config": config, **options})


def checked_declared(triggers: Iterable[Any], where: str) -> tuple[DeclaredTrigger, ...]:
    """Return the triggers. InvalidDefinition if one is not a trigger, or an id appears twice."""
    if isinstance(triggers, DeclaredTrigger) or not isinstance(triggers, Iterable):
        raise InvalidDefinition(f"triggers of {where} is not a list", hint="write triggers=[on_event(...)]")
    declared = tuple(triggers)
    for each in declared:
        if not isinstance(each, DeclaredTrigger):
            raise InvalidDefinition(
                f"{excerpt(each)} in the triggers of {where} is not a trigger",
                hint="use on_schedule, on_event, on_webhook or on_source",
            )
    ids = [each.id for each in declared]
    for id in ids:
        if ids.count(id) > 1:
            raise InvalidDefinition(
                f"two triggers of {where} are called {excerpt(id)}", hint="give one of them another id="
            )
    if len(declared) > DECLARED_MAX:
        raise InvalidDefinition(f"{where} declares {len(declared)} triggers", hint=f"at most {DECLARED_MAX}")
    return declared


def triggers_of(workflow: object) -> tuple[DeclaredTrigger, ...]:
    """Return the triggers that a workflow of any style declares."""
    return tuple(getattr(workflow, "triggers", ()))
