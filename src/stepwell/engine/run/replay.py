"""Releasing: a recorded answer goes to the code that asked for it, on the first run as on replay."""

from __future__ import annotations

import difflib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.codec import digest
from stepwell.domain.compensation import note_done
from stepwell.domain.fork.prefix import is_failure
from stepwell.domain.problems import child_problem, step_error
from stepwell.domain.program import Program
from stepwell.domain.status import Status
from stepwell.engine.run.answers import Question, RecordedResult, result_path
from stepwell.engine.run.calls import BodyCall, Call, ChildCall, StepCall, TimerCall, TriggerCall, WaitCall
from stepwell.engine.run.documents import show
from stepwell.engine.run.journal import Journal
from stepwell.engine.run.workflow_loop import CANCELLING, RunCancelling
from stepwell.errors import DIFFERS, CodeChanged, WaitTimedOut

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation
    from stepwell.engine.run.calls import WaitCall
    from stepwell.engine.run.journal import ReceivedMessage


def is_other(call: Call, answer: RecordedResult, journal: Journal) -> bool:
    """It was another question that this answers, as far as the log can tell."""
    match answer.fact:
        case ev.StepCompleted(digest=digest) | ev.StepFailed(digest=digest):
            # Behind the failure it was `notify("failed")`, now it is `notify("paid")`: that is another step.
            return isinstance(call, StepCall) and not same_arguments(call, digest)
        case ev.ChildStarted(digest=digest):
            new = call.new if isinstance(call, ChildCall) else None
            return new is not None and bool(digest) and digest != new.digest
        case ev.TimerFired() | ev.WaitEnded(outcome="answered"):
            return _differ(call, answer.asked, journal, _question)
        case ev.WaitEnded():
            return _differ(call, answer.asked, journal, _question_in_time)
        case _:
            return False


def _differ(call: Call, asked: Question, journal: Journal, question: Callable[[Question], object]) -> bool:
    """Without a failure it is the same, though a person may have changed its words since."""
    return asked is not None and journal.retries > 0 and question(call) != question(asked)


def _question(asked: Question) -> object:
    match asked:
        case TriggerCall() | ev.WaitOpened(what="trigger"):
            return None  # by its path it belongs to a place: what can be chosen there may change
        case TimerCall() | ev.TimerSet():
            return asked.seconds
        case WaitCall():
            form = msgspec.json.decode(msgspec.json.encode(asked.codec.schema()))
            return asked.what, asked.name, asked.key, asked.title, [*asked.assignees], form
        case ev.WaitOpened():
            form = msgspec.json.decode(asked.form)
            return asked.what, asked.name, asked.key, asked.title, asked.assignees, form
        case _:
            return None


def _question_in_time(asked: Question) -> object:
    """What was not answered in time may be answered in a longer one."""
    limit = asked.timeout if isinstance(asked, WaitCall | ev.WaitOpened) else None
    return _question(asked), limit


def marks_all(activation: Activation) -> bool:
    """Are the arguments of every step to be compared? Only tests can afford it, and there the code cannot
    have changed. Transitions may give others when they begin again."""
    return activation.services.replay_always and activation.program.definition.kind == "function"


def unreached(activation: Activation) -> Iterator[str]:
    """The paths that the log has open and that the code has not asked for yet."""
    calls, withdrawn, visits = activation.calls, activation.withdrawn, activation.visits
    for path in activation.journal.opened:
        if path not in calls and path not in withdrawn and not (visits is not None and visits.knows(path)):
            yield path


def left_open(activation: Activation) -> CodeChanged | None:
    """The replay of a function is over, or its code ended: what does the log have open that was not asked?"""
    path = next(unreached(activation), "") if activation.journal.accepted.kind == "function" else ""
    if not path:
        return None
    asked = ", ".join(list(activation.calls)[:5]) or "nothing"
    return CodeChanged(
        f"the log has {path} open, but the code now asks for {asked}", recorded=path, asked=asked
    )


def check_form(activation: Activation, call: WaitCall, message: ReceivedMessage) -> None:
    """An answer does not fit what the code expects. A decision was accepted for the form that the log has:
    if the code has another form now, the decision waits for code that takes it. (A place offers its choices
    anew instead.)
    """
    opening = activation.journal.opened.get(call.path)
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


_log = logging.getLogger("stepwell.engine")

_STRICT = 16  # characters of a digest; a short one has fewer


def _fields(value: Any) -> Any:
    """Of a pydantic model, without what it works out itself; of nothing else."""
    if not hasattr(type(value), "model_dump"):
        raise TypeError
    return value.model_dump(round_trip=True)


_encode = msgspec.json.Encoder(order="deterministic", enc_hook=_fields).encode


def strict_digest(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Guards against answers for the wrong branch; arguments that cannot be written have none."""
    try:
        return digest(_encode([args, kwargs]))
    except (TypeError, ValueError, RecursionError):
        return ""


def short_digest(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The same for every step of a main task, in a third of the time."""
    try:
        return str(crc32(_encode([args, kwargs] if kwargs else args)))
    except (TypeError, ValueError, RecursionError):
        return ""


def same_arguments(call: StepCall, recorded: str) -> bool:
    """As far as the digests can tell. Which of the two the log has depends on the version that wrote it."""
    if not recorded or not call.digest or recorded == call.digest:
        return True
    if len(recorded) == len(call.digest) == _STRICT:
        return False
    made = strict_digest if len(recorded) == _STRICT else short_digest
    return made(call.args, call.kwargs) in ("", recorded)


class ReplayedArguments:
    """Of the steps that one activation replays."""

    def __init__(self) -> None:
        # By step: digests that the log has at places where the code gives other arguments now.
        self.displaced: defaultdict[str, set[str]] = defaultdict(set)

    def compare(self, call: Call, fact: ev.Fact, ahead: Iterable[RecordedResult]) -> None:
        """CodeChanged when the step would get the result of another."""
        if not isinstance(call, StepCall) or not isinstance(fact, ev.StepCompleted | ev.StepFailed):
            return
        if same_arguments(call, fact.digest):
            return
        if len(fact.digest) == _STRICT:
            raise CodeChanged(
                f"{call.path} was recorded with other arguments than the code gives now",
                hint="create concurrent branches in the same order, or guard the change with ctx.patched; "
                f"{DIFFERS}",
            )
        if (moved := self.moved(call)) is not None:
            raise moved
        before = _numberless(call.path)
        for answer in ahead:
            if _numberless(answer.path) == before and getattr(answer.fact, "digest", "") == call.digest:
                raise _permuted(call)
        if not self.displaced:
            _log.warning(
                "%s was recorded with other arguments than the code gives now; the recorded result is used",
                call.path,
            )
        self.displaced[before].add(fact.digest)

    def moved(self, call: StepCall) -> CodeChanged | None:
        """The error, if these arguments were recorded at an earlier place."""
        known = self.displaced.get(_numberless(call.path), ())
        return _permuted(call) if call.digest in known else None


def _numberless(path: str) -> str:
    return path.rpartition("#")[0]


def _permuted(call: StepCall) -> CodeChanged:
    return CodeChanged(
        f"{call.path} has the arguments that the log has at another call of {call.spec.name}: "
        "the order of the calls has changed",
        hint="a set has another order after a restart: go over sorted(...) or a list; "
        f"guard a change of the code with ctx.patched; {DIFFERS}",
    )


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
        if is_failure(fact):
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
