"""Engine: the composition root. Settings → store → client and worker."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import ChainMap
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

from stepwell.authoring.conditions import check_condition, holds
from stepwell.client import Client, RunHandle
from stepwell.client.declared_triggers import DeclaredTriggers
from stepwell.client.graph_runs import GraphRuns
from stepwell.client.library import GraphLibrary
from stepwell.client.options import WhoOptions
from stepwell.client.rates import StartRate, StartRates
from stepwell.client.replay_guard import refuse_in_workflow_code
from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.domain.conversation import STEP as MODEL_STEP
from stepwell.domain.ids import Ids
from stepwell.domain.program import Program, StepContext, former_needs, needs_of
from stepwell.domain.steps import StepSpec, checked_name, spec_of
from stepwell.domain.triggers.declared import triggers_of
from stepwell.engine.worker.worker import Worker, WorkerOptions
from stepwell.errors import (
    InvalidDefinition,
    InvalidRequest,
    SecretsKeyMissing,
    SettingsInvalid,
    excerpt,
)
from stepwell.notifications.settings import Notifications
from stepwell.secrets.keyring import Keyring
from stepwell.secrets.opener import SecretOpener
from stepwell.secrets.redactor import Redactor
from stepwell.settings import Settings
from stepwell.store.base import Store
from stepwell.store.encoded import encoded
from stepwell.store.open import HINT, open_store
from stepwell.store.payloads import PayloadCodec
from stepwell.store.redacted import redacted
from stepwell.store.run_workspaces import RunWorkspaces
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock, SystemClock, SystemIds

if TYPE_CHECKING:
    from stepwell.authoring.functions.source import Source
    from stepwell.authoring.graphs.workflow import GraphTools
    from stepwell.channels.channels import Channel, Channels
    from stepwell.databases.connections import Connections
    from stepwell.handlers.code import Sandboxes
    from stepwell.handlers.records import RecordHandlers
    from stepwell.notifications.loop import NotificationLoop
    from stepwell.outbound.client import OutboundClient
    from stepwell.outbound.request import OutboundRules
    from stepwell.providers.provider import Provider, Providers

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
    `connections` are the databases of `query` nodes by name; by default `STEPWELL_CONNECTION_<NAME>`. They
    are this workspace's; `"acme/shop"` is one of the workspace acme, as is
    `STEPWELL_CONNECTION_<WORKSPACE>__<NAME>`.
    `channels` are what `notify` sends through, by name; by default `STEPWELL_CHANNEL_<NAME>`.
    `notifications` says who hears of approvals, and where people reach the server; by default
    `STEPWELL_APPROVALS_CHANNEL`, `STEPWELL_ADDRESSES` and `STEPWELL_PUBLIC_URL`.
    `providers` are those of `ai` nodes and `ask_model` by name; by default `STEPWELL_PROVIDER_<NAME>`.
    `keyring` seals and opens secrets; by default `STEPWELL_SECRETS_KEY` or `STEPWELL_SECRETS_KEY_FILE`.
    """

    def __init__(
        self,
        database: str | PathLike[str] | Store = "stepwell.db",
        *,
        workflows: Iterable[Program | GraphSource] = (),
        steps: Iterable[Callable[..., Any]] = (),
        nodes: Iterable[Callable[..., Any]] = (),
        sources: Iterable[Source] = (),
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
        channels: Mapping[str, Channel | str] | None = None,
        notifications: Notifications | None = None,
        providers: Mapping[str, Provider | Mapping[str, Any]] | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        if settings is not None and not isinstance(settings, Settings):
            raise SettingsInvalid(f"settings is {excerpt(settings)}", hint="give Settings(slots=100, ...)")
        self._whole: Engine = self  # of a view of another workspace: the engine with the worker
        self.settings = settings or Settings.from_env()
        self._clock = clock or SystemClock()
        keyring, self._redactor = keyring or Keyring.from_env(), Redactor()
        super().__init__(
            _wrapped(_store(database), codec, self._redactor if keyring is not None else None),
            ids or SystemIds(),
            Notifier(),
            workspace=workspace,
            payload_bytes_max=self.settings.payload_bytes_max,
        )
        self.keyring = keyring
        self._run_workspaces = RunWorkspaces(self._store)
        self.secret_opener = SecretOpener(
            self._store, keyring, self._redactor, self._clock.monotonic, self._run_workspaces
        )
        self.rates = StartRates(self._store, _listed("start_rates", start_rates))
        self._steps = _by_name(_listed("steps", steps))
        self._nodes = tuple(_listed("nodes", nodes))
        self.sources = self._own_sources = {each.name: each for each in _listed("sources", sources)}
        self._graphs: GraphTools | None = None
        self._outbound_rules = outbound
        self._outbound: OutboundClient | None = None
        self._sandboxes: Sandboxes | None = None
        self._connection_urls = connections
        self._connections: Connections | None = None
        self._channels_given = channels
        self._channels: Channels | None = None
        self.notifications = notifications or Notifications.from_env()
        self._described_providers = providers
        self._providers: Providers | None = None
        if providers is not None:
            self._named_providers()  # raises if it is not a key
        self._programs = _by_needs(self._program(workflow) for workflow in _listed("workflows", workflows))
        if self._nodes:
            _ = self.graphs  # a worker executes custom nodes as steps when they are on its queues
        self._queues = tuple(checked_name(queue, "a queue") for queue in _listed("queues", queues))
        self._works, self._replay_always = worker, replay_always
        self._task: asyncio.Task[None] | None = None
        self._noticing: asyncio.Task[None] | None = None
        self.notice_loop: NotificationLoop | None = None
        self._beginning = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # that opened the engine, while it is open
        self.worker: Worker | None = None

    def _bind(self) -> None:
        super()._bind()
        self.check_condition = check_condition
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
            whole._graphs = GraphTools(whole._nodes, whole._steps, timeouts, whole._named_providers)
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
        """Return the steps of built-in nodes that call other systems, as this engine's worker runs them."""
        from stepwell.handlers.code import code_steps
        from stepwell.handlers.http import http_step
        from stepwell.handlers.notify_node import notify_node_step
        from stepwell.handlers.query import query_step
        from stepwell.handlers.wait import wait_step

        http = http_step(self._outbound_client, self.secret_opener.open)
        query = query_step(self._named_connections, self._run_workspaces.of)
        looks = {"http": http.function, "query": query.function, "records": self._record_handlers().node}
        steps = [
            *(http, query, wait_step(looks, self._clock.time)),
            notify_node_step(self._named_channels),
            *code_steps(self._own_sandboxes(), self._run_workspaces.of),
        ]
        return {step.name: step for step in steps}

    def _own_sandboxes(self) -> Sandboxes:
        if self._sandboxes is None:
            from stepwell.handlers.code import Sandboxes

            self._sandboxes = Sandboxes(lambda: self.store.find_other_workspace(self.workspace))
        return self._sandboxes

    def _record_steps(self) -> dict[str, StepSpec]:
        """Return the steps that read and change records, as this engine's worker runs them."""
        from stepwell.handlers.records import record_steps

        return {step.name: step for step in record_steps(self._record_handlers())}

    def _record_handlers(self) -> RecordHandlers:
        from stepwell.handlers.records import RecordHandlers

        return RecordHandlers(
            self._store, self.ids, self._run_workspaces.of, lambda workspace: self.within(workspace).records
        )

    def _named_connections(self) -> Connections:
        if self._connections is None:
            from stepwell.databases.connections import Connections

            self._connections = Connections(self._connection_urls, workspace=self.workspace)
        return self._connections

    def _named_channels(self) -> Channels:
        if self._channels is None:
            from stepwell.channels.channels import Channels

            self._channels = Channels(
                self._channels_given,
                client=self._outbound_client,
                secret=self._channel_secret,
                now=self._clock.time,
            )
        return self._channels

    async def _channel_secret(self, name: str) -> str:
        """Open the secret of a channel. It belongs to the operator, not to the workspace of a run."""
        return await self.secret_opener.value(self.workspace, name)

    def _named_providers(self) -> Providers:
        if self._providers is None:
            from stepwell.providers.provider import Providers

            self._providers = Providers(self._described_providers)
        return self._providers

    def _model_step(self) -> StepSpec:
        """Return the step that asks models. The library is loaded when a model is first asked."""

        async def ask(step: StepContext, request: dict[str, Any]) -> Any:
            from stepwell.handlers.ai import ModelStep

            asker = ModelStep(self._named_providers, self._outbound_client, self.secret_opener.open)
            return await asker.ask(step, request)

        return StepSpec(name=MODEL_STEP, function=ask, is_async=True, wants_context=True)

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
        workflow = await self.graphs.checked(graph)
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

    async def rerun_from_node(
        self, run: RunHandle[Any] | str, node: str, *, key: str = "", **who: Unpack[WhoOptions]
    ) -> RunHandle[Any]:
        """Start a new run that repeats a node of a graph and all that depends on it; the rest is kept."""
        return await self._graph_runs.rerun_from_node(run, node, key=key, **who)

    def _former_body(self, needs: str) -> bytes | None:
        programs = [p for p in self._programs.values() if needs in former_needs(p)]
        return programs[0].definition.body if programs else None

    async def check_key(self) -> None:
        """Refuse to serve several workspaces without a key for their secrets. The engine is open."""
        if self.keyring is None and (other := await self.store.find_other_workspace(self.workspace)):
            raise SecretsKeyMissing(
                f"the database has several workspaces, such as {excerpt(other)}, and this process has no key "
                "for their secrets"
            )

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
        self._loop = asyncio.get_running_loop()
        self.worker = self._task = self._noticing = None  # tasks of an earlier loop ended with it
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
            for program in self._programs.values():
                await self._declare(program)
            self.notifier.connect(self.store)
            if self._works and (self._programs or self._steps or self._nodes or self._own_sources):
                await self._start_worker()
        except BaseException:
            await self.store.close()
            raise

    async def _declare(self, program: Program) -> None:
        """Create, change and remove the triggers that a workflow declares; an older version changes none."""
        name, version = program.definition.name, program.definition.version
        latest = await self.store.read_definition(self.workspace, name, "")
        if latest is not None and latest.version == version:
            await DeclaredTriggers(self).declare(name, triggers_of(program))

    async def _start_worker(self) -> None:
        from stepwell.handlers.notify import notify_step

        provided = notify_step(self._named_channels)
        self._steps.setdefault(provided.name, provided)
        self._steps.setdefault(MODEL_STEP, self._model_step())
        worker = Worker(
            self.store,
            self.notifier,
            self._clock,
            self.ids,
            programs=self._programs,
            steps=self._steps,
            provided=ChainMap(self._record_steps(), self._steps),
            options=self._worker_options(),
            graphs=self._graph_program,
            open_secrets=self.secret_opener.open_values,
            redact=self._redactor.redact if self.keyring else None,
            holds=holds,
            sources=self._own_sources,
        )
        await worker.open()
        self.worker = worker
        # The parts of the worker live in its own task group; this task is the parent of that group.
        self._task = asyncio.get_running_loop().create_task(worker.run())
        self._task.add_done_callback(self._worker_ended)
        self.begin_notifications()
        if self._graphs is not None:
            self.begin_probe()
        self.starter = worker.local_starts  # the worker claims what it has slots for, which saves a call

    def begin_probe(self) -> None:
        """Try what the code of other workspaces could reach here, at the start of a worker or server."""
        if self._works and isinstance(self._clock, SystemClock):
            self._own_sandboxes().begin_probe()

    def begin_notifications(self) -> None:
        """Send notifications and check alerts until the engine is closed. Workers and servers do so."""
        if self._noticing is not None or not isinstance(self._clock, SystemClock):
            return  # not in virtual time, where nothing happens by itself
        if getattr(self._store, "is_sealed", False):
            return  # without the codec, the text of an approval cannot be read
        from stepwell.notifications.alerts import AlertChecks
        from stepwell.notifications.approvals import ApprovalNotifications
        from stepwell.notifications.loop import NotificationLoop
        from stepwell.notifications.sender import NotificationSender

        channels = self._named_channels()
        if self.notifications.approvals and self.notifications.approvals not in channels.named:
            _log.warning(
                "approvals are announced through channel %s, which this process does not have",
                self.notifications.approvals,
            )
        approvals = ApprovalNotifications(self, self.notifications)
        sender = NotificationSender(self.store, channels, approvals, self.notifications)
        self.notice_loop = NotificationLoop(
            self.store, self.notifier, self._clock, AlertChecks(self.store), sender
        )
        # The parts of the loop live in its own task group; this task is the parent of that group.
        self._noticing = asyncio.get_running_loop().create_task(self.notice_loop.run())

    async def _end_notices(self) -> None:
        noticing, self._noticing = self._noticing, None
        if noticing is not None:
            noticing.cancel()
            await asyncio.wait({noticing})

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
            workspace=self.workspace,
            approvals_channel=self.notifications.approvals,
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
        self.notifier.disconnect()
        try:
            await self._end_notices()
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
            await self.check_key()
            self.begin_probe()
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


def _wrapped(store: Store, codec: PayloadCodec | None, redactor: Redactor | None) -> Store:
    if codec is not None:
        store = encoded(store, codec)
    return store if redactor is None else redacted(store, redactor)


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
