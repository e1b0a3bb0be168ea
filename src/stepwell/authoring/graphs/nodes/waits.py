"""Nodes that wait: delay, wait (time, until, event, webhook, polled condition), approval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from stepwell.authoring.graphs.errors import NodeConfigError
from stepwell.authoring.graphs.expressions import Expression
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.expressions.values import text
from stepwell.authoring.graphs.nodes.control import named_handles
from stepwell.authoring.graphs.nodes.http import HttpData, HttpWork
from stepwell.authoring.graphs.nodes.node_data import (
    WHOLE,
    YEAR_MS,
    Milliseconds,
    NodeData,
    Source,
    exactly_one,
    field_error,
    needed_by,
)
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeOutcome, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.query import QueryData, QueryWork
from stepwell.authoring.graphs.nodes.records import RecordsData, RecordsWork
from stepwell.authoring.graphs.nodes.steps import StepNode, outcome_of
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.authoring.graphs.templates.template import Template
from stepwell.domain.approvals import REQUIRED_MAX
from stepwell.domain.approvals import RESPONSES as ANSWERS
from stepwell.domain.duration import seconds
from stepwell.domain.retry import ONCE
from stepwell.domain.triggers.run_webhook import DELIVERY, run_webhook, token_of
from stepwell.errors import StepwellError, excerpt

LOOK = "node:wait"
_LAST_MOMENT = datetime(3000, 1, 1, tzinfo=UTC).timestamp()


class DelayData(NodeData):
    """A pause. It costs nothing, and survives every restart."""

    model_config = ConfigDict(json_schema_extra=exactly_one("ms", "duration", "until"))

    ms: Annotated[Milliseconds | None, Field(description="How long, in milliseconds.")] = None
    duration: Annotated[str | None, Field(description="How long, such as 30s, 5m, 2h or 1d.")] = None
    until: Annotated[
        Source | None,
        Field(description="Until when: an ISO 8601 time, or milliseconds since 1970; may have {{ }}."),
    ] = None

    @model_validator(mode="after")
    def _one_of(self) -> DelayData:
        if sum(x is not None for x in (self.ms, self.duration, self.until)) != 1:
            message = "a delay has a length, or a time at which it ends"
            raise field_error("ms", message, "give exactly one of ms, duration and until")
        return self


_NEEDS = {"time": "ms", "until": "until", "event": "event", "condition": "condition"}  # webhook: nothing


class WaitData(NodeData):
    """What a run waits for."""

    model_config = ConfigDict(json_schema_extra=needed_by("mode", default="event", **_NEEDS))

    mode: Annotated[
        Literal["time", "until", "event", "condition", "webhook"],
        Field(
            description="For a time, until a moment, for an event, a condition, or a request to an address."
        ),
    ] = "event"
    event: Annotated[
        str | None, Field(description="In mode event, the name of the event; may have {{ }}.")
    ] = None
    key: Annotated[
        Source | None, Field(description="In mode event, which of these events; may have {{ }}.")
    ] = None
    condition: Annotated[
        Source | None, Field(description="In mode condition, an expression that must become true.")
    ] = None
    poll_ms: Annotated[
        int, Field(ge=1000, description="In mode condition, the time between two looks."), WHOLE
    ] = 30_000
    records: Annotated[
        RecordsData | None,
        Field(description="What the condition sees as `answer`: records, read at each look."),
    ] = None
    query: Annotated[
        QueryData | None,
        Field(description="What the condition sees as `answer`: the rows of a query, run at each look."),
    ] = None
    http: Annotated[
        HttpData | None,
        Field(description="What the condition sees as `answer`: the response of a service, at each look."),
    ] = None
    ms: Annotated[Milliseconds | None, Field(description="In mode time, how long, in milliseconds.")] = None
    until: Annotated[
        Source | None, Field(description="In mode until, the moment: an ISO 8601 time; may have {{ }}.")
    ] = None
    credential: Annotated[
        str | None, Field(description="In mode webhook, the name of the secret that the sender has.")
    ] = None
    auth: Annotated[
        Literal["standard", "bearer", "basic"],
        Field(description="In mode webhook, how the sender shows that it has the secret."),
    ] = "standard"

    @model_validator(mode="after")
    def _complete(self) -> WaitData:
        needed = _NEEDS.get(self.mode)
        if needed is not None and getattr(self, needed) is None:
            raise field_error(needed, f"mode {self.mode} needs {needed}", f"add {needed}")
        looked_at = self.looked_at
        if len(looked_at) > 1 or (looked_at and self.mode != "condition"):
            message = "a wait looks at one thing, in mode condition"
            raise field_error(next(iter(looked_at)), message, "give at most one of records, query and http")
        for name, data in looked_at.items():
            for field in sorted(data.model_fields_set & (NodeData.model_fields.keys() - {"timeout_ms"})):
                message = f"{to_camel(field)} is a field of the node, not of {name}"
                raise field_error(f"{name}.{to_camel(field)}", message, "move it into the data of the node")
            if not _ONLY_READS[name](data):
                message = f"{name} may only read here: it is asked again and again"
                raise field_error(name, message, "change things in a node of their own")
        return self

    @property
    def looked_at(self) -> dict[str, NodeData]:
        """What the condition is about, by the type of node that reads it; at most one."""
        named = {"records": self.records, "query": self.query, "http": self.http}
        return {name: data for name, data in named.items() if data is not None}


_ONLY_READS: dict[str, Callable[[Any], bool]] = {
    "records": lambda data: data.action in ("get", "find"),
    "query": lambda data: data.read_only,
    "http": lambda data: data.method in ("GET", "HEAD"),
}


class ApprovalData(NodeData):
    """A question to people, answered once."""

    assignees: Annotated[
        list[str], Field(description="Who may answer: names, or roles such as role:finance; empty: anybody.")
    ] = Field(default_factory=list)
    message: Annotated[str, Field(description="The question; may have {{ }}.")] = ""
    form: Annotated[
        dict[str, Any] | None, Field(description="A JSON Schema of what is filled in with the answer.")
    ] = None
    required: Annotated[
        int, Field(ge=1, le=REQUIRED_MAX, description="How many people must approve."), WHOLE
    ] = 1
    bar_starter: Annotated[
        bool, Field(description="Whether the person who started the run may not decide it.")
    ] = False


@dataclass(frozen=True, slots=True)
class TimerRequest:
    seconds: float


@dataclass(frozen=True, slots=True)
class EventRequest:
    name: str
    key: str
    timeout: float | None


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    title: str
    assignees: tuple[str, ...]
    form: Mapping[str, Any]
    timeout: float | None
    required: int = 1
    bar_starter: bool = False


@dataclass(frozen=True, slots=True)
class PollRequest:
    """Evaluate `condition` now and every `seconds`, until it holds."""

    condition: Expression
    seconds: float
    timeout: float | None


@dataclass(frozen=True, slots=True)
class LookRequest:
    """Let the worker look, now and every interval, until the condition holds: a step that polls."""

    timeout: float | None


WaitRequest = TimerRequest | EventRequest | ApprovalRequest | PollRequest | LookRequest


class Delay:
    """A delay never times out."""

    times_out = False

    def __init__(self, data: DelayData | WaitData, compiler: NodeCompiler) -> None:
        duration = getattr(data, "duration", None)
        self._seconds = None if data.ms is None else data.ms / 1000
        self._duration = None if duration is None else compiler.template(duration, "duration")
        self._until = None if data.until is None else compiler.template(data.until, "until")
        self._check(duration, data.until, compiler)
        compiler.uses_time = compiler.uses_time or self._until is not None

    @staticmethod
    def _check(duration: str | None, until: str | None, compiler: NodeCompiler) -> None:
        """Check values without expressions when the graph is saved."""
        for code, field, written, read in (
            ("DURATION", "duration", duration, _length),
            ("TIMESTAMP", "until", until, _fixed_moment),
        ):
            if written is not None and "{{" not in written:
                try:
                    read(written)
                except NodeConfigError as error:
                    compiler.problem(code, error.message, field, error.hint)

    def request(self, scope: ExpressionScope, now: Now) -> WaitRequest:
        if self._seconds is not None:
            return TimerRequest(self._seconds)
        if self._duration is not None:
            return TimerRequest(_length(self._duration.render(scope, now)))
        assert self._until is not None
        assert now is not None
        return TimerRequest(max(0.0, _moment(self._until.render(scope, now)) - now))

    def answered(self, answer: Any) -> NodeOutcome:
        return NodeOutcome()


class EventWait:
    times_out = True

    def __init__(self, data: WaitData, compiler: NodeCompiler) -> None:
        self._event = compiler.template(data.event, "event")
        self._key = None if data.key is None else compiler.template(data.key, "key")
        self._timeout = data.timeout_seconds(None)

    def request(self, scope: ExpressionScope, now: Now) -> WaitRequest:
        key = "" if self._key is None else _text(self._key, scope, now)
        if self._key is not None and not key:
            # An empty key would match every event of that name.
            raise NodeConfigError("the event's key is empty", hint="leave key out to match any event")
        return EventRequest(_text(self._event, scope, now), key, self._timeout)

    def answered(self, answer: Any) -> NodeOutcome:
        return NodeOutcome(output=answer)


class WebhookWait:
    """Waits for the delivery to an address of the run: `run.webhooks.<id of the node>`."""

    times_out = True

    def __init__(self, data: WaitData, compiler: NodeCompiler) -> None:
        self._path = compiler.expression(f'run.webhooks["{compiler.node}"]', "mode")
        self._timeout = data.timeout_seconds(None)

    def request(self, scope: ExpressionScope, now: Now) -> WaitRequest:
        return EventRequest(DELIVERY, token_of(self._path.evaluate(scope, now)), self._timeout)

    def answered(self, answer: Any) -> NodeOutcome:
        return NodeOutcome(output=answer)


class ConditionWait:
    times_out = True

    def __init__(self, data: WaitData, compiler: NodeCompiler) -> None:
        assert data.condition is not None
        self._condition = compiler.expression(data.condition, "condition")
        self._poll = data.poll_ms / 1000
        self._timeout = data.timeout_seconds(None)

    def request(self, scope: ExpressionScope, now: Now) -> WaitRequest:
        return PollRequest(self._condition, self._poll, self._timeout)

    def answered(self, answer: Any) -> NodeOutcome:
        return NodeOutcome()


class LookWait:
    """Waits for what a record, a query or a service says."""

    times_out = True

    def __init__(self, data: WaitData, compiler: NodeCompiler) -> None:
        assert data.condition is not None
        [(self._type, looked_at)] = data.looked_at.items()
        inner = compiler.within(self._type)
        self._look: StepNode = _LOOKS[self._type](looked_at, inner)
        compiler.uses_time = compiler.uses_time or inner.uses_time
        self._condition = compiler.expression(data.condition, "condition")
        self._poll = data.poll_ms / 1000
        self._timeout = data.timeout_seconds(None)
        self.spec = replace(self._look.spec, name=LOOK, retry=ONCE, polls=True)

    def request(self, scope: ExpressionScope, now: Now) -> WaitRequest:
        return LookRequest(self._timeout)

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        (config,), _ = self._look.prepare(scope, now)
        look = {
            "type": self._type,
            "config": config,
            "condition": self._condition,
            "scope": dict(scope),
            "seconds": self._poll,
        }
        return (look,), {}

    outcome = staticmethod(outcome_of)

    def answered(self, answer: Any) -> NodeOutcome:
        return NodeOutcome(output=answer)


_LOOKS: dict[str, Callable[[Any, NodeCompiler], StepNode]] = {
    "records": RecordsWork,
    "query": QueryWork,
    "http": HttpWork,
}


class Approval:
    times_out = True

    def __init__(self, data: ApprovalData, compiler: NodeCompiler) -> None:
        self._message = compiler.template(data.message, "message")
        self._title = data.title or ""
        self._assignees = compiler.template(data.assignees, "assignees")
        self._timeout = data.timeout_seconds(None)
        compiler.schema(data.form, "form")
        self._form = answer_schema(data.form)
        self._required, self._bar_starter = data.required, data.bar_starter

    def request(self, scope: ExpressionScope, now: Now) -> WaitRequest:
        assignees = self._assignees.render(scope, now)
        return ApprovalRequest(
            _text(self._message, scope, now) or self._title,
            tuple(str(who) for who in assignees),
            self._form,
            self._timeout,
            self._required,
            self._bar_starter,
        )

    def answered(self, answer: Any) -> NodeOutcome:
        output = answer if isinstance(answer, dict) else {"response": answer}
        return NodeOutcome((output["response"],), output)

    def pinned(self, value: Any) -> NodeOutcome:
        named_handles(value.get("response") if isinstance(value, dict) else value, ANSWERS)
        return self.answered(value)


def answer_schema(form: dict[str, Any] | None) -> dict[str, Any]:
    """The schema of a decision: the bare word, or an object with the word and the form's fields."""
    answer: dict[str, Any] = {
        "type": "object",
        "required": ["response"],
        "properties": {"response": {"enum": list(ANSWERS)}, "comment": {"type": "string"}},
    }
    if form is None:
        return {"anyOf": [{"enum": list(ANSWERS)}, answer]}
    # With an $id of its own, so that its references resolve inside the form, not in the answer around it.
    answer["properties"]["form"] = {"$id": "urn:stepwell:form", **form}
    answer["if"] = {"properties": {"response": {"const": "approved"}}}
    answer["then"] = {"required": ["form"]}
    return {"anyOf": [{"const": "denied"}, answer]}


