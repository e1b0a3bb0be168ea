"""Driver: runs a frontier on the kernel. Commands become steps, timers, waits and child runs.

Answers come in log order, one per turn, so the frontier decides the same on replay and only the answers
need to be stored. Its markers are recorded for readers.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.authoring.graphs.build.plan import GraphPlan
from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.waits import ApprovalRequest, EventRequest, webhook_paths
from stepwell.authoring.graphs.run.frontier import Frontier
from stepwell.authoring.graphs.run.node_start import WAIT_TIMEOUT, called_code
from stepwell.authoring.graphs.run.state import Command, CommandKind, Failure, Marker, MarkerKind, NodeRun
from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.control_flow import RunCancelling
from stepwell.domain.program import PathCalls, Startable
from stepwell.domain.text import clean
from stepwell.errors import InvalidRequest, StepError, StepwellError, WaitTimedOut

_STEPS = frozenset({CommandKind.WORK, CommandKind.MODEL})
EVENT_SIGNAL = "event:"  # events sent to one run arrive as signals with this prefix


class Driver:
    def __init__(self, plan: GraphPlan, ctx: PathCalls) -> None:
        self._ctx = ctx
        self._calls: dict[Command, Any] = {}
        self._finished = ctx.future()
        self._cancelled: RunCancelling | None = None
        accepted = ctx.accepted
        run: dict[str, Any] = {"id": ctx.run_id, "workflow": accepted.workflow, "version": accepted.version}
        run |= webhook_paths(plan.by_data, accepted.workspace, ctx.run_id, accepted.seed)
        self._frontier = Frontier(plan, run=run, clock=ctx.time, recorded=ctx.recorded, test=accepted.test)

    async def run(self, input: Any) -> dict[str, Any]:
        try:
            self._ctx.on_variable(self._set_variable)
            self._frontier.begin(input)
            self._act()
            if self._frontier.result is None:
                await self._finished
            end = self._frontier.result
        finally:
            self._ctx.on_variable(None)
            self._frontier.close()
            self._calls.clear()
        assert end is not None
        if end.failure is not None:
            raise error_of(end.failure, self._ctx.path(end.failure.path))
        return end.output or {}

    def _act(self) -> None:
        """Execute the frontier's actions. A command that is refused fails at once."""
        frontier = self._frontier
        while frontier.actions:
            actions, frontier.actions = frontier.actions, []
            for action in actions:
                if isinstance(action, NodeRun):
                    self._ctx.started(action.path)
                elif isinstance(action, Command):
                    if action.done:
                        self._ctx.forgo(action.path)
                    else:
                        self._execute(action)
                elif isinstance(action, Marker):
                    self._mark(action)
                elif (call := self._calls.pop(action.command, None)) is not None:
                    self._ctx.withdraw(call)
        if frontier.result is not None and not self._finished.done():
            if self._cancelled is not None:
                self._finished.set_exception(self._cancelled)
            else:
                self._finished.set_result(None)

    # Commands

    def _execute(self, command: Command) -> None:
        answered = partial(self._answered, command)
        try:
            if command.kind in _STEPS:
                assert command.node_run is not None
                args, kwargs = command.data if command.data is not None else ((), {})
                spec = command.node_run.node.behaviour.spec
                self._calls[command] = self._ctx.step(command.path, spec, args, kwargs, answered)
            else:
                self._calls[command] = self._call(command, answered)
        except StepwellError as error:
            self._refused(command, error)

    def _refused(self, command: Command, error: StepwellError) -> None:
        assert command.node_run is not None
        code = "CALL_DEPTH" if type(error) is InvalidRequest else error.code
        failure = Failure(
            code, error.message, command.node_run.node.id, command.path, hint=error.hint, config=True
        )
        self._mark(Marker(MarkerKind.FAILED, command.path, failure))
        self._frontier.fail(command, failure)

    def _call(self, command: Command, answered: Any) -> Any:
        ctx, data, path = self._ctx, command.data, command.path
        match command.kind:
            case CommandKind.EVENT:
                assert isinstance(data, EventRequest)
                return ctx.event(path, data.name, data.key, data.timeout, answered)
            case CommandKind.MAILBOX:
                return ctx.signal(path, EVENT_SIGNAL + data, answered)
            case CommandKind.APPROVAL:
                assert isinstance(data, ApprovalRequest)
                return ctx.question(
                    path,
                    data.form,
                    answered,
                    title=data.title,
                    assignees=data.assignees,
                    timeout=data.timeout,
                    required=data.required,
                    bar_starter=data.bar_starter,
                )
            case CommandKind.CHILD:
                return self._child(command)
            case CommandKind.POLL:
                return ctx.timer(path, data.seconds, answered)
            case _:
                return ctx.timer(path, data, answered, retry=command.kind is CommandKind.BACKOFF)

    def _child(self, command: Command) -> Any:
        """Start a child of a workflow that this worker has; otherwise look it up, which is recorded."""
        assert command.node_run is not None
        ctx, wanted, find = self._ctx, command.node_run.node.behaviour, f"{command.path}@find"
        if not ctx.recorded(find):
            recorded = ctx.recorded(command.path)
            workflow = None if recorded else ctx.workflow(wanted.workflow, wanted.version)
            if recorded or workflow is not None:
                return self._start_child(command, workflow)
        return ctx.find(find, wanted.workflow, wanted.version, partial(self._looked_up, command))

    def _start_child(self, command: Command, workflow: Startable[Any, Any] | None) -> Any:
        assert command.node_run is not None
        detached = not command.node_run.node.behaviour.waits
        started = partial(self._child_started, command)
        return self._ctx.child(command.path, workflow, command.data, started, detached=detached)

    def _looked_up(self, command: Command, future: asyncio.Future[Any]) -> None:
        if command.done or self._finished.done():
            return
        if future.cancelled() or future.exception() is not None:
            self._answered(command, future)
            return
        try:
            workflow = self._ctx.looked_up(future.result())
            if workflow is None:
                assert command.node_run is not None
                raise command.node_run.node.behaviour.unknown()
            self._calls[command] = self._start_child(command, workflow)
        except StepwellError as error:
            self._calls.pop(command, None)
            self._refused(command, error)
            self._act()
        except BaseException as error:
            self._finished.set_exception(error)

    def _child_started(self, command: Command, future: asyncio.Future[Any]) -> None:
        assert command.node_run is not None
        if future.cancelled() or future.exception() is not None or not command.node_run.node.behaviour.waits:
            self._answered(command, future)
        elif not command.done:
            self._calls[command] = self._ctx.child_result(command.path, partial(self._answered, command))

    # Answers

    def _answered(self, command: Command, future: asyncio.Future[Any]) -> None:
        call = self._calls.pop(command, None)
        if self._finished.done() or future.cancelled():
            return
        try:
            error = future.exception()
            if error is None:
                result = future.result()
                self._frontier.answer(command, result if command.kind in _STEPS else _value(command, result))
            elif isinstance(error, StepError | WaitTimedOut):
                self._frontier.fail(command, self._failure(command, error, call))
            elif isinstance(error, RunCancelling):
                self._cancel(error)
            else:
                self._finished.set_exception(error)  # leave the code of the run
                return
            self._act()
        except BaseException as error:
            if not self._finished.done():
                self._finished.set_exception(error)

    def _set_variable(self, name: str, value: Raw) -> None:
        """A person set a variable. This decides nothing by itself; later decisions see the value."""
        self._frontier.set_variable(name, PLAIN.decode(value))

    def _cancel(self, error: RunCancelling) -> None:
        """Every open call reports the cancel; commands from then on belong to finally blocks."""
        if self._cancelled is None:
            self._cancelled = error
            self._frontier.cancel()

    def _failure(self, command: Command, error: StepError | WaitTimedOut, call: Any) -> Failure:
        assert command.node_run is not None
        node = command.node_run.node.id
        if isinstance(error, WaitTimedOut):
            return Failure(WAIT_TIMEOUT, error.message, node, command.path)
        code = called_code(error.cause_code or error.code)
        attempt = self._ctx.attempt(call) if call is not None else 1
        message = error.cause_message or error.message
        config = error.permanent and command.kind in _STEPS
        kind = error.error_type if code == "ERROR" else ""
        return Failure(code, message, node, command.path, attempt, hint=error.hint, config=config, kind=kind)

    # Markers

    def _mark(self, marker: Marker) -> None:
        place = marker.path
        if marker.kind is MarkerKind.JOIN_LATE:
            place = f"{marker.path}@{marker.data}"
        self._ctx.note(fact_of(marker), place)


