"""Replay: a recorded result goes to the code that asked for it, on the first run as on replay."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.compensation import note_done
from stepwell.domain.fork.prefix import is_failure
from stepwell.domain.problems import child_problem, step_error
from stepwell.domain.program import Program
from stepwell.domain.status import Status
from stepwell.engine.run.answers import RecordedResult, result_path
from stepwell.engine.run.calls import WaitCall
from stepwell.engine.run.documents import show
from stepwell.engine.run.journal import Journal, ReceivedMessage
from stepwell.engine.run.port import Call, OpenCalls, RunParts, unreached
from stepwell.engine.run.style import StyleRules
from stepwell.errors import CodeChanged, WaitTimedOut


def left_open(journal: Journal, calls: OpenCalls) -> CodeChanged | None:
    """The replay of a function is over, or its code ended: does the log have something open that it did not
    ask for?"""
    path = next(unreached(journal, calls), "")
    if not path:
        return None
    asked = ", ".join(list(calls.pending)[:5]) or "nothing"
    return CodeChanged(
        f"the log has {path} open, but the code now asks for {asked}", recorded=path, asked=asked
    )


def check_form(journal: Journal, call: WaitCall, message: ReceivedMessage) -> None:
    """CodeChanged when a decision does not fit because the form has changed since it was accepted.

    The decision then waits for code that takes it. (A place of a machine offers its choices anew instead.)
    """
    opening = journal.opened.get(call.path)
    if message.what != "decide" or call.what != "approval" or opening is None:
        return
    assert isinstance(opening.fact, ev.WaitOpened)
    form = msgspec.json.encode(call.codec.schema())
    if msgspec.json.decode(form) != msgspec.json.decode(opening.fact.form):
        raise CodeChanged(
            f"a decision on {call.path} was accepted for another form than the code has now",
            hint="take the old form as well (for example Old | New) and retry the run: the decision is kept",
            recorded=call.path,
        )


def release(run: RunParts, style: StyleRules, answer: RecordedResult) -> bool:
    """Let the code continue with this answer; False: it did not ask for it.

    CodeChanged when it asks for something else than was recorded.
    """
    fact, calls, journal = answer.fact, run.calls, run.journal
    if type(fact) is ev.StepCompleted:
        if fact.undo is not None:
            note_done(journal.undoable, answer.path, fact)
        if journal.saved and not style.by_visits:
            show(journal, answer.path)
    path = answer.path
    if calls.recorded:
        calls.recorded.discard(path)
    call = calls.pending.pop(path, None)
    if call is None:
        return _keep_unasked(journal, calls, style, answer)
    if (
        type(fact) is ev.StepCompleted
        and (not fact.digest or fact.digest == call.digest)
        and style.in_order
        and not call.future.done()
    ):
        call.future.set_result(fact.result)  # the everyday answer
    elif (answer.optional or not style.in_order) and not call.matches(answer, retried=journal.retries > 0):
        calls.arrived.pop(result_path(call.path), None)
        calls.begin_again(call, run.writer.barrier)
    elif not call.future.done():
        call.check_recorded(fact, calls)
        style.note(answer, call)
        _answer(call, answer, journal)
        if is_failure(fact):
            calls.strict = True  # steps after a failure may be compared with others after a retry
    return True


def _keep_unasked(journal: Journal, calls: OpenCalls, style: StyleRules, answer: RecordedResult) -> bool:
    """A child's end that nobody awaits yet; or what a function did after a failure that was retried.

    Both wait until they are asked for: what is recorded is not done again. (A graph's cleanup is.)
    """
    late = answer.optional and style.replays_code
    if late and answer.path in journal.lost:
        # A child that the failure cancelled: code that asks for it starts another.
        calls.arrived.pop(result_path(answer.path), None)
    elif late or isinstance(answer.fact, ev.ChildEnded):
        calls.arrived[answer.path] = answer
    else:
        return answer.optional or answer.path in calls.withdrawn
    return True


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
            future.set_result(call.reply(journal.taken[fact.received]))
        case ev.WaitEnded():
            late = WaitTimedOut(f"{call.text} was not answered in time")
            late.path = call.path
            future.set_exception(late)
        case ev.ChildStarted() if answer.path in journal.lost and call.new is not None:
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


def code_changed(answer: RecordedResult, asked: Mapping[str, Call], program: Program) -> CodeChanged:
    """A readable difference between what is recorded and what the code asks for."""
    definition = program.definition
    kind = ev.KIND[type(answer.fact)]
    open_paths = list(asked)
    close = difflib.get_close_matches(answer.path, open_paths, n=1, cutoff=0.3) or open_paths[:1]
    instead = f"asks for {', '.join(close)}" if close else "asks for nothing more"
    return CodeChanged(
        f"event {answer.seq} recorded {answer.path} ({kind}), but the code now {instead}",
        recorded=answer.path,
        asked=", ".join(open_paths[:5]) or "nothing",
        workflow=f"{definition.name} version {definition.version}",
    )