def _text(template: Template, scope: ExpressionScope, now: Now) -> str:
    return text(template.render(scope, now), DEFAULT_LIMITS)


def _length(value: Any) -> float:
    try:
        length = seconds(value, name="duration")
    except StepwellError as error:
        raise NodeConfigError(error.message, hint=error.hint) from None
    if length * 1000 > YEAR_MS:
        raise NodeConfigError(f"{excerpt(value)} is longer than a year", hint="give at most 365d")
    return length


def _moment(value: Any) -> float:
    """Seconds since 1970; refuses moments that nobody will wait for."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        moment = value / 1000
    else:
        try:
            when = datetime.fromisoformat(str(value))
        except ValueError:
            raise NodeConfigError(
                f"{excerpt(value)} is not a date and time", hint="give it in ISO format"
            ) from None
        moment = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if moment >= _LAST_MOMENT:
        raise NodeConfigError(f"{excerpt(value)} is too far away", hint="to wait forever, wait for an event")
    return moment


def _fixed_moment(written: str) -> None:
    """A literal date must have a time zone, so that it means the same everywhere."""
    _moment(written)
    when = datetime.fromisoformat(written)
    if when.tzinfo is None:
        raise NodeConfigError(
            f"{excerpt(written)} has no time zone", hint="add Z for UTC, or an offset such as +02:00"
        )


def _wait(
    data: WaitData, compiler: NodeCompiler
) -> Delay | EventWait | WebhookWait | ConditionWait | LookWait:
    if data.mode == "webhook":
        return WebhookWait(data, compiler)
    if data.mode == "event":
        return EventWait(data, compiler)
    if data.looked_at:
        return LookWait(data, compiler)
    if data.mode == "condition":
        compiler.uses_time = True
        return ConditionWait(data, compiler)
    return Delay(data, compiler)


def webhook_paths(
    by_data: Mapping[type, Iterable[Any]], workspace: str, run_id: str, seed: str
) -> dict[str, Any]:
    """What expressions see of a run beside its names: the addresses at which its nodes wait."""
    waits = by_data.get(WaitData)
    if waits is None:  # most graphs: this is done for every run
        return {}
    paths = {
        node.id: run_webhook(
            workspace,
            run_id,
            seed,
            node.id,
            secret=node.data.credential or "",
            scheme=node.data.auth if node.data.credential else "",
        )
        for node in waits
        if node.data.mode == "webhook"
    }
    return {"webhooks": paths} if paths else {}


WAITING = (
    NodeType(name="delay", data=DelayData, role=Role.WAIT, compile=Delay, text="waits for a while"),
    NodeType(
        name="wait",
        data=WaitData,
        role=Role.WAIT,
        compile=_wait,
        handles=lambda data: frozenset({"out", "timeout", "error"}),
        text="waits for a time, an event, a webhook or a condition",
    ),
    NodeType(
        name="approval",
        data=ApprovalData,
        role=Role.WAIT,
        compile=Approval,
        handles=lambda data: frozenset({*ANSWERS, "timeout", "error"}),
        text="asks a person to approve or deny",
    ),
)
