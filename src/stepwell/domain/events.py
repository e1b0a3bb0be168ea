"""The facts of a run: one frozen class each, appended to its log and never changed.

An `Event` is a fact with its place in the log (`seq`, `at`), the place in the run that it is about
(`path`, '' for the run itself) and the attempt. In SQL and JSON a fact's name is in snake_case.
User values travel as raw JSON (`Raw`): the kernel never looks inside.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from stepwell.domain.commit import DEFAULT_WORKSPACE, LogRow, NewEvent
from stepwell.domain.cursors import Cursor
from stepwell.domain.damage import damaged

NULL = Raw(b"null")


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as it is recorded: readable without the code that raised it."""

    code: str
    message: str
    type: str = ""
    hint: str = ""
    path: str = ""
    traceback: str = ""
    permanent: bool = False  # its author says that another attempt cannot help


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened."""

    starts: tuple[str, ...] = ()  # paths of graph nodes that begin because of this event


# The run


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which run this one was derived from, and what was copied."""

    how: Literal["rerun", "rerun_from", "fork"]
    run: str
    seq: int = 0  # the last event of that run's log that counts here
    copied: int = 1  # how many events of this log are copies: the first ones
    edited: list[str] = []  # paths of edited results, "input", "state"
    salt: str = ""  # after the copies, ctx.random() and ctx.uuid() differ from that run's


class Accepted(Fact, frozen=True, kw_only=True):
    """The run is on disk and will reach an end."""

    workflow: str
    version: str
    kind: str = "function"
    input: Raw = NULL
    seed: str = ""  # ctx.random() and ctx.uuid() come from it
    timeout: float | None = None  # seconds, without the time that it is suspended
    parent: str = ""
    parent_path: str = ""
    root: str = ""
    depth: int = 0
    key: str = ""
    queue: str = "default"
    test: bool = False
    graph: Raw = NULL  # for a run that carries its graph: a test run, or a saved graph
    origin: Origin | None = None  # None: it was started
    workspace: str = DEFAULT_WORKSPACE
    trigger: str = "api"  # what started it; older logs do not say so, but the row of the run does
    by: str = ""  # who started it
    reason: str = ""  # why, for a rerun or a fork
    hops: int = 0  # length of the chain of runs that led to this one


class Claimed(Fact, frozen=True, kw_only=True):
    """A worker owns the run from here on.

    Written with the owner's first commit; `since` is when it claimed the run, by the store's clock.
    """

    lease: str
    worker: str
    since: float = 0.0  # 0 in older logs, which did not record it


class LeaseLost(Fact, frozen=True, kw_only=True):
    """The previous owner died or froze; what it did after its last event is not recorded."""

    lease: str


class Suspended(Fact, frozen=True, kw_only=True):
    """The run waits for a time or a message, or was held, and nobody owns it. Written with its park."""

    held: bool = False  # an operator stopped it, or its workflow, queue or workspace: it does not wait itself


class Resumed(Fact, frozen=True, kw_only=True):
    """A suspended run continues; written with its next owner's first commit."""


class Retried(Fact, frozen=True, kw_only=True):
    """A person resumed a failed run at its failed step, with a fresh timeout; or had it compensated."""

    path: str = ""  # path of the skipped step, if there was one
    undo: bool = False
    by: str = ""
    reason: str = ""


class Held(Fact, frozen=True, kw_only=True):
    """An operator stopped the run. Nothing new begins until it is released."""

    by: str = ""
    reason: str = ""


class Released(Fact, frozen=True, kw_only=True):
    """The run may continue."""

    by: str = ""
    reason: str = ""


class VariableSet(Fact, frozen=True, kw_only=True):
    """A person set a variable of a graph run. Whatever is decided from here on sees the value."""

    name: str
    value: Raw = NULL
    key: str = ""  # key of its message, by which a repeat is recognised
    by: str = ""
    reason: str = ""


class Continued(Fact, frozen=True, kw_only=True):
    """The run continued as a new generation; replay begins here."""

    generation: int
    input: Raw = NULL
    seed: str = ""
    carried: list[Carried] = []
    keys: list[str] = []
    documents: list[Kept] = []
    children: dict[str, str] = {}  # path -> run: they live on, and are cancelled if this run ends badly
    cursors: list[Cursor] = []  # of broadcast events


class Carried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal that was received but not taken before the run continued as new."""

    name: str
    payload: Raw = NULL
    key: str = ""  # its key in a machine's log, before and after a checkpoint


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latest version of a document when the run continued as new."""

    name: str
    version: int
    type: str = ""
    value: Raw = NULL


class CancelRequested(Fact, frozen=True, kw_only=True):
    reason: str = ""
    by: str = ""


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
    by: str = ""  # who cancelled it, if it ended without an owner; otherwise CancelRequested says so
    forced: bool = False  # ended by force, without cleanup


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
    root: str = ""  # for a child run: the root run, whose trace includes the step


