"""The facts of a run: one frozen class each, appended to its log and never changed.

An `Event` is a fact with its place in the log (`seq`, `at`), the place in the run it is about
(`path`, '' for the run itself) and the attempt. In SQL and JSON a fact's name is in snake_case.
Values of users travel as raw JSON (`Raw`): the kernel never looks inside.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from stepwell.domain.commit import LogRow, NewEvent
from stepwell.domain.cursors import Cursor
from stepwell.domain.damage import damaged
from stepwell.domain.fact import NULL, Fact, Problem
from stepwell.domain.node_facts import (
    JoinLate,
    LoopAdvanced,
    LoopStarted,
    MergeConflict,
    NodeCancelled,
    NodeCompleted,
    NodeFact,
    NodeFailed,
    NodeSkipped,
)
from stepwell.domain.origin import Origin

# From its neighbours; everything else here is public too.
__all__ = ["NULL", "Fact", "JoinLate", "LoopAdvanced", "LoopStarted", "MergeConflict", "NodeCancelled"]
__all__ += ["NodeCompleted", "NodeFact", "NodeFailed", "NodeSkipped", "Origin", "Problem"]

# The run


class Accepted(Fact, frozen=True, kw_only=True):
    """The run is on disk and will reach an end."""

    workflow: str
    version: str
    kind: str = "function"
    input: Raw = NULL
    seed: str = ""  # ctx.random() and ctx.uuid() come from it
    timeout: float | None = None  # seconds of not-suspended time
    parent: str = ""
    parent_path: str = ""
    root: str = ""
    depth: int = 0
    key: str = ""
    queue: str = "default"
    test: bool = False
    graph: Raw = NULL  # of a run that brings its own: a test run, or a graph that was saved
    origin: Origin | None = None  # None: it was started


class Claimed(Fact, frozen=True, kw_only=True):
    """A worker owns the run from here on.

    It is written with what came first of that; `since` is when the worker took the run, by the store's clock.
    """

    lease: str
    worker: str
    since: float = 0.0  # 0 in logs that were written before this was kept


class LeaseLost(Fact, frozen=True, kw_only=True):
    """The owner before died or froze; what it did after its last event is not recorded."""

    lease: str


class Retried(Fact, frozen=True, kw_only=True):
    """A person sent on a run that failed, at its failed step and with its timeout anew; or had it undone."""

    path: str = ""
    undo: bool = False


class Continued(Fact, frozen=True, kw_only=True):
    """The run went on as a new generation; replay begins here."""

    generation: int
    input: Raw = NULL
    seed: str = ""
    carried: list[Carried] = []
    keys: list[str] = []
    documents: list[Kept] = []
    children: dict[str, str] = {}  # path -> run: they live on, and end with the run if it ends badly
    cursors: list[Cursor] = []  # of broadcast events


class Carried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal that was received but not taken before the run continued as new."""

    name: str
    payload: Raw = NULL
    key: str = ""  # what a machine's log calls it, before and after a checkpoint


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latest version of a document when the run continued as new."""

    name: str
    version: int
    type: str = ""
    value: Raw = NULL


class CancelRequested(Fact, frozen=True, kw_only=True):
    reason: str = ""


class Completed(Fact, frozen=True, kw_only=True):
    result: Raw = NULL
    unconsumed: list[str] = []


class Failed(Fact, frozen=True, kw_only=True):
    error: Problem
    unconsumed: list[str] = []


class Cancelled(Fact, frozen=True, kw_only=True):
    reason: str = ""
    error: Problem | None = None  # of the cleanup
    unconsumed: list[str] = []


class TimedOut(Fact, frozen=True, kw_only=True):
    error: Problem
    unconsumed: list[str] = []


# Steps


class StepScheduled(Fact, frozen=True, kw_only=True):
    """A remote step waits for a worker of its queue."""

    step: str
    queue: str
    args: Raw = NULL
    timeout: float | None = None
    digest: str = ""


class StepStarted(Fact, frozen=True, kw_only=True):
    """Written for long steps, and for every step once a worker was lost in this run."""

    step: str = ""


class Undo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to undo a step, with all that it takes: the code that asked for it is not needed again."""

    function: str  # module:name of the compensating function
    args: Raw = NULL


class StepCompleted(Fact, frozen=True, kw_only=True):
    result: Raw = NULL
    digest: str = ""  # of the arguments, where the run has more than one task
    undo: Undo | None = None
    worker: str = ""  # that did a remote step; else it was the run's owner


class StepFailed(Fact, frozen=True, kw_only=True):
    """An attempt failed; `retry_in` seconds later comes the next, None: that was the last."""

    error: Problem
    retry_in: float | None = None
    digest: str = ""
    worker: str = ""  # that did a remote step


class ValueRecorded(Fact, frozen=True, kw_only=True):
    """A value that a replay must see again: the time, a patch marker, who won `first`."""

    what: str
    value: Raw = NULL


class DocumentSaved(Fact, frozen=True, kw_only=True):
    """A step kept a value for whoever looks at the run; written with the step's completion."""

    name: str
    type: str = ""
    value: Raw = NULL


# Undoing


class CompensationStarted(Fact, frozen=True, kw_only=True):
    """The run ends as `status` says, once these steps are undone, in this order."""

    status: str
    steps: list[str]
    error: Problem | None = None
    reason: str = ""


class CompensationCompleted(Fact, frozen=True, kw_only=True):
    """Every compensation was tried; those of `failed` did not succeed."""

    failed: list[str] = []


# Waits


class TimerSet(Fact, frozen=True, kw_only=True):
    seconds: float
    retry: bool = False  # until something is tried again: the run is not suspended meanwhile


