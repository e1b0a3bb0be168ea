"""Releasing: a recorded answer goes to the code that asked for it, on the first run as on replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.domain import events as ev
from stepwell.domain.compensation import note_done
from stepwell.domain.fork.prefix import failed_answer
from stepwell.domain.problems import child_problem, step_error
from stepwell.domain.status import Status
from stepwell.engine.run.answers import RecordedResult, result_path
from stepwell.engine.run.calls import BodyCall, Call, ChildCall, TriggerCall
from stepwell.engine.run.documents import show
from stepwell.engine.run.endings import code_changed
from stepwell.engine.run.journal import Journal
from stepwell.engine.run.questions import is_other
from stepwell.engine.run.workflow_loop import CANCELLING, RunCancelling
from stepwell.errors import WaitTimedOut

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation


def release(activation: Activation, answer: RecordedResult) -> None:
    """Let the code go on with this answer. CodeChanged when it is not the code that was recorded."""
    fact = answer.fact
    if type(fact) is ev.CancelRequested:
        _cancel_calls(activation)
        return
    if type(fact) is ev.StepCompleted:
        if fact.undo is not None:
            note_done(activation.journal.undoable, answer.path, fact)
        if activation.journal.saved:
            show(activation.journal, answer.path)
    activation.recorded.discard(answer.path)
    call = activation.calls.pop(answer.path, None)
    if call is None:
        _not_asked(activation, answer)
    elif (
        type(fact) is ev.StepCompleted
        and (not fact.digest or fact.digest == call.digest)
        and activation.visits is None
        and not call.future.done()
    ):
        call.future.set_result(fact.result)  # the everyday answer
    elif (answer.optional or activation.visits is not None) and is_other(call, answer, activation.journal):
        _ask_anew(activation, call)
    elif not call.future.done():
        activation.ctx.arguments.compare(call, fact, activation.answers)
        if activation.visits is not None:
            activation.visits.note(answer, call)
        _answer(call, answer, activation.journal)
        if failed_answer(fact):
            activation.ctx.marks = True  # what is done behind a failure may be met again, see below


def _not_asked(activation: Activation, answer: RecordedResult) -> None:
    """A child's end that nobody awaits yet; or what a function did behind a failure that was sent on.

    Both wait until they are asked for: what is recorded is not done again. (A graph's cleanup is.)
    """
    behind = answer.optional and activation.journal.accepted.kind == "function"
    if behind and answer.path in activation.journal.lost:
        # A child that the failure cancelled: whoever asks for it starts another.
        activation.arrived.pop(result_path(answer.path), None)
    elif behind or isinstance(answer.fact, ev.ChildEnded):
        activation.arrived[answer.path] = answer
    elif not (answer.optional or activation.live or answer.path in activation.withdrawn):
        raise code_changed(answer, activation.calls, activation.program)


def _ask_anew(activation: Activation, call: Call) -> None:
    activation.calls[call.path] = call
    activation.arrived.pop(result_path(call.path), None)
    call.after = activation.writer.barrier
    activation.commands.append(call)


def _cancel_calls(activation: Activation) -> None:
    """Raise in every pending ctx call, in the order of asking; cleanup may ask again.

    The code of a function is cancelled as asyncio cancels a task: by what the main task awaits.
    """
    activation.cancelling = True
    if activation.thread is not None:
        activation.thread.cancel()
        return
    if activation.program.definition.kind == "function":
        activation.main.cancel(CANCELLING)
        return
    for call in list(activation.calls.values()):
        if isinstance(call, BodyCall) and activation.visits is not None and activation.visits.cleans_up(call):
            continue  # its code hears of it, then the machine
        if not call.future.done():
            call.future.set_exception(RunCancelling())
            activation.withdraw(call)


def _answer(call: Call, answer: RecordedResult, journal: Journal) -> None:
    fact, future = answer.fact, call.future
    match fact:
        case ev.StepCompleted():
            future.set_result(fact.result)
        case ev.StepFailed():
            future.set_exception(step_error(fact.error, answer.path))
        case ev.TimerFired():
            future.set_result(None)
        case ev.WaitEnded(outcome="answered"):
            message = journal.taken[fact.received]
            future.set_result(message if isinstance(call, TriggerCall) else message.payload)
        case ev.WaitEnded():
            late = WaitTimedOut(f"{call.text} was not answered in time")
            late.path = call.path
            future.set_exception(late)
        case ev.ChildStarted() if answer.path in journal.lost and isinstance(call, ChildCall) and call.new:
            journal.lost[answer.path] = call.new
            future.set_result(call.new.id)
        case ev.ChildStarted():
            future.set_result(fact.run)
        case ev.ChildEnded():
            _release_child(call, fact)
        case _:
            raise AssertionError(f"{fact} answers nothing")


def _release_child(call: Call, fact: ev.ChildEnded) -> None:
    if fact.status == Status.COMPLETED:
        call.future.set_result(fact.result)
    else:
        call.future.set_exception(step_error(child_problem(fact), call.path.rstrip("!"), child=True))