class StepStarted(Fact, frozen=True, kw_only=True):
    """Written for long steps, and for every step once this run has lost a worker."""

    step: str = ""


class Undo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to undo a step, with its arguments: the code that called the step is not needed again."""

    function: str  # module:name of the compensating function
    args: Raw = NULL


class StepCompleted(Fact, frozen=True, kw_only=True):
    result: Raw = NULL
    digest: str = ""  # of the arguments, if the run has more than one task
    undo: Undo | None = None
    worker: str = ""  # the one that ran a remote step; otherwise it was the run's owner
    since: float = 0.0  # when that worker took it
    args: Raw = NULL  # its arguments, if the settings keep them
    skipped: bool = False  # it failed and a person gave this result; the Retried before says who


class StepFailed(Fact, frozen=True, kw_only=True):
    """An attempt failed; the next one follows in `retry_in` seconds, None: it was the last."""

    error: Problem
    retry_in: float | None = None
    digest: str = ""
    worker: str = ""  # the one that ran a remote step
    since: float = 0.0  # when that worker took it
    args: Raw = NULL


class ValueRecorded(Fact, frozen=True, kw_only=True):
    """A value that a replay must see again: the time, a patch marker, who won `first`."""

    what: str
    value: Raw = NULL


class DocumentSaved(Fact, frozen=True, kw_only=True):
    """A step saved a value for readers of the run; written with the step's completion."""

    name: str
    type: str = ""
    value: Raw = NULL


class DetailsReported(Fact, frozen=True, kw_only=True):
    """What a step wants to show, written with its result or its failure."""

    details: Raw = NULL


class UsageReported(Fact, frozen=True, kw_only=True):
    """What an attempt of a step used, written with its result or failure and counted on the run."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


# Compensation


class CompensationStarted(Fact, frozen=True, kw_only=True):
    """The run ends with `status` once these steps are undone, in this order."""

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
    retry: bool = False  # the delay before another attempt; the run does not count as suspended


class DelayChanged(Fact, frozen=True, kw_only=True):
    """A person changed when the timer at this path fires: this many seconds after the event."""

    seconds: float
    by: str = ""
    reason: str = ""


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
    since: float = 0.0  # for an event: the run's cursor; events emitted from then on count
    choices: list[TriggerChoice] = []  # for a trigger: the transitions that can be taken from here
    required: int = 1  # for approvals: how many people must approve
    bar_starter: bool = False  # for approvals: bars the person who started the run


class TriggerChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transition that a person may choose; `form` is the JSON Schema of its argument."""

    name: str
    form: Raw = NULL
    title: str = ""


class WaitEnded(Fact, frozen=True, kw_only=True):
    outcome: Literal["answered", "timed_out", "withdrawn"]
    received: str = ""  # key of the Received that answered it


class WaitReassigned(Fact, frozen=True, kw_only=True):
    """The assignees of an open approval changed."""

    assignees: list[str]
    by: str = ""
    reason: str = ""


class WaitReminded(Fact, frozen=True, kw_only=True):
    """Somebody reminded the assignees of an open approval."""

    by: str = ""
    reason: str = ""


class Received(Fact, frozen=True, kw_only=True):
    """A message left the inbox and is now part of the log; `n` is its place in the inbox."""

    key: str
    n: int
    what: str
    name: str = ""
    payload: Raw = NULL
    rejected: str = ""
    choice: str = ""  # for a decision with several choices: the chosen one
    by: str = ""  # who sent or decided it
    at: float = 0.0  # for a broadcast event: its time, which orders the events of its name
    reason: str = ""  # why, for a decision
    id: str = ""  # for a decision: the id that its caller repeats


# Machines


class TransitionCompleted(Fact, frozen=True, kw_only=True):
    """The machine is at another place. This is its checkpoint: the next owner reads the log from here."""

    transition: str
    source: str
    target: str
    version: int  # 1, 2, 3 ... the number of the checkpoint
    state: Raw = NULL
    documents: list[str] = []  # visible at this checkpoint
    error: Problem | None = None  # the failure that led here instead of to the transition's own target
    # What the next owner still needs from the log before it.
    carried: list[Carried] = []
    keys: list[str] = []
    children: dict[str, str] = {}  # path -> run: started and neither ended nor awaited
    triggers: dict[str, str] = {}  # path -> transition that such a child's result triggers
    active: float | None = None  # seconds of the run's timeout that are used up
    cursors: list[Cursor] = []  # of broadcast events


class TransitionFailed(Fact, frozen=True, kw_only=True):
    """An attempt left no trace; the next one follows in `retry_in` seconds, None: it was the last."""

    transition: str
    source: str
    error: Problem
    retry_in: float | None = None
    target: str = ""  # where the machine goes instead; '': it stays


