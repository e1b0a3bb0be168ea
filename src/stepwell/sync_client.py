"""SyncClient: the client for sync code. It runs the async client on a loop in a background thread.

It works anywhere, even inside a running loop (Jupyter, a web handler).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import wraps
from os import PathLike
from types import TracebackType
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar, Unpack, overload

from stepwell.client import Client, RunHandle
from stepwell.client.alerts import Alerts
from stepwell.client.event_triggers import EventTriggers
from stepwell.client.keys import Keys
from stepwell.client.options import (
    ForkOptions,
    ManyOptions,
    NamedStartOptions,
    RerunFromOptions,
    RerunOptions,
    StartOptions,
)
from stepwell.client.records import Records
from stepwell.client.replay_guard import refuse_in_workflow_code
from stepwell.client.schedules import Schedules
from stepwell.client.secrets import Secrets
from stepwell.client.webhooks import Webhooks
from stepwell.domain.duration import Duration
from stepwell.domain.new_run import NO_INPUT
from stepwell.domain.program import Startable
from stepwell.errors import InvalidRequest, NotDurable, SettingsInvalid
from stepwell.store.encoded import encoded
from stepwell.store.open import open_store
from stepwell.store.payloads import PayloadCodec
from stepwell.system import SystemIds

In = TypeVar("In")
R = TypeVar("R")
T = TypeVar("T")
P = ParamSpec("P")
Target_co = TypeVar("Target_co", covariant=True)

_LEAVING_SECONDS = 2.0  # for cancelled tasks to clean up
_CHUNK = 1000  # items that one call brings from the loop's thread


class _Feed(Generic[T]):
    """Reads an async iterator in chunks: one call for each item would be slow."""

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items
        self._next: asyncio.Task[T] | None = None

    async def chunk(self) -> list[T]:
        """Wait for an item; return it and those that follow without a wait. Empty at the end."""
        chunk: list[T] = []
        while len(chunk) < _CHUNK:
            if self._next is None:  # it outlives this call; `close` ends it
                self._next = asyncio.get_running_loop().create_task(self._item())
            if chunk:
                await asyncio.sleep(0)  # an item that is ready needs one turn of the loop
            else:
                await asyncio.wait({self._next})
            if not self._next.done() or (chunk and self._next.exception()):
                break  # the next chunk begins with it
            try:
                chunk.append(self._next.result())
            except StopAsyncIteration:
                break
            self._next = None
        return chunk

    async def _item(self) -> T:
        return await anext(self._items)

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait({self._next})
            _ = self._next.cancelled() or self._next.exception()  # an error that nobody reads is logged
        if isinstance(self._items, AsyncGenerator):
            await self._items.aclose()


class _LoopThread:
    """An event loop in a background thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0  # that began it: a forked process has no copy of the thread
        self._feeds: set[_Feed[Any]] = set()

    @property
    def is_foreign(self) -> bool:
        """Whether another process began it."""
        return os.getpid() != self._process

    def begin(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stepwell-client", daemon=True)
        self._thread.start()

    def end(self) -> None:
        assert self._loop is not None
        self.call(_cancel_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop and wait for its result."""
        try:
            loop = self._usable_loop()
        except (InvalidRequest, NotDurable):
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()  # nobody waits for it now
            raise

    def _usable_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            raise InvalidRequest(
                "the client is not open",
                hint="use it inside `with SyncClient(...) as client:`",
            )
        if self.is_foreign:  # the call would wait forever
            raise InvalidRequest(
                "the client was opened before this process was forked",
                hint="open a separate SyncClient in each process",
            )
        refuse_in_workflow_code()  # it would block the worker's loop, forever if it waits for a run
        if threading.current_thread() is self._thread:  # the thread would wait for itself
            raise InvalidRequest(
                "the client was used on its own loop, for example in an async step of its engine",
                hint="make the step a plain def, which runs in a thread, or await the engine itself",
            )
        return self._loop

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        feed = _Feed(items)
        self._feeds.add(feed)
        try:
            while chunk := self.call(feed.chunk()):
                yield from chunk
        finally:
            self._leave(feed)

    def _leave(self, feed: _Feed[Any]) -> None:
        """Close it without waiting: an iterator may be dropped in any thread, at any time."""
        if feed not in self._feeds:
            return  # closed with the client
        self._feeds.remove(feed)
        if self._loop is not None and not self._loop.is_closed() and not self.is_foreign:
            asyncio.run_coroutine_threadsafe(feed.close(), self._loop)

    async def close_feeds(self) -> None:
        """End the iterators that are still open."""
        while self._feeds:
            await self._feeds.pop().close()


class _Mirror(Generic[Target_co]):
    """Offers the verbs of an async object to sync code."""

    def __init__(self, thread: _LoopThread, target: Target_co) -> None:
        self._thread = thread
        self._target = target

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(work)


def _verb(
    verb: Callable[Concatenate[Target_co, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Mirror[Target_co], P], T]:
    """Mirror a verb: the same parameters, and its result without `await`."""

    @wraps(verb)
    def call(mirror: _Mirror[Target_co], /, *args: P.args, **kwargs: P.kwargs) -> T:
        work: Coroutine[Any, Any, T] = getattr(mirror._target, verb.__name__)(*args, **kwargs)
        return mirror._call(work)

    return call


def _iterator(
    verb: Callable[Concatenate[Target_co, P], AsyncIterator[T]],
) -> Callable[Concatenate[_Mirror[Target_co], P], Iterator[T]]:
    """Mirror a verb that is read with `async for` as one that is read with `for`."""

    @wraps(verb)
    def call(mirror: _Mirror[Target_co], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items: AsyncIterator[T] = getattr(mirror._target, verb.__name__)(*args, **kwargs)
        return mirror._thread.iterate(items)

    return call


class SyncRunHandle(_Mirror[RunHandle[R]], Generic[R]):
    """One run: the methods of RunHandle without `await`."""

    def __init__(self, thread: _LoopThread, handle: RunHandle[R]) -> None:
        super().__init__(thread, handle)
        self.id = handle.id

    def result(self, timeout: Duration | None = None) -> R:
        """Wait for the end and return the result; raises RunFailed, RunCancelled or RunTimedOut."""
        return self._call(self._target.result(timeout))

    info = _verb(RunHandle[Any].info)
    status = _verb(RunHandle[Any].status)
    waits = _verb(RunHandle[Any].waits)
    waiting_for = _verb(RunHandle[Any].waiting_for)
    reassign = _verb(RunHandle[Any].reassign)
    remind = _verb(RunHandle[Any].remind)
    why = _verb(RunHandle[Any].why)
    overview = _verb(RunHandle[Any].overview)
    log = _iterator(RunHandle[Any].log)
    events = _iterator(RunHandle[Any].events)
    logs = _verb(RunHandle[Any].logs)
    follow_logs = _iterator(RunHandle[Any].follow_logs)
    state = _verb(RunHandle[Any].state)
    trace = _verb(RunHandle[Any].trace)
    checkpoints = _verb(RunHandle[Any].checkpoints)
    documents = _verb(RunHandle[Any].documents)

    @overload
    def document(self, name: str, *, at: int | None = None, version: int | None = None) -> Any: ...
    @overload
    def document(
        self, name: str, type: type[T], *, at: int | None = None, version: int | None = None
    ) -> T: ...
    def document(
        self, name: str, type: Any = Any, *, at: int | None = None, version: int | None = None
    ) -> Any:
        """Return the value of a document: its latest visible version, or the given one."""
        return self._call(self._target.document(name, type, at=at, version=version))

    signal = _verb(RunHandle[Any].signal)
    event = _verb(RunHandle[Any].event)
    decide = _verb(RunHandle[Any].decide)
    approval_link = _verb(RunHandle[Any].approval_link)
    trigger = _verb(RunHandle[Any].trigger)
    cancel = _verb(RunHandle[Any].cancel)
    hold = _verb(RunHandle[Any].hold)
    release = _verb(RunHandle[Any].release)
    skip = _verb(RunHandle[Any].skip)
    change_delay = _verb(RunHandle[Any].change_delay)
    set_variable = _verb(RunHandle[Any].set_variable)
    discard = _verb(RunHandle[Any].discard)
    retry = _verb(RunHandle[Any].retry)
    compensate = _verb(RunHandle[Any].compensate)
    delete = _verb(RunHandle[Any].delete)

    def __reduce__(self) -> NoReturn:
        self._target.__reduce__()

    def __repr__(self) -> str:
        return repr(self._target)


class SyncKeys(_Mirror[Keys]):
    """API keys: the methods of Keys without `await`."""

    create = _verb(Keys.create)
    list = _verb(Keys.list)
    revoke = _verb(Keys.revoke)


class SyncAlerts(_Mirror[Alerts]):
    """Alerts: the methods of Alerts without `await`."""

    set = _verb(Alerts.set)
    list = _verb(Alerts.list)
    delete = _verb(Alerts.delete)


class SyncSecrets(_Mirror[Secrets]):
    """Secrets: the methods of Secrets without `await`."""

    set = _verb(Secrets.set)
    list = _verb(Secrets.list)
    delete = _verb(Secrets.delete)
    rotate = _verb(Secrets.rotate)


class SyncRecords(_Mirror[Records]):
    """Records: the methods of Records without `await`."""

    define = _verb(Records.define)
    collections = _verb(Records.collections)
    collection = _verb(Records.collection)
    drop = _verb(Records.drop)
    create = _verb(Records.create)
    get = _verb(Records.get)
    find = _verb(Records.find)
    update = _verb(Records.update)
    delete = _verb(Records.delete)
    restore = _verb(Records.restore)


class SyncSchedules(_Mirror[Schedules]):
    """Schedules: the methods of Schedules without `await`."""

    create = _verb(Schedules.create)
    list = _verb(Schedules.list)
    get = _verb(Schedules.get)
    update = _verb(Schedules.update)
    delete = _verb(Schedules.delete)
    pause = _verb(Schedules.pause)
    resume = _verb(Schedules.resume)
    backfill = _verb(Schedules.backfill)
    preview = _verb(Schedules.preview)

    def trigger(self, name: str, *, key: str = "", by: str = "") -> SyncRunHandle[Any]:
        """Start a run of the schedule now, even if it is paused. Its slot is the current time."""
        return SyncRunHandle(self._thread, self._call(self._target.trigger(name, key=key, by=by)))


class SyncWebhooks(_Mirror[Webhooks]):
    """Webhooks: the methods of Webhooks without `await`."""

    create = _verb(Webhooks.create)
    list = _verb(Webhooks.list)
    get = _verb(Webhooks.get)
    delete = _verb(Webhooks.delete)
    pause = _verb(Webhooks.pause)
    resume = _verb(Webhooks.resume)


class SyncEventTriggers(_Mirror[EventTriggers]):
    """Triggers: the methods of EventTriggers without `await`."""

    create = _verb(EventTriggers.create)
    list = _verb(EventTriggers.list)
    get = _verb(EventTriggers.get)
    delete = _verb(EventTriggers.delete)
    pause = _verb(EventTriggers.pause)
    resume = _verb(EventTriggers.resume)


class _StoreClient(Client):
    """A client that opens its store itself."""

    async def open(self) -> None:
        await self.store.open()
        self.notifier.connect(self.store)

    async def close(self) -> None:
        self.notifier.disconnect()
        await self.store.close()


class SyncClient(_Mirror[Client]):
    """`with SyncClient("app.db") as client: client.start(fulfil, order).result()`.

    The database may also be the address of a server (`https://...`), which `key` opens. `codec` is the codec
    that the workers use; an `engine` has its own, and its own workspace.
    """

    def __init__(
        self,
        database: str | PathLike[str] = "stepwell.db",
        *,
        engine: Client | None = None,
        codec: PayloadCodec | None = None,
        workspace: str = "",
        key: str = "",
    ) -> None:
        if engine is not None and codec is not None:
            raise SettingsInvalid("codec cannot be combined with engine", hint="pass the codec to the engine")
        if engine is not None and workspace:
            raise SettingsInvalid(
                "workspace cannot be combined with engine", hint="pass the workspace to the engine"
            )
        super().__init__(_LoopThread(), engine or _client(database, codec, workspace, key))

    def _handle(self, handle: RunHandle[R]) -> SyncRunHandle[R]:
        return SyncRunHandle(self._thread, handle)

    def __enter__(self) -> Self:
        refuse_in_workflow_code()
        self._thread.begin()
        try:
            self._call(self._target.open())  # type: ignore[attr-defined]  # every kind of client here has it
        except BaseException:
            self._thread.end()
            raise
        return self

    async def _close(self) -> None:
        await self._thread.close_feeds()
        await self._target.close()  # type: ignore[attr-defined]  # as above

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_foreign:
            return  # the process that opened the client closes it
        try:
            self._call(self._close())
        finally:
            self._thread.end()

    @overload
    def start(
        self, workflow: Startable[In, R], input: In = ..., **options: Unpack[StartOptions]
    ) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self, workflow: str, input: Any = ..., **options: Unpack[NamedStartOptions]
    ) -> SyncRunHandle[Any]: ...
    def start(self, workflow: Any, input: Any = NO_INPUT, **options: Any) -> SyncRunHandle[Any]:
        """Accept a run: when this returns, the run is on disk and will reach an end."""
        return self._handle(self._call(self._target.start(workflow, input, **options)))

    def start_many(
        self,
        workflow: Startable[In, R] | str,
        inputs: Iterable[In],
        *,
        keys: Sequence[str] | None = None,
        **options: Unpack[ManyOptions],
    ) -> list[SyncRunHandle[R]]:
        """Accept many runs of one workflow in few transactions. RateLimited means that none was started."""
        handles = self._call(self._target.start_many(workflow, inputs, keys=keys, **options))
        return [self._handle(handle) for handle in handles]

    def run(self, workflow: Startable[In, R], input: In = NO_INPUT, **options: Unpack[StartOptions]) -> R:
        """Start a run and wait for its result."""
        return self.start(workflow, input, **options).result()

    @overload
    def handle(self, run_id: str) -> SyncRunHandle[Any]: ...
    @overload
    def handle(self, run_id: str, workflow: Startable[Any, R]) -> SyncRunHandle[R]: ...
    def handle(self, run_id: str, workflow: Startable[Any, Any] | None = None) -> SyncRunHandle[Any]:
        """Return a handle for an existing run; if you pass the workflow, its result is typed."""

        async def make() -> RunHandle[Any]:
            return self._target.handle(run_id) if workflow is None else self._target.handle(run_id, workflow)

        return self._handle(self._call(make()))

    @overload
    def rerun(self, run: SyncRunHandle[R], **changes: Unpack[RerunOptions]) -> SyncRunHandle[R]: ...
    @overload
    def rerun(self, run: str, **changes: Unpack[RerunOptions]) -> SyncRunHandle[Any]: ...
    def rerun(self, run: SyncRunHandle[Any] | str, **changes: Unpack[RerunOptions]) -> SyncRunHandle[Any]:
        """Start a new run from the beginning, with the old input and version unless others are given."""
        return self._handle(self._call(self._target.rerun(_handle_of(run), **changes)))

    @overload
    def rerun_from(
        self, run: SyncRunHandle[R], step: str, **changes: Unpack[RerunFromOptions]
    ) -> SyncRunHandle[R]: ...
    @overload
    def rerun_from(self, run: str, step: str, **changes: Unpack[RerunFromOptions]) -> SyncRunHandle[Any]: ...
    def rerun_from(
        self, run: SyncRunHandle[Any] | str, step: str, **changes: Unpack[RerunFromOptions]
    ) -> SyncRunHandle[Any]:
        """Start a new run that keeps all results from before a step, and repeats that step and the rest.

        `step` is a path, or the name of a step that the run called once.
        """
        return self._handle(self._call(self._target.rerun_from(_handle_of(run), step, **changes)))

    @overload
    def fork(self, run: SyncRunHandle[R], *, at: int, **edits: Unpack[ForkOptions]) -> SyncRunHandle[R]: ...
    @overload
    def fork(self, run: str, *, at: int, **edits: Unpack[ForkOptions]) -> SyncRunHandle[Any]: ...
    def fork(
        self, run: SyncRunHandle[Any] | str, *, at: int, **edits: Unpack[ForkOptions]
    ) -> SyncRunHandle[Any]:
        """Start a new run that begins as the old one was at event `at`, apart from the edits."""
        return self._handle(self._call(self._target.fork(_handle_of(run), at=at, **edits)))

    @property
    def keys(self) -> SyncKeys:
        """API keys of this workspace: who may call a server of this database, and what for."""
        return SyncKeys(self._thread, self._target.keys)

    @property
    def alerts(self) -> SyncAlerts:
        """Problems that the workers watch for and report through a channel."""
        return SyncAlerts(self._thread, self._target.alerts)

    @property
    def secrets(self) -> SyncSecrets:
        """Values that nodes and steps of this workspace use by name; they can be set, never read."""
        return SyncSecrets(self._thread, self._target.secrets)

    @property
    def records(self) -> SyncRecords:
        """Typed values of this workspace, in collections, in the database of its runs."""
        return SyncRecords(self._thread, self._target.records)

    @property
    def schedules(self) -> SyncSchedules:
        """Schedules of this workspace: which workflows start by time."""
        return SyncSchedules(self._thread, self._target.schedules)

    @property
    def webhooks(self) -> SyncWebhooks:
        """Webhooks of this workspace: addresses at which other services start workflows."""
        return SyncWebhooks(self._thread, self._target.webhooks)

    @property
    def triggers(self) -> SyncEventTriggers:
        """Triggers of this workspace: which workflows start when something happens."""
        return SyncEventTriggers(self._thread, self._target.triggers)

    def export(self, run: SyncRunHandle[Any] | str, *, children: bool = True) -> bytes:
        """Write the run, and with `children` all runs below it, as one JSON file."""
        return self._call(self._target.export(_handle_of(run), children=children))

    def import_run(self, file: bytes | str, *, by: str = "") -> SyncRunHandle[Any]:
        """Restore exported runs under their own ids; those that had not ended continue."""
        return self._handle(self._call(self._target.import_run(file, by=by)))

    def find(self, key: str) -> SyncRunHandle[Any] | None:
        """Return the run that was started with this idempotency key, if there is one."""
        handle = self._call(self._target.find(key))
        return None if handle is None else self._handle(handle)

    runs = _verb(Client.runs)
    counts = _verb(Client.counts)
    histogram = _verb(Client.histogram)
    waits = _verb(Client.waits)
    approvals = _verb(Client.approvals)
    decided_approvals = _verb(Client.decided_approvals)
    set_limit = _verb(Client.set_limit)
    drop_limit = _verb(Client.drop_limit)
    limits = _verb(Client.limits)
    set_start_rate = _verb(Client.set_start_rate)
    drop_start_rate = _verb(Client.drop_start_rate)
    start_rates = _verb(Client.start_rates)
    workers = _verb(Client.workers)
    queues = _verb(Client.queues)
    emit = _verb(Client.emit)
    workflows = _verb(Client.workflows)
    versions = _verb(Client.versions)
    definition = _verb(Client.definition)
    audit = _verb(Client.audit)
    hold = _verb(Client.hold)
    release = _verb(Client.release)
    holds = _verb(Client.holds)
    drain = _verb(Client.drain)
    disable = _verb(Client.disable)
    enable = _verb(Client.enable)


def _client(database: str | PathLike[str], codec: PayloadCodec | None, workspace: str, key: str) -> Client:
    if isinstance(database, str) and database.startswith(("http://", "https://")):
        if codec is not None or workspace:
            raise SettingsInvalid(
                "a server has its own codec, and the key names the workspace",
                hint="leave codec and workspace out",
            )
        from stepwell.http_client.client import HttpClient

        return HttpClient(database, key=key)
    if key:
        raise SettingsInvalid("a key opens a server, not a database", hint="leave key out")
    store = open_store(database)
    store = store if codec is None else encoded(store, codec)
    return _StoreClient(store, SystemIds(), workspace=workspace)


async def _cancel_tasks() -> None:
    """End the tasks that Ctrl-C left before their loop ends."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_LEAVING_SECONDS)


def _handle_of(run: SyncRunHandle[Any] | str) -> Any:
    return run if isinstance(run, str) else run._target
