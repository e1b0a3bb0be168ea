"""Compensation: before a run ends badly, what its steps did is undone, last step first.

It is a small program of its own over the same log. After CompensationStarted the workflow's code is not
needed: the log says which steps are to be undone, by which function and with what. Each compensation is a
step with its own retries; one that fails is recorded and the others are still done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.commit import LogRow
from stepwell.domain.compensation import arguments, find, note_done
from stepwell.domain.compensation import compensates as undoing_path
from stepwell.domain.events import Problem, StepCompleted
from stepwell.domain.program import RunOptions
from stepwell.domain.status import Status
from stepwell.domain.steps import StepSpec
from stepwell.engine.run.answers import RecordedResult
from stepwell.engine.run.calls import StepCall
from stepwell.engine.run.endings import RunEnding
from stepwell.engine.run.full_log import look_back, whole_log
from stepwell.engine.run.journal import Journal
from stepwell.engine.run.port import RunPort
from stepwell.errors import (
    CodeChanged,
    CompensationFailed,
    NotDurable,
    StepError,
    StepwellError,
)

# Not the run's own failures: what it did stays, and a person can retry it.
_HELD = frozenset({CodeChanged.code, NotDurable.code})

Undoable = dict[str, StepCompleted]


def compensates(ending: RunEnding, options: RunOptions) -> bool:
    """Is what the run did to be undone before it ends like this?"""
    if ending.status is Status.CANCELLED:
        return True
    if ending.status not in (Status.FAILED, Status.TIMED_OUT):
        return False
    held = ending.problem is not None and ending.problem.code in _HELD
    return not held and options.on_failure != "hold"


def undoable(journal: Journal, answers: Iterable[RecordedResult]) -> Undoable:
    """What this owner knows of, in log order; also results that the code has not received."""
    steps = journal.undoable
    for answer in answers:
        if isinstance(answer.fact, StepCompleted) and answer.fact.undo is not None:
            note_done(steps, answer.path, answer.fact)
    return steps


def has_earlier(journal: Journal, log: Sequence[LogRow]) -> bool:
    """A machine is claimed from its last checkpoint on; only the store has what it did before."""
    return journal.version > 0 and len(log) > 1 and log[1].seq > 2


def ending_of(started: ev.CompensationStarted) -> RunEnding:
    """How a run ends whose compensation an earlier owner has begun."""
    return RunEnding(Status(started.status), problem=started.error, reason=started.reason)


def ending_undone(ended: ev.Failed | ev.TimedOut) -> RunEnding:
    """How a run ends again after a person asked for it to be undone."""
    return RunEnding(Status.FAILED if isinstance(ended, ev.Failed) else Status.TIMED_OUT, problem=ended.error)


class Compensation:
    def __init__(
        self, run: RunPort, ending: RunEnding, started: ev.CompensationStarted | None, *, earlier: bool
    ) -> None:
        self._run = run
        self._started = started
        self._earlier = earlier  # some of it is not in the log that came with the claim
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
        if not self._run.journal.compensated:
            self._run.record(ev.CompensationCompleted(failed=self._failed))
        self._report()
        return b"null"

    def _begun(self) -> bool:
        """Record what is to be undone; False: nothing is."""
        steps = list(reversed(undoable(self._run.journal, self._run.calls.answers)))
        if steps:
            ending = self.ending
            self._started = ev.CompensationStarted(
                status=ending.status, steps=steps, error=ending.problem, reason=ending.reason
            )
            self._run.record(self._started)
        return bool(steps)

    def _next(self, undone: set[str]) -> str:
        """In the recorded order; then what was recorded after it, by a transaction that was under way."""
        assert self._started is not None
        paths = [*self._started.steps, *self._run.journal.undoable]
        return next((path for path in paths if path not in undone), "")

    async def _undo(self, path: str) -> None:
        run = self._run
        spec, args, kwargs = _prepared(run.journal.undoable[path])
        future = run.loop.create_future()
        call = StepCall(
            undoing_path(path), future, spec=spec, args=args, kwargs=kwargs, queue=spec.queue, digest=""
        )
        try:
            await run.ask(call)
        except StepError:
            self._failed.append(path)

    def _report(self) -> None:
        """Name the steps that could not be undone: a person must know."""
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
        if self._earlier:
            earlier: Undoable = {}
            await whole_log(self._run, partial(_note, earlier))
            self._know(earlier)

    def resume(self, begin: Callable[[], None]) -> None:
        """An earlier owner had begun it: call `begin` once all that is to be undone is known."""
        earlier: Undoable = {}

        def complete() -> None:
            self._know(earlier)
            begin()

        look_back(self._run, partial(_note, earlier), complete)

    def _know(self, earlier: Undoable) -> None:
        self._run.journal.undoable = earlier | self._run.journal.undoable


def _note(steps: Undoable, row: LogRow) -> None:
    if row.kind == ev.KIND[StepCompleted]:
        fact = ev.read_as(StepCompleted, row)
        if fact.undo is not None:
            note_done(steps, row.path, fact)


def _prepared(fact: StepCompleted) -> tuple[StepSpec, tuple[Any, ...], dict[str, Any]]:
    """The call that undoes it; one that cannot be prepared fails as a step, so that the log says why."""
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
