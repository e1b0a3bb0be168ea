"""Driver: a graph's frontier over the kernel. Asks become steps, timers, waits and children.

Answers come in log order, one a turn, so the frontier decides on replay what it decided before and
nothing needs to be stored but the answers; its notes are recorded for readers.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.authoring.graphs.build.plan import Plan
from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.waits import Event, Question
from stepwell.authoring.graphs.run.frontier import Frontier
from stepwell.authoring.graphs.run.node_start import WAIT_TIMEOUT, called_code
from stepwell.authoring.graphs.run.state import Ask, Failure, Note, NoteKind, Purpose
from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.program import PathCalls, Startable
from stepwell.domain.text import clean
from stepwell.errors import InvalidRequest, RunCancelling, StepError, StepwellError, WaitTimedOut

EVENT_SIGNAL = "event:"  # events sent to one run come as signals of this name


class Driver:
    def __init__(self, plan: Plan, ctx: PathCalls) -> None:
        self._ctx = ctx
        self._calls: dict[Ask, Any] = {}
        self._finished = ctx.future()
        self._cancelled: RunCancelling | None = None
        accepted = ctx.accepted
        run = {"id": ctx.run_id, "workflow": accepted.workflow, "version": accepted.version}
        self._frontier = Frontier(plan, run=run, clock=ctx.time, known=ctx.recorded, test=accepted.test)

    async def run(self, input: Any) -> dict[str, Any]:
        try:
            self._frontier.begin(input)
            self._act()
            if self._frontier.end is None:
                await self._finished
            end = self._frontier.end
        finally:
            self._frontier.close()
            self._calls.clear()
        assert end is not None
        if end.failure is not None:
            raise error_of(end.failure, self._ctx.path(end.failure.path))
        return end.output or {}

    def _act(self) -> None:
        """Do what the frontier wants. An ask that cannot even be made fails at once."""
        frontier = self._frontier
        while frontier.actions:
            actions, frontier.actions = frontier.actions, []
            for action in actions:
                if isinstance(action, Ask):
                    if action.done:
                        self._ctx.forgo(action.path)
                    else:
                        self._ask(action)
                elif isinstance(action, Note):
                    self._note(action)
                elif (call := self._calls.pop(action.ask, None)) is not None:
                    self._ctx.withdraw(call)
        if frontier.end is not None and not self._finished.done():
            if self._cancelled is not None:
                self._finished.set_exception(self._cancelled)
            else:
                self._finished.set_result(None)

    # Asking

    def _ask(self, ask: Ask) -> None:
        answered = partial(self._answered, ask)
        try:
            if ask.purpose is Purpose.WORK:
                assert ask.step is not None
                args, kwargs = ask.data if ask.data is not None else ((), {})
                spec = ask.step.node.behaviour.spec
                self._calls[ask] = self._ctx.step(ask.path, spec, args, kwargs, answered)
            else:
                self._calls[ask] = self._call(ask, answered)
        except StepwellError as error:
            self._refused(ask, error)

    def _refused(self, ask: Ask, error: StepwellError) -> None:
        assert ask.step is not None
        code = "CALL_DEPTH" if type(error) is InvalidRequest else error.code
        failure = Failure(code, error.message, ask.step.node.id, ask.path, hint=error.hint, config=True)
        self._note(Note(NoteKind.FAILED, ask.path, failure))
        self._frontier.fail(ask, failure)

    def _call(self, ask: Ask, answered: Any) -> Any:
        ctx, data, path = self._ctx, ask.data, ask.path
        match ask.purpose:
            case Purpose.EVENT:
                assert isinstance(data, Event)
                return ctx.event(path, data.name, data.key, data.timeout, answered)
            case Purpose.MAILBOX:
                return ctx.signal(path, EVENT_SIGNAL + data, answered)
            case Purpose.QUESTION:
                assert isinstance(data, Question)
                return ctx.question(
                    path,
                    data.form,
                    answered,
                    title=data.title,
                    assignees=data.assignees,
                    timeout=data.timeout,
                )
            case Purpose.CHILD:
                return self._child(ask)
            case Purpose.POLL:
                return ctx.timer(path, data.seconds, answered)
            case _:
                return ctx.timer(path, data, answered, retry=ask.purpose is Purpose.BACKOFF)

    def _child(self, ask: Ask) -> Any:
        """A child of a workflow that this worker has; else it is looked up, and that is recorded."""
        assert ask.step is not None
        ctx, wanted, find = self._ctx, ask.step.node.behaviour, f"{ask.path}@find"
        if not ctx.recorded(find):
            known = ctx.recorded(ask.path)
            workflow = None if known else ctx.workflow(wanted.workflow, wanted.version)
            if known or workflow is not None:
                return self._start_child(ask, workflow)
        return ctx.find(find, wanted.workflow, wanted.version, partial(self._found, ask))

    def _start_child(self, ask: Ask, workflow: Startable[Any, Any] | None) -> Any:
        assert ask.step is not None
        detached = not ask.step.node.behaviour.waits
        started = partial(self._child_started, ask)
        return self._ctx.child(ask.path, workflow, ask.data, started, detached=detached)

    def _found(self, ask: Ask, future: asyncio.Future[Any]) -> None:
        if ask.done or self._finished.done():
            return
        if future.cancelled() or future.exception() is not None:
            self._answered(ask, future)
            return
        try:
            workflow = self._ctx.looked_up(future.result())
            if workflow is None:
                assert ask.step is not None
                raise ask.step.node.behaviour.unknown()
            self._calls[ask] = self._start_child(ask, workflow)
        except StepwellError as error:
            self._calls.pop(ask, None)
            self._refused(ask, error)
            self._act()
        except BaseException as error:
            self._finished.set_exception(error)

    def _child_started(self, ask: Ask, future: asyncio.Future[Any]) -> None:
        assert ask.step is not None
        if future.cancelled() or future.exception() is not None or not ask.step.node.behaviour.waits:
            self._answered(ask, future)
        elif not ask.done:
            self._calls[ask] = self._ctx.child_result(ask.path, partial(self._answered, ask))

    # Answers

    def _answered(self, ask: Ask, future: asyncio.Future[Any]) -> None:
        call = self._calls.pop(ask, None)
        if self._finished.done() or future.cancelled():
            return
        try:
            error = future.exception()
            if error is None:
                result = future.result()
                self._frontier.answer(ask, result if ask.purpose is Purpose.WORK else _value(ask, result))
            elif isinstance(error, StepError | WaitTimedOut):
                self._frontier.fail(ask, self._failure(ask, error, call))
            elif isinstance(error, RunCancelling):
                self._cancel(error)
            else:
                self._finished.set_exception(error)  # its code is left
                return
            self._act()
        except BaseException as error:
            if not self._finished.done():
                self._finished.set_exception(error)

    def _cancel(self, error: RunCancelling) -> None:
        """Every call that was open hears of it; what is asked for from then on cleans up."""
        if self._cancelled is None:
            self._cancelled = error
            self._frontier.cancel()

    def _failure(self, ask: Ask, error: StepError | WaitTimedOut, call: Any) -> Failure:
        assert ask.step is not None
        node = ask.step.node.id
        if isinstance(error, WaitTimedOut):
            return Failure(WAIT_TIMEOUT, error.message, node, ask.path)
        code = called_code(error.cause_code or error.code)
        attempt = self._ctx.attempt(call) if call is not None else 1
        message = error.cause_message or error.message
        config = error.permanent and ask.purpose is Purpose.WORK
        kind = error.error_type if code == "ERROR" else ""
        return Failure(code, message, node, ask.path, attempt, hint=error.hint, config=config, kind=kind)

    # Telling

    def _note(self, note: Note) -> None:
        place = note.path
        if note.kind is NoteKind.JOIN_LATE:
            place = f"{note.path}@{note.data}"
        self._ctx.note(fact_of(note), place)


def _value(ask: Ask, result: Any) -> Any:
    if result is None:
        return result
    if ask.purpose is Purpose.CHILD and isinstance(result, str):
        return {"runId": result}
    return PLAIN.decode(result)


def fact_of(note: Note) -> ev.NodeFact:
    data = note.data
    match note.kind:
        case NoteKind.COMPLETED:
            return ev.NodeCompleted(
                output=Raw(msgspec.json.encode(data["output"])),
                handles=data["handles"],
                pinned=data.get("pinned", False),
            )
        case NoteKind.FAILED:
            return ev.NodeFailed(error=problem_of_failure(data))
        case NoteKind.SKIPPED:
            return ev.NodeSkipped()
        case NoteKind.CANCELLED:
            return ev.NodeCancelled()
        case NoteKind.JOIN_LATE:
            return ev.JoinLate(source=data)
        case NoteKind.MERGE_CONFLICT:
            return ev.MergeConflict(variables=data)
        case NoteKind.LOOP_STARTED:
            return ev.LoopStarted(count=data)
        case NoteKind.LOOP_ADVANCED:
            return ev.LoopAdvanced(done=data[0], count=data[1])


def problem_of_failure(failure: Failure) -> ev.Problem:
    message, hint = clean(failure.message), clean(failure.hint)
    return ev.Problem(code=failure.code, message=message, hint=hint, path=failure.path)


def error_of(failure: Failure, path: str) -> NodeError:
    """What the run fails with; its path is where a retry goes on."""
    told = [failure.node, failure.kind, failure.message]
    error = NodeError(
        failure.code,
        ": ".join(word for word in told if word),
        hint=failure.hint,
        config=failure.config,
        path=path,
    )
    error.permanent = False  # whoever called the run may have given it what it could not use
    return error
