"""Routes of a run's past: events, state, checkpoints, documents, waits, and why it waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.requests import Request

from stepwell.client import RunHandle
from stepwell.client.decisions import given_decisions
from stepwell.domain.commit import LogRow
from stepwell.domain.event_schema import event_schema
from stepwell.domain.event_types import types_of, vocabulary
from stepwell.domain.events import KIND
from stepwell.domain.ids import RunId
from stepwell.domain.state import OpenWait
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.trace import TraceEntry
from stepwell.errors import NotWaitingYet
from stepwell.server import views
from stepwell.server.caller import RunPath, caller_of
from stepwell.server.refusal import Refusal
from stepwell.server.runs import Wait, wait_seconds
from stepwell.store.base import Store

_PAGE_MAX = 1000
_PAGE_BYTES = 8 * 1024 * 1024  # of payloads: about as much is read for a page, however large they are
_FILTERED = 100  # events that are read at once where their size is not known before
_SEQ_MAX = 2**53 - 1
_SLICE = 5.0  # seconds after which a waiting request checks whether the server stops
Seq = Annotated[int | None, Query(ge=1, le=_SEQ_MAX, description="after this event; now if left out")]
EventSeq = Annotated[int, Path(ge=1, le=_SEQ_MAX)]


def _known_type(name: str) -> str:
    if name not in _TYPES:
        raise ValueError(did_you_mean_one_of(name, _TYPES))
    return name


_TYPES = vocabulary()
EventTypeName = Annotated[str, AfterValidator(_known_type), Field(json_schema_extra={"enum": [*_TYPES]})]


async def list_events(
    request: Request,
    run_id: RunPath,
    *,
    after: Annotated[int, Query(ge=0, le=_SEQ_MAX, description="seq of the last event you have")] = 0,
    limit: Annotated[int, Query(ge=1, le=_PAGE_MAX)] = 200,
    type: Annotated[
        list[EventTypeName] | None,
        Query(description="only these types, such as node_failed; see /event-schema", max_length=60),
    ] = None,
    path: Annotated[str, Query(max_length=2000, description="only events about it, as in the steps")] = "",
) -> views.EventPage:
    """List the events of a run, oldest first.

    A filtered page may be shorter than its limit although more follow: see `more`.
    """
    caller = caller_of(request)
    await caller.handle(run_id)
    kinds = sorted({kind for kind in KIND.values() if not {*(type or ())}.isdisjoint(types_of(kind))})
    rows, more = await _events(caller.engine.store, RunId(run_id), after, limit, kinds=kinds, path=path)
    events = [views.EventView(**views.event_fields(row, run_id, _root(request))) for row in rows]
    return views.EventPage(
        events=[event for event in events if not type or event.type in type],
        after=events[-1].seq if events else after,
        more=more,
    )


async def _events(
    store: Store, run_id: RunId, after: int, limit: int, *, kinds: Sequence[str], path: str
) -> tuple[list[LogRow], bool]:
    """Read the events of a page, fewer if they are large, and say whether more may follow."""
    filtered = bool(kinds or path)  # then the store does not look at their size
    rows: list[LogRow] = []
    left = _PAGE_BYTES
    while len(rows) <= limit and left > 0:
        most = limit + 1 - len(rows)
        size = min(most, _FILTERED) if filtered else most
        part = await store.read_log(run_id, after=after, limit=size, bytes_max=left, kinds=kinds, path=path)
        rows += part
        length = sum(len(row.payload) for row in part)
        # The store counts bytes as they are stored, perhaps compressed.
        if len(part) < size and (filtered or length < left // 2):
            return rows[:limit], len(rows) > limit
        left -= max(length, 1)
        after = part[-1].seq
    return rows[:limit], True


async def get_event(request: Request, run_id: RunPath, seq: EventSeq) -> views.EventView:
    """Return one event with its whole payload."""
    caller = caller_of(request)
    await caller.handle(run_id)
    rows = await caller.engine.store.read_log(RunId(run_id), after=seq - 1, limit=1)
    if not rows:
        raise Refusal(404, "EVENT_NOT_FOUND", f"run {run_id} has no event {seq}", field="seq")
    return views.EventView(**views.event_fields(rows[0], run_id, _root(request), None))


class StepView(BaseModel):
    """One thing that a run did: a step, wait or child of a function, a transition or a node of a graph."""

    model_config = ConfigDict(extra="allow")

    order: int = Field(description="1, 2, 3 ... of the beginning")
    path: str = Field(description="the same path as in the events")
    name: str
    kind: str = Field(description="step, wait, timer, child, transition or node")
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    input: Any = Field(description="what it read, or Truncated")
    output: Any = Field(description="what it wrote, or Truncated")


class StepPage(BaseModel):
    steps: list[StepView]
    after: int = Field(description="order of the last step here: pass it as `after` to continue")
    more: bool


class DecisionView(BaseModel):
    """An answer to a wait."""

    path: str = Field(description="path of the wait")
    by: str
    at: datetime
    decision: str = Field(description="approved, denied, or the transition that was chosen")
    reason: str


class DecisionList(BaseModel):
    decisions: list[DecisionView]


async def list_decisions(request: Request, run_id: RunPath) -> DecisionList:
    """List who decided what in a run, oldest first."""
    run = await caller_of(request).handle(run_id)
    return DecisionList(
        decisions=[
            DecisionView(
                path=given.path,
                by=given.by,
                at=views.moment(given.at) or views.BEGINNING,
                decision=given.choice or ("denied" if given.denied else "approved"),
                reason=given.reason,
            )
            for given in await given_decisions(run)
        ]
    )


async def list_steps(
    request: Request,
    run_id: RunPath,
    *,
    after: Annotated[int, Query(ge=0, le=_SEQ_MAX, description="order of the last step you have")] = 0,
    limit: Annotated[int, Query(ge=1, le=_PAGE_MAX)] = 200,
    values: Annotated[bool, Query(description="include what the entries read and wrote")] = True,
) -> StepPage:
    """List what a run did, in one shape for all styles: its trace."""
    run = await caller_of(request).handle(run_id)
    entries = await run.trace(after=after, limit=limit + 1, values=values)
    url = f"{_root(request)}/api/v1/runs/{run_id}/steps"
    steps = [_step_view(entry, url) for entry in entries[:limit]]
    return StepPage(steps=steps, after=steps[-1].order if steps else after, more=len(entries) > limit)


def _step_view(entry: TraceEntry, url: str) -> StepView:
    fields = views.plain(entry)
    for name in ("queued_at", "started_at", "ended_at"):
        fields[name] = views.moment(fields[name])
    for name in ("input", "output", "config", "details"):
        fields[name] = views.shown(msgspec.json.encode(fields[name]), views.SHOWN_MAX, url)
    return StepView(**fields)


async def get_event_schema() -> dict[str, Any]:
    """Return the JSON Schema of all events, with their types."""
    return event_schema()


async def get_state(request: Request, run_id: RunPath, seq: Seq = None) -> views.StateView:
    """Return the state of a run, now or after any earlier event."""
    run = await caller_of(request).handle(run_id)
    state = await run.state(seq)
    checkpoint = state.checkpoint
    return views.StateView(
        seq=seq or await _head(request, run_id),
        status=state.status,
        place=checkpoint.place if checkpoint else "",
        state=views.plain(checkpoint.state) if checkpoint else None,
        outputs=views.plain(state.outputs),
        steps=views.plain(state.steps),
        waits=[views.wait_view(wait) for wait in state.waits.values()],
        error=views.plain(state.error),
        progress=views.plain(state.progress),
        input=views.plain(state.input),
        variables=views.plain(state.variables),
        nodes=views.plain(state.nodes),
    )


async def list_checkpoints(request: Request, run_id: RunPath) -> views.CheckpointList:
    """List the checkpoints of a run, oldest first. A long state is replaced by Truncated."""
    url = f"{_root(request)}/api/v1/runs/{run_id}/state"
    run = await caller_of(request).handle(run_id)
    return views.CheckpointList(
        checkpoints=[
            views.CheckpointView(
                version=point.version,
                place=point.place,
                state=_shown(point.state, f"{url}?seq={point.seq}"),
                documents=list(point.documents),
                transition=point.transition,
                seq=point.seq,
                at=views.moment(point.at) or views.BEGINNING,
                forkable=point.forkable,
            )
            for point in await run.checkpoints()
        ]
    )


async def list_documents(request: Request, run_id: RunPath, seq: Seq = None) -> views.DocumentList:
    """List the latest version of each document of a run. A long value is replaced by Truncated."""
    url = f"{_root(request)}/api/v1/runs/{run_id}/documents"
    run = await caller_of(request).handle(run_id)
    return views.DocumentList(
        documents=[
            views.DocumentView(
                id=document.id,
                name=document.name,
                version=document.version,
                type=document.type,
                value=_shown(document.value, f"{url}/{quote(document.name)}?version={document.version}"),
                path=document.path,
                seq=document.seq,
                at=views.moment(document.at) or views.BEGINNING,
            )
            for document in await run.documents(seq)
        ]
    )


async def get_document(
    request: Request,
    run_id: RunPath,
    name: str,
    version: Annotated[int | None, Query(ge=1, le=_SEQ_MAX)] = None,
    seq: Seq = None,
) -> Any:
    """Return the value of a document."""
    run = await caller_of(request).handle(run_id)
    return await run.document(name, at=seq, version=version)


async def list_waits(
    request: Request,
    run_id: RunPath,
    name: Annotated[str, Query(max_length=1000, description="only the wait with this name or path")] = "",
    wait: Wait = "",
) -> views.WaitList:
    """List what a run waits for. With a name and `wait`, return when the run waits there."""
    run = await caller_of(request).handle(run_id)
    if name:
        reached = await _wait_named(request, run, name, wait_seconds(wait))
        return views.WaitList(waits=[] if reached is None else [views.wait_view(reached)])
    return views.WaitList(waits=[views.wait_view(wait) for wait in await run.waits()])


async def _wait_named(request: Request, run: RunHandle[Any], name: str, limit: float) -> OpenWait | None:
    """Return the wait once the run reaches it, or None when the time is over or the server stops."""
    left = max(limit, 0.001)
    while left > 0 and not request.app.state.streams.draining:
        try:
            return await run.waiting_for(name, timeout=min(left, _SLICE))
        except NotWaitingYet:
            left -= _SLICE
    return None


async def get_overview(request: Request, run_id: RunPath) -> views.OverviewView:
    """Return the times and the number of steps of a run."""
    overview = await (await caller_of(request).handle(run_id)).overview()
    fields = asdict(overview) | {"suspended_at": views.moment(overview.suspended_at)}
    return views.OverviewView(**fields)


async def why_run(request: Request, run_id: RunPath) -> views.ReasonView:
    """Explain exactly why a run does not move."""
    reason = await (await caller_of(request).handle(run_id)).why()
    return views.ReasonView(code=reason.code, text=reason.text, until=views.moment(reason.until))


def _shown(value: Any, url: str) -> Any:
    return views.shown(msgspec.json.encode(value), views.SHOWN_MAX, url)


async def _head(request: Request, run_id: str) -> int:
    rows = await caller_of(request).engine.store.read_log_end(RunId(run_id))
    return rows[-1].seq if rows else 0


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))