class TimerFired(Fact, frozen=True, kw_only=True):
    pass


class WaitOpened(Fact, frozen=True, kw_only=True):
    what: Literal["signal", "event", "approval", "trigger"]
    name: str
    key: str = ""
    timeout: float | None = None
    form: Raw = NULL  # JSON Schema of the answer
    title: str = ""
    assignees: list[str] = []
    since: float = 0.0  # of an event: the run's cursor; those emitted from here on count
    choices: list[Choice] = []  # of a trigger: the transitions that can be taken from here


class Choice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transition that a person may choose; `form` is the JSON Schema of what it takes."""

    name: str
    form: Raw = NULL
    title: str = ""


class WaitEnded(Fact, frozen=True, kw_only=True):
    outcome: Literal["answered", "timed_out", "withdrawn"]
    received: str = ""  # key of the Received that answered it


class Received(Fact, frozen=True, kw_only=True):
    """A message left the inbox and is in the log for good; `n` is its place in the inbox."""

    key: str
    n: int
    what: str
    name: str = ""
    payload: Raw = NULL
    rejected: str = ""
    choice: str = ""  # of a decision among several: which
    by: str = ""  # who decided
    at: float = 0.0  # of a broadcast event: its time, which is its place among those of its name


# Machines


class TransitionCompleted(Fact, frozen=True, kw_only=True):
    """The machine is at another place. This is its checkpoint: whoever claims the run reads from here on."""

    transition: str
    source: str
    target: str
    version: int  # 1, 2, 3 ... the number of the checkpoint
    state: Raw = NULL
    documents: list[str] = []  # visible at this checkpoint
    error: Problem | None = None  # the failure that led here instead of to the transition's own target
    # What must not be forgotten with the log before it.
    carried: list[Carried] = []
    keys: list[str] = []
    children: dict[str, str] = {}  # path -> run: started and neither ended nor awaited
    triggers: dict[str, str] = {}  # path -> transition that such a child's result triggers
    active: float | None = None  # seconds of the run's own timeout that are used up
    cursors: list[Cursor] = []  # of broadcast events


class TransitionFailed(Fact, frozen=True, kw_only=True):
    """An attempt left no trace; `retry_in` seconds later comes the next, None: that was the last."""

    transition: str
    source: str
    error: Problem
    retry_in: float | None = None
    target: str = ""  # where the machine goes instead; '' it stays


# Children and news


class ChildStarted(Fact, frozen=True, kw_only=True):
    run: str
    workflow: str
    version: str = ""
    detached: bool = False
    trigger: str = ""  # its result triggers this transition of a machine
    digest: str = ""  # of what it is given, where that may be something else when the code comes again


class ChildEnded(Fact, frozen=True, kw_only=True):
    status: str
    result: Raw = NULL
    error: Problem | None = None


class Published(Fact, frozen=True, kw_only=True):
    topic: str
    data: Raw = NULL


class Progress(Fact, frozen=True, kw_only=True):
    done: float
    total: float | None = None
    text: str = ""


ENDINGS = (Completed, Failed, Cancelled, TimedOut)

FACTS: tuple[type[Fact], ...] = (
    *(Accepted, Claimed, LeaseLost, Retried, Continued, CancelRequested),
    *ENDINGS,
    *(StepScheduled, StepStarted, StepCompleted, StepFailed),
    *(ValueRecorded, DocumentSaved),
    *(CompensationStarted, CompensationCompleted),
    *(TimerSet, TimerFired, WaitOpened, WaitEnded, Received),
    *(TransitionCompleted, TransitionFailed),
    *(ChildStarted, ChildEnded),
    *(Published, Progress),
    *(NodeCompleted, NodeFailed, NodeSkipped, NodeCancelled),
    *(JoinLate, MergeConflict, LoopStarted, LoopAdvanced),
)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


KIND: dict[type[Fact], str] = {fact: _snake(fact.__name__) for fact in FACTS}
_DECODERS = {kind: msgspec.json.Decoder(fact) for fact, kind in KIND.items()}
_encode = msgspec.json.Encoder().encode

# Replay begins at the last one of these.
BASES = frozenset({KIND[Continued], KIND[TransitionCompleted]})

# A commit that holds one of these shows that the run moves: its count of lost owners starts anew.
SETTLING = frozenset(
    KIND[fact]
    for fact in (
        *(StepCompleted, StepFailed, TimerFired, WaitEnded, ChildEnded),
        *(TransitionCompleted, TransitionFailed, Continued, *ENDINGS),
    )
)


class Event(NamedTuple):
    """A fact in its place."""

    seq: int
    at: float
    path: str
    attempt: int
    fact: Fact

    @property
    def kind(self) -> str:
        return KIND[type(self.fact)]


def written(fact: Fact, path: str = "", attempt: int = 0) -> NewEvent:
    """The fact as a store keeps it."""
    return NewEvent(KIND[type(fact)], path, attempt, _encode(fact))


def read(row: LogRow, run: str = "") -> Event:
    """The event that a store kept; LogDamaged when it cannot be read, with the run if that is given."""
    try:
        return Event(row.seq, row.at, row.path, row.attempt, _DECODERS[row.kind].decode(row.payload))
    except (KeyError, msgspec.MsgspecError) as error:
        raise damaged(row, error, run, known=row.kind in _DECODERS) from None


F = TypeVar("F", bound=Fact)


def read_as(fact: type[F], row: LogRow, run: str = "") -> F:
    """The row's fact, known to be of that class."""
    found = read(row, run).fact
    assert isinstance(found, fact), f"expected {fact.__name__}, the log has {row.kind}"
    return found
