"""Saving: what a graph may not say from now on, because nothing would follow from it.

Only told to whoever saves or registers a graph. Those that were saved before go on as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import available_timezones

from stepwell.authoring.graphs.format.cron import cron_fault
from stepwell.authoring.graphs.format.definition import GraphDefinition, Trigger
from stepwell.authoring.graphs.problems import GraphProblem


def saving_problems(body: Any, definition: GraphDefinition) -> Iterator[GraphProblem]:
    if definition.settings.error_workflow is not None:
        yield GraphProblem(
            code="NOT_SUPPORTED",
            message="no workflow is started when a run fails",
            field="settings.errorWorkflow",
            suggestion="lead the error edges to a workflow node, or put the nodes into a try",
        )
    known = {node.id: node for node in definition.nodes}
    for raw in body.get("nodes") or ():
        node = known.get(str(raw.get("id"))) if isinstance(raw, Mapping) else None
        if node is not None and _joins_in_vain(raw, node.type.data.model_fields):
            yield GraphProblem(
                code="INVALID_DATA",
                message=f"a {node.type.name} has no joinMode; a merge says by its mode for whom it waits",
                node=node.id,
                field="joinMode",
                suggestion="put a merge in front of it, with mode any, count or timeout in its data",
            )
    for trigger in definition.triggers:
        yield from _schedule(trigger)


def _joins_in_vain(raw: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    data = raw.get("data")
    inside = isinstance(data, Mapping) and "joinMode" in data and "join_mode" not in fields
    return inside or "joinMode" in raw


def _schedule(trigger: Trigger) -> Iterator[GraphProblem]:
    if trigger.type != "schedule":
        return
    fault = "it is missing" if trigger.cron is None else cron_fault(trigger.cron)
    if fault:
        yield GraphProblem(
            code="CRON",
            message=f"the schedule of trigger {trigger.id} is never due: {fault}",
            field=f"triggers.{trigger.id}.cron",
            suggestion="write minute, hour, day of the month, month, day of the week: 0 2 * * 1-5",
        )
    zones = available_timezones()
    if zones and trigger.timezone not in zones:
        yield GraphProblem(
            code="TIMEZONE",
            message=f"no time zone is called {trigger.timezone[:60]!r}",
            field=f"triggers.{trigger.id}.timezone",
            suggestion="name one of the IANA database, such as Europe/Berlin",
        )
