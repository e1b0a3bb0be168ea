"""RunPort: what a claimed run offers to its calls, its context and its parts; `Activation` implements it.

The other side of the port is `Call`: a request of workflow code. A call knows how it begins, what to do
when it is due and how it is withdrawn, so the run need not know its kind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.commit import InboxRow, NewRun
from stepwell.domain.control_flow import Unwind
from stepwell.domain.ids import RunId
from stepwell.engine.execution.attempt import Running
from stepwell.engine.run.answers import RecordedResult, question_of
from stepwell.engine.run.arguments import ReplayedArguments
from stepwell.engine.run.journal import Journal, ReceivedMessage
from stepwell.engine.run.log_writer import LogWriter
from stepwell.engine.run.services import Services
from stepwell.engine.run.timers import Timers
from stepwell.engine.run.workflow_loop import RunCancelling, WorkflowLoop


class Call(msgspec.Struct, eq=False):
    """A pending request of workflow code, answered through its future."""

    path: str
    future: asyncio.Future[Any]
    withdrawn: bool = False
    after: int = 0  # effects may start once the log has reached this seq
    timeout: float | None = None  # seconds
    new: NewRun | None = None  # the child that is to be started

    is_effect = False  # something begins outside: only when the log has all that led to it
    under_way = False  # work that a retry of the run begins anew
    polls = False  # it polls, and records nothing until it finds something
    asks = False  # its answer depends on more than its path: see `matches`
    digest = ""  # of a step's arguments
    attempt = 0  # of a step or a transition
    retrying = False  # waits for its next attempt

    @property
    def text(self) -> str:
        """For people: what the run waits for."""
        return self.path

    # What the run does with it

    def begin(self, run: RunParts) -> None:
        """The log has no answer: do what leads to one."""

    def recall(self, run: RunParts) -> None:
        """Take up what the log has of it, so that a message that came with the claim can answer it."""

    def due(self, run: RunParts) -> None:
        """Its time has come."""

    def withdraw(self, run: RunParts) -> None:
        """The code no longer wants the answer."""

    def cancel(self, run: RunParts) -> None:
        """The run is being cancelled: the code hears of it in this call."""
        if not self.future.done():
            self.future.set_exception(RunCancelling())
            run.withdraw(self)

    def remote_ended(self, run: RunParts, payload: bytes) -> None:
        """A worker of another queue has executed it."""

    # What the run asks of it

    @property
    def parkable(self) -> bool:
        """Its answer comes by time or by a message, so the run may be given back meanwhile."""
        return True

    @property
    def working(self) -> bool:
        """Work continues while the run is parked: its status is running, not suspended."""
        return False

    @property
    def may_end_soon(self) -> bool:
        """Others work on it, so news may come at any moment."""
        return False

    # Its answer in the log

    def question(self) -> object:
        """What the code asks, to be compared with what it asked before a failure."""
        return None

    def matches(self, recorded: RecordedResult, *, retried: bool) -> bool:
        """Is this the question that `recorded` answers, as far as the log can say?

        Without a failure it is, although a person may have changed its words since.
        """
        asked, fact = recorded.asked, recorded.fact
        if asked is None or not retried or not isinstance(fact, ev.TimerFired | ev.WaitEnded):
            return True
        if isinstance(fact, ev.WaitEnded) and fact.outcome != "answered":
            # A wait that timed out may be answered within a longer time.
            limit = None if isinstance(asked, ev.TimerSet) else asked.timeout
            return (self.question(), self.timeout) == (question_of(asked), limit)
        return self.question() == question_of(asked)

    def check_recorded(self, fact: ev.Fact, calls: OpenCalls) -> None:
        """CodeChanged when the log has this path with other arguments."""

    def reply(self, message: ReceivedMessage) -> Any:
        """The part of a message that answers it."""
        return message.payload


class OpenCalls:
    """What the code asked for, and the recorded results that it has not asked for yet."""

    __slots__ = (
        *("pending", "commands", "answers", "recorded", "arrived", "withdrawn"),
        *("arguments", "strict", "replaying", "on_variable"),
    )

    def __init__(self, answers: deque[RecordedResult], *, strict: bool, replaying: bool) -> None:
        self.pending: dict[str, Call] = {}
        self.commands: deque[Call] = deque()  # asked for, not begun
        self.answers = answers  # recorded, not released
        self.recorded = {answer.path for answer in answers}
        self.arrived: dict[str, RecordedResult] = {}  # released, but nobody has asked yet
        self.withdrawn: set[str] = set()
        self.arguments = ReplayedArguments()
        self.strict = strict  # all its steps record a strict digest of their arguments
        self.replaying = replaying  # the code has not reached the end of the log
        self.on_variable: Callable[[str, Raw], None] | None = None  # for programs with variables

    def begin_again(self, call: Call, barrier: int) -> None:
        """Nothing in the log answers it: it begins once the log has reached `barrier`."""
        self.pending[call.path] = call
        call.after = barrier
        self.commands.append(call)

    def look_up(self, results: dict[str, RecordedResult]) -> None:
        """Answer calls by their paths, in any order, with these results."""
        self.arrived = dict(results)
        self.recorded = set(results)

    def forget(self) -> None:
        """What was recorded or withdrawn so far says nothing about the calls to come."""
        self.arrived.clear()
        self.recorded.clear()
        self.withdrawn.clear()


class StepPort(Protocol):
    """What calls and transitions ask of `Steps`."""

    executing: dict[str, Running]

    def next_attempt(self, call: Any) -> None: ...
    def recall(self, call: Any) -> None: ...
    def due(self, call: Any) -> None: ...
    def withdraw(self, call: Any) -> None: ...
    def remote_ended(self, call: Any, payload: bytes) -> None: ...


class WaitPort(Protocol):
    """What calls and machines ask of `Waits`."""

    @property
    def rows(self) -> deque[InboxRow]:
        """Messages that were not taken yet."""
        ...

    def set_timer(self, call: Any) -> None: ...
    def fire_timer(self, call: Any) -> None: ...
    def withdraw_timer(self, call: Any) -> None: ...
    def open(self, call: Any) -> None: ...
    def recall(self, call: Any) -> None: ...
    def due(self, call: Any) -> None: ...
    def withdraw(self, call: Any) -> None: ...
    def start_child(self, call: Any) -> None: ...
    def withdraw_child(self, path: str) -> None: ...
    def leftovers(self) -> dict[str, Any]: ...


class RunPort(Protocol):
    """What a context may do with its run."""

    @property
    def run_id(self) -> RunId: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def services(self) -> Services: ...
    @property
    def loop(self) -> WorkflowLoop: ...
    @property
    def calls(self) -> OpenCalls: ...
    @property
    def closed(self) -> type[Unwind] | None:
        """Why no call is answered from now on; None: the run is open."""
        ...

    @property
    def cancelling(self) -> bool: ...

    def now(self) -> float:
        """The store's time."""
        ...

    def ask(self, call: Call) -> asyncio.Future[Any]:
        """Get an answer: from the log if it has one, else something must be done."""
        ...

    def withdraw(self, call: Call) -> None:
        """The code no longer wants this answer."""
        ...

    def record(self, fact: ev.Fact, path: str = "", attempt: int = 0) -> None:
        """Draft a fact; code that waits for it continues at once."""
        ...

    def advance(self) -> None:
        """Let the code run as far as it can, then write what came of it."""
        ...

    def hold(self) -> None:
        """Something is under way outside the code: the run must not park until `release_hold`."""
        ...

    def release_hold(self) -> None: ...

    def abandon(self, *, expected: bool = False) -> None:
        """In the handler of an error: give the run back; its next owner begins where the log ends."""
        ...


class RunParts(RunPort, Protocol):
    """The port with the parts of the run, for its calls and for the parts themselves."""

    @property
    def writer(self) -> LogWriter: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def steps(self) -> StepPort: ...
    @property
    def waits(self) -> WaitPort: ...

    def settle(self) -> None:
        """Write what is drafted, without running code."""
        ...


def check_open(run: RunPort) -> None:
    if run.closed is not None:
        raise run.closed()


def unreached(journal: Journal, calls: OpenCalls, known: Container[str] = ()) -> Iterator[str]:
    """The paths that the log has open and that the code has not asked for yet."""
    pending, withdrawn = calls.pending, calls.withdrawn
    for path in journal.opened:
        if path not in pending and path not in withdrawn and path not in known:
            yield path
