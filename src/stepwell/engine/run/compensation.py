"""Compensation: before a run ends badly, what its steps did is undone, last step first.

It is a small program of its own over the same log. From CompensationStarted on the workflow's code is
not needed any more: the log says which steps are to be undone, by which function and with what. Each
compensation is a step with its own retries; one that fails is recorded and the others are still done.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.commit import LogRow
from stepwell.domain.compensation import arguments, compensates, find, note_done
from stepwell.domain.events import Problem, StepCompleted
from stepwell.domain.status import Status
from stepwell.domain.steps import StepSpec
from stepwell.engine.run.calls import StepCall
from stepwell.engine.run.endings import Ending, of_main
from stepwell.engine.run.full_log import look_back, whole_log
from stepwell.engine.run.workflow_loop import Scope
from stepwell.errors import (
    CodeChanged,
    CompensationFailed,
    NotDurable,
    StepError,
    StepwellError,
    Suspended,
)

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation

# Not the run's own failures: what it did stays, and a person can retry it.
_HELD = frozenset({CodeChanged.code, NotDurable.code})

Undoable = dict[str, StepCompleted]


def instead(activation: Activation, ending: Ending) -> Ending | None:
    """The ending, or None when there is something to undo before it."""
    if activation.compensation is not None:
        return None  # it has begun, and goes on
    if not _compensates(activation, ending) or not (_undoable(activation) or _has_earlier(activation)):
        return ending
    _leave_code(activation)
    _begin(activation, Compensation(activation, ending, None))
    return None


def after_main(activation: Activation) -> Ending | None:
    """The code, or its compensation, came to its end."""
    if activation.compensation is not None:
        activation.main.result()  # an error here is ours: the run is given back
        return activation.compensation.ending
    return instead(activation, of_main(activation))


def resume(activation: Activation, started: ev.CompensationStarted) -> None:
    """An owner before us had begun it."""
    ending = Ending(Status(started.status), problem=started.error, reason=started.reason)
    compensation = Compensation(activation, ending, started)
    if not _has_earlier(activation):
        _begin(activation, compensation)
        return
    # First it must know all that is to be undone: answers and messages wait until it asks for them.
    _enter(activation, compensation)
    activation.advancing = True
    compensation.go_on()


def undo(activation: Activation, ended: ev.Failed | ev.TimedOut) -> None:
    """A person wants it, after the run had ended badly and kept what it did."""
    status = Status.FAILED if isinstance(ended, ev.Failed) else Status.TIMED_OUT
    _begin(activation, Compensation(activation, Ending(status, problem=ended.error), None))


def _compensates(activation: Activation, ending: Ending) -> bool:
    if ending.status is Status.CANCELLED:
        return True
    if ending.status not in (Status.FAILED, Status.TIMED_OUT):
        return False
    held = ending.problem is not None and ending.problem.code in _HELD
    return not held and activation.program.options.on_failure != "hold"


def _undoable(activation: Activation) -> dict[str, StepCompleted]:
    """What this owner knows of, in log order; also what the code was not told of any more."""
    found = activation.journal.undoable
    for answer in activation.answers:
        if isinstance(answer.fact, StepCompleted) and answer.fact.undo is not None:
            note_done(found, answer.path, answer.fact)
    return found


def _has_earlier(activation: Activation) -> bool:
    """A machine is claimed from its last checkpoint on; what it did before is only in the store."""
    log = activation.claim.log
    return activation.journal.version > 0 and len(log) > 1 and log[1].seq > 2


def _leave_code(activation: Activation) -> None:
    """The code is over: what it still waits for is withdrawn, and it hears of nothing any more."""
    if activation.visits is not None:
        activation.visits.leave()
    for call in list(activation.calls.values()):
        activation.withdraw(call)
    activation.steps.stop_all()
    activation.closed = Suspended
    activation.turns.unwind((), Suspended)
    if activation.thread is not None:
        activation.thread.leave()
        activation.thread = None
    activation.closed = None
    activation.visits = None
    activation.timers.dues.clear()
    activation.journal.answers.clear()
    activation.journal.opened.clear()
    activation.journal.lost.clear()
    activation.open_program()


def _begin(activation: Activation, compensation: Compensation) -> None:
    _enter(activation, compensation)
    activation.main = activation.turns.create_task(compensation.run(), scope=Scope("compensate"))


def _enter(activation: Activation, compensation: Compensation) -> None:
    activation.compensation = compensation
    activation.cancelling = True  # a cancel that comes now changes nothing
    activation.timers.unlimit_run()


class Compensation:
    def __init__(
        self, activation: Activation, ending: Ending, started: ev.CompensationStarted | None
    ) -> None:
        self._activation = activation
        self._started = started
        self._failed: list[str] = []
        self.ending = ending

    async def run(self) -> bytes:
        if self._started is None:
            await self._look_back()
            if not self._begun():
                return b"null"
        undone: set[str] = set()
        while path := self._next(undone):
            undone.add(path)
            await self._undo(path)
        if not self._activation.journal.compensated:
            self._activation.record(ev.CompensationCompleted(failed=self._failed))
        self._tell()
        return b"null"

    def _begun(self) -> bool:
        """Record what is to be undone; False: nothing is."""
        steps = list(reversed(_undoable(self._activation)))
        if steps:
            ending = self.ending
            self._started = ev.CompensationStarted(
                status=ending.status, steps=steps, error=ending.problem, reason=ending.reason
            )
            self._activation.record(self._started)
        return bool(steps)

    def _next(self, undone: set[str]) -> str:
        """In the recorded order; then what was recorded after it, by a transaction that was under way."""
        assert self._started is not None
        paths = [*self._started.steps, *self._activation.journal.undoable]
        return next((path for path in paths if path not in undone), "")

    async def _undo(self, path: str) -> None:
        activation = self._activation
        spec, args, kwargs = _prepared(activation.journal.undoable[path])
        future = activation.turns.create_future()
        call = StepCall(compensates(path), future, spec, args, kwargs, queue=spec.queue, digest="")
        try:
            await activation.ask(call)
        except StepError:
            self._failed.append(path)

    def _tell(self) -> None:
        """A person must hear of what could not be undone."""
        if not self._failed:
            return
        what = f"not undone: {', '.join(self._failed[:5])}"
        problem = self.ending.problem
        if problem is None:
            error = CompensationFailed(what)
            self.ending.problem = Problem(code=error.code, message=what, hint=error.hint)
        else:
            self.ending.problem = replace(problem, hint="; ".join(filter(None, [problem.hint, what])))

    # A machine's earlier visits

    async def _look_back(self) -> None:
        if _has_earlier(self._activation):
            earlier: Undoable = {}
            await whole_log(self._activation, partial(_note, earlier))
            self._know(earlier)

    def go_on(self) -> None:
        """What an owner before us had begun goes on, once it knows all that is to be undone."""
        earlier: Undoable = {}

        def begin() -> None:
            self._know(earlier)
            self._activation.advancing = False
            _begin(self._activation, self)

        look_back(self._activation, partial(_note, earlier), begin)

    def _know(self, earlier: Undoable) -> None:
        self._activation.journal.undoable = earlier | self._activation.journal.undoable


def _note(found: Undoable, row: LogRow) -> None:
    if row.kind == ev.KIND[StepCompleted]:
        fact = ev.read_as(StepCompleted, row)
        if fact.undo is not None:
            note_done(found, row.path, fact)


def _prepared(fact: StepCompleted) -> tuple[StepSpec, tuple[Any, ...], dict[str, Any]]:
    """The call that undoes it; one that cannot be made fails as a step, so that the log tells why."""
    assert fact.undo is not None
    name = fact.undo.function
    spec = find(name)
    if spec is None:
        lost = CompensationFailed(
            f"no step here declares {name} as its compensation",
            hint="keep the function and the step that names it in the worker's code",
        )
        return _failing(name, lost), (), {}
    try:
        args, kwargs = arguments(spec, fact)
    except StepwellError as error:
        return _failing(spec.name, error), (), {}
    return spec, args, kwargs


def _failing(name: str, error: StepwellError) -> StepSpec:
    async def fail() -> None:
        raise error

    return StepSpec(name=name, function=fail, is_async=True)
