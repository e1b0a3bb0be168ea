"""Children: the runs that a run starts, of workflows that this worker has or that only the store knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain.codec import PLAIN, canonical
from stepwell.domain.commit import DEFAULT_WORKSPACE, Definition, NewRun
from stepwell.domain.control_flow import Unwind
from stepwell.domain.events import NULL
from stepwell.domain.ids import DRAFT, RunId, child_run_id, recorded_random
from stepwell.domain.new_run import default_of, new_run
from stepwell.domain.program import RunOptions, Startable
from stepwell.domain.retry import Retry
from stepwell.domain.schema import Schema
from stepwell.domain.steps import StepSpec
from stepwell.engine.run.answers import result_path
from stepwell.engine.run.calls import ResultCall
from stepwell.engine.run.port import Call, RunPort
from stepwell.engine.run.workflow_loop import WorkflowLoop
from stepwell.errors import InvalidRequest
from stepwell.store.base import Store


class _End(asyncio.Future[Any]):
    """A child's end. Each task that awaits it waits on a future of its own, so leaving cancels only that.

    They are woken when the end is set, in the order in which they came, and not by a callback: so a task
    that waits alone continues exactly when the code of any other call would.
    """

    def __init__(self, turns: WorkflowLoop) -> None:
        super().__init__(loop=turns)
        self._turns = turns
        self._awaiting: dict[asyncio.Future[None], None] = {}

    @property
    def awaited(self) -> bool:
        return bool(self._awaiting)

    @property
    def unwound(self) -> bool:
        """The code was unwound, which says nothing about the child."""
        return self.done() and isinstance(self.exception(), Unwind)

    async def come(self) -> None:
        if self.done():
            return
        mine = self._turns.create_future()
        self._awaiting[mine] = None
        try:
            await mine
        finally:
            del self._awaiting[mine]

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        self._wake()

    def set_exception(self, exception: type | BaseException) -> None:
        super().set_exception(exception)
        self.exception()  # marks it as seen, also when every task has just left
        self._wake()

    def _wake(self) -> None:
        for awaiting in self._awaiting:
            if not awaiting.done():
                awaiting.set_result(None)


class Child:
    """`await child` gives its result, as often as it is awaited.

    The child is cancelled when the last task that awaits it has left, not before.
    """

    def __init__(
        self,
        turns: WorkflowLoop,
        ask: Callable[[Call], object],
        left: Callable[[Call | None], BaseException],
        path: str,
        *,
        run_id: RunId,
        workflow: Startable[Any, Any],
        detached: bool,
    ) -> None:
        self._turns = turns
        self._ask = ask
        self._left = left
        self._path = path
        self._workflow = workflow
        self._detached = detached
        self._asked: tuple[ResultCall, _End] | None = None
        self.id = run_id

    def __await__(self) -> Any:
        return self.result().__await__()

    async def result(self) -> Any:
        if self._detached:
            raise InvalidRequest(
                "a detached child lives on its own; its result does not come here",
                hint="start it without detached=True to await it",
            )
        call, end = self._question()
        try:
            await end.come()
        except asyncio.CancelledError:
            raise self._left(None if end.done() or end.awaited else call) from None
        error = end.exception()
        if error is not None:
            raise error.with_traceback(None)
        return self._workflow.decode_result(bytes(end.result()) or b"null")

    def _question(self) -> tuple[ResultCall, _End]:
        """The pending question; a new one if that was withdrawn, because its answer does not come."""
        if self._asked is not None:
            call, end = self._asked
            if not (call.withdrawn or end.unwound):
                return self._asked
        end = _End(self._turns)
        call = ResultCall(result_path(self._path), end)
        self._ask(call)
        self._asked = call, end
        return self._asked


_FIND_RETRY = Retry(10, 0.5, "exponential", 30.0)


def new_child(run: RunPort, path: str, workflow: Startable[Any, Any], input: Any, detached: bool) -> NewRun:
    journal, services = run.journal, run.services
    depth = 0 if detached else journal.accepted.depth + 1
    if depth > services.child_depth_max:
        raise InvalidRequest(
            f"children are nested more than {services.child_depth_max} deep",
            hint="start it detached, or raise Settings.child_depth_max",
        )
    # A parent that a person retried gets a new child: the old one has failed for good.
    run_id = child_run_id(run.run_id, f"{path}@{journal.retries}")
    stored = workflow if isinstance(workflow, StoredWorkflow) else None
    return new_run(
        workflow,
        input,
        what="the child's input",
        bytes_max=services.payload_bytes_max,
        run_id=run_id,
        key="",
        seed=f"{recorded_random(journal.seed_now, path):032x}",
        parent="" if detached else run.run_id,
        parent_path="" if detached else path,
        root=run_id if detached else journal.accepted.root or run.run_id,
        depth=depth,
        trigger="child",
        by=f"run/{run.run_id}",
        workspace=journal.accepted.workspace,
        graph=stored.graph if stored is not None else b"",
    )


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow as the store had it, in the log of the run that calls it: later versions do not count."""

    workspace: str
    name: str
    version: str
    kind: str
    hash: str
    options: Raw
    input_schema: Raw
    graph: Raw = NULL  # of a saved graph: the child carries it, so any worker can run it


class StoredWorkflow:
    """A workflow that another worker has, or a graph that was saved and published."""

    def __init__(self, entry: Entry) -> None:
        self.graph = b"" if bytes(entry.graph) == b"null" else bytes(entry.graph)
        self.definition = Definition(
            workspace=entry.workspace,
            name=entry.name,
            version=entry.version,
            kind=entry.kind,
            hash=entry.hash,
            body=self.graph,
            input_schema=bytes(entry.input_schema),
            options=bytes(entry.options),
        )
        self.options = msgspec.json.decode(entry.options, type=RunOptions)

        self.default_input = default_of(self.definition.input_schema)

    def encode_input(self, input: Any) -> bytes:
        data = PLAIN.encode({} if input is None and self.definition.kind == "graph" else input)
        schema = Schema(self.definition.input_schema.decode())
        schema.check(msgspec.json.decode(data), workflow=self.definition.name)
        return data

    def canonical_input(self, input: Any) -> bytes:
        return canonical(PLAIN, {} if input is None and self.definition.kind == "graph" else input)

    def decode_result(self, data: bytes) -> Any:
        return PLAIN.decode(data)


def lookup_step(store: Store, run_id: RunId) -> StepSpec:
    """A step that looks up a workflow. Its result is recorded, so a replay calls the same version."""

    async def find(name: str, version: str) -> Any:
        caller = await store.read_run(run_id)
        workspace = DEFAULT_WORKSPACE if caller is None else caller.workspace
        row = await store.read_definition(workspace, name, version)
        if row is None:
            return None
        saved = row.kind == "graph" and await store.read_definition(workspace, DRAFT + name) is not None
        entry = Entry(
            workspace=workspace,
            name=row.name,
            version=row.version,
            kind=row.kind,
            hash=row.hash,
            options=Raw(row.options),
            input_schema=Raw(row.input_schema),
            graph=Raw(row.body) if saved else NULL,
        )
        return msgspec.json.decode(msgspec.json.encode(entry))

    return StepSpec(name="stepwell:find", function=find, is_async=True, retry=_FIND_RETRY)


def stored_workflow(result: Any) -> StoredWorkflow | None:
    """The result of that step, from the log."""
    entry = msgspec.json.decode(bytes(result), type=Entry | None)
    return None if entry is None else StoredWorkflow(entry)
