"""Triggers of a graph: their checks, and the triggers that exist once the graph is published."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from stepwell.authoring.graphs.expressions import compile_expression
from stepwell.authoring.graphs.format.definition import GraphDefinition, GraphTrigger
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.domain.manual_trigger import MANUAL_KNOWN
from stepwell.domain.schema import Schema, schema_fault
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.triggers.cron import cron_fault
from stepwell.domain.triggers.declared import (
    DECLARED_MAX,
    DeclaredTrigger,
    on_event,
    on_schedule,
    on_source,
    on_webhook,
)
from stepwell.domain.triggers.event_runs import EVENT_KNOWN, SOURCE_KNOWN
from stepwell.domain.triggers.input import check_references, filled
from stepwell.domain.triggers.schedule import SCHEDULE_KNOWN, ScheduleSettings, checked_settings, zones
from stepwell.domain.triggers.webhook import WEBHOOK_KNOWN, WebhookSettings, checked_webhook
from stepwell.errors import BadExpression, InvalidInput, StepwellError, excerpt

_SHARED = frozenset({"id", "type", "input"})
_FIELDS: Mapping[str, frozenset[str]] = {
    "manual": frozenset({"form"}),
    "schedule": frozenset({"cron", "every_ms", "timezone", "overlap", "missed", "spread_ms"}),
    "webhook": frozenset({"path", "auth", "credential", "header", "id_header", "reply", "wait_ms"}),
    "event": frozenset({"event", "key", "condition"}),
    "source": frozenset({"source", "config", "every_ms"}),
}
_KNOWN: Mapping[str, Any] = {
    "manual": MANUAL_KNOWN,
    "schedule": tuple(SCHEDULE_KNOWN),
    "webhook": WEBHOOK_KNOWN,
    "event": EVENT_KNOWN,
    "source": SOURCE_KNOWN,
}
_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
# Graphs use the words of senders here: `hmac` means Standard Webhooks unless a header is named.
_SCHEMES = {"none": "none", "bearer": "bearer", "basic": "basic", "standard": "standard"}


def declared_by(definition: GraphDefinition) -> tuple[DeclaredTrigger, ...]:
    """Return the triggers that the graph declares. A manual one needs none."""
    return tuple(_declared(trigger) for trigger in definition.triggers if trigger.type != "manual")


def _declared(trigger: GraphTrigger) -> DeclaredTrigger:
    given = {"input": trigger.input} if "input" in trigger.model_fields_set else {}
    if trigger.type == "schedule":
        options = {"timezone": trigger.timezone, "overlap": trigger.overlap, "missed": trigger.missed}
        given.setdefault("input", {})
        return on_schedule(
            trigger.cron or "",
            every=_seconds(trigger.every_ms),
            spread=_seconds(trigger.spread_ms) or 0.0,
            id=trigger.id,
            **given,
            **options,
        )
    if trigger.type == "webhook":
        settings = _webhook(trigger)
        options = {name: getattr(settings, name) for name in _SENT}
        return on_webhook(id=trigger.id, **given, **options)
    if trigger.type == "event":
        return on_event(
            trigger.event or "", id=trigger.id, key=trigger.key, condition=trigger.condition, **given
        )
    return on_source(
        trigger.source or "", trigger.config, id=trigger.id, every=_seconds(trigger.every_ms), **given
    )


_SENT = ("scheme", "secret", "header", "id_header", "path", "reply", "wait")


def _webhook(trigger: GraphTrigger) -> WebhookSettings:
    auth = trigger.auth or ("hmac" if trigger.credential else "none")
    return WebhookSettings(
        scheme=_SCHEMES.get(auth) or ("hmac" if trigger.header else "standard"),  # type: ignore[arg-type]
        secret=trigger.credential or "",
        header=trigger.header,
        id_header=trigger.id_header,
        path=trigger.path or "",
        reply=trigger.reply,
        wait=30.0 if trigger.wait_ms is None else trigger.wait_ms / 1000,
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


# Checks


def trigger_problems(definition: GraphDefinition, input_schema: Any) -> Iterator[GraphProblem]:
    """Return everything that is wrong with the triggers of a graph."""
    ids = Counter(trigger.id for trigger in definition.triggers)
    for id, count in ids.items():
        if count > 1:
            yield _problem(
                "ID_DUPLICATE", id, "id", f"{count} triggers are called {excerpt(id)}", "rename one"
            )
    if len(definition.triggers) > DECLARED_MAX:
        yield GraphProblem(
            code="GRAPH_TOO_LARGE",
            message=f"the graph has {len(definition.triggers)} triggers, more than {DECLARED_MAX}",
            field="triggers",
        )
    if sum(trigger.type == "manual" for trigger in definition.triggers) > 1:
        yield GraphProblem(
            code="INVALID_TRIGGER",
            message="a graph has only one form by which people start it",
            field="triggers",
            suggestion="keep one manual trigger",
        )
    for trigger in definition.triggers:
        yield from _checked(trigger, input_schema)


def _checked(trigger: GraphTrigger, input_schema: Any) -> Iterator[GraphProblem]:
    own = _FIELDS[trigger.type]
    for name in sorted(trigger.model_fields_set - own - _SHARED):
        field = _json_name(name)
        yield _problem(
            "INVALID_TRIGGER",
            trigger.id,
            field,
            f"{trigger.type} triggers take no {field}",
            did_you_mean_one_of(field, sorted(_json_name(each) for each in own)),
        )
    if trigger.type == "schedule":
        yield from _schedule(trigger, input_schema)
    elif trigger.type == "webhook":
        yield from _refused(trigger, lambda: checked_webhook(_webhook(trigger)), _WEBHOOK_FIELDS)
    elif trigger.type == "event":
        yield from _event(trigger)
    elif trigger.type == "source" and not trigger.source:
        yield _problem(
            "INVALID_TRIGGER", trigger.id, "source", "it names no source", "name a source of the program"
        )
    elif trigger.type == "manual":
        why = "" if trigger.form is None else schema_fault(trigger.form)
        if why:
            message = f"the form is not a JSON Schema: {why}"
            yield _problem("INVALID_TRIGGER", trigger.id, "form", message, "give a JSON Schema")
    if trigger.type in _KNOWN:
        yield from _refused(
            trigger, lambda: check_references(trigger.input, _KNOWN[trigger.type]), {"input": "input"}
        )


_WEBHOOK_FIELDS = {"scheme": "auth", "secret": "credential", "id_header": "idHeader", "wait": "waitMs"}


def _schedule(trigger: GraphTrigger, input_schema: Any) -> Iterator[GraphProblem]:
    fault = ""
    if trigger.every_ms is None:
        fault = "it is missing" if trigger.cron is None else cron_fault(trigger.cron)
    if fault:
        yield _problem(
            "CRON",
            trigger.id,
            "cron",
            f"the schedule of trigger {trigger.id} is never due: {fault}",
            "write minute, hour, day of the month, month, day of the week: 0 2 * * 1-5",
        )
    lost = bool(zones()) and trigger.timezone not in zones()
    if lost:
        yield _problem(
            "TIMEZONE",
            trigger.id,
            "timezone",
            f"no time zone is called {trigger.timezone[:60]!r}",
            "use a name from the IANA database, such as Europe/Berlin",
        )
    if fault or lost:
        return
    settings = ScheduleSettings(
        cron=trigger.cron or "",
        every=_seconds(trigger.every_ms),
        timezone=trigger.timezone,
        overlap=trigger.overlap,
        missed=trigger.missed,
    )
    yield from _refused(trigger, lambda: checked_settings(settings), {"every": "everyMs"})
    if input_schema is not True and not schema_fault(input_schema):
        sample = filled(trigger.input, SCHEDULE_KNOWN)
        yield from _refused(trigger, lambda: Schema(input_schema).check(sample), {}, "input")


def _event(trigger: GraphTrigger) -> Iterator[GraphProblem]:
    if not trigger.event or len(trigger.event) > 500 or not trigger.event.isprintable():
        message = "it names no event" if not trigger.event else "an event cannot have this name"
        yield _problem("EVENT_NAME", trigger.id, "event", message, "name one, for example order.paid")
    if not trigger.condition:
        return
    try:
        strange = sorted(compile_expression(trigger.condition).names - {"trigger"})
    except BadExpression as error:
        hint = error.hint or "write an expression: trigger.payload.amount > 100"
        yield _problem(error.code, trigger.id, "condition", error.message, hint, column=error.column)
        return
    if strange:
        message = f"the condition uses {excerpt(strange[0])}"
        hint = "a condition sees `trigger` only: trigger.payload.amount > 100"
        yield _problem("INVALID_TRIGGER", trigger.id, "condition", message, hint)


def _refused(
    trigger: GraphTrigger, check: Any, fields: Mapping[str, str], field: str = ""
) -> Iterator[GraphProblem]:
    """Return the problem for an error of the domain, under the name that the field has in graphs."""
    try:
        check()
    except StepwellError as error:
        named = str(error.context.get("field", "")) if isinstance(error, InvalidInput) else ""
        where = field or fields.get(named, named)
        yield _problem("INVALID_TRIGGER", trigger.id, where, error.message, error.hint)


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _problem(
    code: str, trigger: str, field: str, message: str, suggestion: str = "", *, column: int = 0
) -> GraphProblem:
    return GraphProblem(
        code=code,
        message=message,
        node=trigger,
        field=f"triggers.{trigger}.{field}",
        suggestion=suggestion,
        column=column,
    )
