"""Activation: one claimed run, from the claim until it is parked, ended or lost.

Workflow code runs in turns (`workflow_loop`). Its questions are calls; answers are released one by one, in
log order, with a turn after each. What happened is drafted and handed to the committer; one commit is in
flight at a time. An answer is released to the code when it is drafted, but effects (steps, children) that
were asked for after it start only when the log has it: a crash between repeats a decision, never an effect.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from stepwell.domain import events as ev
from stepwell.domain.commit import NEVER, Claim, Committed, Finish, InboxRow, Outcome, Park
from stepwell.domain.control_flow import CodeLeft, OwnershipLost, Unwind
from stepwell.domain.figures import COUNTED
from stepwell.domain.hops import hops_here
from stepwell.domain.ids import LeaseId, RunId
from stepwell.domain.program import Program
from stepwell.engine.run import endings
from stepwell.engine.run.answers import MAY_ANSWER, RecordedResult, is_answer, result_path
from stepwell.engine.run.compensation import (
    Compensation,
    compensates,
    ending_of,
    ending_undone,
    has_earlier,
    undoable,
)
from stepwell.engine.run.endings import RunEnding
from stepwell.engine.run.inbox import InboxReader
from stepwell.engine.run.journal import Journal, absorb, read_journal
from stepwell.engine.run.log_writer import Draft, LogWriter, opening
from stepwell.engine.run.parking import Parking
from stepwell.engine.run.port import Call, OpenCalls
from stepwell.engine.run.replay import code_changed, left_open, release
from stepwell.engine.run.services import Services
from stepwell.engine.run.steps import Steps
from stepwell.engine.run.style import StyleRules
from stepwell.engine.run.timers import Timers
from stepwell.engine.run.unserved import Unserved
from stepwell.engine.run.waits import Waits
from stepwell.engine.run.workflow_loop import CANCELLING, TaskScope, WorkflowLoop
from stepwell.errors import CodeChanged, LogDamaged

_log = logging.getLogger("stepwell.engine")
_SHORTER = {  # how the author of a run keeps its log short; otherwise as a function does
    "machine": "do less in one transition",
    "graph": "let a child workflow do each part",
}
_OK = Outcome.OK  # read after every commit; an enum member takes twice as long to read


class Activation:
    """Implements `RunPort` and `RunParts`."""

    def __init__(
        self,
        services: Services,
        claim: Claim,
        program: Program,
        now: float,
        *,
        on_end: Callable[[Activation], None] | None = None,
        on_move: Callable[[LeaseId], bool] | None = None,
    ) -> None:
        self.services = services
        self.claim = claim
        self.run_id: RunId = claim.run_id
        self.program = program
        self._style_of: Callable[[Activation], StyleRules] = services.styles[program.definition.kind]
        by_visits: bool = services.styles[program.definition.kind].by_visits
        self.journal: Journal = read_journal(claim.log, now, by_visits=by_visits)
        self.closed: type[Unwind] | None = None  # why no call is answered from now on
        self.draining = False
        self.held = False  # its workflow, queue or workspace is held; of the run itself, `waits` knows
        self.cancelling = False
        self.broken = False  # our own mistake ended it: the run must be given back
        self.damage: LogDamaged | None = None  # or its log cannot be read: it must be set aside
        self.writer = LogWriter(
            claim, committer=services.committer, written=self._written, broken=self.abandon
        )
        self.writer.last_at = self.journal.last_at
        self.timers = Timers(services, now, self.advance)
        self._inbox = InboxReader(services, claim, self._took)
        self._parking = Parking(self, self._inbox, limited=claim.limited)
        length = claim.head - self.writer.base  # events since the start, place or generation
        is_warned = length >= services.history_warn
        self._history_mark = services.history_max if is_warned else services.history_warn
        self._holds = 0  # things under way outside the workflow's code: looks into the store
        self._advancing = False  # or held: something must be read before anything moves
        self._again = False
        self._ending: RunEnding | None = None
        self._compensation: Compensation | None = None
        self._on_end = on_end
        # At the first settled fact after losses; True: others wait for this worker, leave it to them.
        self._on_move = on_move
        self.steps = Steps(self)
        self.waits = Waits(self, deque(claim.inbox))
        self._open_program()

    # Life

    def begin(self, *, draining: bool = False) -> None:
        """Replay what is recorded, then continue from there. Draining: begin nothing beyond the log."""
        self.draining = draining
        since, suspended = self.timers.claimed_at, self.journal.suspended
        for fact in opening(self.claim, self.services.worker, since, suspended=suspended):
            self.writer.open_with(fact)
        self.timers.limit_run(self.journal, self.timed_out)
        if self.writer.losses >= self.services.lost_leases_max:
            self._ending = endings.poisoned(self.journal, self.writer.losses, self.claim.inbox)
            self.settle()
        else:
            self._start_main()
            self.advance()

    def _open_program(self, *, replaying: bool = True) -> None:
        journal = self.journal
        root = TaskScope(str(journal.generation))
        self.loop = WorkflowLoop(root, self.services.direct_calls)  # type: ignore[abstract]  # what it lacks it refuses by name
        self._style = self._style_of(self)
        # Comparing the arguments of every step is for tests, where the code cannot have changed. A transition
        # may give others when it begins again.
        always = self.services.replay_always and self._style.replays_code
        self.calls = OpenCalls(journal.answers, strict=always or journal.retries > 0, replaying=replaying)

    def _start_main(self) -> None:
        journal = self.journal
        if journal.compensation is not None:
            self._compensate(ending_of(journal.compensation), journal.compensation)
        elif journal.undoes is not None:
            self._compensate(ending_undone(journal.undoes))
        elif isinstance(self.program, Unserved):
            self._ending = self._undo_before(self.program.ending(journal, self.waits.rows))
        else:
            self._style, body = self._style.start(self.program, bytes(journal.input))
            variables = copy_context()
            variables.run(hops_here.set, journal.accepted.hops)
            self._main = self.loop.start(body, self.loop.root, context=variables)

    @property
    def problem(self) -> ev.Problem | None:
        return self._ending.problem if self._ending is not None else None  # why it is about to fail

    # Turns

    def ask(self, call: Call) -> asyncio.Future[Any]:
        if self.closed is not None:
            raise self.closed()
        path, calls = call.path, self.calls
        calls.pending[path] = call
        if path in calls.arrived:
            self._release(calls.arrived.pop(path))
        elif path not in calls.recorded and not (self._style.may_refuse and self._style.refuses(call)):
            call.after = self.writer.barrier
            calls.commands.append(call)
        return call.future

    def advance(self) -> None:
        if self.closed is not None:
            return
        if self._advancing:
            self._again = True
            return
        self._advancing = True
        try:
            self._again = True
            while self._again:
                self._again = False
                try:
                    self._run_turns()
                except CodeChanged as error:
                    self._ending = endings.failed(error)
            if self.closed is None:
                self.settle()
        except Exception:
            self.abandon()
        finally:
            self._advancing = False

    def _run_turns(self) -> None:
        while self.closed is None and self._ending is None:
            loop = self.loop
            if loop.ready:
                loop.run_turn()
                if loop.endless:
                    self._ending = endings.endless()
                    continue
                if self._main.done():
                    if not (self.cancelling and self.loop.cancel_rest(self._main)):
                        self._ending = self._after_main()
                    continue
            thread, calls = self._style.thread, self.calls
            if thread is not None and thread.running:
                return
            if answers := calls.answers:
                if self.writer.turn_held:
                    return  # a transactional step is about to come first in the log
                self._release(answers.popleft())
            elif calls.replaying:
                self._go_live()
            elif (self.waits.rows or self.timers.dues) and self._take_next():
                continue
            else:
                commands = calls.commands
                if len(commands) == 1 and commands[0].is_effect and commands[0].after > self.writer.head:
                    return  # most often: it begins when the log has what led to it
                if not (commands and self._start_commands()):
                    return

    def _go_live(self) -> None:
        """The replay is over: take the messages that came with the claim."""
        self.calls.replaying = False
        if self._style.replays_code and (changed := left_open(self.journal, self.calls)) is not None:
            raise changed
        self.waits.start_again()
        if self.waits.rows:
            # Waits and remote steps must be open for their answers; but nothing begins or times out
            # before the messages are taken: an answer that came in time wins, a cancel comes first.
            for call in self.calls.commands:
                call.recall(self)
            self.waits.order()

    def _take_next(self) -> bool:
        """Take one message, or one path that is due: what that leads to may withdraw the next."""
        if self.waits.rows:
            row = self.waits.rows.popleft()
            if not self._style.keeps(row):
                self.waits.take(row)
                self.draining = self.draining or self.waits.held
            return True
        path = self.timers.next_due()
        if path is None:
            return False
        del self.timers.dues[path]
        call = self.calls.pending.get(path)
        # While it drains, the run parks soon, and the next owner begins the attempt.
        if call is not None and not (self.draining and call.retrying):
            call.due(self)
        return True

    def _release(self, answer: RecordedResult) -> None:
        if not answer.path:  # of the run itself
            if type(answer.fact) is ev.VariableSet and self.calls.on_variable is not None:
                self.calls.on_variable(answer.fact.name, answer.fact.value)
            elif type(answer.fact) is ev.CancelRequested:
                self._cancel()
            return
        try:
            if not release(self, self._style, answer) and self.calls.replaying:
                self._ending = endings.failed(code_changed(answer, self.calls.pending, self.program))
        except CodeChanged as error:
            self._ending = endings.failed(error)

    def _cancel(self) -> None:
        """Raise in every pending call, in the order of asking; cleanup may ask again.

        The code of a function is cancelled as asyncio cancels a task: by what the main task awaits.
        """
        self.cancelling = True
        if self._style.thread is not None:
            self._style.thread.cancel()
        elif self._style.replays_code:
            self._main.cancel(CANCELLING)
        else:
            for call in list(self.calls.pending.values()):
                call.cancel(self)

    def _start_commands(self) -> bool:
        """Begin what the code asked for; effects only when the log has all that led to them."""
        commands, answers, head = self.calls.commands, self.calls.answers, self.writer.head
        held: list[Call] = []
        while commands and not answers:  # one answer at a time: it may withdraw the next
            call = commands.popleft()
            if call.withdrawn or call.future.done():
                continue
            if call.is_effect and (call.after > head or self.draining):
                held.append(call)
            else:
                call.begin(self)
        if held:
            commands.extendleft(reversed(held))
        return bool(answers) or (bool(self.timers.dues) and self.timers.next_due() is not None)

    def withdraw(self, call: Call) -> None:
        if call.withdrawn:
            return
        call.withdrawn = True
        self.calls.withdrawn.add(call.path)
        self.calls.pending.pop(call.path, None)
        self.timers.dues.pop(call.path, None)
        self.writer.forget_due(call.path)
        if self.closed is None:
            call.withdraw(self)

    # Writing

    def record(self, fact: ev.Fact, path: str = "", attempt: int = 0) -> None:
        seq = self.writer.add(fact, path, attempt)
        kind = type(fact)
        if kind is ev.StepCompleted or (kind in MAY_ANSWER and is_answer(fact)):
            self.calls.answers.append(
                RecordedResult(seq, result_path(path) if kind is ev.ChildEnded else path, fact)
            )
        elif kind in COUNTED:
            self.writer.count(fact, path)

    def settle(self) -> None:
        """Hand the draft to the committer, parking or finishing when there is nothing left to do."""
        if self.closed is not None or self.writer.in_flight is not None:
            return
        then: Park | Finish | None = None
        if self._ending is not None:
            then = self._finish(self._ending)
        elif (
            # A cheap look first: most often something is under way, or about to begin.
            (not self.steps.executing and (not self.calls.commands or self.draining)) or self._style.in_calls
        ) and self._parking.idle(
            self._style, busy=self._holds > 0 or self.calls.replaying, draining=self.draining
        ):
            if not (self.calls.pending or self.calls.commands or self.draining):
                self._ending = endings.stuck()
                self.settle()
                return
            if not self._grows_too_long():
                then = self._parking.park(self._style, self.waits, draining=self.draining)
        elif self.timers.dues:
            self.timers.watch()
        if then is None and not self.writer.draft.needed:
            return
        self.writer.send(then, held=self.held or self.waits.held)

    def _finish(self, ending: RunEnding) -> Finish | None:
        if ending.continues is not None:
            self.writer.checkpoint(ending.continues)
            return None
        self.steps.stop_all()
        where_at = self._style.where(ending.problem.path if ending.problem else "")
        return endings.finish(self, self.waits, ending, seen=self._inbox.seen, where_at=where_at)

    def _written(self, draft: Draft, result: Committed, then: Park | Finish | None) -> None:
        """The committer's answer. Not ok: nothing of the draft was written."""
        if self.closed is not None:
            return
        self.timers.held = False
        if result.outcome is _OK:
            writer = self.writer
            writer.head += len(draft.events)
            writer.last_at = result.at
            if draft.base is not None:
                writer.base = draft.base
            if writer.head - writer.base >= self._history_mark:
                self._note_history()
            suspect = draft.settled and writer.losses > 0
            if suspect:
                writer.losses = 0
            if draft.dues:
                for path, seconds in draft.dues.items():
                    self.timers.dues[path] = result.at + seconds
            for action in draft.then_do:
                action(result.at)
            if then is not None:
                self._given_back(then)
            else:
                if suspect and self._on_move is not None and self._on_move(self.claim.lease):
                    self.draining = True
                self._go_on(result, continued=draft.base is not None)
        elif result.outcome is Outcome.WOKEN:
            if self._ending is not None:
                self._ending.undraft(draft)
            self.writer.take_back(draft)
            self._inbox.look(result.wakes)
            if not self._inbox.reading:  # the messages were read while the commit was on its way
                self.advance()
        elif result.outcome is Outcome.REFUSED:
            self.writer.drop(draft)
            self._ending = endings.refused()
            self.settle()
        else:
            self.lose()

    def _go_on(self, result: Committed, *, continued: bool) -> None:
        if continued and self._ending is not None and self._ending.continues is not None:
            fact, self._ending = self._ending.continues, None
            self._begin_generation(fact)
            return
        if result.wakes > self._inbox.seen:
            self._inbox.look(result.wakes)
        if self.run_id in self.services.notifier.wanted:
            self.services.notifier.notify_run(self.run_id)
        if (
            self.services.replay_always
            and not self._parking.executes(self._style)
            and self._style.thread is None
        ):
            self.draining = True  # give it back at once: the next claim replays the log
        self.advance()

    def _given_back(self, then: Park | Finish) -> None:
        """The lease was given back: leave the code, and report it."""
        now = self.timers.now()
        self.close(CodeLeft)
        if isinstance(then, Park):
            due = min(then.due_at - now, then.due_in)
            if due != NEVER:
                self.services.note_due(max(0.0, due))
            self.services.notifier.notify_run(self.run_id)
        else:
            endings.announce(self, then)
        self.services.notifier.notify_status()

    def _begin_generation(self, fact: ev.Continued) -> None:
        """continue_as_new is on disk: leave the code and begin it again."""
        self.steps.stop_all()
        self.closed = CodeLeft
        self.loop.unwind([call.future for call in self.calls.pending.values()], CodeLeft)
        self.closed = None
        absorb(self.journal, ev.Event(self.writer.head, self.writer.last_at, "", 0, fact))
        self.timers.dues.clear()
        self.timers.limit_run(self.journal, self.timed_out)
        self._open_program()
        # Signals that were not taken are in the journal.
        self.waits = Waits(self, self.waits.rows)
        self._start_main()
        self.advance()

    # Compensation

    def _after_main(self) -> RunEnding | None:
        """The code, or its compensation, has ended."""
        if self._compensation is not None:
            self._main.result()  # an error here is ours: the run is given back
            return self._compensation.ending
        if self.calls.replaying:
            changed = endings.unfinished_replay(self, self._style, self._main, self.program)
            if changed is not None:
                return self._undo_before(changed)
        return self._undo_before(endings.of_main(self, self.waits, self._main))

    def _undo_before(self, ending: RunEnding) -> RunEnding | None:
        """The ending, or None when there is something to undo before it."""
        if self._compensation is not None:
            return None  # it has begun, and continues
        if not compensates(ending, self.program.options) or not (
            undoable(self.journal, self.calls.answers) or has_earlier(self.journal, self.claim.log)
        ):
            return ending
        self._leave_code()
        self._compensate(ending)
        return None

    def _leave_code(self) -> None:
        """The code is over: what it still waits for is withdrawn, and it hears of nothing from now on."""
        self._style.leave()
        for call in list(self.calls.pending.values()):
            self.withdraw(call)
        self.steps.stop_all()
        self.closed = CodeLeft
        self.loop.unwind((), CodeLeft)
        if self._style.thread is not None:
            self._style.thread.leave()
        self.closed = None
        self.timers.dues.clear()
        self.journal.answers.clear()
        self.journal.opened.clear()
        self.journal.lost.clear()
        self._open_program(replaying=self.calls.replaying)

    def _compensate(self, ending: RunEnding, started: ev.CompensationStarted | None = None) -> None:
        earlier = has_earlier(self.journal, self.claim.log)
        self._compensation = compensation = Compensation(self, ending, started, earlier=earlier)
        self.cancelling = True  # a cancel that comes now changes nothing
        self.timers.unlimit_run()
        if started is not None and earlier:
            # First it must know all that is to be undone: answers and messages wait until it asks for them.
            self._advancing = True
            compensation.resume(self._begin_compensation)
        else:
            self._main = self.loop.start(compensation.run(), TaskScope("compensate"))

    def _begin_compensation(self) -> None:
        """All that is to be undone is known now."""
        assert self._compensation is not None
        self._advancing = False
        self._main = self.loop.start(self._compensation.run(), TaskScope("compensate"))

    # Time and messages

    def now(self) -> float:
        return self.timers.now()

    def timed_out(self, limit: float) -> None:
        if self.closed is None and self._ending is None:
            self._ending = self._undo_before(endings.timed_out(self.calls.pending.values(), limit))
            self.advance()

    def _grows_too_long(self) -> bool:
        """Return whether this draft makes the log too long. Then the run keeps its lease, and ends."""
        writer = self.writer
        length = writer.future_seq - writer.base
        return (
            length >= self.services.history_max
            and writer.draft.needed
            and not self.draining
            and self._compensation is None
        )

    def _note_history(self) -> None:
        """Warn once of a long log. A log that is too long ends the run."""
        services, length = self.services, self.writer.head - self.writer.base
        if length < services.history_max:
            self._history_mark = services.history_max
            _log.warning(
                "run %s has %d events since it began, and fails at %d: %s in time",
                *(self.run_id, length, services.history_max),
                _SHORTER.get(self.journal.accepted.kind, "call ctx.continue_as_new"),
            )
        elif self._ending is None and self._compensation is None:
            self._ending = self._undo_before(endings.too_long(length, services.history_max))

    def woken(self, wakes: int) -> None:
        """Messages may have come; look if there are new ones."""
        if self.closed is None:
            self._inbox.look(wakes)

    def _took(self, rows: Sequence[InboxRow]) -> None:
        self.waits.rows.extend(rows)
        self._parking.heard()
        self.advance()

    def hold(self) -> None:
        self._holds += 1

    def release_hold(self) -> None:
        self._holds -= 1

    def note_long(self, mark: float) -> None:
        """Log steps that have been running since before `mark`."""
        if self.steps.note_long(mark):
            self.settle()

    # Leaving

    def drain(self, *, held: bool = False) -> None:
        """Start nothing more; park when what runs has ended."""
        self.draining, self.held = True, self.held or held
        self.advance()

    def lose(self) -> None:
        """Somebody else owns the run now."""
        self.close(OwnershipLost)

    def vanish(self) -> None:
        """For tests: the process dies, so nobody hears of the end."""
        self._on_end = None
        self.close(OwnershipLost)

    def abandon(self, *, expected: bool = False) -> None:
        """In the handler of an error of the engine: it ends what this worker does with the run, not the run.

        Kept, the run would wait forever for what the error swallowed: nobody takes over from a living owner.
        """
        error = sys.exception()
        if isinstance(error, LogDamaged):
            self.damage = error
        elif not expected:
            _log.exception("run %s: the engine failed; the run is given back", self.run_id)
        self.broken = True
        self.close(OwnershipLost)

    def close(self, why: type[Unwind]) -> None:
        """Leave the code: every pending call raises, nothing is answered from now on."""
        if self.closed is not None:
            return
        self.closed = why
        self.timers.stop()
        self._style.leave()
        self.steps.stop_all()
        self.loop.unwind([call.future for call in self.calls.pending.values()], why)
        if self._style.thread is not None:
            self._style.thread.leave()
        if self._on_end is not None:
            self._on_end(self)
        # Without these the whole is freed at once, not by the garbage collector: a third of the time.
        self.writer.close()
        self._inbox.close()
        self.timers.close()
        self.calls.pending.clear()
        self.calls.commands.clear()
        self.__dict__.pop("_main", None)
        self.__dict__.pop("_compensation", None)
        del self.steps, self.waits, self._parking, self._style, self._on_end
