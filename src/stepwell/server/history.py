"""Routes that read the past of a run: events, state, checkpoints, documents, waits, and why it waits."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request

from stepwell.domain.ids import RunId
from stepwell.server import views
from stepwell.server.caller import RunPath, caller_of
from stepwell.server.refusal import Refusal

_PAGE_MAX = 1000
_SEQ_MAX = 2**53 - 1
Seq = Annotated[int | None, Query(ge=1, le=_SEQ_MAX, description="after this event; now if left out")]
EventSeq = Annotated[int, Path(ge=1, le=_SEQ_MAX)]


async def list_events(
    request: Request,
    run_id: RunPath,
    after: Annotated[int, Query(ge=0, le=_SEQ_MAX, description="seq of the last event you have")] = 0,
    limit: Annotated[int, Query(ge=1, le=_PAGE_MAX)] = 200,
) -> views.EventPage:
    """List the events of a run, oldest first."""
    caller = caller_of(request)
    await caller.handle(run_id)
    rows = await caller.engine.store.read_log(RunId(run_id), after=after, limit=limit + 1)
    events = [views.EventView(**views.event_fields(row, run_id, _root(request))) for row in rows[:limit]]
    return views.EventPage(events=events, after=events[-1].seq if events else after, more=len(rows) > limit)


async def get_event(request: Request, run_id: RunPath, seq: EventSeq) -> views.EventView:
    """Return one event with its whole payload."""
    caller = caller_of(request)
    await caller.handle(run_id)
    rows = await caller.engine.store.read_log(RunId(run_id), after=seq - 1, limit=1)
    if not rows:
        raise Refusal(404, "EVENT_NOT_FOUND", f"run {run_id} has no event {seq}", field="seq")
    return views.EventView(**views.event_fields(rows[0], run_id, _root(request), None))


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
    )


async def list_checkpoints(request: Request, run_id: RunPath) -> views.CheckpointList:
    """List the checkpoints of a run, oldest first."""
    run = await caller_of(request).handle(run_id)
    return views.CheckpointList(
        checkpoints=[
            views.CheckpointView(
                version=point.version,
                place=point.place,
                state=views.plain(point.state),
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
    """List the latest version of each document of a run."""
    run = await caller_of(request).handle(run_id)
    return views.DocumentList(
        documents=[
            views.DocumentView(
                id=document.id,
                name=document.name,
                version=document.version,
                type=document.type,
                value=views.plain(document.value),
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


async def list_waits(request: Request, run_id: RunPath) -> views.WaitList:
    """List what a run waits for."""
    run = await caller_of(request).handle(run_id)
    return views.WaitList(waits=[views.wait_view(wait) for wait in await run.waits()])


async def why_run(request: Request, run_id: RunPath) -> views.ReasonView:
    """Explain exactly why a run does not move."""
    reason = await (await caller_of(request).handle(run_id)).why()
    return views.ReasonView(code=reason.code, text=reason.text, until=views.moment(reason.until))


async def _head(request: Request, run_id: str) -> int:
    rows = await caller_of(request).engine.store.read_log_end(RunId(run_id))
    return rows[-1].seq if rows else 0


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))
