"""Starting: how a node of each role begins, and what an answer from outside means to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.node_type import DONE, NodeOutcome, Role
from stepwell.authoring.graphs.nodes.waits import ApprovalRequest, EventRequest, PollRequest, TimerRequest
from stepwell.authoring.graphs.run.event_mailbox import Mailbox
from stepwell.authoring.graphs.run.state import (
    ROOT,
    Command,
    CommandKind,
    Failure,
    MarkerKind,
    NodeRun,
    NodeStatus,
)
from stepwell.errors import ExpressionError, StepwellError

if TYPE_CHECKING:
    from stepwell.authoring.graphs.run.frontier import Frontier

WAIT_TIMEOUT = "WAIT_TIMEOUT"


class Starting:
    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._mailbox = Mailbox(frontier)
        self._outside_loops = 0
        self._limit = frontier.plan.settings.max_steps
        ttl = frontier.plan.settings.suspend_ttl_ms
        self._patience = None if ttl is None else ttl / 1000  # of waits without a timeout of their own

    def scope_of(self, step: NodeRun) -> dict[str, Any]:
        """What the node's expressions see."""
        frontier = self._frontier
        scope: dict[str, Any] = {
            "ctx": step.context.values,
            "run": frontier.run,
            # The key is the one that the node's own code gets: helpers.key, StepContext.key.
            "step": {"id": step.node.id, "path": step.path, "key": f"{frontier.run['id']}/{ROOT}{step.path}"},
        }
        if step.scope.loop is not None:
            scope["loop"] = step.scope.loop
        return scope

    def now_of(self, step: NodeRun, mark: str = "") -> float | None:
        return self._frontier.clock(step.path + mark) if step.node.uses_time else None

    # Beginning

    def start(self, step: NodeRun) -> None:
        node = step.node
        if step.scope.loop is None:
            self._outside_loops += 1
            if self._outside_loops > self._limit:
                self._too_many(step)
                return
        if node.disabled or node.role is Role.JOIN:
            self._frontier.note(MarkerKind.COMPLETED, step.path, {"output": None, "handles": ["out"]})
            self._frontier.complete(step, DONE)
        else:
            try:
                if self._frontier.test and node.data.is_pinned:
                    self._pinned(step)
                elif node.role is Role.WORK:
                    self._work(step)
                else:
                    self._begin(step)
            except (ExpressionError, StepwellError) as error:
                self._fail(step, failure_of(error, step))

    def _pinned(self, step: NodeRun) -> None:
        """In a test run: the node gives what was pinned to it, and nothing of it is executed."""
        pinned = step.node.data.pinned
        told = getattr(step.node.behaviour, "pinned", None)
        outcome: NodeOutcome = NodeOutcome(output=pinned) if told is None else told(pinned)
        done = {"output": outcome.output, "handles": list(outcome.handles), "pinned": True}
        self._frontier.note(MarkerKind.COMPLETED, step.path, done)
        self._frontier.complete(step, outcome)

    def _too_many(self, step: NodeRun) -> None:
        self._frontier.cleanups.off = True  # it would need more of them
        self._frontier.cleanups.stop()
        self._frontier.finish_failed(
            Failure(
                "STEP_LIMIT",
                f"more than {self._limit} nodes were activated outside loops",
                step.node.id,
                step.path,
                hint="raise settings.maxSteps if this is meant",
            )
        )

    def _begin(self, step: NodeRun) -> None:
        role = step.node.role
        if role is Role.PURE:
            self._pure(step)
        elif role is Role.WAIT:
            self._wait(step)
        elif role is Role.CHILD:
            self._call(step)
        else:
            self._frontier.seen(step)
            self._frontier.containers.start(step)

    def _pure(self, step: NodeRun) -> None:
        node = step.node
        outcome = node.behaviour.settle(self.scope_of(step), self.now_of(step), node.connected)
        self._frontier.note(
            MarkerKind.COMPLETED, step.path, {"output": outcome.output, "handles": list(outcome.handles)}
        )
        self._frontier.complete(step, outcome)

    def _work(self, step: NodeRun) -> None:
        # What is recorded was prepared before: on replay nothing is rendered again.
        node, given = step.node, None
        if not self._frontier.known(step.path):
            now = self.now_of(step) if node.uses_time else None
            given = node.behaviour.prepare(self.scope_of(step), now)
        self._frontier.ask(Command(CommandKind.WORK, step.path, step, given))

    def _call(self, step: NodeRun) -> None:
        """Each attempt is another run, with a time of its own."""
        path = step.path if step.attempt == 1 else f"{step.path}#{step.attempt}"
        called = step.node.behaviour
        known = self._frontier.known(path)
        given = None if known else called.input(self.scope_of(step), self.now_of(step))
        if called.timeout is not None:
            self._frontier.ask(Command(CommandKind.GIVE_UP, f"{path}@timeout", step, called.timeout))
        self._frontier.ask(Command(CommandKind.CHILD, path, step, given))

    def _call_failed(self, step: NodeRun, failure: Failure) -> None:
        self._stop_waiting(step)
        failure = failure._replace(attempt=step.attempt)
        error = NodeError(failure.code, failure.message, config=failure.config)
        wait = step.node.behaviour.retry.wait_after(step.attempt, error, 0.5)
        if wait is None:
            self._frontier.failed(step, failure)
        else:
            path = f"{step.path}#{step.attempt}@delay"
            self._frontier.ask(Command(CommandKind.BACKOFF, path, step, wait))

    def _call_again(self, step: NodeRun) -> None:
        step.attempt += 1
        try:
            self._call(step)
        except (ExpressionError, StepwellError) as error:
            self._fail(step, failure_of(error, step))

    def _wait(self, step: NodeRun) -> None:
        step.status = NodeStatus.WAITING
        what = step.node.behaviour.ask(self.scope_of(step), self.now_of(step))
        if isinstance(what, TimerRequest):
            limit = step.node.data.timeout_ms
            if limit is not None and limit / 1000 < what.seconds:  # it will not come to its end
                self._frontier.ask(Command(CommandKind.GIVE_UP, f"{step.path}@timeout", step, limit / 1000))
            else:
                self._frontier.ask(Command(CommandKind.TIMER, step.path, step, what.seconds))
        elif isinstance(what, EventRequest):
            timeout = what.timeout if what.timeout is not None else self._patience
            self._mailbox.open(
                Command(CommandKind.EVENT, step.path, step, EventRequest(what.name, what.key, timeout))
            )
        elif isinstance(what, ApprovalRequest):
            timeout = what.timeout if what.timeout is not None else self._patience
            asked = ApprovalRequest(what.title, what.assignees, what.form, timeout)
            self._frontier.ask(Command(CommandKind.QUESTION, step.path, step, asked))
        else:
            timeout = what.timeout if what.timeout is not None else self._patience
            if timeout is not None:
                self._frontier.ask(Command(CommandKind.GIVE_UP, f"{step.path}@timeout", step, timeout))
            self._poll(step, what)

    def _poll(self, step: NodeRun, what: PollRequest) -> None:
        """Ask the condition; a mistake in it fails the node at once, it does not poll for ever."""
        step.attempt += 1
        mark = f"@poll#{step.attempt - 1}"
        if what.condition.truth(self.scope_of(step), self.now_of(step, mark)):
            self._stop_waiting(step)
            self._done(step, step.node.behaviour.answered(None))
        else:
            self._frontier.ask(Command(CommandKind.POLL, step.path + mark, step, what))

    def _stop_waiting(self, step: NodeRun) -> None:
        for ask in list(step.asks):
            self._frontier.withdraw(ask)

    # Answers

    def answered(self, ask: Command, value: Any) -> None:
        purpose, step = ask.purpose, ask.step
        if purpose is CommandKind.WORK:
            assert step is not None
            outcome = step.node.behaviour.outcome(value)
            if outcome.delay > 0:
                step.outcome = outcome
                self._frontier.ask(Command(CommandKind.HOLD, f"{step.path}@delay", step, outcome.delay))
            else:
                self._frontier.complete(step, outcome)
            return
        if purpose is CommandKind.JOIN:
            self._frontier.joining.clock_ran_out(ask)
            return
        if purpose is CommandKind.MAILBOX:
            self._mailbox.came(ask, value)
            return
        assert step is not None
        if purpose is CommandKind.BACKOFF:
            if step.node.role is Role.CHILD:
                self._call_again(step)
            else:
                self._frontier.containers.try_again(step)
        elif purpose is CommandKind.GIVE_UP:
            self._gave_up(step)
        elif purpose is CommandKind.HOLD:
            assert step.outcome is not None
            self._frontier.complete(step, step.outcome)
        elif purpose is CommandKind.POLL:
            self._poll_again(step, ask.data)
        elif purpose is CommandKind.CHILD:
            self._stop_waiting(step)
            self._frontier.complete(step, step.node.behaviour.outcome(value))
        else:
            if purpose is CommandKind.EVENT:
                self._mailbox.closed(ask)
            self._done(step, step.node.behaviour.answered(value))

    def _poll_again(self, step: NodeRun, what: PollRequest) -> None:
        try:
            self._poll(step, what)
        except (ExpressionError, StepwellError) as error:
            self._fail(step, failure_of(error, step))

    def _done(self, step: NodeRun, outcome: NodeOutcome) -> None:
        self._frontier.complete(step, outcome)

    def _gave_up(self, step: NodeRun) -> None:
        if step.node.role is Role.CONTAINER:
            told = Failure("STEP_TIMED_OUT", "the body took too long", step.node.id, step.path)
            self._frontier.containers.ran_out(step, told)
        elif step.node.role is Role.CHILD:
            told = Failure("STEP_TIMED_OUT", "the called run took too long", step.node.id, step.path)
            self._call_failed(step, told)
        else:
            self._frontier.stop(step)
            self._late(step)

    def _late(self, step: NodeRun) -> None:
        """GR-P2: the timeout handle, if something is connected to it; else a failure."""
        if "timeout" in step.node.connected:
            self._done(step, NodeOutcome(("timeout",), {"timedOut": True}))
        else:
            told = Failure(WAIT_TIMEOUT, "what it waited for did not come in time", step.node.id, step.path)
            self._frontier.failed(step, told)

    def failed(self, ask: Command, failure: Failure) -> None:
        step = ask.step
        assert step is not None, f"{ask} cannot fail"
        if ask.purpose is CommandKind.EVENT:
            self._mailbox.closed(ask)
        if failure.code == WAIT_TIMEOUT and step.node.role is Role.WAIT:
            self._late(step)
        elif ask.purpose is CommandKind.CHILD:
            self._call_failed(step, failure)
        else:
            self._frontier.failed(step, failure)

    def withdrawn(self, ask: Command) -> None:
        if ask.purpose is CommandKind.EVENT:
            self._mailbox.closed(ask)

    def _fail(self, step: NodeRun, failure: Failure) -> None:
        """It failed while it began, or went on: what it had asked for by then is not wanted any more."""
        self._frontier.stop(step)
        self._frontier.note(MarkerKind.FAILED, step.path, failure)
        self._frontier.failed(step, failure)


def called_code(code: str) -> str:
    """GC-K12: what graphs route by when the run that a node called was cancelled."""
    return "SUBWORKFLOW_CANCELLED" if code == "CHILD_CANCELLED" else code


def failure_of(error: StepwellError, step: NodeRun) -> Failure:
    """A mistake found while a node was prepared: nothing of it was executed."""
    return Failure(error.code, error.message, step.node.id, step.path, hint=error.hint, config=True)


__all__ = ["WAIT_TIMEOUT", "NodeError", "Starting", "called_code", "failure_of"]
