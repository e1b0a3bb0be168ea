"""RunHandle: one run, seen from outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing, nullcontext, suppress
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar, overload

import msgspec
from msgspec import Raw

from stepwell.client import approval_links, decisions, message_ids, operations, removal, variables
from stepwell.client.diagnosis import warn_if_unserved, why
from stepwell.client.keys import NewCredential
from stepwell.client.open_waits import first_open_wait
from stepwell.client.run_event import RunEvent, readable
from stepwell.client.run_trace import graph_of, log_state, read_trace, state_of
from stepwell.client.step_logs import StepLogLine, read_lines
from stepwell.client.store_access import StoreAccess
from stepwell.domain.codec import codec_for, encoded_by_type, limited
from stepwell.domain.commit import (
    CancelOutcome,
    Delivery,
    LogRow,
    Message,
    NewEvent,
    RetryOutcome,
    RunRow,
)
from stepwell.domain.documents import Document, Documents
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.events import (
    KIND,
    Accepted,
    Cancelled,
    Continued,
    Event,
    Problem,
    StepCompleted,
    read,
    read_as,
)
from stepwell.domain.fork.prefix import checkpoints
from stepwell.domain.ids import RunId
from stepwell.domain.new_run import needs_of_run
from stepwell.domain.problems import run_error
from stepwell.domain.state import Checkpoint, OpenWait, RunOverview, RunState, overview_of
from stepwell.domain.status import RETRYABLE, Status
from stepwell.domain.step_log import LINES_PAGE
from stepwell.domain.text import checked_text, clean
from stepwell.domain.trace import TraceEntry
from stepwell.domain.whole_numbers import whole_number
from stepwell.domain.why import Reason
from stepwell.errors import (
    AlreadyDecided,
    DocumentNotFound,
    InvalidInput,
    NotCompensable,
    NotEndedYet,
    NotRetryable,
    NotSkippable,
    NotWaitingYet,
    RunEnded,
    RunNotFound,
    SignalLimit,
    StoreError,
    excerpt,
    shortened,
)
from stepwell.store.wakeups import Ended

R = TypeVar("R")
T = TypeVar("T")

_log = logging.getLogger("stepwell.client")
_PAGE = 1000
# A run started here is watched from before its start, so its end is notified without a read. Polling
# after 50 ms cost one more read for nearly every run of fifty at once.
_FRESH_SECONDS = 1.0
_LOOK_SECONDS = 5.0  # in case the notification of an end is lost
_FRESH_POLL_SECONDS = 0.05  # on stores without wake-ups


class RunHandle(Generic[R]):
    """One run, seen from outside. `at` is a seq of its log: the run as it was after that event."""

    def __init__(
        self,
        client: StoreAccess,
        run_id: RunId,
        decode: Callable[[bytes], R],
        *,
        fresh: bool = False,
        ours: bool = False,
    ) -> None:
        self._client = client
        self._decode = decode
        self._fresh = fresh
        self._ours = ours  # it is known to be in the client's workspace
        self._watch = client.notifier.watch(run_id)
        self.id = run_id

    # The end of the run

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait for the end and return the result; raises RunFailed, RunCancelled or RunTimedOut.

        Raises NotEndedYet (a TimeoutError) after `timeout`; the run continues. Raises WorkerBroken if the
        worker of this process died of a fault; the run continues with the next worker.
        """
        if timeout is None:
            ended = await self._end()
        else:
            ended = await self._end_within(seconds(timeout, name="timeout of result"))
        if ended.status is Status.COMPLETED:
            return self._decode(ended.output or b"null")
        problem = msgspec.json.decode(ended.error, type=Problem) if ended.error else None
        raise run_error(ended.status, problem, self.id, await self._reason(ended.status))

    async def _reason(self, status: Status) -> str:
        """Return why the run was cancelled; only the last event of its log says so."""
        if status is Status.CANCELLED:
            with suppress(StoreError):  # the reason is not worth an error
                for row in await self._client.store.read_log_end(
                    self.id
                ):  # empty if the run was deleted meanwhile
                    fact = read(row).fact
                    return fact.reason if isinstance(fact, Cancelled) else ""
        return ""

    def __await__(self) -> Any:
        return self.result().__await__()

    async def _end_within(self, limit: float) -> Ended:
        try:
            async with asyncio.timeout(limit) as clock:
                return await self._end()
        except TimeoutError:
            if not clock.expired():
                raise
            raise NotEndedYet(f"run {self.id} has not ended after {limit:g} s") from None

    async def _end(self) -> Ended:
        await self._check()
        pause, looks = (1.0 if self._client.store.polls else _LOOK_SECONDS), 0
        if self._fresh:
            self._fresh = False
            if self._watch.ended is None:
                await self._watch.wait(_FRESH_POLL_SECONDS if self._client.store.polls else _FRESH_SECONDS, 0)
        if self._watch.ended is not None and self._watch.ended.status in RETRYABLE:
            self._watch.ended = None  # it may have been retried since, so read it
        while self._watch.ended is None:
            seen = self._watch.news
            run = await self.info()
            if run.status.terminal:
                return Ended(run.status, run.output, run.error)
            self._client.notifier.check()
            looks += 1
            if looks == 2 and run.status is Status.PENDING:
                await warn_if_unserved(self)
            await self._watch.wait(pause, seen)
        return self._watch.ended

    # What the run is

    async def info(self) -> RunRow:
        run = await self._client.store.read_run(self.id)
        if run is None or run.workspace != self._client.workspace:
            raise RunNotFound(f"there is no run {self.id}")
        self._ours = True
        return run

    async def _check(self) -> None:
        """Refuse a run of another workspace; a run stays in its workspace, so one look is enough."""
        if not self._ours:
            await self.info()

    async def overview(self) -> RunOverview:
        """Return its number, what and who started it, and how much time and how many steps it took so far."""
        row, now = await self.info(), await self._client.store.now()
        return overview_of(row, await log_state(self), now)

    async def status(self) -> Status:
        return (await self.info()).status

    async def waits(self) -> list[OpenWait]:
        """List the open waits of the run."""
        return [wait for wait in (await log_state(self)).waits.values() if not wait.is_part_of_node]

    async def why(self) -> Reason:
        """Explain exactly why the run does not move."""
        return await why(self)

    async def log(self) -> AsyncIterator[LogRow]:
        """Read the log as it is stored."""
        await self._check()
        after = 0
        while page := await self._client.store.read_log(self.id, after=after, limit=_PAGE):
            for row in page:
                yield row
            after = page[-1].seq
        if after == 0:
            raise RunNotFound(f"there is no run {self.id}")

    async def events(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[RunEvent]:
        """Read the events after seq `after`; with `follow`, also new ones until the run ends."""
        hint = "give the seq of the last event you have read"
        whole_number(after, "after", 0, 2**53, hint, wrong=InvalidInput)
        async with aclosing(self._pages(after, follow=follow)) as pages:
            async for page in pages:
                for row in page:
                    for event in readable(row, self.id):
                        yield event

    async def logs(
        self, path: str = "", *, attempt: int = 0, after: int = 0, limit: int = LINES_PAGE
    ) -> Sequence[StepLogLine]:
        """Read what steps logged and printed: all steps, the one at `path`, or one attempt of it.

        Returns at most `limit` lines after line `after`, oldest first.
        """
        await self._check()
        lines = await read_lines(self._client.store, self.id, path, attempt=attempt, after=after, limit=limit)
        if not lines:
            await self.info()  # the run may have been deleted
        return lines

    async def follow_logs(
        self, path: str = "", *, attempt: int = 0, after: int = 0
    ) -> AsyncIterator[StepLogLine]:
        """Read the same lines, and new ones as they are written, until the run ends."""
        with self._client.notifier.following(self.id):
            while True:
                seen = self._watch.news
                ended = (await self.info()).status.terminal
                page = await self.logs(path, attempt=attempt, after=after)
                for line in page:
                    yield line
                after = page[-1].n if page else after
                if len(page) < LINES_PAGE:
                    if ended:
                        return
                    self._client.notifier.check()
                    await self._watch.wait(self._client.notifier.look_in(), seen)

    async def _pages(self, after: int, *, follow: bool) -> AsyncGenerator[Sequence[LogRow], None]:
        """Read the log in pages; a short page, even an empty one, means that nothing more is written yet."""
        await self._check()
        with self._client.notifier.following(self.id) if follow else nullcontext():
            while True:
                seen = self._watch.news
                ended = follow and (await self.info()).status.terminal
                page = await self._client.store.read_log(self.id, after=after, limit=_PAGE)
                after = page[-1].seq if page else after
                yield page
                if after == 0:  # every run has a first event
                    await self.info()
                if len(page) < _PAGE:
                    if ended or not follow:
                        return
                    self._client.notifier.check()
                    await self._watch.wait(self._client.notifier.look_in(), seen)

    async def waiting_for(self, name: str, timeout: Duration | None = None) -> OpenWait:
        """Wait until the run waits there, and return that wait; at once if it does so already.

        `name` is that of a signal, event, approval, trigger or child workflow, a place of a machine, a
        node of a graph, or the path of the wait. A wait whose answer is on its way does not count.

        Raises NotWaitingYet (a TimeoutError) after `timeout`, and RunEnded if the run ends before.
        """
        limit = None if timeout is None else seconds(timeout, name="timeout of waiting_for")
        given: object = name  # callers without a type checker pass anything
        if not given or not isinstance(given, str):
            raise InvalidInput(f"the name is {excerpt(name)}", hint="give the name or path of a wait")
        try:
            async with asyncio.timeout(limit) as clock:
                wait = await self._first_open_wait(name)
        except TimeoutError:
            if not clock.expired():
                raise
            reason, waits = await self.why(), await self.waits()
            raise NotWaitingYet(
                f"run {self.id} does not wait for {excerpt(name)} after {limit:g} s: {reason.text}",
                waits=", ".join(wait.name or wait.path for wait in waits) or "none",
            ) from None
        if wait is None:
            reason = await self.why()
            raise RunEnded(f"run {self.id} ended before it waited for {excerpt(name)}: {reason.text}")
        return wait

    async def _first_open_wait(self, name: str) -> OpenWait | None:
        unserved, pages = partial(warn_if_unserved, self), self._pages(0, follow=True)
        return await first_open_wait(self._client.store, self.id, name, pages, unserved)

    # The past of the run

    async def state(self, at: int | None = None) -> RunState:
        """Return the state of the run, folded from its log, now or after any event.

        For a graph it includes the variables.
        """
        return await state_of(self.id, await self._events(at), self._graph)

    async def trace(self, *, after: int = 0, limit: int = 1000, values: bool = True) -> list[TraceEntry]:
        """List what the run did: up to `limit` entries after the one of order `after`.

        With `values=False`, entries come without what they read and wrote.
        """
        return await read_trace(self.id, self.log(), self._graph, after, limit, values=values)

    async def _graph(self, accepted: Accepted) -> bytes:
        return await graph_of(self._client, accepted)

    async def checkpoints(self) -> list[Checkpoint]:
        """List the checkpoints after steps and transitions: number, place, seq, state, visible documents."""
        return checkpoints(await self._events())

    async def documents(self, at: int | None = None) -> list[Document]:
        """List the latest version of each visible document."""
        return sorted((await self._documents(at)).latest.values(), key=lambda document: document.name)

    @overload
    async def document(self, name: str, *, at: int | None = None, version: int | None = None) -> Any: ...
    @overload
    async def document(
        self, name: str, type: type[T], *, at: int | None = None, version: int | None = None
    ) -> T: ...
    async def document(
        self, name: str, type: Any = Any, *, at: int | None = None, version: int | None = None
    ) -> Any:
        """Return the value of a document: its latest visible version, or the given one."""
        documents = await self._documents(at)
        matches = [d for d in documents.versions if d.name == name and version in (None, d.version)]
        if not matches:
            recent = ", ".join(d.id for d in documents.versions[-10:]) or "none"
            title: object = name  # callers without a type checker pass anything
            text = shortened(title) if isinstance(title, str) else excerpt(title)
            text += "" if version is None else f" version {excerpt(version)}"
            raise DocumentNotFound(f"run {self.id} has no document {text}", documents=recent)
        latest = matches[-1]
        try:
            return codec_for(type).decode(latest.value)
        except InvalidInput as error:
            raise InvalidInput(
                f"document {latest.id} of run {self.id} is not of type {getattr(type, '__name__', type)}: "
                f"{error.message}",
                hint=f"it was saved as {latest.type}; leave the type out to get its JSON",
                **error.context,
            ) from None

    async def _events(self, at: int | None = None) -> list[Event]:
        valid = at is None or (type(at) is int and at >= 1)
        events: list[Event] = []
        if valid:
            async with aclosing(self._pages(0, follow=False)) as pages:
                async for page in pages:
                    events += [read(row, self.id) for row in page if at is None or row.seq <= at]
                    if at is not None and page and page[-1].seq >= at:
                        break  # the rest of a long log is not needed
        if not valid or (at is not None and at > len(events)):
            raise InvalidInput(
                f"run {self.id} has no event {excerpt(at)}", hint="give a seq of its log, 1 or more"
            )
        return events

    async def _documents(self, at: int | None) -> Documents:
        documents = Documents()
        for event in await self._events(at):
            documents.take(event)
        return documents

    # Messages to the run

    async def signal(self, name: str, payload: Any = None, *, id: str = "", by: str = "") -> None:
        """Send a signal. The run takes it when it waits for one.

        The same `id` counts once. MessageConflict: it was used for another name or payload.
        """
        checked_text(name, "name")
        await self._check()
        data = limited(encoded_by_type(payload), f"signal {excerpt(name)}", self._client.payload_bytes_max)
        message = Message(
            run_id=self.id,
            key=f"signal/{checked_text(id, 'id') or self._client.token()}",
            kind="signal",
            name=name,
            payload=data,
            by=checked_text(by, "by"),
        )
        outcome = await self._client.deliver(message)
        self._delivered(outcome, f"signal {excerpt(name)}")
        await message_ids.check_same(self._client, message, outcome, id)

    async def event(
        self, name: str, payload: Any = None, *, key: str = "", id: str = "", by: str = ""
    ) -> bool:
        """Send an event to this run only. The first matching wait takes it, even one opened later.

        `key` is the event key. The same `id` counts once: False means that it was received before,
        MessageConflict that it was used for another event.
        """
        body = {"key": checked_text(key, "key"), "data": Raw(encoded_by_type(payload))}
        checked_text(name, "name")
        await self._check()
        data = limited(msgspec.json.encode(body), f"event {excerpt(name)}", self._client.payload_bytes_max)
        message = Message(
            run_id=self.id,
            key=f"signal/{checked_text(id, 'id') or self._client.token()}",
            kind="signal",
            name=f"event:{name}",
            payload=data,
            by=checked_text(by, "by"),
        )
        repeated = bool(id) and await self._received(message.key)
        outcome = await self._client.deliver(message)
        self._delivered(outcome, f"event {excerpt(name)}")
        await message_ids.check_same(self._client, message, outcome, id)
        return outcome is Delivery.DELIVERED and not repeated

    async def _received(self, key: str) -> bool:
        return await message_ids.was_received(self._client, self.id, key)

    async def decide(
        self,
        answer: Any,
        *,
        path: str = "",
        by: str = "",
        roles: Collection[str] = (),
        reason: str = "",
        id: str = "",
    ) -> None:
        """Answer the only open approval, or the one at `path`. AlreadyDecided if it is closed.

        NotAssigned: it has assignees, and neither `by` nor one of the `roles` (assignee `role:name`) is
        among them. StarterBarred: `by` started the run and may not decide it. If several people must
        approve, each counts once, and one who denies is enough. The same `id` counts once, so a call with
        an id is safe to repeat.
        """
        await decisions.decide(self, answer, path=path, by=by, roles=roles, reason=reason, id=id)

    async def approval_link(
        self,
        assignee: str,
        *,
        path: str = "",
        roles: Collection[str] = (),
        expires: Duration = approval_links.LASTING,
        by: str = "",
    ) -> NewCredential:
        """Create a link with which one person decides the only open approval, or the one at `path`.

        It needs no key, is used once and expires. Its `text` is returned here and never again; a server
        takes it as a bearer token at `/api/v1/approval`.
        """
        wait = await decisions.open_approval_for(self, path, approval_links.checked_assignee(assignee), roles)
        seq = await approval_links.opened_at(self.log(), wait.path)
        new = partial(approval_links.create, self._client, self.id, wait, assignee, opened_at=seq)
        return await new(roles=roles, expires=expires, by=by)

    async def reassign(
        self, assignees: Sequence[str], *, path: str = "", by: str = "", reason: str = ""
    ) -> None:
        """Let others decide the only open approval, or the one at `path`. Approvals so far still count."""
        await decisions.reassign(self, assignees, path=path, by=by, reason=reason)

    async def remind(self, *, path: str = "", by: str = "", reason: str = "") -> OpenWait:
        """Record a reminder of an open approval, and return the approval with its assignees.

        If the workers have a channel for approvals, the assignees get a message. Programs that notify
        people in other ways can follow the events of runs, where the reminder appears.
        """
        return await decisions.remind(self, path=path, by=by, reason=reason)

    async def trigger(
        self, transition: str, payload: Any = None, *, by: str = "", reason: str = "", id: str = ""
    ) -> None:
        """Take a transition that a machine waits for.

        WrongPlace: the transition does not leave the place of the machine. AlreadyDecided: somebody was
        faster. (A `signal` with that name waits until the transition fits.) The same `id` counts once.
        """
        await decisions.trigger(self, transition, payload, by=by, reason=reason, id=id)

    def _delivered(self, outcome: Delivery, what: str) -> None:
        match outcome:
            case Delivery.ENDED:
                raise RunEnded(f"run {self.id} has ended; {what} can no longer reach it")
            case Delivery.UNKNOWN:
                raise RunNotFound(f"there is no run {self.id}")
            case Delivery.DECIDED:
                raise AlreadyDecided(f"{what} came too late: it was answered")
            case Delivery.FULL:
                raise SignalLimit(
                    f"run {self.id} has 10,000 signals waiting",
                    hint="let the run take some of them, or send fewer",
                )
            case _:
                pass

    async def cancel(self, reason: str = "", *, by: str = "", force: bool = False) -> bool:
        """Ask the run to clean up and end. False if it had ended or was already asked.

        With `force` it ends at once and none of its code runs again, not even its cleanup. Use that when
        the cleanup hangs. A running step is stopped and its result is dropped. Children are cancelled.
        """
        if not isinstance(reason, str):
            raise InvalidInput(f"the reason is {excerpt(reason)}", hint="give text", field="reason")
        reason = clean(reason)
        checked_text(by, "by")
        await self._check()
        if force:
            return await operations.force_end(self._client, self.id, by=by, reason=reason)
        store = self._client.store
        outcome = await self._client.call_idempotent(lambda: store.cancel(self.id, reason, by=by))
        if outcome is CancelOutcome.UNKNOWN:
            raise RunNotFound(f"there is no run {self.id}")
        if outcome is CancelOutcome.ENDED:
            self._client.notifier.notify_end(self.id, Ended(Status.CANCELLED, None, None))
        self._client.notifier.notify_work(self.id)
        return outcome is not CancelOutcome.ALREADY

    async def hold(self, *, by: str = "", reason: str = "") -> bool:
        """Stop the run until `release`: it begins nothing new. False if it was held.

        A running step ends and is recorded. Messages are kept, and timers that become due fire when the run
        is released. Cancelling releases it.
        """
        await self._check()
        return await operations.hold(self._client, self.id, held=True, by=by, reason=reason)

    async def release(self, *, by: str = "", reason: str = "") -> bool:
        """Let a held run continue. False if it was not held."""
        await self._check()
        return await operations.hold(self._client, self.id, held=False, by=by, reason=reason)

    async def retry(self, *, by: str = "", reason: str = "") -> None:
        """Retry a failed or timed-out run exactly where it stopped; its timeout begins anew."""
        match await self._resume(undo=False, by=by, reason=reason):
            case RetryOutcome.COMPENSATED:
                raise NotRetryable(
                    f"run {self.id} has been compensated", hint="rerun it, or fork it before it failed"
                )
            case RetryOutcome.NOT_FAILED:
                raise NotRetryable(
                    f"run {self.id} is {await self.status()}",
                    hint="only a run that failed or timed out can be retried",
                )
            case _:
                pass

    async def change_delay(self, to: Duration, *, path: str = "", by: str = "", reason: str = "") -> None:
        """Make the timer of a sleeping run fire `to` from now: sooner, later or, with 0, at once.

        `path` selects among several timers. NotSleeping: there is no such timer, or it has fired.
        """
        await self._check()
        change = partial(operations.change_delay, self._client, self.id, await self.waits(), to)
        self._delivered(await change(path=path, by=by, reason=reason), "the change")

    async def set_variable(
        self, name: str, value: Any, *, id: str = "", by: str = "", reason: str = ""
    ) -> None:
        """Set a variable of a graph run that waits or is held.

        The run takes the value in at once, or when it is released. Whatever it decides from then on sees
        the value as `ctx.name`, in every branch. The same `id` counts once. NotSettable: the run is not a
        graph, is working, or has no such variable.
        """
        asked = variables.message(self._client, self.id, name, value, id=id, by=by, reason=reason)
        row, log = await self.info(), await self._events()
        if variables.was_set(log, asked.key):
            return
        variables.check_waits(row, log)
        await variables.check_known(self.id, name, log, self._graph)
        self._delivered(await self._client.deliver(asked), f"the value of {name}")

    async def discard(self, *, by: str = "", reason: str = "") -> None:
        """Stop a test run and delete it with all runs below it, without its cleanup. Refuses other runs."""
        await removal.end_test_run(self._client, self.info, by=by, reason=reason)
        await self.delete(by=by, reason=reason)

    async def skip(self, output: Any = None, *, path: str = "", by: str = "", reason: str = "") -> None:
        """Continue a failed run as if its failed step had returned `output`. Its timeout starts anew.

        `path` names the step, so that no other step is skipped by mistake. NotSkippable: the run did not
        fail in a step, but in its own code, a child or a timeout.
        """
        await self._check()
        data = limited(encoded_by_type(output), "the output", self._client.payload_bytes_max)
        events = await self._events()
        skipped = operations.skipped_step(self.id, events, checked_text(path, "path"), data)
        head = events[-1].seq  # somebody else may continue the run meanwhile, and it may fail elsewhere
        match await self._resume(undo=False, skipped=skipped, head=head, by=by, reason=reason):
            case RetryOutcome.RETRIED:
                pass
            case _:
                raise NotSkippable(f"run {self.id} is {await self.status()}: somebody else continued it")

    async def compensate(self, *, by: str = "", reason: str = "") -> None:
        """Undo the completed steps of a run that failed with `on_failure="hold"`; its end is then final."""
        if not await self._undoable():
            raise NotCompensable(
                f"run {self.id} has nothing to undo", hint="none of its completed steps has a compensate="
            )
        match await self._resume(undo=True, by=by, reason=reason):
            case RetryOutcome.COMPENSATED:
                raise NotCompensable(
                    f"run {self.id} has already been compensated",
                    hint="rerun it, or fork it before it failed",
                )
            case RetryOutcome.NOT_FAILED:
                raise NotCompensable(
                    f"run {self.id} is {await self.status()}",
                    hint="only a failed or timed-out run can be compensated; cancel a live one",
                )
            case _:
                pass

    async def _undoable(self) -> bool:
        undoable = False
        async for row in self.log():
            if row.kind == KIND[StepCompleted]:
                undoable = undoable or read_as(StepCompleted, row, self.id).undo is not None
            elif row.kind == KIND[Continued]:
                undoable = False  # a new generation cannot undo steps of an earlier one
        return undoable

    async def _resume(
        self,
        *,
        undo: bool,
        skipped: NewEvent | None = None,
        head: int | None = None,
        by: str,
        reason: str,
    ) -> RetryOutcome:
        needs, reason = "", clean(reason)
        checked_text(by, "by")
        async for row in self.log():
            needs = needs_of_run(read_as(Accepted, row, self.id))
            break
        failed_at, sent = (await self.info()).ended_at, False

        async def send() -> RetryOutcome:
            nonlocal sent
            if sent and (await self.info()).ended_at != failed_at:
                return RetryOutcome.RETRIED  # by an earlier call of ours; it may have failed again since
            sent = True
            return await self._client.store.retry(
                self.id, needs=needs, undo=undo, skipped=skipped, head=head, by=by, reason=reason
            )

        outcome, repeated = await self._client.retry_call(send)
        if repeated and outcome is RetryOutcome.NOT_FAILED:
            outcome = RetryOutcome.RETRIED  # by an earlier call of ours whose answer was lost
        if outcome is RetryOutcome.UNKNOWN:
            raise RunNotFound(f"there is no run {self.id}")
        if outcome is RetryOutcome.RETRIED:
            self._watch.ended = None
            self._client.notifier.notify_work(self.id)
        return outcome

    async def delete(self, *, by: str = "", reason: str = "") -> None:
        """Delete this run and all runs below it for good; NotRemovable while any of them is live.

        Nothing of them is kept: who deleted them and why goes to the Python log `stepwell.client`.
        """
        self._watch.ended = None  # an import may restore the run, and then it continues
        await self._check()
        await removal.delete(self._client, self.id, self.info, by=by, reason=reason)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run handle belongs to its client: pass run.id, and call client.handle(id) there")

    def __repr__(self) -> str:
        return f"<run {self.id}>"
