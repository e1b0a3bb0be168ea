"""Engine: the composition root. Settings → store → client and worker."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from stepwell.client import Client, RunHandle
from stepwell.client.derived_runs import id_of
from stepwell.client.library import GraphLibrary
from stepwell.client.rates import StartRate
from stepwell.client.replay_guard import check_outside
from stepwell.domain import events as ev
from stepwell.domain.commit import NewRun, Started
from stepwell.domain.fork.prefix import Edits
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import Ids
from stepwell.domain.program import Program, needs_of
from stepwell.domain.steps import StepSpec, checked_name, spec_of
from stepwell.engine.worker.worker import Worker, WorkerOptions
from stepwell.errors import (
    InvalidDefinition,
    InvalidRequest,
    RunNotFound,
    SettingsInvalid,
    excerpt,
)
from stepwell.settings import Settings
from stepwell.store.base import Store
from stepwell.store.encoded import encoded
from stepwell.store.open import HINT, open_store
from stepwell.store.payloads import PayloadCodec
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock, SystemClock, SystemIds

if TYPE_CHECKING:
    from stepwell.authoring.graphs.history.trace import Trace
    from stepwell.authoring.graphs.workflow import GraphTools

_log = logging.getLogger("stepwell")
T = TypeVar("T")


@runtime_checkable
class AsGraph(Protocol):
    """What the Python builder makes: a graph that can be written as JSON."""

    def as_dict(self) -> dict[str, Any]: ...


GraphSource: TypeAlias = str | Path | dict[str, Any] | AsGraph


class Engine(Client):
    """Runs workflows on a database: `Engine("app.db", workflows=[fulfil])`.

    `async with engine:` opens the store and works in this process; `worker=False` only starts runs
    and talks to them.
    """

    def __init__(
        self,
        database: str | PathLike[str] | Store = "stepwell.db",
        *,
        workflows: Iterable[Program | GraphSource] = (),
        steps: Iterable[Callable[..., Any]] = (),
        nodes: Iterable[Callable[..., Any]] = (),
        queues: Iterable[str] = ("default",),
        worker: bool = True,
        settings: Settings | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        codec: PayloadCodec | None = None,
        replay_always: bool = False,
        start_rates: Sequence[StartRate] = (),
    ) -> None:
        if settings is not None and not isinstance(settings, Settings):
            raise SettingsInvalid(f"settings is {excerpt(settings)}", hint="give Settings(slots=100, ...)")
        self.settings = settings or Settings.from_env()
        self._clock = clock or SystemClock()
        store = _store(database)
        if codec is not None:
            store = encoded(store, codec)
        super().__init__(
            store, ids or SystemIds(), Notifier(), payload_bytes_max=self.settings.payload_bytes_max
        )
        self.set_start_rates(*_listed("start_rates", start_rates))
        self._steps = _by_name(_listed("steps", steps))
        self._nodes = tuple(_listed("nodes", nodes))
        self._graphs: GraphTools | None = None
        self._programs = _by_needs(self._program(workflow) for workflow in _listed("workflows", workflows))
        self._steps.update(self._node_steps())
        self._queues = tuple(checked_name(queue, "a queue") for queue in _listed("queues", queues))
        self._works = worker
        self._replay_always = replay_always
        self._task: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that opened it, while it is open
        self._deaf: Callable[[], None] = lambda: None
        self.worker: Worker | None = None

    @property
    def graphs(self) -> GraphTools:
        """Graphs, with this engine's steps and node types: check them, make workflows of them."""
        if self._graphs is None:
            from stepwell.authoring.graphs.workflow import GraphTools

            self._graphs = GraphTools(self._nodes, self._steps)
        return self._graphs

    @property
    def library(self) -> GraphLibrary:
        """Saved graphs: drafts, published versions, their differences."""
        return GraphLibrary(self, self.graphs, self._begin_to_work)

    def _program(self, workflow: Program | GraphSource) -> Program:
        """A workflow, or a graph: its JSON, a file, or what the Python builder made."""
        if isinstance(workflow, str | Path | dict | AsGraph):
            return self.graphs.workflow(workflow)
        return workflow

    def _node_steps(self) -> dict[str, StepSpec]:
        """Custom nodes are steps: a worker executes those that were placed on its queues."""
        return self.graphs.registry.steps() if self._graphs is not None or self._nodes else {}

    def _graph_program(self, body: bytes) -> Program:
        return self.graphs.from_run(body)

    async def start_graph(
        self, graph: Any, input: Any = None, *, test: bool = False, **options: Any
    ) -> RunHandle[Any]:
        """Start a graph that is not known to the engine: the run brings it along.

        `test=True` is a test run of an unsaved graph: pinned data counts, nothing is kept of the
        definition but what the run itself has.
        """
        made = self.graphs.workflow(graph)
        await self._begin_to_work()
        start: Callable[..., Awaitable[RunHandle[Any]]] = self.start  # callers of that bring no graph along
        return await start(made, input, graph=made.definition.body, test=test, **options)

    async def _begin_to_work(self) -> None:
        """An engine without workflows of its own works from the first run on that brings its graph along."""
        async with self._beginning:  # of two first callers one begins
            if self._works and self.worker is None:
                self._check_open()  # else nobody would ever stop it
                await self._start_worker()

    async def trace(self, run: RunHandle[Any] | str) -> Trace:
        """What happened in a graph run, node by node."""
        run_id = id_of(run)
        handle = self.handle(run_id)
        log = [ev.read(row, run_id) async for row in handle.log()]
        if not log:
            raise RunNotFound(f"there is no run {run_id}")
        return self.graphs.trace(run_id, log, await self._graph_body(log[0]))

    async def rerun_from_node(self, run: RunHandle[Any] | str, node: str, *, key: str = "") -> RunHandle[Any]:
        """A new run that does a graph's node again, and what follows from it; all else is kept."""
        old = await self._read(run)
        log = [ev.read(row) for row in old.log]
        edits = self.graphs.rerun_edits(old.id, log, await self._graph_body(log[0]), node)
        origin = ev.Origin(how="rerun_from", run=old.id, seq=len(old.log))
        return await self._fork(run, old, origin, edits, key)

    async def _edits(self, old: RunCopy, input: Any, state: Any, outputs: Mapping[str, Any] | None) -> Edits:
        if old.kind != "graph":
            return await super()._edits(old, input, state, outputs)
        log = [ev.read(row) for row in old.log]
        edits = await super()._edits(old, input, state, None)
        return self.graphs.output_edits(old.id, log, await self._graph_body(log[0]), edits, outputs or {})

    async def _fork(
        self, run: RunHandle[Any] | str, old: RunCopy, origin: ev.Origin, edits: Edits, key: str
    ) -> RunHandle[Any]:
        if old.kind == "graph":
            await self._begin_to_work()
            if type(origin.seq) is int and origin.seq > 1:
                body = await self._graph_body(ev.read(old.log[0]))
                edits = self.graphs.replayable_edits(body, old, origin, edits)
        return await super()._fork(run, old, origin, edits, key)

    async def _graph_body(self, first: ev.Event) -> bytes:
        return await self.graphs.body_of(
            first, partial(self.store.read_definition, self.workspace), self._programs.values()
        )

    def _start_chunk(
        self, runs: Sequence[NewRun], user: str, decode: Callable[[bytes], Any]
    ) -> Coroutine[Any, Any, list[RunHandle[Any]]]:
        self._check_open()  # before the first try only: what is sent again may have been written
        return super()._start_chunk(runs, user, decode)

    def _start_now(self, runs: Sequence[NewRun]) -> Coroutine[Any, Any, Sequence[Started]]:
        """Our own worker takes what it has room for: that spares asking for it."""
        if self.worker is None or self._task is None or self._task.done():
            return self.store.start(runs)
        return self.worker.local_starts.start(runs)

    def _check_open(self) -> None:
        """Where the worker has gone, nobody might ever run what is started; one that works in another
        thread would be torn by what is begun here."""
        if self._loop is not asyncio.get_running_loop():
            check_outside()
            raise InvalidRequest(
                "the engine is not open" if self._loop is None else "the engine was opened by another loop",
                hint="use it inside `async with engine:`, in the event loop that opened it",
            )

    async def open(self) -> None:
        """Open the store, make the workflows known and, unless `worker=False`, begin to work."""
        if self._loop is not None and not self._loop.is_closed():
            raise InvalidRequest(
                "the engine is open already",
                hint="open it once; code that is not async has its own: SyncClient(database)",
            )
        self._loop, self.worker, self._task = asyncio.get_running_loop(), None, None
        self.notifier.mended()
        try:
            await self._open()
        except BaseException:
            self._loop = None
            raise

    async def _open(self) -> None:
        await self.store.open()
        try:
            await self.store.put_definitions([p.definition for p in self._programs.values()])
            self.notifier.on_far(self.store.hint)
            self._deaf = self.store.listen(self.notifier.heard)
            if self._works and (self._programs or self._steps or self._nodes):
                await self._start_worker()
        except BaseException:
            await self.store.close()
            raise

    async def _start_worker(self) -> None:
        worker = Worker(
            self.store,
            self.notifier,
            self._clock,
            self._ids,
            programs=self._programs,
            steps=self._steps,
            options=self._worker_options(),
            graphs=self._graph_program,
        )
        await worker.open()
        self.worker = worker
        # The worker's parts live in a task group of its own; this task is that group's parent.
        self._task = asyncio.get_running_loop().create_task(worker.run())
        self._task.add_done_callback(self._worker_ended)

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.critical("the worker stopped unexpectedly", exc_info=error)
            self.notifier.broke(error)

    def _worker_options(self) -> WorkerOptions:
        values = asdict(self.settings)
        if self.store.polls:
            values["poll_seconds"] = min(1.0, self.settings.poll_seconds)
        return WorkerOptions(
            name=f"{socket.gethostname()}:{os.getpid()}",
            queues=self._queues,
            replay_always=self._replay_always,
            **values,
        )

    async def close(self) -> None:
        """Stop gracefully: what runs comes to a pause, the rest is given back at once.

        WorkerBroken when the worker had died of a fault: so that nobody takes that for a good end.
        Closed already, it has nothing to do.
        """
        await self._close()
        self.notifier.check()

    async def _close(self) -> None:
        if self._loop is None:
            return
        self._deaf()
        self._deaf = lambda: None
        try:
            if self.worker is not None and self._task is not None:
                if not self._task.cancelled():
                    await self.worker.stop()  # of a broken one nothing is left but to sign off
                self._task.cancel()
                await asyncio.wait({self._task})
        finally:
            self._loop = None
            await self.store.close()

    async def serve(self, begun: Callable[[], None] = lambda: None) -> None:
        """Work until SIGTERM or SIGINT, then stop gracefully. `begun` is called when it works."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        async with self:
            begun()
            if self._task is not None:
                self._task.add_done_callback(lambda _: stopping.set())
            await stopping.wait()
            if self._task is not None and self._task.done():
                self._task.result()  # it broke: end with its error, so that a supervisor notices

    def __enter__(self) -> NoReturn:
        raise InvalidRequest(
            "an Engine is opened with `async with`",
            hint="in code that is not async: with SyncClient(engine=Engine(...)) as client: ...",
        )

    def __exit__(self, *error: object) -> None: ...

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()
        if error is None:
            self.notifier.check()


def _store(database: str | PathLike[str] | Store) -> Store:
    if isinstance(database, str | PathLike):
        return open_store(database)
    if not hasattr(database, "put_definitions"):
        raise SettingsInvalid(f"the database is {excerpt(database)}", hint=HINT)
    return database


def _listed(option: str, given: Iterable[T]) -> list[T]:
    """What an option lists; a single thing in place of a list is the usual mistake."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidDefinition(f"Engine({option}={excerpt(given)})", hint=f"give a list: {option}=[...]")
    return list(given)


def _by_needs(workflows: Iterable[Program]) -> dict[str, Program]:
    found: dict[str, Program] = {}
    for program in workflows:
        if not hasattr(program, "definition"):
            raise InvalidDefinition(
                f"{excerpt(program)} is no workflow",
                hint="decorate the function with @workflow, or write a Machine",
            )
        needs = needs_of(program.definition)
        if found.get(needs, program) is not program:
            raise InvalidDefinition(
                f"two workflows are called {needs}", hint="give one of them another name= or version="
            )
        found[needs] = program
    return found


def _by_name(steps: Iterable[Callable[..., Any]]) -> dict[str, StepSpec]:
    found: dict[str, StepSpec] = {}
    for function in steps:
        spec = spec_of(function)
        if spec.name in found:
            raise InvalidDefinition(
                f"two steps are called {excerpt(spec.name)}", hint="give one of them another name="
            )
        found[spec.name] = spec
    return found