def _value(command: Command, result: Any) -> Any:
    if result is None:
        return result
    if command.kind is CommandKind.CHILD and isinstance(result, str):
        return {"runId": result}
    return PLAIN.decode(result)


def fact_of(marker: Marker) -> ev.NodeFact:
    data = marker.data
    match marker.kind:
        case MarkerKind.COMPLETED:
            return ev.NodeCompleted(
                output=Raw(msgspec.json.encode(data["output"])),
                handles=data["handles"],
                pinned=data.get("pinned", False),
            )
        case MarkerKind.FAILED:
            return ev.NodeFailed(error=problem_of_failure(data))
        case MarkerKind.SKIPPED:
            return ev.NodeSkipped()
        case MarkerKind.CANCELLED:
            return ev.NodeCancelled()
        case MarkerKind.JOIN_LATE:
            return ev.JoinLate(source=data)
        case MarkerKind.MERGE_CONFLICT:
            return ev.MergeConflict(variables=data)
        case MarkerKind.LOOP_STARTED:
            return ev.LoopStarted(count=data)
        case MarkerKind.LOOP_ADVANCED:
            return ev.LoopAdvanced(done=data[0], count=data[1])
        case MarkerKind.LOOP_COMPLETED:
            return ev.LoopCompleted(done=data[0], failed=data[1])


def problem_of_failure(failure: Failure) -> ev.Problem:
    message, hint = clean(failure.message), clean(failure.hint)
    return ev.Problem(code=failure.code, message=message, hint=hint, path=failure.path)


def error_of(failure: Failure, path: str) -> NodeError:
    """The error that the run fails with; a retry resumes at its path."""
    parts = [failure.node, failure.kind, failure.message]
    error = NodeError(
        failure.code,
        ": ".join(word for word in parts if word),
        hint=failure.hint,
        config=failure.config,
        path=path,
    )
    error.permanent = False  # a retry of the caller may pass other input
    return error
