"""Activation: one claimed run, from the claim until it is parked, ended or lost.

Workflow code runs in turns (`turns`). Its questions are calls; answers are released one by one, in
log order, with a turn after each. What happened is drafted and handed to the committer; one commit
is in flight at a time. An answer is released to the code when it is drafted, but effects (steps,
children) that were asked for behind it start only when the log has it: a crash in between repeats
a decision, never an effect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from stepwell.domain import events as ev
from stepwell.domain.commit import Claim, Committed, Finish, InboxRow, Outcome, Park
from stepwell.domain.ids import LeaseId, RunId
from stepwell.domain.program import Program
from stepwell.engine.context.context import RunContext
from stepwell.engine.context.sync_context import SyncBody
from stepwell.engine.machine.attempt import start_body
from stepwell.engine.run import compensation, endings, parking
from stepwell.engine.run.answers import MAY_ANSWER, RecordedResult, is_answer, result_path
from stepwell.engine.run.calls import BodyCall, Call, ChildCall, StepCall, WaitCall
from stepwell.engine.run.endings import begin_generation
from stepwell.engine.run.inbox import InboxReader
from stepwell.engine.run.journal import Journal, read_journal
from stepwell.engine.run.log_writer import Draft, LogWriter, opening
from stepwell.engine.run.own_faults import give_back
from stepwell.engine.run.replay import left_open, release
from stepwell.engine.run.services import Services
from stepwell.engine.run.steps import Steps
from stepwell.engine.run.timers import Timers
from stepwell.engine.run.unserved import Unserved
from stepwell.engine.run.waits import Waits
from stepwell.engine.run.workflow_loop import Scope, WorkflowLoop
from stepwell.errors import CodeChanged, LogDamaged, OwnershipLost, Unwind

if TYPE_CHECKING:
    from stepwell.engine.machine.driver import MachineDriver


class Activation:
    def __init__(self, services: Services, claim: Claim, program: Program, now: float) -> None:
        self.services = services
        self.claim = claim
        self.run_id: RunId = claim.run_id
        self.program = program
        self.journal: Journal = read_journal(claim.log, now)
        self.last_at = self.journal.last_at
        self.losses = claim.losses  # owners that died since the run last moved
        self.closed: type[Unwind] | None = None  # why no ctx call is answered any more
        self.live = False  # the log was replayed to its end
        self.draining = False
        self.cancelling = False
        self.thread: SyncBody | None = None
        self.visits: MachineDriver | None = None  # of a machine
        self.compensation: compensation.Compensation | None = None
        self.busy = 0  # things under way outside the workflow's code: looks into the store
        self.writer = LogWriter(
            claim, committer=services.committer, written=self._written, broken=partial(give_back, self)
        )
        self.advancing = False  # or held: something must be read before anything moves
        self._again = False
        self._ending: endings.Ending | None = None
        self.rows: deque[InboxRow] = deque(claim.inbox)  # messages that the code has not been told of
        self.inbox = InboxReader(services, claim, self._took)
        self.timers = Timers(services, now, self.advance)
        self.steps = Steps(self)
        self.waits = Waits(self)
        self.began = services.clock.monotonic()
        self.heard = False  # messages came in this activation
        self.lingered = False  # kept the lease for more of them since the last came
        self.broken = False  # our own mistake ended it: the run must be given back
        self.damage: LogDamaged | None = None  # or its log cannot be read: it must be set aside
        self.on_end: Callable[[Activation], None] | None = None
        # At the first settled fact after losses; True: others wait for this worker, leave it to them.
        self.on_move: Callable[[LeaseId], bool] | None = None
        self.open_program()

    # Life

    def begin(self) -> None:
        """Replay what is recorded, then go on from there."""
        for fact in opening(self.claim, self.services.worker, self.timers.claimed_at):
            self.writer.open_with(fact)
        self.timers.limit_run(self.journal, self.timed_out)
        if self.losses >= self.services.lost_leases_max:
            self._ending = endings.poisoned(self.journal, self.losses, self.claim.inbox)
            self.settle()
        else:
            self.start_main()
            self.advance()

    def open_program(self) -> None:
        journal = self.journal
        root = Scope(str(journal.generation))
        self.turns = WorkflowLoop(root, self.services.direct_calls)  # type: ignore[abstract]  # what it lacks it refuses by name
        self.calls: dict[str, Call] = {}
        self.answers: deque[RecordedResult] = journal.answers
        self.recorded = {answer.path for answer in journal.answers}
        self.withdrawn: set[str] = set()  # asked for, and not wanted any more
        self.arrived: dict[str, RecordedResult] = {}  # a child's end that nobody awaits yet
        self.commands: deque[Call] = deque()
        self.ctx = RunContext(self)

    def start_main(self) -> None:
        if self.journal.compensation is not None:
            return compensation.resume(self, self.journal.compensation)
        if self.journal.undoes is not None:
            return compensation.undo(self, self.journal.undoes)
        if isinstance(self.program, Unserved):
            self._ending = compensation.instead(self, self.program.ending(self))
            return None
        data = bytes(self.journal.input)
        if self.program.sync:
            self.thread = SyncBody(self, lambda ctx: self.program.run(ctx, data))
            body = self.thread.drive()
        else:
            body = self.program.run(self.ctx, data)
        self.main = self.turns.create_main(body)
        return None

    @property
    def problem(self) -> ev.Problem | None:
        return self._ending.problem if self._ending is not None else None  # why it is about to fail

    def check_open(self) -> None:
        if self.closed is not None:
            raise self.closed()

    # Turns

    def ask(self, call: Call) -> asyncio.Future[Any]:
        """Workflow code wants an answer: from the log if it has one, else something must be done."""
        if self.closed is not None:
            raise self.closed()
        path = call.path
        self.calls[path] = call
        if path in self.arrived:
            self._release(self.arrived.pop(path))
        elif path not in self.recorded and not (self.visits is not None and self.visits.refuses(call)):
            call.after = self.writer.barrier
            self.commands.append(call)
        return call.future

    def advance(self) -> None:
        """Let workflow code run as far as it can, then write what came of it."""
        if self.closed is not None:
            return
        if self.advancing:
            self._again = True
            return
        self.advancing = True
        try:
            self._again = True
            while self._again:
                self._again = False
                self._run_turns()
            if self.closed is None:
                self.settle()
        except Exception:
            give_back(self)
        finally:
            self.advancing = False

    def _run_turns(self) -> None:
        try:
            self._turn_by_turn()
        except CodeChanged as error:
            self._ending = endings.failed(error)

    def _turn_by_turn(self) -> None:
        while self.closed is None and self._ending is None:
            if self.turns.ready:
                self.turns.run_turn()
                if self.turns.endless:
                    self._ending = endings.endless()
                    continue
                if self.main.done():
                    if not (self.cancelling and self.turns.cancel_rest(self.main)):
                        self._ending = compensation.after_main(self)
                    continue
            if self.thread is not None and self.thread.running:
                return
            if self.answers:
                if self.writer.turn_held:
                    return  # a transactional step is about to come first in the log
                self._release(self.answers.popleft())
            elif not self.live:
                self._go_live()
            elif (self.rows or self.timers.dues) and self._take_next():
                continue
            else:
                commands = self.commands
                if len(commands) == 1 and commands[0].is_effect and commands[0].after > self.writer.head:
                    return  # most often: it begins when the log has what led to it
                if not (commands and self._start_commands()):
                    return

    def _go_live(self) -> None:
        """The replay is over: now the messages that came with the claim."""
        self.live = True
        if (changed := left_open(self)) is not None:
            raise changed
        self.waits.start_again()
        if self.rows:
            # Waits and remote steps must be open for their answers; but nothing begins or times out
            # before the messages are taken: an answer that came in time wins, a cancel comes first.
            for call in self.commands:
                if isinstance(call, StepCall):
                    self.steps.recall(call)
                elif isinstance(call, WaitCall):
                    self.waits.recall(call)

    def _take_next(self) -> bool:
        """One message, or one path that is due. One at a time: what it leads to may withdraw the next."""
        if self.rows:
            self.waits.take([self.rows.popleft()])
            return True
        path = self.timers.next_due()
        if path is None:
            return False
        del self.timers.dues[path]
        call = self.calls.get(path)
        if isinstance(call, StepCall):
            self.steps.due(call)
        elif call is not None:
            self.waits.due(call)
        return True

    def _release(self, answer: RecordedResult) -> None:
        try:
            release(self, answer)
        except CodeChanged as error:
            self._ending = endings.failed(error)

    def _start_commands(self) -> bool:
        """Begin what the code asked for; effects only when the log has all that led to them."""
        commands, answers, head = self.commands, self.answers, self.writer.head
        held: list[Call] = []
        while commands and not answers:  # one answer at a time: it may withdraw the next
            call = commands.popleft()
            if call.withdrawn or call.future.done():
                continue
            if not call.is_effect:
                self.waits.open(call)
            elif call.after > head or self.draining:
                held.append(call)
            elif isinstance(call, StepCall):
                if self.ctx.arguments.displaced and (moved := self.ctx.arguments.moved(call)) is not None:
                    self._ending = endings.failed(moved)
                    return True
                self.steps.start(call)
            elif isinstance(call, ChildCall):
                self.waits.start_child(call)
            elif isinstance(call, BodyCall):
                start_body(self, call)
        commands.extendleft(reversed(held))
        return bool(answers) or (bool(self.timers.dues) and self.timers.next_due() is not None)

    def withdraw(self, call: Call) -> None:
        """Workflow code does not want this answer any more."""
        if call.withdrawn:
            return
        call.withdrawn = True
        self.withdrawn.add(call.path)
        self.calls.pop(call.path, None)
        self.timers.dues.pop(call.path, None)
        self.writer.draft.dues.pop(call.path, None)
        if self.closed is None:
            if isinstance(call, StepCall):
                self.steps.withdraw(call)
            else:
                self.waits.withdraw(call)

    # Writing

    def record(self, fact: ev.Fact, path: str = "", attempt: int = 0) -> None:
        """Draft a fact; workflow code that waits for it goes on at once."""
        seq = self.writer.add(fact, path, attempt)
        kind = type(fact)
        if kind is ev.StepCompleted or (kind in MAY_ANSWER and is_answer(fact)):
            self.answers.append(
                RecordedResult(seq, result_path(path) if kind is ev.ChildEnded else path, fact)
            )

    def settle(self) -> None:
        """Hand the draft to the committer, parking or finishing when there is nothing left to do."""
        if self.closed is not None or self.writer.in_flight is not None:
            return
        draft = self.writer.draft
        then: Park | Finish | None = None
        if self._ending is not None:
            if self._ending.continues is not None:
                draft.base = self.writer.add(self._ending.continues, "", 0)
            else:
                self.steps.stop_all()
                then = endings.finish(self, self._ending)
        elif (
            # What can be told at a glance: most often something is under way, or about to begin.
            (not self.steps.executing and (not self.commands or self.draining))
            or (self.visits is not None and self.visits.in_calls)
        ) and parking.idle(self):
            if not (self.calls or self.commands or self.draining):
                self._ending = endings.stuck()
                self.settle()
                return
            then = parking.park(self)
        elif self.timers.dues:
            self.timers.watch()
        if then is None and not draft.needed:
            return
        self.writer.send(then)

    def _written(self, draft: Draft, result: Committed, then: Park | Finish | None) -> None:
        """The committer's answer. Not ok: nothing of the draft was written."""
        if self.closed is not None:
            return
        self.timers.held = False
        if result.outcome is Outcome.OK:
            self.writer.head += len(draft.events)
            self.last_at = result.at
            suspect = draft.settled and self.losses > 0
            if suspect:
                self.losses = 0
            for path, seconds in draft.dues.items():
                self.timers.dues[path] = result.at + seconds
            for action in draft.then_do:
                action(result.at)
            if then is not None:
                parking.left(self, then)
            else:
                if suspect and self.on_move is not None and self.on_move(self.claim.lease):
                    self.draining = True
                self._go_on(result, continued=draft.base is not None)
        elif result.outcome is Outcome.WOKEN:
            if self._ending is not None:
                self._ending.undraft(draft)
            self.writer.take_back(draft)
            self.inbox.look(result.wakes)
            if not self.inbox.reading:  # the messages were read while the commit was on its way
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
            begin_generation(self, fact)
            return
        if result.wakes > self.inbox.seen:
            self.inbox.look(result.wakes)
        if self.run_id in self.services.notifier.followed:
            self.services.notifier.moved(self.run_id)
        if self.services.replay_always and not parking.executes(self) and self.thread is None:
            self.draining = True  # give it back at once: the next claim replays the log
        self.advance()

    # Idle, park, finish

    def timed_out(self, limit: float) -> None:
        if self.closed is None and self._ending is None:
            self._ending = compensation.instead(self, endings.timed_out(self, limit))
            self.advance()

    def woken(self, wakes: int) -> None:
        """Somebody says that messages came; look if they are news."""
        if self.closed is None:
            self.inbox.look(wakes)

    def _took(self, rows: Sequence[InboxRow]) -> None:
        self.rows.extend(rows)
        self.heard, self.lingered = True, False
        self.advance()

    # Leaving

    def drain(self) -> None:
        """Start nothing more; park when what runs has ended."""
        self.draining = True
        self.advance()

    def lose(self) -> None:
        """Somebody else owns the run now."""
        self.close(OwnershipLost)

    def close(self, why: type[Unwind]) -> None:
        """Leave the code: every pending call raises, nothing is answered any more."""
        if self.closed is not None:
            return
        self.closed = why
        self.timers.stop()
        if self.visits is not None:
            self.visits.leave()
        self.steps.stop_all()
        self.turns.unwind(self.calls.values(), why)
        if self.thread is not None:
            self.thread.stop()
        if self.on_end is not None:
            self.on_end(self)
        # Without these the whole is freed at once, not by the garbage collector: a third of the time.
        self.writer.close()
        self.inbox.close()
        self.timers.close()
        self.calls.clear()
        self.__dict__.pop("main", None)
        self.visits = None
        del self.ctx, self.steps, self.waits
