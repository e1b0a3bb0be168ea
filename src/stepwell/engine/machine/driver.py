"""MachineDriver: how a machine moves from place to place.

A visit is everything between two checkpoints. Its inner steps, waits and children are facts under
`generation/transition@visit/`, shared by all attempts: what completed is not done again. Place, state
and documents change only with TransitionCompleted, which is also where the next owner reads from.
Machines do not replay: a visit's answers are looked up by their paths, in whatever order they are asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.codec import Codec, limited
from stepwell.domain.commit import NEVER, InboxRow
from stepwell.domain.control_flow import TransitionStopped, Unwind
from stepwell.domain.events import Problem
from stepwell.domain.fork.prefix import is_failure
from stepwell.domain.machine import MachineCalls, Transition
from stepwell.domain.messages import decide_key
from stepwell.domain.problems import problem_of
from stepwell.domain.program import Program
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.engine.machine.attempt import TransitionAttempt, transition_attempt
from stepwell.engine.machine.calls import BackoffCall, TransitionCall, TriggerCall
from stepwell.engine.machine.context import MachineContext
from stepwell.engine.run.answers import RecordedResult, result_path
from stepwell.engine.run.documents import visible_after
from stepwell.engine.run.journal import StepRecord
from stepwell.engine.run.machine_state import TRIGGER, arrive, begin_anew, open_calls
from stepwell.engine.run.port import Call, RunParts, unreached
from stepwell.engine.run.style import StyleRules
from stepwell.engine.run.workflow_loop import RunCancelling
from stepwell.errors import (
    CodeChanged,
    InvalidDefinition,
    InvalidInput,
    PayloadTooLarge,
    TransitionTimedOut,
    excerpt,
)

_LEASE_LOOK = 0.1  # seconds
# The same code would give the same value, or be as wrong, again.
_HOPELESS = (InvalidDefinition, InvalidInput, PayloadTooLarge)


class MachineStyle(StyleRules):
    by_visits = True

    def start(self, program: Program, input: bytes) -> tuple[StyleRules, Coroutine[Any, Any, bytes]]:
        driver = MachineDriver(self._run, program)
        calls: MachineCalls = driver  # so that the type checker compares them
        return driver, program.run(calls, input)


class MachineDriver(StyleRules):
    """What the program of a machine gets as its context, and the rules while it runs."""

    by_visits = True
    in_order = False
    may_refuse = True

    def __init__(self, run: RunParts, program: Program) -> None:
        super().__init__(run)
        self._triggers: Collection[str] = ()
        self.current = self._journal = journal = run.journal
        self.ctx = MachineContext(run, program, self)
        self._known: dict[str, RecordedResult] = {}
        self._call: TransitionCall | None = None
        self._owes_cancel = False
        self._cancelled: set[str] = set()  # what the code was in when the run was cancelled
        self._kept: dict[str, list[InboxRow]] = {}  # answers that arrived before the code has asked again
        self.touched = True  # this visit has left something that the next must not see
        answers = run.calls.answers
        for answer in answers:
            asked_since = answer.path in journal.lost or answer.path in journal.waits
            if not (isinstance(answer.fact, ev.CancelRequested) or asked_since):
                self._know(answer)
        run.calls.answers = deque(a for a in answers if isinstance(a.fact, ev.CancelRequested))
        journal.lost.clear()  # a child that a failure had cancelled is started when it is asked for
        self._offer()

    def declare(self, triggers: Collection[str]) -> None:
        self._triggers = triggers

    def check_trigger(self, name: str) -> None:
        """Without such a transition the child's result would be lost, and the machine would wait forever."""
        if name not in self._triggers:
            raise InvalidDefinition(
                f"no transition of this machine is triggered by {excerpt(name)}",
                hint=did_you_mean_one_of(name, self._triggers) or "none of its transitions has wait=",
            )

    # What the log says of this visit

    def _offer(self) -> None:
        """Calls are answered with what is known."""
        self._run.calls.look_up(self._known)

    def _know(self, answer: RecordedResult) -> None:
        self._known[answer.path] = answer
        if isinstance(answer.fact, ev.ChildStarted):
            self._known.pop(result_path(answer.path), None)  # the end of another at this path

    @property
    def came_further(self) -> bool:
        """Has the log something of this transition that its code has not come to yet?"""
        inside = self._call.path if self._call is not None else ""
        answered = (path for path in self._run.calls.arrived if not path.endswith("!"))
        left = unreached(self._journal, self._run.calls, self._known)
        return any(left) or any(path.startswith(inside) for path in answered)

    def _check_decisions(self, transition: Transition) -> None:
        """The transition's code ended. A decision that was accepted for one of its questions, which the code
        did not ask for again, must not be discarded."""
        for path in unreached(self._journal, self._run.calls, self._known):
            if path in self._kept or decide_key(path) in self._journal.messages:
                self._give_back()  # the end of the run writes them into the log
                raise CodeChanged(
                    f"a decision on {path} was accepted, but {transition.name} ended without asking for it",
                    recorded=path,
                )

    def note(self, answer: RecordedResult, call: Call) -> None:
        """An answer went to the code: the next attempt gets it again."""
        if call.asks and answer.asked is None:
            answer = replace(answer, asked=call)
        self._know(answer)
        if isinstance(answer.fact, ev.StepFailed):
            self._journal.steps[answer.path] = StepRecord(attempt=call.attempt)

    def keeps(self, row: InboxRow) -> bool:
        """The code that this answers was left, and has begun again but not come to its question yet.

        Until then the message stays in the inbox: if the run parks or is lost before, it comes again.
        """
        path, journal, calls = row.name, self._journal, self._run.calls
        if path in calls.pending or path in calls.withdrawn or path in self._known:
            return False
        step = journal.steps.get(path)
        sent_out = row.kind == "step" and step is not None and step.scheduled_at is not None
        if sent_out or (row.kind in ("decide", "reassign", "remind") and path in journal.waits):
            self._kept.setdefault(path, []).append(row)
            return True
        return False

    def _recall(self, call: Call) -> None:
        """What the log has open is open for its answer as soon as the code asks, before it is begun again."""
        call.recall(self._run)
        self._run.waits.rows.extendleft(reversed(self._kept.pop(call.path, ())))

    def _give_back(self) -> None:
        """Nobody asked: they are taken as answers to a question that is closed."""
        rows = [row for kept in self._kept.values() for row in kept]
        self._run.waits.rows.extendleft(reversed(rows))
        self._kept.clear()

    def rest(self, quiet: bool) -> None:
        """While the run only waits, the time of its transition stands still."""
        if (attempt := self._attempt) is not None:
            attempt.rest(quiet)

    @property
    def _attempt(self) -> TransitionAttempt | None:
        """The attempt that is under way."""
        return self._call.running if self._call is not None else None

    @property
    def in_calls(self) -> bool:  # type: ignore[override]  # it depends on the attempt
        """The attempt that is under way has used its ctx: all of it may wait for the log."""
        return self._call is not None and self._call.running is not None and self._call.running.asked

    def weigh(self) -> None:
        if (attempt := self._attempt) is not None:
            attempt.weigh()

    def stays(self) -> bool:
        return (attempt := self._attempt) is not None and attempt.stays()

    def where(self, path: str) -> str:
        return f"at {self._journal.place or 'start'}" + (f": {path}" if path else "")

    def leave(self) -> None:
        if (attempt := self._attempt) is not None:
            attempt.stop()
        del self.ctx  # it knows the driver: without this both stay until the garbage collector comes

    def begin_attempt(self, call: TransitionCall) -> None:
        """Begin an attempt, once the log has everything that led to it and the lease holds."""
        run = self._run
        if run.writer.losses > 0 and not call.announced and not self._is_logged(call):
            # A worker was lost in this run: from now on the log says what is begun before it begins.
            call.announced = True
            run.record(ev.StepStarted(step=call.transition.name), call.path, call.attempt)
            run.calls.begin_again(call, run.writer.barrier)
        elif not run.services.lease_valid():
            run.hold()
            run.services.loop.call_later(_LEASE_LOOK, self._begin_late, call)
        else:
            transition_attempt(run, self, call).run()

    def _is_logged(self, call: TransitionCall) -> bool:
        """The log has this attempt as begun, by an owner before us."""
        record = self._journal.steps.get(call.path)
        return record is not None and record.started and record.attempt == call.attempt

    def _begin_late(self, call: TransitionCall) -> None:
        self._run.release_hold()
        if self._run.closed is None and not call.future.done():
            self.begin_attempt(call)

    # Cancelling

    def cleans_up(self, call: TransitionCall) -> bool:
        """The run is being cancelled: does the transition's code hear of it?"""
        if call.running is not None:
            call.running.cancel()
            return True
        # Parked or lost in the middle of it: begin it again over what is known, up to where it was.
        journal = self._journal
        self._owes_cancel = journal.chosen == call.transition.name
        self._cancelled = open_calls(journal) if journal.cancelled is None else journal.cancelled
        return self._owes_cancel

    def refuses(self, call: Call) -> bool:
        """Code that was begun again to clean up hears of the cancel where the log ends, and in every call
        that it was in when the cancel came; what it asks for after that is cleanup."""
        if call is self._call:
            return False
        if not (self._owes_cancel or call.path in self._cancelled):
            self._recall(call)
            return False
        self._owes_cancel = False
        self._cancelled.discard(call.path)
        del self._run.calls.pending[call.path]
        call.future.set_exception(RunCancelling())
        return True

    # Moving

    async def wait_for_trigger(self, place: str, choices: Mapping[str, Codec]) -> tuple[str, Raw]:
        run = self._run
        path = f"{run.loop.root.path}/{TRIGGER}{place}@{self._journal.version + 1}"
        self.touched = True
        call = TriggerCall(path, run.loop.create_future(), what="trigger", name=place, codecs=choices)
        message = await run.ask(call)
        return message.name, message.payload

    async def transit(self, transition: Transition, body: Callable[[Any], Any], state: Raw) -> None:
        run, attempts = self._run, self._journal.attempts
        path = f"{run.loop.root.path}/{transition.name}@{self._journal.version + 1}"
        started = self._journal.steps.get(path)
        if started is not None:  # an owner before us had begun it
            attempts.begun = max(attempts.begun, started.attempt - 1)
        while True:
            if attempts.retry_at is not None:
                future = run.loop.create_future()
                await run.ask(BackoffCall(path, future, transition=transition, due_at=attempts.retry_at))
                attempts.retry_at = None
            if run.cancelling:
                raise RunCancelling
            if attempts.stopped is not None:  # recorded by an owner that was lost before it could end the run
                raise TransitionStopped(attempts.stopped)
            attempts.begun += 1
            call = TransitionCall(
                path,
                asyncio.Future(loop=run.loop),
                transition=transition,
                body=body,
                attempt=attempts.begun,
                driver=self,
            )
            self._call = call
            try:
                after = await run.ask(call)
                if len(after) > (limit := run.services.payload_bytes_max):
                    limited(after, f"the state after {transition.name}", limit)
            except (Unwind, CodeChanged):  # the second stays until a person fixes the code: nothing failed
                raise
            except BaseException as error:
                if run.closed is not None:  # the run has timed out: its code is left, it did not fail
                    raise
                if self._failed(transition, path, error, state):
                    return
            else:
                if self._journal.opened:
                    self._check_decisions(transition)
                self._completed(transition, path, transition.target, Raw(after), None)
                return

    def _completed(
        self, transition: Transition, path: str, target: str, state: Raw, error: Problem | None
    ) -> None:
        journal = self._journal
        fact = ev.TransitionCompleted(
            transition=transition.name,
            source=transition.source,
            target=target,
            version=journal.version + 1,
            state=state,
            error=error,
            documents=visible_after(journal, path, failed=error is not None),
            **self._leftovers(),
        )
        self._run.writer.checkpoint(fact, path, journal.attempts.begun)
        arrive(journal, fact)
        self._forget()

    def _forget(self) -> None:
        """The next visit begins with an empty history."""
        self._call = None
        self._journal.saved.clear()
        if not self.touched:
            return
        self.touched = False
        journal = self._journal
        self._known.clear()
        self._run.calls.forget()
        journal.steps.clear()
        journal.timers.clear()
        journal.waits.clear()
        journal.values.clear()
        journal.taken.clear()
        journal.news.clear()
        self._give_back()

    def _failed(self, transition: Transition, path: str, error: BaseException, state: Raw) -> bool:
        """Record the failure; True: the machine went to another place, False: it is tried again."""
        run, journal = self._run, self._journal
        attempts = journal.attempts
        chance = run.services.ids.jitter()
        retry_in = transition.retry.wait_after(attempts.failures + 1, error, chance)
        if isinstance(error, _HOPELESS):
            retry_in = None
        problem = problem_of(error, path)
        target = (
            ""
            if retry_in is not None
            else transition.after_failure(timed_out=isinstance(error, TransitionTimedOut))
        )
        fact = ev.TransitionFailed(
            transition=transition.name,
            source=transition.source,
            error=problem,
            retry_in=retry_in,
            target=target,
        )
        run.record(fact, path, attempts.begun)
        attempts.failures += 1
        if retry_in is not None:
            attempts.retry_at = NEVER  # counted from the commit
            run.writer.due(path, retry_in)
            self._begin_anew()
            return False
        if not target:
            raise TransitionStopped(problem)
        self._completed(transition, path, target, state, problem)
        return True

    def _begin_anew(self) -> None:
        begin_anew(self._journal)
        self._give_back()
        again = {path.rstrip("!") for path, answer in self._known.items() if is_failure(answer.fact)}
        self._known = {path: a for path, a in self._known.items() if path.rstrip("!") not in again}
        self._offer()

    # What the next visit keeps

    def _leftovers(self) -> dict[str, Any]:
        """What must not be forgotten with the log before a checkpoint; most runs have nothing."""
        left = self._run.waits.leftovers()
        if self._journal.accepted.timeout is not None:
            left["active"] = self._journal.active_seconds + self._run.timers.seconds_held
        return left
