"""RunContext: the verbs that workflow code has (the other side of `domain.program.Context`)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.approvals import REQUIRED_MAX
from stepwell.domain.codec import codec_for, encoded_by_type, limited
from stepwell.domain.compensation import undo_data
from stepwell.domain.control_flow import Continue
from stepwell.domain.documents import DIRECT
from stepwell.domain.duration import Duration, seconds, timeout_seconds
from stepwell.domain.events import Progress
from stepwell.domain.ids import RunId, recorded_random
from stepwell.domain.new_run import NO_INPUT, input_or_default, startable
from stepwell.domain.program import Program, Startable
from stepwell.domain.steps import StepSpec, checked_name, spec_of
from stepwell.domain.text import checked_text, clean
from stepwell.domain.triggers.run_webhook import DELIVERY, run_webhook, token_of
from stepwell.domain.whole_numbers import whole_number
from stepwell.engine.run import documents
from stepwell.engine.run.arguments import short_digest, strict_digest
from stepwell.engine.run.calls import ChildCall, StepCall, TimerCall, WaitCall
from stepwell.engine.run.children import Child, new_child
from stepwell.engine.run.port import Call, RunPort, check_open, unreached
from stepwell.engine.run.values import record_value, recorded_value, time_at
from stepwell.engine.run.workflow_loop import RunCancelling
from stepwell.errors import InvalidDefinition, InvalidInput, excerpt


def title_of(title: object) -> str:
    if not isinstance(title, str):
        raise InvalidInput(f"title of ctx.approval is {excerpt(title)}", hint="give text", field="title")
    return clean(title)


def assignees_of(assignees: object) -> tuple[str, ...]:
    if isinstance(assignees, str) or not isinstance(assignees, Iterable):
        raise InvalidInput(
            f"assignees of ctx.approval is {excerpt(assignees)}",
            hint='give a list of names: assignees=["ana", "role:finance"]',
            field="assignees",
        )
    return tuple(checked_text(name, "assignee") for name in assignees)


def progress_of(done: object, total: object, text: object) -> Progress:
    if not isinstance(text, str):
        raise InvalidInput(f"text of ctx.progress is {excerpt(text)}", hint="give text", field="text")
    return Progress(
        done=_number(done, "done"),
        total=None if total is None else _number(total, "total"),
        text=clean(text),
    )


def _number(value: object, field: str) -> float:
    """JSON has no NaN and no infinity, and anything but a number could not be read back."""
    if isinstance(value, int | float):
        try:
            if math.isfinite(value):
                return value
        except OverflowError:  # an int that no float can hold
            pass
    raise InvalidInput(
        f"{field} of ctx.progress is not a number that can be kept",
        hint="give finite numbers: ctx.progress(47, 312)",
        field=field,
        type=type(value).__name__,
    )


def no_trigger(trigger: str) -> InvalidDefinition:
    return InvalidDefinition(
        f"ctx.start(trigger={excerpt(trigger)})",
        hint="only a machine's own, not detached children trigger its transitions",
    )


class RunSteps:
    """`ctx.step(fn, *args)`; `.on(queue=...)` sends it to the workers of a queue."""

    __slots__ = ("_context", "_queue")

    def __init__(self, context: RunContext, queue: str = "") -> None:
        self._context = context
        self._queue = queue

    def __call__(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        return self._context._call_step(spec_of(function), args, kwargs, self._queue)

    def on(self, *, queue: str) -> RunSteps:
        return RunSteps(self._context, checked_name(queue))


class RunContext:
    _digests_all = True  # steps of the main task record a short digest of their arguments

    def __init__(self, run: RunPort, program: Program) -> None:
        self._run = run
        self._loop = run.loop
        self._program = program

    @property
    def step(self) -> RunSteps:
        return RunSteps(self)  # kept, it would hold the whole run until the garbage collector comes

    @property
    def run_id(self) -> RunId:
        return self._run.run_id

    @property
    def key(self) -> str:
        return self._run.journal.accepted.key or self._run.run_id

    @property
    def attempt(self) -> int:
        return self._run.journal.claims + 1

    # Steps

    async def _call_step(
        self, spec: StepSpec, args: tuple[Any, ...], kwargs: dict[str, Any], queue: str
    ) -> Any:
        scope = self._loop.scope()
        # Within one task the name and the order identify a step; between tasks its arguments help.
        concurrent = scope is not self._loop.root and "~" in scope.path
        call = self._step_call(scope.name(spec.name), spec, args, kwargs, queue, concurrent=concurrent)
        try:
            answer = await self._run.ask(call)
        except asyncio.CancelledError:
            raise self._left(call) from None
        return spec.returns.decode(answer)

    def _step_call(
        self,
        path: str,
        spec: StepSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        queue: str,
        *,
        concurrent: bool,
    ) -> StepCall:
        queue = queue or spec.queue
        if queue and spec.transactional:
            raise InvalidDefinition(f"{spec.name} is transactional and cannot run on queue {excerpt(queue)}")
        if concurrent or self._run.calls.strict:
            mark = strict_digest(args, kwargs)
        else:
            mark = short_digest(args, kwargs) if self._digests_all else ""
        future: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        call = StepCall(path, future, spec=spec, args=args, kwargs=kwargs, queue=queue, digest=mark)
        if spec.compensate is not None:
            call.undo = undo_data(spec, args, kwargs, self._run.services.payload_bytes_max)
        return call

    async def _answer(self, call: Call) -> Any:
        future = self._run.ask(call)
        try:
            return await future
        except asyncio.CancelledError:
            raise self._left(call) from None

    def _left(self, call: Call | None) -> BaseException:
        """The error for code that was cancelled while it waited. None: others still want the answer."""
        if call is not None:
            self._run.withdraw(call)
        return RunCancelling() if self._run.cancelling else asyncio.CancelledError()

    async def map(self, function: Callable[..., Any], items: Iterable[Any], *, limit: int = 50) -> list[Any]:
        whole_number(limit, "limit of ctx.map", 1, 10**9, "give 1 or more", wrong=InvalidInput)
        return await _Map(self, spec_of(function), list(items), limit).run()

    async def all(self, *awaitables: Awaitable[Any]) -> list[Any]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_awaited(a)) for a in awaitables]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def first(self, *awaitables: Awaitable[Any]) -> Any:
        if not awaitables:
            raise InvalidDefinition("ctx.first() needs at least one awaitable")
        scope = self._loop.scope()
        path = scope.name("first")
        tasks = [self._loop.start(_awaited(a), scope.child()) for a in awaitables]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        winner = next(i for i, task in enumerate(tasks) if task in done)
        await asyncio.gather(*tasks, return_exceptions=True)
        if path not in self._run.journal.values:
            record_value(self._run, path, "winner", winner)
        return tasks[winner].result()

    # Waits

    async def sleep(self, duration: Duration) -> None:
        length = seconds(duration, name="ctx.sleep")
        path = self._loop.scope().name("sleep")
        await self._answer(TimerCall(path, self._loop.create_future(), seconds=length))

    async def signal(self, name: str, type: Any = Any, *, timeout: Duration | None = None) -> Any:
        path = self._loop.scope().name(f"signal:{checked_name(name)}")
        return await self._wait(path, "signal", name, type, timeout)

    async def event(
        self, name: str, type: Any = Any, *, key: str = "", timeout: Duration | None = None
    ) -> Any:
        path = self._loop.scope().name(f"event:{checked_name(name)}")
        return await self._wait(path, "event", name, type, timeout, key=checked_text(key, "key of ctx.event"))

    def webhook(self, name: str = "webhook", *, secret: str = "", scheme: str = "") -> str:
        path = self._loop.scope().name(f"webhook:{checked_name(name)}")
        made = recorded_value(self._run, path)
        if made is None:  # kept, so that a fork passes the same address to its steps
            accepted = self._run.journal.accepted
            where = (accepted.workspace, self._run.run_id, accepted.seed, path)
            made = run_webhook(*where, secret=secret, scheme=scheme)
            record_value(self._run, path, "webhook", made)
        return str(made)

    async def delivery(self, path: str, type: Any = Any, *, timeout: Duration | None = None) -> Any:
        codec = codec_for(type)
        place = self._loop.scope().name("delivery")
        value = await self._wait(place, "event", DELIVERY, Any, timeout, key=token_of(path))
        return codec.decode(encoded_by_type(value))

    async def approval(
        self,
        form: Any = Any,
        *,
        title: str = "",
        assignees: Sequence[str] = (),
        timeout: Duration | None = None,
        name: str = "approval",
        required: int = 1,
        bar_starter: bool = False,
    ) -> Any:
        path = self._loop.scope().name(f"approval:{checked_name(name)}")
        question = {
            "title": title_of(title),
            "assignees": assignees_of(assignees),
            "required": whole_number(
                required, "required of ctx.approval", 1, REQUIRED_MAX, wrong=InvalidInput
            ),
            "bar_starter": bool(bar_starter),
        }
        return await self._wait(path, "approval", name, form, timeout, **question)

    async def _wait(
        self, path: str, what: str, name: str, type: Any, timeout: Duration | None, **details: Any
    ) -> Any:
        codec = codec_for(type)
        limit = timeout_seconds(timeout)
        future = self._loop.create_future()
        call = WaitCall(path, future, what=what, name=name, codec=codec, timeout=limit, **details)
        return codec.decode(await self._answer(call))

    # Children

    async def run(self, workflow: Startable[Any, Any], input: Any = NO_INPUT) -> Any:
        child = await self.start(workflow, input)
        return await child.result()

    async def start(
        self,
        workflow: Startable[Any, Any],
        input: Any = NO_INPUT,
        *,
        detached: bool = False,
        trigger: str = "",
    ) -> Child:
        if trigger:
            self._check_trigger(trigger, detached)
        startable(workflow)
        path = self._loop.scope().name(f"child:{workflow.definition.name}")
        new = None if self._is_started(path) else new_child(self._run, path, workflow, input, detached)
        call = ChildCall(path, self._loop.create_future(), new=new, detached=detached, trigger=trigger)
        run_id = RunId(await self._answer(call))
        return Child(
            self._loop,
            self._run.ask,
            self._left,
            path,
            run_id=run_id,
            workflow=workflow,
            detached=detached,
        )

    def _check_trigger(self, trigger: str, detached: bool) -> None:
        raise no_trigger(trigger)

    def _is_started(self, path: str) -> bool:
        """The log has this child: a replay of a thousand children prepares none of them again."""
        return path in self._run.calls.recorded and path not in self._run.journal.lost

    # Recorded values

    def now(self) -> datetime:
        return datetime.fromtimestamp(time_at(self._run, self._loop.scope().name("now")), tz=UTC)

    def random(self) -> float:
        return (self._recorded("random") >> 75) / (1 << 53)

    def uuid(self) -> UUID:
        return UUID(int=self._recorded("uuid"), version=4)

    def _recorded(self, what: str) -> int:
        path = self._loop.scope().name(what)
        return recorded_random(self._run.journal.seed_now, path)

    def patched(self, change: str) -> bool:
        self._loop.scope()  # only the workflow's own code may ask
        path = f"{self._loop.root.path}/patched:{checked_name(change)}"
        values = self._run.journal.values
        if path not in values:
            check_open(self._run)
            values[path] = self._patched_anew(path)
        return bytes(values[path]) == b"true"

    def _patched_anew(self, path: str) -> Raw:
        run = self._run
        if run.calls.replaying and (run.calls.answers or any(unreached(run.journal, run.calls))):
            return Raw(b"false")
        return record_value(run, path, "patched", True)

    # News, documents and the next generation

    def publish(self, topic: str, data: Any = None) -> None:
        limit = self._run.services.payload_bytes_max
        news = Raw(limited(encoded_by_type(data), f"what is published on {topic}", limit))
        self._report(f"publish:{checked_name(topic)}", lambda: ev.Published(topic=topic, data=news))

    def save(self, name: str, value: Any) -> None:
        path = self._loop.scope().name(f"{DIRECT}{checked_name(name)}")
        documents.save(self._run, path, name, value)

    async def document(self, name: str, type: Any = Any) -> Any:
        self._loop.scope()
        return documents.read(self._run.journal, name, type)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        news = progress_of(done, total, text)
        self._report("progress", lambda: news)

    def _report(self, what: str, fact: Callable[[], ev.Fact]) -> None:
        """News are recorded once: a replay that passes here again records nothing."""
        path = self._loop.scope().name(what)
        if path not in self._run.journal.news:
            check_open(self._run)
            self._run.journal.news.add(path)
            self._run.record(fact(), path)

    def continue_as_new(self, input: Any = NO_INPUT) -> Any:
        self._loop.scope()
        program = self._program
        data = program.encode_input(input_or_default(program, input))
        limit = self._run.services.payload_bytes_max
        raise Continue(limited(data, "the input of continue_as_new", limit))


class _Map:
    """ctx.map: no task per item, so that 10,000 items cost little more than their steps."""

    def __init__(self, context: RunContext, spec: StepSpec, items: list[Any], limit: int) -> None:
        self._context = context
        self._spec = spec
        self._items = items
        self._limit = limit
        self._results: list[Any] = [None] * len(items)
        self._next = 0
        self._done = 0
        self._running: dict[int, StepCall] = {}
        self._gate = context._loop.create_future()
        self._base = context._loop.scope().name(spec.name)

    async def run(self) -> list[Any]:
        self._launch()
        if self._items:
            try:
                await self._gate
            except BaseException:
                for call in list(self._running.values()):
                    call.future.cancel()
                    self._context._run.withdraw(call)
                raise
        return self._results

    def _launch(self) -> None:
        while len(self._running) < self._limit and self._next < len(self._items):
            index, self._next = self._next, self._next + 1
            path = f"{self._base}[{index}]"
            call = self._context._step_call(path, self._spec, (self._items[index],), {}, "", concurrent=True)
            self._running[index] = call
            self._context._run.ask(call).add_done_callback(partial(self._one_done, index))

    def _one_done(self, index: int, future: asyncio.Future[Any]) -> None:
        self._running.pop(index, None)
        if self._gate.done() or future.cancelled():
            return
        try:
            self._results[index] = self._spec.returns.decode(future.result())
            self._done += 1
            self._launch()
        except BaseException as error:
            self._gate.set_exception(error)
            return
        if self._done == len(self._items):
            self._gate.set_result(None)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
