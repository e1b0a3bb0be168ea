"""Client: starts, reads and controls runs. It needs the store, but no workflow code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from stepwell.client import broadcasts
from stepwell.client.derived_runs import UNCHANGED, DerivedRuns
from stepwell.client.handle import RunHandle
from stepwell.client.operations import HoldInfo, Holds, drain
from stepwell.client.options import (
    HistogramOptions,
    ListOptions,
    ManyOptions,
    NamedStartOptions,
    StartOptions,
    WhoOptions,
    checked_inputs,
    checked_keys,
    checked_options,
)
from stepwell.client.rates import RatePer, StartRates, checked_rate, raise_if_limited, windows_of
from stepwell.client.replay_guard import refuse_in_workflow_code
from stepwell.client.search import DecidedInfo, RunBucket, RunCounts, Search, WaitInfo
from stepwell.client.secrets import Secrets
from stepwell.client.verb_groups import VerbGroups
from stepwell.client.workflows import WorkflowInfo, Workflows, WorkflowVersion
from stepwell.domain.access import AuditEntry
from stepwell.domain.codec import PLAIN, canonical, limited
from stepwell.domain.commit import (
    DEFAULT_WORKSPACE,
    Definition,
    NewRun,
    RunRow,
    Started,
    WorkerRow,
)
from stepwell.domain.ids import Ids, RunId
from stepwell.domain.limits import Hold, Limit, LimitKind, checked_limit
from stepwell.domain.manual_trigger import MANUAL
from stepwell.domain.new_run import (
    NO_INPUT,
    EncodedInput,
    default_of,
    encoded_input,
    new_run_of,
    startable,
)
from stepwell.domain.program import RunOptions, Startable
from stepwell.domain.queues import QueueUse
from stepwell.domain.rates import Full, RatedStart, StoredRate
from stepwell.domain.scope_holds import HoldKind
from stepwell.domain.search import Page
from stepwell.domain.text import checked_text
from stepwell.errors import InvalidRequest, KeyConflict, StepwellError, excerpt
from stepwell.secrets.keyring import Keyring
from stepwell.store.base import Store
from stepwell.store.wakeups import Notifier

In = TypeVar("In")
R = TypeVar("R")

_START_CHUNK = 500
_log = logging.getLogger("stepwell.client")


class Starter(Protocol):
    """Writes new runs: the store, or a worker that claims them in the same transaction."""

    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]: ...


class Client(VerbGroups):
    """Starts runs and talks to them: `client.start(fulfil, order, key="order-42")`."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        notifier: Notifier | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        payload_bytes_max: int = 2 * 1024 * 1024,
    ) -> None:
        super().__init__(store, ids, notifier, workspace=workspace, payload_bytes_max=payload_bytes_max)
        self.starter: Starter = store
        self.keyring: Keyring | None = None
        self.rates = StartRates(store)
        self._bind()

    def _bind(self) -> None:
        self._workflows = Workflows(self)
        self._holds = Holds(self)
        self._search = Search(self)
        self.derived_runs = DerivedRuns(self)

    def within(self, workspace: str) -> Self:
        """Return this client as another workspace sees it: the same store, other runs and definitions."""
        if workspace == self.workspace:
            return self
        view = copy(self)
        view.workspace = checked_text(workspace, "workspace")
        view._bind()
        return view

    def check_usable(self) -> None:
        """Refuse to start runs where they could not be started safely."""
        refuse_in_workflow_code()

    # Starting

    @overload
    async def start(
        self,
        workflow: Startable[In, R],
        input: In = ...,
        **options: Unpack[StartOptions],
    ) -> RunHandle[R]: ...
    @overload
    async def start(
        self,
        workflow: str,
        input: Any = ...,
        **options: Unpack[NamedStartOptions],
    ) -> RunHandle[Any]: ...
    async def start(self, workflow: Any, input: Any = NO_INPUT, **options: Any) -> RunHandle[Any]:
        """Accept a run: when this returns, the run is on disk and will reach an end.

        The same key and input return the same run; a different input raises KeyConflict. Without a key
        each call starts exactly one new run, even if it had to be sent twice.
        """
        return await self._start_one(workflow, input, options)

    async def _start_one(self, workflow: Any, input: Any, options: dict[str, Any]) -> RunHandle[Any]:
        prepared = await self._prepared(workflow, options.pop("version", ""))
        run = self._new_run(prepared, input, options.pop("key", ""), checked_options(options))
        return (await self._start_runs([run], run.started_by, prepared[2]))[0]

    async def start_many(
        self,
        workflow: Startable[In, R] | str,
        inputs: Iterable[In],
        *,
        keys: Sequence[str] | None = None,
        **options: Unpack[ManyOptions],
    ) -> list[RunHandle[R]]:
        """Accept many runs of one workflow in few transactions. RateLimited means that none was started."""
        inputs = checked_inputs(inputs)
        return await self._start_all(workflow, inputs, checked_keys(keys, inputs), {**options})

    async def _start_all(
        self, workflow: Any, inputs: Sequence[Any], keys: Sequence[str], options: dict[str, Any]
    ) -> list[RunHandle[Any]]:
        prepared = await self._prepared(workflow, options.pop("version", ""))
        shared = checked_options(options)
        user = shared["by"]
        runs = self._new_runs(prepared, inputs, keys, shared)
        self.check_usable()
        size = len(runs) if await self.rates.in_force() else _START_CHUNK
        chunks = [runs[at : at + size] for at in range(0, len(runs), size or 1)]
        handles: list[RunHandle[Any]] = []
        for at in range(0, len(chunks), self.store.starts_at_once):
            together = chunks[at : at + self.store.starts_at_once]
            handles += await self._start_concurrently(together, user, prepared[2])
        return handles

    async def _start_concurrently(
        self, chunks: Sequence[Sequence[NewRun]], user: str, decode: Callable[[bytes], Any]
    ) -> list[RunHandle[Any]]:
        """Start chunks concurrently; raise the first error after all have finished."""

        async def outcome(chunk: Sequence[NewRun]) -> list[RunHandle[Any]] | StepwellError:
            try:
                return await self._start_runs(chunk, user, decode)
            except StepwellError as error:
                return error

        if len(chunks) == 1:
            return await self._start_runs(chunks[0], user, decode)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(outcome(chunk)) for chunk in chunks]
        handles: list[RunHandle[Any]] = []
        for task in tasks:
            result = task.result()
            if isinstance(result, StepwellError):
                raise result
            handles += result
        return handles

    async def _start_runs(
        self, runs: Sequence[NewRun], user: str, decode: Callable[[bytes], Any]
    ) -> list[RunHandle[Any]]:
        self.check_usable()  # before the first call only: a repeated one may have been written
        watches = [self.notifier.watch(run.id) for run in runs]
        windows = windows_of(await self.rates.in_force(), self.workspace, runs[0].workflow, user)
        if windows:
            started, _ = await self.retry_call(lambda: self._start_rated(RatedStart(runs, windows), user))
        else:
            started, _ = await self.retry_call(lambda: self.starter.start(runs))
        if None in [answer.claim for answer in started]:
            self.notifier.notify_work()
        if True in [answer.disabled for answer in started]:
            raise await self._workflows.refusal(runs[0].workflow)
        handles = [self._handle_of(run, answer, decode) for run, answer in zip(runs, started, strict=True)]
        del watches  # the handles watch now
        return handles

    async def _start_rated(self, start: RatedStart, user: str) -> Sequence[Started]:
        answer = await self.store.start_within(start)
        if not isinstance(answer, Full):
            return answer
        raise_if_limited(answer, user)
        return await self.starter.start(start.runs)

    def _handle_of(self, run: NewRun, started: Started, decode: Callable[[bytes], Any]) -> RunHandle[Any]:
        if started.conflict:
            raise KeyConflict(
                f"key {excerpt(run.key)} belongs to run {started.run_id}, "
                "which has a different workflow or input",
                key=run.key,
                run=started.run_id,
            )
        return RunHandle(self, started.run_id, decode, fresh=started.run_id == run.id, ours=True)

    async def _prepared(
        self, workflow: Startable[Any, Any] | str, version: str
    ) -> tuple[Definition, RunOptions, Callable[[bytes], Any], Callable[[Any], EncodedInput]]:
        if not isinstance(workflow, str):
            startable(workflow, version)
            encode = partial(encoded_input, workflow)
            return workflow.definition, workflow.options, workflow.decode_result, encode
        name, version = checked_text(workflow, "workflow"), checked_text(version, "version")
        definition = await self.store.read_definition(self.workspace, name, version)
        if definition is None:
            raise await self._workflows.unknown(workflow, version)
        options = msgspec.json.decode(definition.options, type=RunOptions)
        return definition, options, PLAIN.decode, partial(self._named_input, definition)

    def _named_input(self, definition: Definition, input: Any) -> EncodedInput:
        if input is NO_INPUT:
            input = default_of(definition.input_schema)
        return self.encode_checked(definition, input), canonical(PLAIN, input)

    def _new_runs(
        self, prepared: Any, inputs: Sequence[Any], keys: Sequence[str], options: dict[str, Any]
    ) -> list[NewRun]:
        """Build all runs before any is written; the error names the wrong input or key."""
        runs: list[NewRun] = []
        for at, (input, key) in enumerate(zip(inputs, keys, strict=True)):
            try:
                runs.append(self._new_run(prepared, input, key, options))
            except InvalidRequest as error:
                error.context = {"which": f"inputs[{at}] of {len(inputs)}", **error.context}
                raise
        return runs

    def _new_run(self, prepared: Any, input: Any, key: str, options: dict[str, Any]) -> NewRun:
        definition, run_options, _, encode = prepared
        run_id = self.ids.run_id()
        if options["trigger"] == MANUAL:
            input = self._filled_in(definition, input)
        data, canonical = encode(input)
        return new_run_of(
            definition,
            run_options,
            limited(data, f"the input of {definition.name}", self.payload_bytes_max),
            canonical=canonical,
            run_id=run_id,
            key=checked_text(key, "key"),
            seed=self.ids.token(),
            workspace=self.workspace,
            **options,
        )

    async def run(
        self, workflow: Startable[In, R], input: In = NO_INPUT, **options: Unpack[StartOptions]
    ) -> R:
        """Start a run and wait for its result."""
        return await (await self.start(workflow, input, **options)).result()

    # Reading

    @overload
    def handle(self, run_id: str) -> RunHandle[Any]: ...
    @overload
    def handle(self, run_id: str, workflow: Startable[Any, R]) -> RunHandle[R]: ...
    def handle(self, run_id: str, workflow: Startable[Any, Any] | None = None) -> RunHandle[Any]:
        """Return a handle for an existing run; if you pass the workflow, its result is typed."""
        decode = workflow.decode_result if workflow else PLAIN.decode
        return self._handle(RunId(checked_text(run_id, "run id")), decode)

    def _handle(self, run_id: RunId, decode: Callable[[bytes], R]) -> RunHandle[R]:
        return RunHandle(self, run_id, decode)

    async def find(self, key: str) -> RunHandle[Any] | None:
        """Return the run that was started with this idempotency key, if there is one."""
        run_id = await self.store.find_run(self.workspace, checked_text(key, "key"))
        return None if run_id is None else RunHandle(self, run_id, PLAIN.decode, ours=True)

    async def runs(self, **filter: Unpack[ListOptions]) -> Page[RunRow]:
        """List the newest matching runs. The `next` of a page is the `before` of the following page.

        `tags`: runs that have all of them. `error`: runs whose error contains all of these words. `since`,
        `until`: runs created from then on, and before then. With `key_prefix`, runs are sorted by key, the
        last one first.
        """
        return await self._search.runs(**filter)

    async def counts(self, *, workflow: str = "", queue: str = "") -> RunCounts:
        """Count the runs of this workspace by status, and by status for each workflow and queue."""
        return await self._search.counts(workflow=workflow, queue=queue)

    async def histogram(self, **asked: Unpack[HistogramOptions]) -> list[RunBucket]:
        """Count the runs created between `since` and `until` by status, in `buckets` of equal length."""
        return await self._search.histogram(**asked)

    async def waits(
        self, *, what: str | Sequence[str] = (), name: str = "", before: str = "", limit: int = 100
    ) -> Page[WaitInfo]:
        """List open waits of all runs, newest first: for signals, events, approvals and triggers."""
        return await self._search.waits(what=what, name=name, before=before, limit=limit)

    async def approvals(
        self,
        *,
        name: str = "",
        assignee: str = "",
        roles: Collection[str] = (),
        before: str = "",
        limit: int = 100,
    ) -> Page[WaitInfo]:
        """List open approvals of all runs, newest first. With `assignee`, those that person may decide."""
        return await self._search.approvals(
            name=name, assignee=assignee, roles=roles, before=before, limit=limit
        )

    async def decided_approvals(self, *, before: str = "", limit: int = 100) -> Page[DecidedInfo]:
        """List decided approvals of all runs, the last decision first: who decided what, and when."""
        return await self._search.decided(before=before, limit=limit)

    # Workflows

    async def workflows(self) -> list[WorkflowInfo]:
        """List the workflows of this workspace by name, with their title, and whether they are enabled."""
        return await self._workflows.list()

    async def versions(self, workflow: str) -> Sequence[WorkflowVersion]:
        """List the stored versions of a workflow, oldest first."""
        return await self._workflows.versions(workflow)

    async def definition(self, workflow: str, version: str = "") -> Definition:
        """Return what is stored of a workflow, in its latest version or in a given one."""
        return await self._workflows.definition(workflow, version)

    async def disable(self, workflow: Startable[Any, Any] | str, *, by: str = "", reason: str = "") -> bool:
        """Refuse new runs of a workflow (WORKFLOW_DISABLED). Live runs continue. False if it was disabled."""
        return await self._workflows.switch(workflow, enabled=False, by=by, reason=reason)

    async def enable(self, workflow: Startable[Any, Any] | str, *, by: str = "", reason: str = "") -> bool:
        """Accept new runs of a disabled workflow again. False if it was enabled."""
        return await self._workflows.switch(workflow, enabled=True, by=by, reason=reason)

    async def hold(self, kind: HoldKind, name: str = "", *, by: str = "", reason: str = "") -> bool:
        """Hold a workflow, a queue or this whole workspace until `release`. False if it was held.

        Active runs stop at their next step, within a heartbeat. New runs are accepted and wait. A queue is
        held for this workspace only, with its remote steps. Cancelled runs still clean up.
        """
        return await self._holds.change(kind, name, held=True, by=by, reason=reason)

    async def drain(self, worker: str, *, by: str = "", reason: str = "") -> bool:
        """Ask a worker, by its id, to finish its steps and exit with 0. False if it was already asked."""
        return await drain(self, worker, by=by, reason=reason)

    async def release(self, kind: HoldKind, name: str = "", *, by: str = "", reason: str = "") -> bool:
        """Let a held workflow, queue or workspace continue. False if it was not held."""
        return await self._holds.change(kind, name, held=False, by=by, reason=reason)

    async def holds(self) -> list[HoldInfo]:
        """List the held workflows and queues, and the workspace if it is held. Single runs are not listed."""
        return await self._holds.list()

    # Limits

    async def set_limit(
        self,
        kind: LimitKind,
        name: str = "",
        limit: int | None = None,
        *,
        hold: Hold = "active",
        by: str = "",
    ) -> None:
        """Let at most `limit` runs of a workspace, workflow, queue or limit key be active. None: no limit.

        Replaces the limits that runs were started with, from the next claim on. Active runs are not
        stopped. Children count too; with hold="run" they share the slot of their parent.
        """
        workspace = "" if kind == "queue" else self.workspace
        row = checked_limit(Limit(kind=kind, workspace=workspace, name=name, limit=limit, hold=hold))
        row = msgspec.structs.replace(row, by=checked_text(by, "by"))
        await self.call_idempotent(lambda: self.store.put_limit(row))
        self.notifier.notify_work()

    async def drop_limit(self, kind: LimitKind, name: str = "", *, by: str = "") -> bool:
        """Remove a limit; limits that runs were started with apply again. False if none was set."""
        checked_text(by, "by")
        workspace = "" if kind == "queue" else self.workspace
        scope = checked_limit(Limit(kind=kind, workspace=workspace, name=name, limit=None)).scope
        if all(limit.scope != scope for limit in await self.store.read_limits()):
            return False
        dropped, repeated = await self.retry_call(lambda: self.store.drop_limit(scope))
        _log.info("limit %s was dropped by %s", scope, by or "somebody")
        self.notifier.notify_work()
        return dropped or repeated

    async def limits(self) -> list[Limit]:
        """List the limits set for this workspace and for queues."""
        limits = await self.store.read_limits()
        return [limit for limit in limits if limit.workspace in ("", self.workspace)]

    async def set_start_rate(
        self, per: RatePer, limit: int | None = None, *, seconds: float = 60.0, by: str = ""
    ) -> None:
        """Allow at most `limit` starts in any `seconds`, per workflow or per user.

        It counts starts in all workspaces and replaces the rate that engines were given for the same
        `seconds`. None removes the limit. Other processes follow within five seconds.
        """
        await self.rates.put(self, checked_rate(per, limit, seconds, by))

    async def drop_start_rate(self, per: RatePer, *, seconds: float = 60.0, by: str = "") -> bool:
        """Remove a start rate; the one that engines were given applies again. False if none was set."""
        return await self.rates.drop(self, checked_rate(per, None, seconds, by))

    async def start_rates(self) -> list[StoredRate]:
        """List the start rates that were set in the database."""
        return list(await self.store.read_start_rates())

    # Workers and queues

    async def workers(self) -> Sequence[WorkerRow]:
        """List the workers of the database by id. One whose lease has run out is gone or about to be."""
        return sorted(await self.store.list_workers(), key=lambda worker: worker.id)

    async def queues(self) -> Sequence[QueueUse]:
        """Count the runs and remote steps of this workspace in each queue: ready, waiting and active."""
        return await self.store.read_queues(self.workspace, now=await self.store.now())

    # Access

    async def audit(self, *, before: str = "", limit: int = 100) -> Page[AuditEntry]:
        """List who changed what through a server, newest first, in pages like `runs`."""
        return await self._search.audit(before=before, limit=limit)

    @property
    def secrets(self) -> Secrets:
        """Values that nodes and steps of this workspace use by name; they can be set, never read."""
        return Secrets(self, self.keyring or Keyring.from_env())

    # Broadcast events

    async def emit(
        self, name: str, payload: Any = None, *, key: str = "", id: str = "", by: str = ""
    ) -> bool:
        """Publish a broadcast event to every run of this workspace that waits for it.

        `key` is the event key, which selects among waits. An `id` makes the call safe to repeat: the
        same id is published once, and False says that it was published before.
        """
        return await broadcasts.publish(self, name, payload, key=key, id=id, by=by)

    # Runs made from others

    @overload
    async def rerun(
        self,
        run: RunHandle[R],
        *,
        input: Any = ...,
        version: str = "",
        key: str = "",
        **who: Unpack[WhoOptions],
    ) -> RunHandle[R]: ...
    @overload
    async def rerun(
        self, run: str, *, input: Any = ..., version: str = "", key: str = "", **who: Unpack[WhoOptions]
    ) -> RunHandle[Any]: ...
    async def rerun(
        self,
        run: RunHandle[Any] | str,
        *,
        input: Any = UNCHANGED,
        version: str = "",
        key: str = "",
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]:
        """Start a new run from the beginning, with the old input and version unless others are given."""
        return await self.derived_runs.rerun(run, input=input, version=version, key=key, **who)

    @overload
    async def rerun_from(
        self,
        run: RunHandle[R],
        step: str,
        *,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
        **who: Unpack[WhoOptions],
    ) -> RunHandle[R]: ...
    @overload
    async def rerun_from(
        self,
        run: str,
        step: str,
        *,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]: ...
    async def rerun_from(
        self,
        run: RunHandle[Any] | str,
        step: str,
        *,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]:
        """Start a new run that keeps all results from before a step, and repeats that step and the rest.

        `step` is a path, or the name of a step that the run called once.
        """
        return await self.derived_runs.rerun_from(run, step, outputs=outputs, key=key, **who)

    @overload
    async def fork(
        self,
        run: RunHandle[R],
        *,
        at: int,
        input: Any = ...,
        state: Any = ...,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
        **who: Unpack[WhoOptions],
    ) -> RunHandle[R]: ...
    @overload
    async def fork(
        self,
        run: str,
        *,
        at: int,
        input: Any = ...,
        state: Any = ...,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]: ...
    async def fork(
        self,
        run: RunHandle[Any] | str,
        *,
        at: int,
        input: Any = UNCHANGED,
        state: Any = UNCHANGED,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]:
        """Start a new run that begins as the old one was at event `at`, apart from the edits.

        `outputs` replaces results of steps, children and waits, by path; `state` is the state of a
        machine. In a graph, nodes that depend on an edited output (by node id) run again, and all of
        them do with another input. NotForkable says why a fork cannot begin there, and where one can.
        """
        edits = {"input": input, "state": state, "outputs": outputs}
        return await self.derived_runs.fork(run, at=at, **edits, key=key, **who)

    async def export(self, run: RunHandle[Any] | str, *, children: bool = True) -> bytes:
        """Write the run, and with `children` all runs below it, as one JSON file.

        The copy of a live run is taken at one moment; a step that was executing begins again in it.
        """
        return await self.derived_runs.export(run, children=children)

    async def import_run(self, file: bytes | str, *, by: str = "") -> RunHandle[Any]:
        """Restore exported runs under their own ids; those that had not ended continue.

        Writes nothing if the file is wrong (InvalidFile) or one of the runs exists (RunExists).
        """
        return await self.derived_runs.restore(file, by=by)
