"""Visits: how a machine moves from place to place.

A visit is everything between two checkpoints. Its inner steps, waits and children are facts under
`generation/transition@visit/`, shared by all attempts: what completed is not done again. Place, state
and documents change only with TransitionCompleted, which is also where the next owner reads from.
Machines do not replay: a visit's answers are looked up by their paths, in whatever order they are asked.
"""

from __future__ import annotations

import asyncio
import difflib
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.codec import Codec, limited
from stepwell.domain.commit import NEVER, InboxRow
from stepwell.domain.events import Problem
from stepwell.domain.fork.prefix import is_failure
from stepwell.domain.machine import Transition
from stepwell.domain.messages import decide_key
from stepwell.domain.problems import problem_of
from stepwell.engine.run.answers import RecordedResult, result_path
from stepwell.engine.run.calls import BackoffCall, BodyCall, Call, StepCall, TimerCall, TriggerCall, WaitCall
from stepwell.engine.run.documents import visible_after
from stepwell.engine.run.journal import StepRecord
from stepwell.engine.run.machine_state import TRIGGER, arrive, begin_anew, open_calls
from stepwell.engine.run.replay import unreached
from stepwell.engine.run.workflow_loop import RunCancelling
from stepwell.errors import (
    CodeChanged,
    InvalidDefinition,
    InvalidInput,
    PayloadTooLarge,
    TransitionStopped,
    TransitionTimedOut,
    Unwind,
    excerpt,
)

if TYPE_CHECKING:
    from stepwell.engine.machine.attempt import TransitionAttempt
    from stepwell.engine.run.activation import Activation
    from stepwell.engine.run.waits import Waits

_KEYS_KEPT = 10_000
# The same code would give the same value, or be as wrong, again.
_HOPELESS = (InvalidDefinition, InvalidInput, PayloadTooLarge)


