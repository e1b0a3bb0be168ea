"""The state of one graph run: its scopes and steps, and what it waits for from outside."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from stepwell.authoring.graphs.build.plan import EdgePlan, NodePlan, ScopePlan
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome
from stepwell.authoring.graphs.run.variables import Variables

ROOT = "0/"  # where a graph's nodes are in the log


class NodeStatus(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


SETTLED = frozenset({NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.SKIPPED, NodeStatus.CANCELLED})


class Failure(NamedTuple):
    """Why a node failed; `path` is where it began, for a retry by a person."""

    code: str
    message: str
    node: str
    path: str
    attempt: int = 1
    hint: str = ""
    config: bool = False
    branches: tuple[Failure, ...] = ()
    kind: str = ""  # the class of an error of the author's own code: its text means little without it

    def as_context(self) -> dict[str, Any]:
        """ctx.error"""
        found: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "node": self.node,
            "attempt": self.attempt,
        }
        if self.branches:
            found["errors"] = [failure.as_context() for failure in self.branches]
        return found


class NodeRun:
    """One node in one scope: settles exactly once."""

    __slots__ = (
        "asks",
        "attempt",
        "behind",
        "body",
        "context",
        "error",
        "event",
        "handled",
        "handles",
        "loop",
        "node",
        "number",
        "outcome",
        "output",
        "path",
        "pending",
        "scope",
        "status",
    )

    def __init__(self, node: NodePlan, scope: ScopeRun, context: Variables, number: int) -> None:
        self.node = node
        self.scope = scope
        self.path = scope.prefix + node.id
        self.context = context
        self.number = number  # in the order of decisions; also marks what it writes
        self.status = NodeStatus.RUNNING
        self.behind = context
        self.handles: tuple[str, ...] = ()
        self.output: Any = None
        self.error: Failure | None = None
        self.handled = False  # failed, and an error edge took it
        self.asks: list[Command] = []
        self.attempt = 1  # of a retry container
        self.body: ScopeRun | None = None  # of try and retry
        self.pending: Failure | None = None  # of a try: goes on when its finally is done
        self.loop: Any = None  # LoopRun
        self.outcome: NodeOutcome | None = None  # known, but delayed
        self.event: dict[str, Any] | None = None  # of a wait: what the run's mailbox gave it

    def __repr__(self) -> str:
        return f"<step {self.path} {self.status}>"


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
        "open",
        "owner",
        "plan",
        "prefix",
        "steps",
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
        self.steps: list[NodeRun | None] = [None] * len(nodes)
        self.unknown = [len(node.ins) for node in nodes]
        self.live: dict[int, list[EdgePlan]] = {}  # in the order of arrival
        self.open = len(nodes)
        self.closed = False
        self.errors: dict[int, list[Failure]] = {}  # by join
        self.clocks: dict[int, Command] = {}  # deadlines of joins
        self.expired: set[int] = set()


class CommandKind(StrEnum):
    """What an outside request is for."""

    WORK = "work"
    TIMER = "timer"  # a delay node
    EVENT = "event"
    MAILBOX = "mailbox"
    QUESTION = "question"
    CHILD = "child"
    JOIN = "join"  # deadline of a join
    POLL = "poll"
    GIVE_UP = "give_up"  # deadline of a polled condition, or of a container
    BACKOFF = "backoff"  # of a retry container
    HOLD = "hold"  # a handler's delay


# While one of these is open the run works; else it only waits (GR-P1).
WORKING = frozenset({CommandKind.WORK, CommandKind.BACKOFF, CommandKind.CHILD})


class Command:
    """Something that the frontier wants from outside; answered once, unless it is withdrawn."""

    __slots__ = ("data", "done", "path", "purpose", "scope", "step")

    def __init__(
        self,
        purpose: CommandKind,
        path: str,
        step: NodeRun | None,
        data: Any = None,
        scope: ScopeRun | None = None,
    ) -> None:
        self.purpose = purpose
        self.path = path
        self.step = step
        self.scope = scope  # of a join's deadline
        self.data = data
        self.done = False  # answered or withdrawn

    def __repr__(self) -> str:
        return f"<ask {self.purpose} {self.path}>"


class MarkerKind(StrEnum):
    COMPLETED = "node_completed"
    FAILED = "node_failed"
    SKIPPED = "node_skipped"
    CANCELLED = "node_cancelled"
    JOIN_LATE = "join_late"
    MERGE_CONFLICT = "merge_conflict"
    LOOP_STARTED = "loop_started"
    LOOP_ADVANCED = "loop_advanced"


class Marker(NamedTuple):
    """Something that was decided; recorded for readers, never needed to decide again."""

    kind: MarkerKind
    path: str
    data: Any = None


class GraphResult(NamedTuple):
    """How the run came out."""

    output: dict[str, Any] | None
    failure: Failure | None = None


class Withdrawal(msgspec.Struct, frozen=True, eq=False):
    """Nobody waits for this any more."""

    ask: Command


Action = Command | Withdrawal | Marker  # what the driver has to do, in order
