"""Views: what the API answers, as typed models, from which clients in other languages can be generated."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from stepwell.client.search import WaitInfo
from stepwell.client.workflows import WorkflowInfo, WorkflowVersion
from stepwell.domain.access import Credential
from stepwell.domain.commit import Definition, LogRow, RunRow
from stepwell.domain.damage import damaged
from stepwell.domain.event_types import event_type
from stepwell.domain.state import OpenWait
from stepwell.domain.status import Status

BEGINNING = datetime.fromtimestamp(0, tz=UTC)  # of a fact without a time
SHOWN_MAX = 64 * 1024  # bytes of a payload in a list
GLANCE_MAX = 8 * 1024  # bytes of a payload in a RunGlance

_ID = "0192f0c1d2e3740f8a9b0c1d2e3f4a5b"
_AT = "2026-01-01T12:00:00.000000Z"


class Truncated(BaseModel):
    """Stands in for a value that is too long for a list; `url` has the whole."""

    truncated: bool = True
    bytes: int
    url: str


class PositionView(BaseModel):
    """Where a run is: its latest step, node or transition, and its progress; or why it has not begun."""

    path: str
    attempt: int = Field(description="attempt of the step; the next one if `retry_at` is set")
    retry_at: datetime | None = Field(default=None, description="when a failed step is tried again")
    error: str = Field(default="", description="why it is tried again")
    done: float | None = None
    total: float | None = None
    text: str = Field(default="", description="progress text, why it is queued, or who cancelled it")


class RunSummary(BaseModel):
    """A run in a list. A long `input`, `output` or `error` is replaced by `Truncated`."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": _ID,
                "workflow": "fulfil",
                "version": "1",
                "kind": "function",
                "status": "completed",
                "where": "",
                "key": "order-42",
                "parent": "",
                "root": _ID,
                "tags": {"customer": "7"},
                "trigger": "api",
                "test": False,
                "number": 7,
                "started_by": "ann",
                "held": False,
                "worker": "",
                "done": 47,
                "total": 312,
                "input_tokens": 512,
                "output_tokens": 80,
                "cost": 0.004,
                "created_at": _AT,
                "started_at": _AT,
                "ended_at": _AT,
                "input": {"id": 42},
                "output": "shipped",
                "error": None,
            }
        }
    )

    id: str
    workflow: str
    version: str
    kind: str = Field(description="function, machine or graph")
    status: Status
    where: str = Field(description="the step, place or node where the run is")
    key: str
    parent: str
    root: str
    tags: dict[str, str]
    trigger: str
    test: bool
    number: int = Field(description="within its workflow, from 1")
    started_by: str
    held: bool = Field(description="an operator stopped it, whatever its status is")
    worker: str = Field(description="the id of the worker that has it now")
    done: float | None = Field(description="progress, as last reported by its loop or its code")
    total: float | None
    input_tokens: int = Field(description="used by its steps")
    output_tokens: int
    cost: float
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    input: Any
    output: Any
    error: Any
    position: PositionView | None = Field(default=None, description="in a list: where it is, or how it ended")


class RunView(RunSummary):
    """A run with its whole input, output and error, and the seq of its last event."""

    seq: int = Field(description="seq of the last event")


class RunPage(BaseModel):
    runs: list[RunSummary]
    cursor: str | None = Field(description="pass it to get the next page; null: this was the last")


class CountsView(BaseModel):
    """How many runs there are: in all, by status, and by status for each workflow and queue."""

    total: int
    statuses: dict[str, int]
    workflows: dict[str, dict[str, int]]
    queues: dict[str, dict[str, int]]


class ChoiceView(BaseModel):
    """A transition that a person may trigger."""

    name: str
    form: Any = None
    title: str = ""