class MachineDriver:
    def __init__(self, activation: Activation, triggers: Collection[str]) -> None:
        self._activation = activation
        self._triggers = triggers
        self.here = self._journal = journal = activation.journal
        self._known: dict[str, RecordedResult] = {}
        self._call: BodyCall | None = None
        self._owes_cancel = False
        self._cancelled: set[str] = set()  # what the code was in when the run was cancelled
        self._kept: dict[str, InboxRow] = {}  # answers that came before the body has asked again
        self.touched = True  # this visit has left something that the next must not see
        activation.visits = self
        for answer in activation.answers:
            asked_since = answer.path in journal.lost or answer.path in journal.waits
            if not (isinstance(answer.fact, ev.CancelRequested) or asked_since):
                self._know(answer)
        activation.answers = deque(a for a in activation.answers if isinstance(a.fact, ev.CancelRequested))
        journal.lost.clear()  # a child that a failure had cancelled is started when it is asked for
        self._offer()

    def check_trigger(self, name: str) -> None:
        """A child's result for a transition that is none would be lost, and the machine wait for ever."""
        if name not in self._triggers:
            close = difflib.get_close_matches(name, self._triggers, n=1)
            known = ", ".join(sorted(self._triggers)) or "none"
            raise InvalidDefinition(
                f"no transition of this machine is triggered by {excerpt(name)}",
                hint=f"did you mean {close[0]!r}?" if close else f"there are (wait=...): {known}",
            )

    # What the log says of this visit

    def _offer(self) -> None:
        """What is known is there for whoever asks for it."""
        self._activation.arrived = dict(self._known)
        self._activation.recorded = set(self._known)

    def _know(self, answer: RecordedResult) -> None:
        self._known[answer.path] = answer
        if isinstance(answer.fact, ev.ChildStarted):
            self._known.pop(result_path(answer.path), None)  # the end of another at this path

    def knows(self, path: str) -> bool:
        """Was it answered in this visit?"""
        return path in self._known

    @property
    def came_further(self) -> bool:
        """Has the log something of this transition that its code has not come to yet?"""
        inside = self._call.path if self._call is not None else ""
        answered = (path for path in self._activation.arrived if not path.endswith("!"))
        return any(unreached(self._activation)) or any(path.startswith(inside) for path in answered)

    def _check_decisions(self, move: Transition) -> None:
        """The transition's code ended. A decision that was accepted for one of its questions, which the code
        did not ask for again, must not be discarded."""
        for path in unreached(self._activation):
            if path in self._kept or decide_key(path) in self._journal.messages:
                self._give_back()  # the end of the run writes them into the log
                raise CodeChanged(
                    f"a decision on {path} was accepted, but {move.name} ended without asking for it",
                    recorded=path,
                )

    def note(self, answer: RecordedResult, call: Call) -> None:
        """An answer went to the code: the next attempt gets it again."""
        if isinstance(call, TimerCall | WaitCall) and answer.asked is None:
            answer = replace(answer, asked=call)
        self._know(answer)
        if isinstance(call, StepCall) and isinstance(answer.fact, ev.StepFailed):
            self._journal.steps[answer.path] = StepRecord(attempt=call.attempt)

    def keeps(self, row: InboxRow) -> bool:
        """The body that this answers was left, and has begun again but not come to its question yet.

        Until then the message stays in the inbox: if the run parks or is lost before, it comes again.
        """
        path, journal = row.name, self._journal
        if path in self._activation.calls or path in self._activation.withdrawn or path in self._known:
            return False
        step = journal.steps.get(path)
        sent_out = row.kind == "step" and step is not None and step.scheduled_at is not None
        if sent_out or (row.kind == "decide" and path in journal.waits):
            self._kept[path] = row
            return True
        return False

    def _recall(self, call: Call) -> None:
        """What the log has open is open for its answer as soon as the body asks, before it is begun again."""
        if isinstance(call, StepCall):
            self._activation.steps.recall(call)
        elif isinstance(call, WaitCall):
            self._activation.waits.recall(call)
        if (row := self._kept.pop(call.path, None)) is not None:
            self._activation.rows.appendleft(row)

    def _give_back(self) -> None:
        """Nobody asked: they are taken as answers to a question that is closed."""
        self._activation.rows.extendleft(reversed(self._kept.values()))
        self._kept.clear()

    def rest(self, quiet: bool) -> None:
        """While the run only waits, the time of its transition stands still."""
        if (body := self.body) is not None:
            body.rest(quiet)

    @property
    def body(self) -> TransitionAttempt | None:
        """The attempt that is under way."""
        return self._call.running if self._call is not None else None

    @property
    def in_calls(self) -> bool:
        """The attempt that is under way has used its ctx: all of it may wait for the log."""
        return self._call is not None and self._call.running is not None and self._call.running.asked

    def leave(self) -> None:
        """The run is given back: the body must not go on, whatever its code makes of an error of ctx."""
        if (body := self.body) is not None:
            body.stop()

    # Cancelling

    def cleans_up(self, call: BodyCall) -> bool:
        """The run is being cancelled: does the transition's code get to hear it?"""
        if call.running is not None:
            call.running.cancel()
            return True
        # Parked or lost in the middle of it: begin it again over what is known, up to where it was.
        journal = self._journal
        self._owes_cancel = journal.chosen == call.move.name
        self._cancelled = open_calls(journal) if journal.cancelled is None else journal.cancelled
        return self._owes_cancel

    def refuses(self, call: Call) -> bool:
        """Code that was begun again to clean up hears of the cancel where the log ends, and in every call
        that it was in when the cancel came; what it asks for then is cleanup."""
        if isinstance(call, BodyCall):
            return False
        if not (self._owes_cancel or call.path in self._cancelled):
            self._recall(call)
            return False
        self._owes_cancel = False
        self._cancelled.discard(call.path)
        del self._activation.calls[call.path]
        call.future.set_exception(RunCancelling())
        return True

    # Moving

    async def triggered(self, place: str, choices: Mapping[str, Codec]) -> tuple[str, Raw]:
        activation = self._activation
        path = f"{activation.turns.root.path}/{TRIGGER}{place}@{self._journal.version + 1}"
        self.touched = True
        call = TriggerCall(path, activation.turns.create_future(), place, choices)
        message = await activation.ask(call)
        return message.name, message.payload

    async def transit(self, move: Transition, body: Callable[[Any], Any], state: Raw) -> None:
        activation, attempts = self._activation, self._journal.attempts
        path = f"{activation.turns.root.path}/{move.name}@{self._journal.version + 1}"
        started = self._journal.steps.get(path)
        if started is not None:  # an owner before us had begun it
            attempts.begun = max(attempts.begun, started.attempt - 1)
        while True:
            if attempts.retry_at is not None:
                future = activation.turns.create_future()
                await activation.ask(BackoffCall(path, future, move, attempts.retry_at))
                attempts.retry_at = None
            if activation.cancelling:
                raise RunCancelling
            if attempts.stopped is not None:  # recorded by an owner that was lost before it could end the run
                raise TransitionStopped(attempts.stopped)
            attempts.begun += 1
            call = BodyCall(path, asyncio.Future(loop=activation.turns), move, body, attempts.begun)
            self._call = call
            try:
                after = await activation.ask(call)
                if len(after) > (limit := activation.services.payload_bytes_max):
                    limited(after, f"the state after {move.name}", limit)
            except (
                Unwind,
                CodeChanged,
            ):  # the second is no failure of the run: it stays until a person mends it
                raise
            except BaseException as error:
                if activation.closed is not None:  # the run has timed out: its code is left, it did not fail
                    raise
                if self._failed(move, path, error, state):
                    return
            else:
                self._check_decisions(move)
                self._completed(move, path, move.target, Raw(after), None)
                return

    def _completed(self, move: Transition, path: str, target: str, state: Raw, error: Problem | None) -> None:
        activation, journal = self._activation, self._journal
        fact = ev.TransitionCompleted(
            transition=move.name,
            source=move.source,
            target=target,
            version=journal.version + 1,
            state=state,
            error=error,
            documents=visible_after(journal, path, failed=error is not None),
            **self._leftovers(),
        )
        activation.record(fact, path, journal.attempts.begun)
        activation.writer.draft.base = activation.writer.barrier
        arrive(journal, fact)
        self._forget()

    def _forget(self) -> None:
        """The next visit begins with an empty history."""
        self._call = None
        self._journal.saved.clear()
        if not self.touched:
            return
        self.touched = False
        journal, activation = self._journal, self._activation
        self._known.clear()
        activation.arrived.clear()
        activation.recorded.clear()
        activation.withdrawn.clear()
        journal.steps.clear()
        journal.timers.clear()
        journal.waits.clear()
        journal.values.clear()
        journal.taken.clear()
        journal.told.clear()
        self._give_back()

    def _failed(self, move: Transition, path: str, error: BaseException, state: Raw) -> bool:
        """Record the failure; True: the machine went to another place, False: it is tried again."""
        activation, journal = self._activation, self._journal
        attempts = journal.attempts
        chance = activation.services.ids.jitter()
        retry_in = move.retry.wait_after(attempts.failures + 1, error, chance)
        if isinstance(error, _HOPELESS):
            retry_in = None
        problem = problem_of(error, path)
        target = "" if retry_in is not None else move.instead(timed_out=isinstance(error, TransitionTimedOut))
        fact = ev.TransitionFailed(
            transition=move.name, source=move.source, error=problem, retry_in=retry_in, target=target
        )
        activation.record(fact, path, attempts.begun)
        attempts.failures += 1
        if retry_in is not None:
            attempts.retry_at = NEVER  # counted from the commit
            activation.writer.draft.dues[path] = retry_in
            self._begin_anew()
            return False
        if not target:
            raise TransitionStopped(problem)
        self._completed(move, path, target, state, problem)
        return True

    def _begin_anew(self) -> None:
        begin_anew(self._journal)
        self._give_back()
        again = {path.rstrip("!") for path, answer in self._known.items() if is_failure(answer.fact)}
        self._known = {path: a for path, a in self._known.items() if path.rstrip("!") not in again}
        self._offer()

    # What goes along

    def _leftovers(self) -> dict[str, Any]:
        """What must not be forgotten with the log before a checkpoint; most runs have nothing."""
        activation = self._activation
        found: dict[str, Any] = {} if activation.waits.untouched else _of_waits(activation.waits)
        if self._journal.accepted.timeout is not None:
            now = activation.services.clock.monotonic()
            found["active"] = self._journal.active_seconds + now - activation.began
        return found


def _of_waits(waits: Waits) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if waits.keys:
        # Of signals and events: a repeat must be known as one also after this checkpoint.
        lasting = sorted(key for key in waits.keys if key.startswith(("signal/", "evt/")))
        found["keys"] = lasting[-_KEYS_KEPT:]
    if carried := [ev.Carried(name=m.name, payload=m.payload, key=m.key) for m in waits.unmatched()]:
        found["carried"] = carried
    if cursors := waits.cursors():
        found["cursors"] = cursors
    if children := waits.children_left():
        found["children"] = children
        found["triggers"] = waits.callbacks()
    return found
