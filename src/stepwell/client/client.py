"""Client: what the outside may ask of runs. Needs no workflow code, only the store."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack, overload

import msgspec

from stepwell.client.derived_runs import History
from stepwell.client.handle import RunHandle
from stepwell.client.rates import StartRate, checked_rates, refuse, windows_of
from stepwell.client.replay_guard import check_outside
from stepwell.client.start_options import (
    ManyOptions,
    NamedStartOptions,
    StartOptions,
    checked_inputs,
    checked_keys,
    checked_options,
)
from stepwell.domain.codec import PLAIN, canonical, encoded_by_type, limited
from stepwell.domain.commit import (
    DEFAULT_WORKSPACE,
    Definition,
    Message,
    NewRun,
    PublishedEvent,
    RunFilter,
    RunRow,
    Started,
)
from stepwell.domain.ids import Ids, RunId
from stepwell.domain.limits import Hold, Limit, LimitKind, checked_limit
from stepwell.domain.new_run import (
    NO_INPUT,
    EncodedInput,
    default_of,
    encoded_input,
    new_run_of,
    startable,
)
from stepwell.domain.program import RunOptions, Startable
from stepwell.domain.rates import Full, RatedStart
from stepwell.domain.schema import Schema
from stepwell.domain.status import Status, checked_statuses
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import (
    InvalidInput,
    InvalidRequest,
    KeyConflict,
    OutcomeUnknown,
    StepwellError,
    StoreLocked,
    StoreUnavailable,
    UnknownWorkflow,
    excerpt,
)
from stepwell.store.base import Store
from stepwell.store.wakeups import Notifier

In = TypeVar("In")
R = TypeVar("R")
T = TypeVar("T")

_START_CHUNK = 500
_TRIES = 5


class Client(History):
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
        self._store = store
        self.notifier = notifier or Notifier()
        self.workspace = workspace
        self.payload_bytes_max = payload_bytes_max
        self._ids = ids
        self._schemas: dict[bytes, Schema] = {}
        self.start_rates: tuple[StartRate, ...] = ()

    @property
    def store(self) -> Store:
        check_outside()
        return self._store

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
        """Accept a run: when this returns it is on disk and will reach an end.

        The same key and input give the same run; another input is a KeyConflict. Without a key each
        call is a run of its own, also when it had to be sent twice.
        """
        prepared = await self._prepared(workflow, options.pop("version", ""))
        key, user = options.pop("key", ""), checked_text(options.pop("user", ""), "user")
        run = self._new_run(prepared, input, key, checked_options(options))
        return (await self._start_chunk([run], user, prepared[2]))[0]

    async def start_many(
        self,
        workflow: Startable[In, R] | str,
        inputs: Iterable[In],
        *,
        keys: Sequence[str] | None = None,
        **options: Unpack[ManyOptions],
    ) -> list[RunHandle[R]]:
        """Accept many runs of one workflow, in few transactions; RateLimited: none of them."""
        prepared = await self._prepared(workflow, options.pop("version", ""))
        user, inputs = checked_text(options.pop("user", ""), "user"), checked_inputs(inputs)
        shared, keys = checked_options({**options}), checked_keys(keys, inputs)
        runs = self._new_runs(prepared, inputs, keys, shared)
        size = len(runs) if self.start_rates else _START_CHUNK
        chunks = [runs[at : at + size] for at in range(0, len(runs), size or 1)]
        handles: list[RunHandle[R]] = []
        for at in range(0, len(chunks), self.store.starts_at_once):
            together = chunks[at : at + self.store.starts_at_once]
            handles += await self._start_chunks(together, user, prepared[2])
        return handles

    async def _start_chunks(
        self, chunks: Sequence[Sequence[NewRun]], user: str, decode: Callable[[bytes], Any]
    ) -> list[RunHandle[Any]]:
        """At the same time; all have an answer before the error of one is told."""

        async def outcome(chunk: Sequence[NewRun]) -> list[RunHandle[Any]] | StepwellError:
            try:
                return await self._start_chunk(chunk, user, decode)
            except StepwellError as error:
                return error

        if len(chunks) == 1:
            return await self._start_chunk(chunks[0], user, decode)
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(outcome(chunk)) for chunk in chunks]
        handles: list[RunHandle[Any]] = []
        for call in calls:
            found = call.result()
            if isinstance(found, StepwellError):
                raise found
            handles += found
        return handles

    async def _start_chunk(
        self, runs: Sequence[NewRun], user: str, decode: Callable[[bytes], Any]
    ) -> list[RunHandle[Any]]:
        watches = [self.notifier.watch(run.id) for run in runs]
        started, _ = await self.insist(lambda: self._start_all(runs, user))
        if None in [answer.claim for answer in started]:
            self.notifier.work()
        handles = [self._handle_of(run, answer, decode) for run, answer in zip(runs, started, strict=True)]
        del watches  # the handles watch now
        return handles

    def _start_all(self, runs: Sequence[NewRun], user: str) -> Coroutine[Any, Any, Sequence[Started]]:
        if self.start_rates:
            windows = windows_of(self.start_rates, self.workspace, runs[0].workflow, user)
            if windows:
                return self._start_within(RatedStart(runs, windows), user)
        return self._start_now(runs)

    async def _start_within(self, asked: RatedStart, user: str) -> Sequence[Started]:
        answer = await self.store.start_within(asked)
        if not isinstance(answer, Full):
            return answer
        refuse(answer, user)
        return await self._start_now(asked.runs)

    def _start_now(self, runs: Sequence[NewRun]) -> Coroutine[Any, Any, Sequence[Started]]:
        return self.store.start(runs)

    def _handle_of(self, run: NewRun, started: Started, decode: Callable[[bytes], Any]) -> RunHandle[Any]:
        if started.conflict:
            raise KeyConflict(
                f"key {excerpt(run.key)} belongs to run {started.run_id}, "
                "which has another workflow or input",
                key=run.key,
                run=started.run_id,
            )
        return RunHandle(self, started.run_id, decode, fresh=started.run_id == run.id)

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
            raise await self._unknown(workflow, version)
        options = msgspec.json.decode(definition.options, type=RunOptions)
        return definition, options, PLAIN.decode, partial(self._named_input, definition)

    async def _unknown(self, name: str, version: str) -> UnknownWorkflow:
        found = await self.store.list_definitions(self.workspace)
        versions = [d.version for d in found if d.name == name]
        if versions:
            return UnknownWorkflow(
                f"no workflow {excerpt(name)} version {excerpt(version)} is known",
                known=", ".join(f"{name} version {known}" for known in versions),
            )
        known = sorted({d.name for d in found})
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else ""
        return UnknownWorkflow(
            f"no workflow {excerpt(name)} is known", hint=hint, known=", ".join(known) or "none"
        )

    def _named_input(self, definition: Definition, input: Any) -> EncodedInput:
        if input is NO_INPUT:
            input = default_of(definition.input_schema)
        return self._checked(definition, input), canonical(PLAIN, input)

    def _checked(self, definition: Definition, input: Any) -> bytes:
        """The input as JSON, checked against the stored schema: no workflow code is needed."""
        data = PLAIN.encode(input)
        schema = definition.input_schema
        if schema not in self._schemas:
            self._schemas[schema] = Schema(schema.decode())
        self._schemas[schema].check(msgspec.json.decode(data), workflow=definition.name)
        return data

    def _new_runs(
        self, prepared: Any, inputs: Sequence[Any], keys: Sequence[str], options: dict[str, Any]
    ) -> list[NewRun]:
        """All of them, before one is written; the error says which input or key is wrong."""
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
        run_id = self._ids.run_id()
        data, canonical = encode(input)
        return new_run_of(
            definition,
            run_options,
            limited(data, f"the input of {definition.name}", self.payload_bytes_max),
            canonical=canonical,
            run_id=run_id,
            key=checked_text(key, "key"),
            seed=self._ids.token(),
            workspace=self.workspace,
            **options,
        )

    async def run(
        self, workflow: Startable[In, R], input: In = NO_INPUT, **options: Unpack[StartOptions]
    ) -> R:
        """Start and wait for the result."""
        return await (await self.start(workflow, input, **options)).result()

    # Finding

    @overload
    def handle(self, run_id: str) -> RunHandle[Any]: ...
    @overload
    def handle(self, run_id: str, workflow: Startable[Any, R]) -> RunHandle[R]: ...
    def handle(self, run_id: str, workflow: Startable[Any, Any] | None = None) -> RunHandle[Any]:
        """A handle for a run that exists; with the workflow its result is typed."""
        return RunHandle(
            self, RunId(checked_text(run_id, "run id")), workflow.decode_result if workflow else PLAIN.decode
        )

    async def find(self, key: str) -> RunHandle[Any] | None:
        """The run that was started with this key."""
        run_id = await self.store.find_run(self.workspace, checked_text(key, "key"))
        return None if run_id is None else self.handle(run_id)

    async def runs(
        self,
        *,
        workflow: str = "",
        status: Status | str | Sequence[Status | str] = (),
        before: str = "",
        limit: int = 100,
    ) -> Sequence[RunRow]:
        """The newest runs that fit."""
        checked_text(workflow, "workflow")
        checked_text(before, "before")
        whole_number(limit, "limit", 0, 100_000, wrong=InvalidInput)
        statuses = checked_statuses(status)
        wanted = RunFilter(
            workspace=self.workspace, workflow=workflow, statuses=statuses, before=before, limit=limit
        )
        return await self.store.list_runs(wanted)

    # Limits

    async def set_limit(
        self, kind: LimitKind, name: str = "", most: int | None = None, *, hold: Hold = "active"
    ) -> None:
        """At most so many runs of this workspace, workflow, queue or key at once; None: any number.

        It replaces what the runs bring along, from the next claim on; none that runs is stopped. All
        runs count, children too; with hold = run children work in the slot of their parent.
        """
        workspace = "" if kind == "queue" else self.workspace
        limit = checked_limit(Limit(kind=kind, workspace=workspace, name=name, most=most, hold=hold))
        await self.patiently(lambda: self.store.put_limit(limit))
        self.notifier.work()

    async def drop_limit(self, kind: LimitKind, name: str = "") -> bool:
        """Forget what was set; what the runs bring along counts again. False: nothing was set."""
        workspace = "" if kind == "queue" else self.workspace
        scope = checked_limit(Limit(kind=kind, workspace=workspace, name=name, most=None)).scope
        if all(limit.scope != scope for limit in await self.store.read_limits()):
            return False
        dropped, repeated = await self.insist(lambda: self.store.drop_limit(scope))
        self.notifier.work()
        return dropped or repeated

    async def limits(self) -> list[Limit]:
        """The limits that were set for this workspace and for queues."""
        return [x for x in await self.store.read_limits() if x.workspace in ("", self.workspace)]

    def set_start_rates(self, *rates: StartRate) -> None:
        """How many runs may be started from here in a while; the windows are shared with all processes."""
        self.start_rates = checked_rates(rates)

    # Talking

    async def emit(self, name: str, payload: Any = None, *, key: str = "", id: str = "") -> bool:
        """Publish an event to every run that waits for it. `key` selects among waits; the same `id`
        is published once (False: it was before)."""
        checked_text(name, "name")
        data = limited(encoded_by_type(payload), f"event {excerpt(name)}", self.payload_bytes_max)
        event = PublishedEvent(
            f"event/{checked_text(id, 'id') or self._ids.token()}",  # never the id of a run
            name,
            checked_text(key, "key"),
            data,
            0.0,
        )
        fresh = await self.patiently(lambda: self.store.emit(event))
        self.notifier.work()
        return fresh

    async def deliver(self, message: Message) -> Any:
        outcome = (await self.patiently(lambda: self.store.deliver([message])))[0]
        self.notifier.work(message.run_id)
        return outcome

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again after an unanswered write: the key in it makes that safe."""
        return (await self.insist(ask))[0]

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The answer, and whether we asked more than once: then it may have been done by a call of ours
        whose answer was lost."""
        for attempt in range(_TRIES):
            try:
                return await ask(), attempt > 0
            except StoreLocked:
                raise  # it was waited for as long as a caller should wait
            except (OutcomeUnknown, StoreUnavailable):
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
        raise AssertionError("unreachable")

    def token(self) -> str:
        return self._ids.token()