# Children and news


class ChildStarted(Fact, frozen=True, kw_only=True):
    run: str
    workflow: str
    version: str = ""
    detached: bool = False
    trigger: str = ""  # its result triggers this transition of a machine
    digest: str = ""  # of its input, if that may differ when the code runs again


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


# Nodes of a graph, decided by its frontier and recorded for readers of the log


class NodeFact(Fact, frozen=True, kw_only=True):
    """Follows from the facts before it: recorded once, and never needed to decide anything."""


class NodeStarted(NodeFact, frozen=True, kw_only=True):
    """A node began, recorded after the fact that caused it was written.

    Otherwise that fact has the node in `starts`.
    """


class NodeCompleted(NodeFact, frozen=True, kw_only=True):
    """A node that is not a step completed; a step has its own fact."""

    output: Raw = NULL
    handles: list[str] = []
    pinned: bool = False


class NodeFailed(NodeFact, frozen=True, kw_only=True):
    error: Problem


class NodeSkipped(NodeFact, frozen=True, kw_only=True):
    """No live edge leads to it."""


class NodeCancelled(NodeFact, frozen=True, kw_only=True):
    """It had begun, and is no longer wanted."""


class JoinLate(NodeFact, frozen=True, kw_only=True):
    """A branch arrived at a join that had settled."""

    source: str


class MergeConflict(NodeFact, frozen=True, kw_only=True):
    """Branches wrote different values; the later edge of the definition won."""

    variables: list[str]


class LoopStarted(NodeFact, frozen=True, kw_only=True):
    count: int | None = None


class LoopAdvanced(NodeFact, frozen=True, kw_only=True):
    done: int
    count: int


class LoopCompleted(NodeFact, frozen=True, kw_only=True):
    """Every iteration is over; the loop's NodeCompleted follows."""

    done: int
    failed: int = 0


ENDINGS = (Completed, Failed, Cancelled, TimedOut)

FACTS: tuple[type[Fact], ...] = (
    *(Accepted, Claimed, LeaseLost, Held, Released, Retried, Continued, CancelRequested),
    *(Suspended, Resumed, VariableSet),
    *ENDINGS,
    *(StepScheduled, StepStarted, StepCompleted, StepFailed),
    *(ValueRecorded, DocumentSaved, DetailsReported, UsageReported),
    *(CompensationStarted, CompensationCompleted),
    *(TimerSet, DelayChanged, TimerFired, WaitOpened, WaitReassigned, WaitReminded, WaitEnded, Received),
    *(TransitionCompleted, TransitionFailed),
    *(ChildStarted, ChildEnded),
    *(Published, Progress),
    *(NodeStarted, NodeCompleted, NodeFailed, NodeSkipped, NodeCancelled),
    *(JoinLate, MergeConflict, LoopStarted, LoopAdvanced, LoopCompleted),
)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


KIND: dict[type[Fact], str] = {fact: _snake(fact.__name__) for fact in FACTS}
_DECODERS = {kind: msgspec.json.Decoder(fact) for fact, kind in KIND.items()}
encode = msgspec.json.Encoder().encode

# Replay begins at the last one of these.
BASES = frozenset({KIND[Continued], KIND[TransitionCompleted]})

# A commit with one of these shows that the run makes progress: it resets the count of lost owners.
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
    return NewEvent(KIND[type(fact)], path, attempt, encode(fact))


def starting(event: NewEvent, path: str, first: bool) -> NewEvent:
    """Return the event with one more node in `starts`.

    Its payload is extended, not encoded again: this happens for every node of a graph.
    """
    payload = event.payload
    if not first:
        payload = payload[:-2] + b"," + encode(path) + b"]}"
    elif payload == b"{}":
        payload = b'{"starts":[' + encode(path) + b"]}"
    else:
        payload = payload[:-1] + b',"starts":[' + encode(path) + b"]}"
    return NewEvent(event.kind, event.path, event.attempt, payload)


def read(row: LogRow, run: str = "") -> Event:
    """Decode a stored event; LogDamaged if that fails, naming `run` if it is given."""
    try:
        return Event(row.seq, row.at, row.path, row.attempt, _DECODERS[row.kind].decode(row.payload))
    except (KeyError, msgspec.MsgspecError) as error:
        raise damaged(row, error, run, known=row.kind in _DECODERS) from None


F = TypeVar("F", bound=Fact)


def read_as(fact: type[F], row: LogRow, run: str = "") -> F:
    """The row's fact, which must be of that class."""
    recorded = read(row, run).fact
    assert isinstance(recorded, fact), f"expected {fact.__name__}, the log has {row.kind}"
    return recorded
