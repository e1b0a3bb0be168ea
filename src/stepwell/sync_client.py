"""SyncClient: the client for sync code. It runs the async client on a loop in a background thread.

It works anywhere, even inside a running loop (Jupyter, a web handler).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar, Unpack, overload

from stepwell.client import Client, RunEvent, RunHandle
from stepwell.client.options import (
    ForkOptions,
    ListOptions,
    ManyOptions,
    NamedStartOptions,
    RerunFromOptions,
    RerunOptions,
    StartOptions,
)
from stepwell.client.rates import StartRate
from stepwell.client.replay_guard import refuse_in_workflow_code
from stepwell.domain.commit import RunRow
from stepwell.domain.documents import Document
from stepwell.domain.duration import Duration
from stepwell.domain.limits import Hold, Limit, LimitKind
from stepwell.domain.new_run import NO_INPUT
from stepwell.domain.program import Startable
from stepwell.domain.state import Checkpoint, OpenWait, RunState
from stepwell.domain.status import Status
from stepwell.domain.why import Reason
from stepwell.errors import InvalidRequest, NotDurable, SettingsInvalid
from stepwell.store.base import Store
from stepwell.store.encoded import encoded
from stepwell.store.open import open_store
from stepwell.store.payloads import PayloadCodec
from stepwell.system import SystemIds

In = TypeVar("In")
R = TypeVar("R")
T = TypeVar("T")

_LEAVING_SECONDS = 2.0  # for cancelled tasks to clean up


class SyncRunHandle(Generic[R]):
    """One run: the methods of RunHandle without `await`."""

    def __init__(self, call: Callable[[Coroutine[Any, Any, Any]], Any], handle: RunHandle[R]) -> None:
        self._call = call
        self._handle = handle
        self.id = handle.id

    def result(self, timeout: Duration | None = None) -> R:
        result: R = self._call(self._handle.result(timeout))
        return result

    def status(self) -> Status:
        status: Status = self._call(self._handle.status())
        return status

    def info(self) -> RunRow:
        row: RunRow = self._call(self._handle.info())
        return row

    def why(self) -> Reason:
        reason: Reason = self._call(self._handle.why())
        return reason

    def signal(self, name: str, payload: Any = None, *, id: str = "") -> None:
        self._call(self._handle.signal(name, payload, id=id))

    def event(self, name: str, payload: Any = None, *, key: str = "", id: str = "") -> bool:
        return bool(self._call(self._handle.event(name, payload, key=key, id=id)))

    def trigger(self, transition: str, payload: Any = None, *, by: str = "") -> None:
        self._call(self._handle.trigger(transition, payload, by=by))

    def waits(self) -> list[OpenWait]:
        waits: list[OpenWait] = self._call(self._handle.waits())
        return waits

    def decide(self, answer: Any, *, path: str = "", by: str = "", roles: Collection[str] = ()) -> None:
        self._call(self._handle.decide(answer, path=path, by=by, roles=roles))

    def cancel(self, reason: str = "") -> bool:
        return bool(self._call(self._handle.cancel(reason)))

    def retry(self) -> None:
        self._call(self._handle.retry())

    def compensate(self) -> None:
        self._call(self._handle.compensate())

    def state(self, at: int | None = None) -> RunState:
        state: RunState = self._call(self._handle.state(at))
        return state

    def checkpoints(self) -> list[Checkpoint]:
        checkpoints: list[Checkpoint] = self._call(self._handle.checkpoints())
        return checkpoints

    def documents(self, at: int | None = None) -> list[Document]:
        documents: list[Document] = self._call(self._handle.documents(at))
        return documents

    def document(
        self, name: str, type: Any = Any, *, at: int | None = None, version: int | None = None
    ) -> Any:
        return self._call(self._handle.document(name, type, at=at, version=version))

    def delete(self) -> None:
        self._call(self._handle.delete())

    def events(self, *, after: int = 0) -> list[RunEvent]:
        async def collect() -> list[RunEvent]:
            return [event async for event in self._handle.events(after=after)]

        events: list[RunEvent] = self._call(collect())
        return events

    def __reduce__(self) -> NoReturn:
        self._handle.__reduce__()

    def __repr__(self) -> str:
        return repr(self._handle)


class SyncClient:
    """`with SyncClient("app.db") as client: client.start(fulfil, order).result()`.

    `codec` is the codec that the workers use; an `engine` has its own.
    """

    def __init__(
        self,
        database: str | PathLike[str] = "stepwell.db",
        *,
        engine: Client | None = None,
        codec: PayloadCodec | None = None,
    ) -> None:
        if engine is not None and codec is not None:
            raise SettingsInvalid("codec cannot be combined with engine", hint="pass the codec to the engine")
        self._owned = engine is None
        self._client = engine or Client(_store(database, codec), SystemIds())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0  # that opened the client: a forked process has no copy of its thread

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise InvalidRequest(
                "the client is not open",
                hint="use it inside `with SyncClient(...) as client:`",
            )
        if os.getpid() != self._process:  # the call would wait forever
            work.close()
            raise InvalidRequest(
                "the client was opened before this process was forked",
                hint="open a separate SyncClient in each process",
            )
        try:
            refuse_in_workflow_code()  # it would block the worker's loop, forever if it waits for a run
        except NotDurable:
            work.close()
            raise
        if threading.current_thread() is self._thread:  # the thread would wait for itself
            work.close()
            raise InvalidRequest(
                "the client was used on its own loop, for example in an async step of its engine",
                hint="make the step a plain def, which runs in a thread, or await the engine itself",
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()  # nobody waits for it now
            raise

    def __enter__(self) -> Self:
        refuse_in_workflow_code()
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stepwell-client", daemon=True)
        self._thread.start()
        try:
            self._call(self._open())
        except BaseException:
            self._stop()
            raise
        return self

    async def _open(self) -> None:
        if self._owned:
            await self._client.store.open()
            self._client.notifier.forward_to(self._client.store.hint)
            self._client.store.listen(self._client.notifier.on_remote)
        else:
            await self._client.open()  # type: ignore[attr-defined]  # an Engine opens itself

    async def _close(self) -> None:
        await (self._client.store.close() if self._owned else self._client.close())  # type: ignore[attr-defined]  # as above

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:
            return  # the process that opened the client closes it
        try:
            self._call(self._close())
        finally:
            self._stop()

    def _stop(self) -> None:
        assert self._loop is not None
        self._call(_cancel_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @overload
    def start(
        self, workflow: Startable[In, R], input: In = ..., **options: Unpack[StartOptions]
    ) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self, workflow: str, input: Any = ..., **options: Unpack[NamedStartOptions]
    ) -> SyncRunHandle[Any]: ...
    def start(self, workflow: Any, input: Any = NO_INPUT, **options: Any) -> SyncRunHandle[Any]:
        return SyncRunHandle(self._call, self._call(self._client.start(workflow, input, **options)))

    def start_many(
        self,
        workflow: Startable[In, R] | str,
        inputs: Iterable[In],
        *,
        keys: Sequence[str] | None = None,
        **options: Unpack[ManyOptions],
    ) -> list[SyncRunHandle[R]]:
        handles = self._call(self._client.start_many(workflow, inputs, keys=keys, **options))
        return [SyncRunHandle(self._call, handle) for handle in handles]

    def run(self, workflow: Startable[In, R], input: In = NO_INPUT, **options: Unpack[StartOptions]) -> R:
        return self.start(workflow, input, **options).result()

    @overload
    def handle(self, run_id: str) -> SyncRunHandle[Any]: ...
    @overload
    def handle(self, run_id: str, workflow: Startable[Any, R]) -> SyncRunHandle[R]: ...
    def handle(self, run_id: str, workflow: Startable[Any, Any] | None = None) -> SyncRunHandle[Any]:
        async def make() -> RunHandle[Any]:
            return self._client.handle(run_id) if workflow is None else self._client.handle(run_id, workflow)

        return SyncRunHandle(self._call, self._call(make()))

    @overload
    def rerun(self, run: SyncRunHandle[R], **changes: Unpack[RerunOptions]) -> SyncRunHandle[R]: ...
    @overload
    def rerun(self, run: str, **changes: Unpack[RerunOptions]) -> SyncRunHandle[Any]: ...
    def rerun(self, run: SyncRunHandle[Any] | str, **changes: Unpack[RerunOptions]) -> SyncRunHandle[Any]:
        """Start a new run from the beginning; the options are those of Client.rerun."""
        return SyncRunHandle(self._call, self._call(self._client.rerun(_handle_of(run), **changes)))

    @overload
    def rerun_from(
        self, run: SyncRunHandle[R], step: str, **changes: Unpack[RerunFromOptions]
    ) -> SyncRunHandle[R]: ...
    @overload
    def rerun_from(self, run: str, step: str, **changes: Unpack[RerunFromOptions]) -> SyncRunHandle[Any]: ...
    def rerun_from(
        self, run: SyncRunHandle[Any] | str, step: str, **changes: Unpack[RerunFromOptions]
    ) -> SyncRunHandle[Any]:
        """Start a new run from that step; the options are those of Client.rerun_from."""
        return SyncRunHandle(
            self._call, self._call(self._client.rerun_from(_handle_of(run), step, **changes))
        )

    @overload
    def fork(self, run: SyncRunHandle[R], *, at: int, **edits: Unpack[ForkOptions]) -> SyncRunHandle[R]: ...
    @overload
    def fork(self, run: str, *, at: int, **edits: Unpack[ForkOptions]) -> SyncRunHandle[Any]: ...
    def fork(
        self, run: SyncRunHandle[Any] | str, *, at: int, **edits: Unpack[ForkOptions]
    ) -> SyncRunHandle[Any]:
        """Start a new run from event `at`; the options are those of Client.fork."""
        return SyncRunHandle(self._call, self._call(self._client.fork(_handle_of(run), at=at, **edits)))

    def export(self, run: SyncRunHandle[Any] | str, *, children: bool = True) -> bytes:
        return self._call(self._client.export(_handle_of(run), children=children))

    def import_run(self, file: bytes | str) -> SyncRunHandle[Any]:
        return SyncRunHandle(self._call, self._call(self._client.import_run(file)))

    def find(self, key: str) -> SyncRunHandle[Any] | None:
        """Return the run that was started with this idempotency key, if there is one."""
        handle = self._call(self._client.find(key))
        return None if handle is None else SyncRunHandle(self._call, handle)

    def runs(self, **filter: Unpack[ListOptions]) -> list[RunRow]:
        return list(self._call(self._client.runs(**filter)))

    def set_limit(
        self, kind: LimitKind, name: str = "", limit: int | None = None, *, hold: Hold = "active"
    ) -> None:
        self._call(self._client.set_limit(kind, name, limit, hold=hold))

    def drop_limit(self, kind: LimitKind, name: str = "") -> bool:
        return self._call(self._client.drop_limit(kind, name))

    def limits(self) -> list[Limit]:
        return self._call(self._client.limits())

    def set_start_rates(self, *rates: StartRate) -> None:
        self._client.set_start_rates(*rates)

    def emit(self, name: str, payload: Any = None, *, key: str = "", id: str = "") -> bool:
        return self._call(self._client.emit(name, payload, key=key, id=id))


def _store(database: str | PathLike[str], codec: PayloadCodec | None) -> Store:
    store = open_store(database)
    return store if codec is None else encoded(store, codec)


async def _cancel_tasks() -> None:
    """End the tasks that Ctrl-C left before their loop ends."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_LEAVING_SECONDS)


def _handle_of(run: SyncRunHandle[Any] | str) -> Any:
    return run if isinstance(run, str) else run._handle
