"""The state of one graph run: its scopes and node runs, and the commands it has open."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from stepwell.authoring.graphs.build.plan import EdgePlan, NodePlan, ScopePlan
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome
from stepwell.authoring.graphs.run.variables import Arrival, Variables
from stepwell.errors import StepwellError

ROOT = "0/"  # the prefix of a graph's nodes in the log


class NodeStatus(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


SETTLED = frozenset({NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.SKIPPED, NodeStatus.CANCELLED})


class Failure(NamedTuple):
    """Why a node failed. `path` is where the failure began: a retry by a person resumes there."""

    code: str
    message: str
    node: str
    path: str
    attempt: int = 1
    hint: str = ""
    config: bool = False
    branches: tuple[Failure, ...] = ()
    kind: str = ""  # the class of an error raised by user code: its message means little without it

    def as_context(self) -> dict[str, Any]:
        """The failure as expressions see it: ctx.error."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "node": self.node,
            "attempt": self.attempt,
        }
        if self.branches:
            error["errors"] = [failure.as_context() for failure in self.branches]
        return error


class NodeRun(msgspec.Struct, eq=False):
    """One node in one scope. It settles exactly once."""

    node: NodePlan
    scope: ScopeRun
    path: str
    variables: Variables  # what the node sees
    number: int  # in the order of decisions; also marks the variables it writes
    after: Variables  # what its successors see
    status: NodeStatus = NodeStatus.RUNNING
    handles: tuple[str, ...] = ()
    output: Any = None
    error: Failure | None = None
    handled: bool = False  # failed, and an error edge took it
    commands: tuple[Command, ...] = ()  # open
    attempt: int = 1  # of a retry container or a called workflow
    body: ScopeRun | None = None  # of a try or retry container
    pending: Failure | None = None  # of a try: raised again after its finally
    loop: Any = None  # LoopRun; of a conversation, ToolRuns
    outcome: NodeOutcome | None = None  # decided, but delayed
    event: dict[str, Any] | None = None  # of a wait: the event that the mailbox delivered

    def __repr__(self) -> str:
        return f"<node run {self.path} {self.status}>"


def new_node_run(node: NodePlan, scope: ScopeRun, variables: Variables, number: int) -> NodeRun:
    return NodeRun(node, scope, scope.prefix + node.id, variables, number, variables)


class ScopeRun:
    """The root graph, or one instance of a container's body."""

    __slots__ = (
        "base",
        "clocks",
        "closed",
        "errors",
        "expired",
        "live",
        "loop",
        "node_runs",
        "open",
        "owner",
        "plan",
        "prefix",
        "unknown",
    )

    def __init__(
        self,
        plan: ScopePlan,
        prefix: str,
        base: Variables,
        owner: NodeRun | None = None,
        loop: dict[str, Any] | None = None,
    ) -> None:
        self.plan = plan
        self.prefix = prefix  # '' or 'lines[3]/pay/'
        self.base = base
        self.owner = owner
        self.loop = loop
        nodes = plan.nodes
        self.node_runs: list[NodeRun | None] = [None] * len(nodes)
        self.unknown = [len(node.ins) for node in nodes]
        self.live: dict[int, list[EdgePlan]] = {}  # in the order of arrival
        self.open = len(nodes)
        self.closed = False
        self.errors: dict[int, list[Failure]] = {}  # by join
        self.clocks: dict[int, Command] = {}  # deadlines of joins
        self.expired: set[int] = set()

    def base_of(self, node: NodePlan) -> Variables:
        """The variables after the node where the branches began."""
        fork = self.node_runs[node.idom] if node.idom >= 0 else None
        return self.base if fork is None else fork.after

    def arrivals(self, index: int) -> list[Arrival]:
        """The live in-edges of a node, in the order of arrival."""
        arrivals = []
        for edge in self.live.get(index, ()):
            source = self.node_runs[edge.source]
            assert source is not None
            arrivals.append(Arrival(source.node.id, source.after, edge.order))
        return arrivals


class CommandKind(StrEnum):
    """What a command asks for."""

    WORK = "work"
    TIMER = "timer"  # a delay node
    EVENT = "event"
    MAILBOX = "mailbox"
    APPROVAL = "approval"
    CHILD = "child"
    MODEL = "model"  # one turn of a conversation
    JOIN_DEADLINE = "join_deadline"
    POLL = "poll"
    DEADLINE = "deadline"  # of a polled condition, a called run or a container
    BACKOFF = "backoff"  # of a retry container or a called run
    HOLD = "hold"  # the delay that a handler asked for


# Those that every node of every run is asked for: reading an enum member takes twice as long.
WORK, EVENT = CommandKind.WORK, CommandKind.EVENT

# While one of these is open the run works; otherwise it only waits (GR-P1).
WORKING = frozenset({CommandKind.WORK, CommandKind.MODEL, CommandKind.BACKOFF, CommandKind.CHILD})


class Command(msgspec.Struct, eq=False):
    """A request of the frontier to its driver: answered once, unless it is withdrawn."""

    kind: CommandKind
    path: str
    node_run: NodeRun | None
    data: Any = None
    scope: ScopeRun | None = None  # of a join's deadline
    done: bool = False  # answered or withdrawn

    def __repr__(self) -> str:
        return f"<command {self.kind} {self.path}>"


class MarkerKind(StrEnum):
    COMPLETED = "node_completed"
    FAILED = "node_failed"
    SKIPPED = "node_skipped"
    CANCELLED = "node_cancelled"
    JOIN_LATE = "join_late"
    MERGE_CONFLICT = "merge_conflict"
    LOOP_STARTED = "loop_started"
    LOOP_ADVANCED = "loop_advanced"
    LOOP_COMPLETED = "loop_completed"


class Marker(NamedTuple):
    """A decision, recorded for readers. Replay decides it again and never reads it."""

    kind: MarkerKind
    path: str
    data: Any = None


class GraphResult(NamedTuple):
    """How the run ended."""

    output: dict[str, Any] | None
    failure: Failure | None = None


class Withdrawal(msgspec.Struct, frozen=True, eq=False):
    """The answer to this command is no longer wanted."""

    command: Command


Action = Command | Withdrawal | Marker | NodeRun  # for the driver, in order; a node run: it began


class Stop(msgspec.Struct, frozen=True, eq=False):
    """Withdraw everything the node run waits for, in its bodies too."""


STOP = Stop()

# What a helper of the frontier decided for a node run: `Frontier.apply` carries it out, in order.
Effect = Command | Marker | NodeOutcome | Failure | ScopeRun | Stop


def failure_of(error: StepwellError, node_run: NodeRun) -> Failure:
    """The failure of a node whose preparation raised: nothing of it was executed."""
    return Failure(error.code, error.message, node_run.node.id, node_run.path, hint=error.hint, config=True)


def completed(node_run: NodeRun, outcome: NodeOutcome) -> list[Effect]:
    """A node that was decided here, not by an answer in the log, is recorded by a marker."""
    data = {"output": outcome.output, "handles": list(outcome.handles)}
    return [Marker(MarkerKind.COMPLETED, node_run.path, data), outcome]


def failed(node_run: NodeRun, failure: Failure) -> list[Effect]:
    """A node that failed here: stop what it had begun by then, and record the failure."""
    return [STOP, Marker(MarkerKind.FAILED, node_run.path, failure), failure]