class OpenWaitView(BaseModel):
    """An open wait of some run that a person or program can answer."""

    run: str = Field(examples=[_ID])
    workflow: str
    number: int
    path: str
    what: str = Field(description="signal, event, approval or trigger")
    name: str
    key: str
    title: str
    assignees: list[str]
    form: Any = Field(description="JSON Schema of the answer")
    choices: list[ChoiceView]
    opened_at: datetime
    due_at: datetime | None
    required: int = Field(default=1, description="people who must approve")
    bar_starter: bool = Field(
        default=False, description="whether the person who started the run is barred from deciding"
    )


class OpenWaitPage(BaseModel):
    waits: list[OpenWaitView]
    cursor: str | None = Field(description="pass it to get the next page; null: this was the last")


class TriggerChanged(BaseModel):
    """The new state of a schedule, webhook or trigger."""

    name: str
    changed: bool = Field(description="false: nothing changed")


class RunStarted(BaseModel):
    """An accepted run: it is on disk and will reach an end."""

    id: str = Field(examples=[_ID])
    url: str = Field(examples=[f"/api/v1/runs/{_ID}"])
    run: RunView | None = Field(default=None, description="set with ?wait=")


class RunsStarted(BaseModel):
    runs: list[RunStarted]


class EventView(BaseModel):
    """One fact of a run's log."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "run": _ID,
                "seq": 4,
                "at": _AT,
                "kind": "step_completed",
                "type": "node_completed",
                "path": "0/charge#1",
                "attempt": 1,
                "starts": [],
                "data": {"output": "receipt-42"},
            }
        }
    )

    run: str
    seq: int
    at: datetime
    kind: str = Field(description="what the engine recorded")
    type: str = Field(description="what it means, in one vocabulary for all styles; see /event-schema")
    path: str
    attempt: int
    starts: list[str] = Field(description="paths of graph nodes that began because of it")
    data: Any = Field(description="the fact, or Truncated")


class EventPage(BaseModel):
    events: list[EventView]
    after: int = Field(description="seq of the last event here: pass it as `after` to continue")
    more: bool


class EventPublished(BaseModel):
    published: bool = Field(description="false: this id was published before")


class WaitView(BaseModel):
    """Something a run waits for."""

    path: str
    what: str = Field(description="signal, event, approval, trigger, timer, retry or child")
    name: str = ""
    key: str = ""
    due_at: datetime | None = None
    form: Any = Field(default=None, description="JSON Schema of the answer")
    title: str = ""
    assignees: list[str] = []
    choices: list[str] = []
    required: int = Field(default=1, description="people who must approve")
    approved_by: list[str] = []
    bar_starter: bool = Field(
        default=False, description="whether the person who started the run is barred from deciding"
    )
    reminded_at: datetime | None = None


class OverviewView(BaseModel):
    """The times and the number of steps of a run. Times are in seconds."""

    number: int = Field(description="within its workflow, from 1")
    trigger: str
    started_by: str
    status: Status
    elapsed: float = Field(description="since it was accepted, until its end or now")
    active: float = Field(description="time that it was not suspended")
    steps: int = Field(description="steps, transitions or nodes so far")
    suspended_at: datetime | None
    done: float | None = Field(description="progress, as last reported by its loop or its code")
    total: float | None
    input_tokens: int = Field(description="used by its steps")
    output_tokens: int
    cost: float


class WaitList(BaseModel):
    waits: list[WaitView]


class StateView(BaseModel):
    """The state of a run after one event."""

    seq: int
    status: Status
    place: str = Field(description="place of a machine")
    state: Any = Field(description="state of a machine")
    outputs: dict[str, Any]
    steps: dict[str, Any]
    waits: list[WaitView]
    error: Any
    progress: Any
    input: Any
    variables: dict[str, Any] = Field(description="variables of a graph")
    nodes: dict[str, Any] = Field(description="outputs of a graph, by the place of their node")


class CheckpointView(BaseModel):
    version: int
    place: str
    state: Any
    documents: list[str]
    transition: str
    seq: int
    at: datetime
    forkable: bool


class CheckpointList(BaseModel):
    checkpoints: list[CheckpointView]


class DocumentView(BaseModel):
    id: str
    name: str
    version: int
    type: str
    value: Any
    path: str
    seq: int
    at: datetime


class DocumentList(BaseModel):
    documents: list[DocumentView]


class ReasonView(BaseModel):
    """Why a run does not move."""

    code: str = Field(examples=["waiting"])
    text: str
    until: datetime | None


class RunOutcome(BaseModel):
    """What became of a request to a run."""

    done: bool = Field(description="false: nothing changed")
    status: Status


class WorkflowView(BaseModel):
    """A version of a workflow."""

    name: str
    version: str
    kind: str
    hash: str
    title: str
    created_at: datetime | None
    created_by: str


class WorkflowSummary(BaseModel):
    """A workflow in a list: its latest version, and whether it accepts new runs."""

    name: str
    version: str
    versions: list[str]
    kind: str
    title: str
    description: str
    created_at: datetime | None = Field(description="when this version was stored")
    created_by: str
    enabled: bool
    switched_by: str = Field(description="who last enabled or disabled it")
    switched_at: datetime | None
    reason: str


class WorkflowSwitched(BaseModel):
    name: str
    enabled: bool
    changed: bool = Field(description="false: nothing changed")


class WorkflowList(BaseModel):
    workflows: list[WorkflowSummary]


class MeView(BaseModel):
    """Who calls."""

    name: str
    workspace: str
    principal: str = Field(description="person or service")
    scopes: list[str]
    roles: list[str]
    local: bool = Field(description="opened with the launch token: may name anybody as the one who decides")
    expires_at: datetime | None


class KeyView(BaseModel):
    """An API key, without its secret."""

    id: str
    name: str
    principal: str
    scopes: list[str]
    roles: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    used_at: datetime | None = Field(description="within a few minutes")
    revoked_at: datetime | None
    revoked_by: str


class KeyCreated(KeyView):
    secret: str = Field(description="the key itself; it is shown here and never again")


class SignedOut(BaseModel):
    signed_out: bool


class LinkCreated(BaseModel):
    """An approval link. Its secret and address are shown here and never again."""

    id: str
    assignee: str
    path: str = Field(description="path of the wait that it decides")
    expires_at: datetime
    secret: str = Field(description="the bearer token for /api/v1/approval")
    url: str = Field(description="a page of this server; the part after # is not sent to servers")


class ApprovalView(BaseModel):
    """An approval, as the holder of its link sees it."""

    run: str
    workflow: str
    path: str
    title: str
    form: Any = Field(description="JSON Schema of the answer")
    assignee: str = Field(description="who is recorded as deciding")
    required: int = Field(description="how many people must approve")
    approved_by: list[str]
    due_at: datetime | None
    expires_at: datetime = Field(description="when the link expires")


class ApprovalDecided(BaseModel):
    decided: bool
    by: str


class KeyRevoked(BaseModel):
    id: str
    changed: bool = Field(description="false: it was revoked before")


class KeyPage(BaseModel):
    keys: list[KeyView]
    cursor: str | None


def summary(row: RunRow, root: str) -> RunSummary:
    return RunSummary(**_fields(row, SHOWN_MAX, root))


def detail(row: RunRow, seq: int) -> RunView:
    return RunView(**_fields(row, None, ""), seq=seq)


def _fields(row: RunRow, most: int | None, root: str) -> dict[str, Any]:
    url = f"{root}/api/v1/runs/{row.id}"
    return {
        "id": row.id,
        "workflow": row.workflow,
        "version": row.version,
        "kind": row.kind,
        "status": row.status,
        "where": row.where_at,
        "key": row.key,
        "parent": row.parent,
        "root": row.root,
        "tags": msgspec.json.decode(row.tags) or {},
        "trigger": row.trigger,
        "test": row.test,
        "number": row.number,
        "started_by": row.started_by,
        "held": row.held,
        "worker": row.owner,
        "done": row.done,
        "total": row.total,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cost": row.cost,
        "created_at": moment(row.created_at),
        "started_at": moment(row.started_at),
        "ended_at": moment(row.ended_at),
        "input": shown(row.input, most, url),
        "output": shown(row.output, most, url),
        "error": shown(row.error, most, url),
    }


def shown(data: bytes | None, most: int | None, url: str) -> Any:
    if data is None:
        return None
    if most is not None and len(data) > most:
        return Truncated(bytes=len(data), url=url).model_dump()
    return msgspec.json.decode(data)


def event_fields(row: LogRow, run_id: str, root: str, most: int | None = SHOWN_MAX) -> dict[str, Any]:
    try:
        data = shown(row.payload, most, f"{root}/api/v1/runs/{run_id}/events/{row.seq}")
    except msgspec.DecodeError as error:
        raise damaged(row, error, run_id) from None
    fact = data if len(row.payload) <= (most or len(row.payload)) else msgspec.json.decode(row.payload)
    fact = fact if isinstance(fact, dict) else {}
    if fact.get("encrypted"):  # a field that no fact has: see SealedStore
        data = {"encrypted": True}
    return {
        "run": run_id,
        "seq": row.seq,
        "at": moment(row.at),
        "kind": row.kind,
        "type": event_type(row.kind, row.path, fact),
        "path": row.path,
        "attempt": row.attempt,
        "starts": fact.get("starts", []),
        "data": data,
    }


def key_view(key: Credential) -> KeyView:
    return KeyView(
        id=key.id,
        name=key.name,
        principal=key.principal,
        scopes=list(key.scopes),
        roles=list(key.roles),
        created_at=moment(key.created_at) or BEGINNING,
        created_by=key.created_by,
        expires_at=moment(key.expires_at),
        used_at=moment(key.used_at),
        revoked_at=moment(key.revoked_at),
        revoked_by=key.revoked_by,
    )


def open_wait_view(wait: WaitInfo) -> OpenWaitView:
    return OpenWaitView(
        run=wait.run,
        workflow=wait.workflow,
        number=wait.number,
        path=wait.path,
        what=wait.what,
        name=wait.name,
        key=wait.key,
        title=wait.title,
        assignees=list(wait.assignees),
        form=plain(wait.form),
        choices=[ChoiceView(name=c.name, form=plain(c.form), title=c.title) for c in wait.choices],
        opened_at=moment(wait.opened_at) or BEGINNING,
        due_at=moment(wait.due_at),
        required=wait.required,
        bar_starter=wait.bar_starter,
    )


def wait_view(wait: OpenWait) -> WaitView:
    return WaitView(
        path=wait.path,
        what=wait.what,
        name=wait.name,
        key=wait.key,
        due_at=moment(wait.due_at),
        form=plain(wait.form),
        title=wait.title,
        assignees=wait.assignees,
        choices=[choice.name for choice in wait.choices],
        required=wait.required,
        approved_by=wait.approved_by,
        bar_starter=wait.bar_starter,
        reminded_at=moment(wait.reminded_at),
    )


def workflow_view(definition: Definition | WorkflowVersion) -> WorkflowView:
    fields = {name: getattr(definition, name) for name in WorkflowView.model_fields}
    return WorkflowView(**fields | {"created_at": moment(definition.created_at)})


def workflow_summary(info: WorkflowInfo) -> WorkflowSummary:
    fields = asdict(info)
    fields["created_at"], fields["switched_at"] = moment(info.created_at), moment(info.switched_at)
    return WorkflowSummary(**fields | {"versions": list(info.versions)})


def plain(value: Any) -> Any:
    """Return facts, raw JSON and dataclasses as plain JSON values."""
    return msgspec.json.decode(msgspec.json.encode(value))


def moment(at: float | None) -> datetime | None:
    """Return the time; None for one that never comes."""
    try:
        return None if not at else datetime.fromtimestamp(at, tz=UTC)
    except (OverflowError, ValueError):
        return None
