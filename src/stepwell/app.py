"""Engine: the composition root. Settings → store → client and worker."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    NoReturn,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    runtime_checkable,
)

from msgspec.structs import replace

from stepwell.client import Client, RunHandle
from stepwell.client.graph_runs import GraphRuns
from stepwell.client.library import GraphLibrary
from stepwell.client.options import WhoOptions
from stepwell.client.rates import StartRate
from stepwell.client.replay_guard import refuse_in_workflow_code
from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.domain.ids import Ids
from stepwell.domain.program import Program, former_needs, needs_of
from stepwell.domain.steps import StepSpec, checked_name, spec_of
from stepwell.engine.worker.worker import Worker, WorkerOptions
from stepwell.errors import (
    InvalidDefinition,
    InvalidRequest,
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
    from stepwell.authoring.graphs.history.trace import GraphTrace
    from stepwell.authoring.graphs.workflow import GraphTools
    from stepwell.databases.connections import Connections
    from stepwell.handlers.code import Sandboxes
    from stepwell.outbound.client import OutboundClient
    from stepwell.outbound.request import OutboundRules

_log = logging.getLogger("stepwell")
T = TypeVar("T")


@runtime_checkable
class AsGraph(Protocol):
    """A graph that can be written as JSON, such as one from GraphBuilder."""

    def as_dict(self) -> dict[str, Any]: ...


GraphSource: TypeAlias = str | Path | dict[str, Any] | AsGraph


class Engine(Client):
    """Runs workflows on a database: `Engine("app.db", workflows=[fulfil])`.

    `async with engine:` opens the store and runs a worker in this process. With `worker=False` the engine
    only starts runs and talks to them. With a `workspace` it sees only that workspace's runs, definitions
    and events; its worker runs what its workflows and queues cover, in every workspace.
    `outbound` opens private networks to `http` nodes; by default `STEPWELL_OUTBOUND_ALLOW` does.
    `connections` are the databases of `query` nodes by name; by default `STEPWELL_CONNECTION_<NAME>`.
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
        workspace: str = DEFAULT_WORKSPACE,
        outbound: OutboundRules | None = None,
        connections: Mapping[str, str] | None = None,
    ) -> None:
        if settings is not None and not isinstance(settings, Settings):
            raise SettingsInvalid(f"settings is {excerpt(settings)}", hint="give Settings(slots=100, ...)")
        self._whole: Engine = self  # of a view of another workspace: the engine with the worker
        self.settings = settings or Settings.from_env()
        self._clock = clock or SystemClock()
        store = _store(database)
        if codec is not None:
            store = encoded(store, codec)
        super().__init__(
            store,
            ids or SystemIds(),
            Notifier(),
            workspace=workspace,
            payload_bytes_max=self.settings.payload_bytes_max,
        )
        self.set_start_rates(*_listed("start_rates", start_rates))
        self._steps = _by_name(_listed("steps", steps))
        self._nodes = tuple(_listed("nodes", nodes))
        self._graphs: GraphTools | None = None
        self._outbound_rules = outbound
        self._outbound: OutboundClient | None = None
        self._sandboxes: Sandboxes | None = None
        self._connection_urls = connections
        self._connections: Connections | None = None
        self._programs = _by_needs(self._program(workflow) for workflow in _listed("workflows", workflows))
        if self._nodes:
            _ = self.graphs  # a worker executes custom nodes as steps when they are on its queues
        self._queues = tuple(checked_name(queue, "a queue") for queue in _listed("queues", queues))
        self._works = worker
        self._replay_always = replay_always
        self._task: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # that opened the engine, while it is open
        self._stop_listening: Callable[[], None] = lambda: None
        self.worker: Worker | None = None

    def _bind(self) -> None:
        super()._bind()
        self._graph_runs = GraphRuns(self, lambda: self.graphs, self._begin_to_work, self._former_body)
        self.derived_runs.graph_rules = self._graph_runs

    @property
    def graphs(self) -> GraphTools:
        """Tools for graphs with this engine's steps and node types: check them, turn them into workflows."""
        whole = self._whole
        if whole._graphs is None:
            from stepwell.authoring.graphs.format.definition import GraphTimeouts
            from stepwell.authoring.graphs.workflow import GraphTools

            timeouts = GraphTimeouts(self.settings.graph_timeout_seconds, self.settings.suspension_seconds)
            whole._graphs = GraphTools(whole._nodes, whole._steps, timeouts)
            whole._steps.update(whole._graphs.registry.steps())
            whole._steps.update(whole._provided_steps())
        return whole._graphs

    @property
    def library(self) -> GraphLibrary:
        """Saved graphs: drafts, published versions and their differences."""
        return GraphLibrary(self, self.graphs, self._begin_to_work)

    def _program(self, workflow: Program | GraphSource) -> Program:
        """Return a workflow as it is; build one from a graph: JSON, a file or a GraphBuilder."""
        if isinstance(workflow, str | Path | dict | AsGraph):
            return self.graphs.workflow(workflow)
        return workflow

    def _provided_steps(self) -> dict[str, StepSpec]:
        """Return what the built-in nodes that reach the outside do in this engine's worker."""
        from stepwell.handlers.code import Sandboxes, code_steps
        from stepwell.handlers.http import http_step
        from stepwell.handlers.query import query_step

        if self._sandboxes is None:
            self._sandboxes = Sandboxes()
        steps = [
            http_step(self._outbound_client),
            query_step(self._named_connections),
            *code_steps(self._sandboxes),
        ]
        return {step.name: step for step in steps}

    def _named_connections(self) -> Connections:
        if self._connections is None:
            from stepwell.databases.connections import Connections

            self._connections = Connections(self._connection_urls)
        return self._connections

    def _outbound_client(self) -> OutboundClient:
        if self._outbound is None:
            from stepwell.outbound.client import OutboundClient
            from stepwell.outbound.request import OutboundRules

            self._outbound = OutboundClient(self._outbound_rules or OutboundRules.from_env())
        return self._outbound

    def _graph_program(self, body: bytes) -> Program:
        return self.graphs.from_run(body)

    async def start_graph(
        self, graph: Any, input: Any = None, *, test: bool = False, **options: Any
    ) -> RunHandle[Any]:
        """Start a graph that the engine was not given; its definition is stored with the run.

        `test=True` marks a test run of an unsaved graph: pinned data is used, and the definition is
        stored nowhere else.
        """
        workflow = self.graphs.workflow(graph)
        await self._begin_to_work()
        start: Callable[..., Awaitable[RunHandle[Any]]] = self.start  # `graph` is not a public option
        return await start(workflow, input, graph=workflow.definition.body, test=test, **options)

    async def _begin_to_work(self) -> None:
        """Start the worker of an engine without workflows when the first graph is started."""
        whole = self._whole
        async with whole._beginning:  # two first callers must not both start a worker
            if whole._works and whole.worker is None:
                whole.check_usable()  # otherwise nothing would ever stop the worker
                await whole._start_worker()

    async def trace(self, run: RunHandle[Any] | str) -> GraphTrace:
        """Return what happened in a graph run, node by node."""
        trace: GraphTrace = await self._graph_runs.trace(run)
        return trace

    async def rerun_from_node(
        self, run: RunHandle[Any] | str, node: str, *, key: str = "", **who: Unpack[WhoOptions]
    ) -> RunHandle[Any]:
        """Start a new run that repeats a node of a graph and all that depends on it; the rest is kept."""
        return await self._graph_runs.rerun_from_node(run, node, key=key, **who)

    def _former_body(self, needs: str) -> bytes | None:
        programs = [p for p in self._programs.values() if needs in former_needs(p)]
        return programs[0].definition.body if programs else None

    def check_usable(self) -> None:
        """Refuse unless the engine is open on this loop.

        Otherwise a run might never start, or the worker might live in another thread.
        """
        if self._loop is not asyncio.get_running_loop():
            refuse_in_workflow_code()
            raise InvalidRequest(
                "the engine is not open" if self._loop is None else "the engine was opened by another loop",
                hint="use it inside `async with engine:`, in the event loop that opened it",
            )

    @property
    def is_open(self) -> bool:
        """Whether the engine is open, on a loop that still runs."""
        return self._loop is not None and not self._loop.is_closed()

    async def open(self) -> None:
        """Open the store, store the definitions and, unless `worker=False`, start the worker."""
        if self.is_open:
            raise InvalidRequest(
                "the engine is already open",
                hint="open it once; sync code opens its own client: SyncClient(database)",
            )
        self._loop, self.worker, self._task = asyncio.get_running_loop(), None, None
        self.starter = self._store
        self.notifier.clear()
        try:
            await self._open()
        except BaseException:
            self._loop = None
            raise

    async def _open(self) -> None:
        await self.store.open()
        try:
            definitions = [p.definition for p in self._programs.values()]
            await self.store.put_definitions([replace(d, workspace=self.workspace) for d in definitions])
            self.notifier.forward_to(self.store.hint)
            self._stop_listening = self.store.listen(self.notifier.on_remote)
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
            self.ids,
            programs=self._programs,
            steps=self._steps,
            options=self._worker_options(),
            graphs=self._graph_program,
        )
        await worker.open()
        self.worker = worker
        # The parts of the worker live in its own task group; this task is the parent of that group.
        self._task = asyncio.get_running_loop().create_task(worker.run())
        self._task.add_done_callback(self._worker_ended)
        self.starter = worker.local_starts  # the worker claims what it has slots for, which saves a call

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        self.starter = self._store
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.critical("the worker stopped unexpectedly", exc_info=error)
            self.notifier.fail(error)

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
        """Stop gracefully: active runs pause at their next wait, other tickets are released at once.

        Raises WorkerBroken if the worker died of a fault, so that it is not mistaken for a clean stop.
        Does nothing if the engine is already closed.
        """
        await self._close()
        self.notifier.check()

    async def _close(self) -> None:
        if self._loop is None:
            return
        self._stop_listening()
        self._stop_listening = lambda: None
        try:
            if self.worker is not None and self._task is not None:
                if not self._task.cancelled():
                    await self.worker.stop()  # a broken worker only signs off
                self._task.cancel()
                await asyncio.wait({self._task})
        finally:
            self._loop = None
            outbound, self._outbound = self._outbound, None
            if outbound is not None:
                await outbound.close()
            if self._sandboxes is not None:
                await self._sandboxes.close()
            if self._connections is not None:
                await self._connections.close()
            await self.store.close()

    async def serve(self, on_start: Callable[[], None] = lambda: None) -> None:
        """Work until SIGTERM or SIGINT, then stop gracefully. `on_start` is called once the worker runs."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        async with self:
            on_start()
            if self._task is not None:
                self._task.add_done_callback(lambda _: stopping.set())
            await stopping.wait()
            if self._task is not None and self._task.done():
                self._task.result()  # the worker broke: exit with its error, so that a supervisor notices

    def __enter__(self) -> NoReturn:
        raise InvalidRequest(
            "an Engine is opened with `async with`",
            hint="in sync code: with SyncClient(engine=Engine(...)) as client: ...",
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


def _listed(option: str, values: Iterable[T]) -> list[T]:
    """Return the values of an option as a list; the usual mistake is a single value instead of a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidDefinition(f"Engine({option}={excerpt(values)})", hint=f"give a list: {option}=[...]")
    return list(values)


def _by_needs(workflows: Iterable[Program]) -> dict[str, Program]:
    programs: dict[str, Program] = {}
    for program in workflows:
        if not hasattr(program, "definition"):
            raise InvalidDefinition(
                f"{excerpt(program)} is not a workflow",
                hint="decorate the function with @workflow, or write a Machine",
            )
        needs = needs_of(program.definition)
        if programs.get(needs, program) is not program:
            raise InvalidDefinition(
                f"two workflows are named {needs}", hint="give one of them another name= or version="
            )
        programs[needs] = program
    return programs


def _by_name(steps: Iterable[Callable[..., Any]]) -> dict[str, StepSpec]:
    specs: dict[str, StepSpec] = {}
    for function in steps:
        spec = spec_of(function)
        if spec.name in specs:
            raise InvalidDefinition(
                f"two steps are named {excerpt(spec.name)}", hint="give one of them another name="
            )
        specs[spec.name] = spec
    return specs
