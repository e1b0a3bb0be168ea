"""Bulk: one action on all runs that match a filter, as a job with progress.

A job is a run itself: of a workflow that only servers have, on a queue that only servers serve. So it is on
disk before the request is answered, continues after a restart on any server of the database, can be
cancelled, and its log says what it did. Its row binds it to its workspace and action, never its input.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, cast

import msgspec
from fastapi import Path
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.app import Engine
from stepwell.authoring.functions.step import step
from stepwell.authoring.functions.workflow import Workflow, workflow
from stepwell.client import RunHandle
from stepwell.client.options import ListOptions
from stepwell.domain.commit import RunRow
from stepwell.domain.ids import RunId
from stepwell.domain.program import Context, StepContext, needs_of
from stepwell.domain.retry import Retry
from stepwell.domain.status import Status, checked_statuses
from stepwell.domain.steps import StepSpec, spec_of
from stepwell.engine.worker.worker import Worker, WorkerOptions
from stepwell.errors import Permanent, StepwellError, StoreError
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.refusal import Refusal
from stepwell.server.runs import Key, WhoBody, idempotency_key
from stepwell.store.sealed import SealedStore
from stepwell.system import SystemClock

_log = logging.getLogger("stepwell.server")
QUEUE = "stepwell-bulk"
NAME = "stepwell.bulk"
_PAGE = 200  # runs per step
_ERRORS_KEPT = 20
_AT_ONCE = 8
_IDS_MAX = 10_000
Action = Literal["cancel", "retry", "delete", "hold", "release"]


@dataclass(frozen=True, slots=True)
class BulkInput:
    """What a job does. It affects only runs that are older than itself."""

    action: Action
    filter: dict[str, Any] = field(default_factory=dict)  # as for a list of runs
    ids: tuple[str, ...] = ()  # instead of the filter
    by: str = ""
    reason: str = ""
    total: int | None = None  # how many runs match, if known


@dataclass(slots=True)
class BulkCount:
    """How far a job is."""

    done: int = 0
    unchanged: int = 0  # the action changed nothing, or is not possible
    failed: int = 0
    errors: list[dict[str, str]] = field(default_factory=list)  # the first failures
    cursor: str = ""
    more: bool = True


# The workflow


def bulk_workflow(engine: Engine) -> tuple[Workflow[BulkInput, BulkCount], StepSpec]:
    @step(name="bulk_page", retry=Retry(20, delay=1.0, max_delay=60.0))
    async def page(ctx: StepContext, asked: BulkInput, cursor: str) -> BulkCount:
        return await _page(engine, ctx.run_id, asked, cursor)

    @workflow(name=NAME, version="1")
    async def bulk(ctx: Context, asked: BulkInput) -> BulkCount:
        total = BulkCount()
        while total.more:
            count = await ctx.step(page, asked, total.cursor)
            total = BulkCount(
                total.done + count.done,
                total.unchanged + count.unchanged,
                total.failed + count.failed,
                [*total.errors, *count.errors][:_ERRORS_KEPT],
                count.cursor,
                count.more,
            )
            ctx.progress(
                total.done + total.unchanged + total.failed,
                asked.total,
                msgspec.json.encode(asdict(total)).decode(),
            )
        return total

    return bulk, spec_of(page)


async def _page(engine: Engine, job_id: str, asked: BulkInput, cursor: str) -> BulkCount:
    """Act on the next page of runs. A repeated attempt finds most of them done."""
    job = await engine.store.read_run(RunId(job_id))
    if job is None or job.trigger != f"bulk:{asked.action}":
        raise Permanent("this run was not started as a bulk job")
    view = engine.within(job.workspace)
    rows, cursor, more = await _matching(view, job, asked, cursor)
    count = BulkCount(cursor=cursor, more=more)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def act(row: RunRow) -> None:
        async with gate:
            await _act(view.handle(row.id), row, asked, count)

    async with asyncio.TaskGroup() as group:
        for row in rows:
            if row.workflow != NAME:  # excludes the jobs themselves
                group.create_task(act(row))
    return count


async def _matching(
    view: Engine, job: RunRow, asked: BulkInput, cursor: str
) -> tuple[list[RunRow], str, bool]:
    """Return the next page of matching runs that are older than the job, and where it ends."""
    if not asked.ids:
        before = cursor or job.id
        filter = cast(ListOptions, {**asked.filter, "before": before, "limit": _PAGE})
        runs = await view.runs(**filter)
        return list(runs), runs.next or cursor, bool(runs.next)
    left = sorted({id for id in asked.ids if not cursor or id < cursor}, reverse=True)
    page = left[:_PAGE]
    rows = [row for id in page if (row := await view.store.read_run(RunId(id))) is not None]
    own = [row for row in rows if row.workspace == job.workspace]
    return own, page[-1] if page else cursor, len(left) > _PAGE


async def _act(run: RunHandle[Any], row: RunRow, asked: BulkInput, count: BulkCount) -> None:
    try:
        if await _ACTIONS[asked.action](run, row, asked):
            count.done += 1
        else:
            count.unchanged += 1
    except StoreError:
        raise  # the step is retried with the same page
    except StepwellError as error:
        count.failed += 1
        if len(count.errors) < _ERRORS_KEPT:
            count.errors.append({"run": row.id, "code": error.code, "message": error.message})


async def _cancel(run: RunHandle[Any], row: RunRow, asked: BulkInput) -> bool:
    return not row.status.terminal and await run.cancel(asked.reason, by=asked.by)


async def _retry(run: RunHandle[Any], row: RunRow, asked: BulkInput) -> bool:
    if row.status not in (Status.FAILED, Status.TIMED_OUT):
        return False
    await run.retry(by=asked.by, reason=asked.reason)
    return True


async def _delete(run: RunHandle[Any], row: RunRow, asked: BulkInput) -> bool:
    if not row.status.terminal:
        return False
    await run.delete(by=asked.by, reason=asked.reason)
    return True


async def _hold(run: RunHandle[Any], row: RunRow, asked: BulkInput) -> bool:
    return not row.status.terminal and await run.hold(by=asked.by, reason=asked.reason)


async def _release(run: RunHandle[Any], row: RunRow, asked: BulkInput) -> bool:
    return not row.status.terminal and await run.release(by=asked.by, reason=asked.reason)


_ACTIONS: dict[str, Callable[[RunHandle[Any], RunRow, BulkInput], Awaitable[bool]]] = {
    "cancel": _cancel,
    "retry": _retry,
    "delete": _delete,
    "hold": _hold,
    "release": _release,
}


class BulkJobs:
    """Starts jobs, and runs them on a worker of its own, which begins with the first job."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.workflow, self._step = bulk_workflow(engine)
        self._wanted = asyncio.Event()
        self._workers: list[Worker] = []  # started with the first job

    def want(self) -> None:
        """Start the worker, if it has not started."""
        self._wanted.set()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run jobs while the block runs: new ones, and those that a stopped server left."""
        self._wanted, self._workers = asyncio.Event(), []
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self._work())
            try:
                yield
            finally:
                for worker in self._workers:
                    await worker.stop()
                working.cancel()

    async def _work(self) -> None:
        if isinstance(
            self._engine.store, SealedStore
        ):  # jobs are runs, and their payloads cannot be read here
            return
        await self._look_for_jobs()
        await self._wanted.wait()
        worker = self._new_worker()
        try:
            await worker.open()
            self._workers.append(worker)
            await worker.run()
        except (
            Exception
        ):  # the API keeps working; another server, or this one after a restart, takes the jobs
            _log.exception("bulk jobs stopped on this server")

    async def _look_for_jobs(self) -> None:
        store = self._engine.store
        try:
            uses = await store.read_queues("", now=await store.now())
        except StepwellError:  # the next job tries again
            return
        if any(use.queue == QUEUE for use in uses):
            self._wanted.set()

    def _new_worker(self) -> Worker:
        engine = self._engine
        settings = asdict(engine.settings) | {"slots": 4, "grace_seconds": 1.0}
        return Worker(
            engine.store,
            engine.notifier,
            SystemClock(),
            engine.ids,
            programs={needs_of(self.workflow.definition): self.workflow},
            steps={self._step.name: self._step},
            options=WorkerOptions(name="server", queues=(QUEUE,), **settings),
        )


# Routes


class BulkBody(WhoBody):
    workflow: str = Field(default="", max_length=500)
    version: str = Field(default="", max_length=500)
    queue: str = Field(default="", max_length=500)
    trigger: str = Field(default="", max_length=500)
    status: list[str] = Field(default=[], max_length=10, examples=[["failed", "timed_out"]])
    tags: dict[str, str] = Field(default={}, max_length=50, description="all of these")
    error: str = Field(default="", max_length=2000, description="words of the error")
    since: float | None = Field(
        default=None, ge=0, description="created then or later, in seconds since 1970"
    )
    until: float | None = Field(default=None, ge=0, description="created before")
    runs: list[str] = Field(default=[], max_length=_IDS_MAX, description="ids, instead of a filter")


class BulkJobView(BaseModel):
    """A job, and how far it is."""

    id: str
    url: str
    action: str
    status: Status
    done: int
    unchanged: int = Field(description="runs that the action did not change or does not apply to")
    failed: int
    total: int | None = Field(description="known if the runs are given by ids")
    errors: list[dict[str, str]] = Field(description="the first ones: run, code, message")


JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="id of a job", examples=["0" * 32])]


async def bulk_cancel(request: Request, body: BulkBody, key: Key = None) -> BulkJobView:
    """Cancel all runs that match, as a job."""
    return await _start(request, "cancel", body, key)


async def bulk_retry(request: Request, body: BulkBody, key: Key = None) -> BulkJobView:
    """Retry all failed and timed-out runs that match, as a job."""
    return await _start(request, "retry", body, key)


async def bulk_delete(request: Request, body: BulkBody, key: Key = None) -> BulkJobView:
    """Delete all ended runs that match, as a job."""
    return await _start(request, "delete", body, key)


async def bulk_hold(request: Request, body: BulkBody, key: Key = None) -> BulkJobView:
    """Hold all runs that match, as a job."""
    return await _start(request, "hold", body, key)


async def bulk_release(request: Request, body: BulkBody, key: Key = None) -> BulkJobView:
    """Release all held runs that match, as a job."""
    return await _start(request, "release", body, key)


async def get_bulk_job(request: Request, job_id: JobPath) -> BulkJobView:
    """Return how far a job is. A job is a run: cancel it like one."""
    run, row = await caller_of(request).run(job_id)
    if row.workflow != NAME:
        raise Refusal(404, "NOT_A_BULK_JOB", f"run {job_id} is not a bulk job", field="job_id")
    return await _view(request, run, row)


async def _start(request: Request, action: Action, body: BulkBody, key: str | None) -> BulkJobView:
    caller = caller_of(request)
    names = ("workflow", "version", "queue", "trigger", "status", "tags", "error", "since", "until")
    filter = {name: value for name in names if (value := getattr(body, name))}
    if not (filter or body.runs):
        raise Refusal(
            422,
            "FIELD_REQUIRED",
            "a bulk job needs a filter such as `status`, or `runs`",
            hint="name what is meant: all runs are never meant by an empty filter",
            field="status",
        )
    if body.runs and filter:
        raise Refusal(422, "FIELD_INVALID", "give `runs` or a filter, not both", field="runs")
    jobs: BulkJobs = request.app.state.bulk
    by = caller.who(body.by)
    checked_statuses(body.status)
    total = len(body.runs) or None
    asked = BulkInput(action, filter, tuple(body.runs), by, body.reason, total)
    options: dict[str, Any] = {"key": f"bulk:{chosen}"} if (chosen := idempotency_key(key, "")) else {}
    run = await caller.engine.start(
        jobs.workflow, asked, queue=QUEUE, by=by, trigger=f"bulk:{action}", **options
    )
    jobs.want()
    return await _view(request, run, await run.info())


async def _view(request: Request, run: RunHandle[Any], row: RunRow) -> BulkJobView:
    count, asked = BulkCount(), msgspec.json.decode(row.input or b"{}")
    if row.output is not None:
        count = msgspec.json.decode(row.output, type=BulkCount)
    elif (progress := (await run.state()).progress) is not None:
        count = msgspec.json.decode(progress.text, type=BulkCount)
    return BulkJobView(
        id=row.id,
        url=f"{request.scope.get('root_path', '')}/api/v1/bulk/{row.id}",
        action=asked.get("action", ""),
        status=row.status,
        done=count.done,
        unchanged=count.unchanged,
        failed=count.failed,
        total=asked.get("total"),
        errors=views.plain(count.errors),
    )
