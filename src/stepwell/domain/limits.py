"""Limits: how many runs may be active at once, and which of those that wait go next.

A run that a limit can apply to has a *lane*: its workspace, workflow, queue and key, and the limits
that it brings along. A row of `limits` with the same scope replaces what the lane brings, so limits
change at run time. What is used of a limit is counted from tickets (leased ones, or with hold = run
all that ever began), so a dead worker's slots come free with its lease and nothing can leak.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from stepwell.domain.commit import NEVER, ClaimRequest, Definition
from stepwell.domain.program import RunOptions
from stepwell.errors import InvalidInput

GRAPHS_PER_WORKSPACE = 50

Kind = Literal["workspace", "workflow", "queue", "key"]
Hold = Literal["active", "run"]
KINDS: tuple[Kind, ...] = ("workspace", "workflow", "queue", "key")


class Scope(NamedTuple):
    """What a limit counts. Queues are shared by all workspaces: theirs is ''."""

    kind: Kind
    workspace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name or self.workspace!r}"


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """At most so many runs at once; None: any number.

    hold = active counts runs that a worker has in its hands, so a suspended run holds no slot;
    hold = run counts a run from its first claim to its end.
    """

    kind: Kind
    workspace: str = ""
    name: str = ""
    most: int | None = None
    hold: Hold = "active"

    @property
    def scope(self) -> Scope:
        return Scope(self.kind, self.workspace, self.name)


class Concurrency(msgspec.Struct, frozen=True):
    """Given at start: runs with the same key share this limit."""

    key: str
    most: int = 1
    hold: Hold = "active"


class Lane(msgspec.Struct, frozen=True, array_like=True):
    """Where a run queues; as text it is compact JSON. The last four are limits it brings along."""

    workspace: str
    workflow: str
    queue: str
    key: str = ""
    workspace_most: int | None = None
    workflow_most: int | None = None
    key_most: int | None = None
    key_hold: Hold = "active"

    def is_in(self, scope: Scope) -> bool:
        return any(own == scope for own, _, _ in self.scopes())

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()

    def scopes(self) -> list[tuple[Scope, int | None, Hold]]:
        found: list[tuple[Scope, int | None, Hold]] = [
            (Scope("workspace", self.workspace, ""), self.workspace_most, "active"),
            (Scope("workflow", self.workspace, self.workflow), self.workflow_most, "active"),
            (Scope("queue", "", self.queue), None, "active"),
        ]
        if self.key:
            found.append((Scope("key", self.workspace, self.key), self.key_most, self.key_hold))
        return found


@lru_cache(maxsize=10_000)
def read_lane(text: str) -> Lane:
    return msgspec.json.decode(text, type=Lane)


def lane_of(
    definition: Definition, options: RunOptions, queue: str, workspace: str, key: Concurrency | None
) -> str:
    """The lane of a new run; '' when it brings no limit along: then claiming it costs nothing more."""
    is_graph = definition.kind == "graph"
    if not is_graph and options.concurrency is None and key is None:
        return ""
    return Lane(
        workspace,
        definition.name,
        queue,
        key.key if key else "",
        GRAPHS_PER_WORKSPACE if is_graph else None,
        options.concurrency,
        key.most if key else None,
        key.hold if key else "active",
    ).text


def checked_limit(limit: Limit) -> Limit:
    """The limit, or InvalidInput: what is wrong with it."""
    if limit.kind not in KINDS:
        raise InvalidInput(f"no limit is of kind {limit.kind!r}", hint=f"it is one of {', '.join(KINDS)}")
    if limit.hold not in ("active", "run"):
        raise InvalidInput(f"a limit cannot hold {limit.hold!r}", hint="hold is 'active' or 'run'")
    if limit.most is not None and limit.most < 0:
        raise InvalidInput(f"at most {limit.most} runs", hint="0 lets none begin; None takes the limit away")
    if (limit.kind == "workspace") != (not limit.name):
        raise InvalidInput(
            f"a limit of kind {limit.kind!r} with name {limit.name!r}",
            hint="a workspace's limit has no name, every other has one",
        )
    return limit


class Slots:
    """What is left of each limit, at one moment."""

    def __init__(
        self, table: Iterable[Limit], leased: Mapping[str, int], resting: Mapping[str, int] | None = None
    ) -> None:
        """`leased`, `resting`: tickets by lane that somebody owns, and that nobody owns but once did."""
        self._table = {limit.scope: limit for limit in table}
        self._leased = _by_scope(leased)
        self._resting = _by_scope(resting or {})

    def limits(self, lane: str) -> list[Limit]:
        """Those that apply to this lane."""
        found: list[Limit] = []
        if not lane:
            return found
        for scope, brought, hold in read_lane(lane).scopes():
            limit = self._table.get(scope)
            if limit is None and brought is not None:
                limit = Limit(
                    kind=scope.kind, workspace=scope.workspace, name=scope.name, most=brought, hold=hold
                )
            if limit is not None and limit.most is not None:
                found.append(limit)
        return found

    def used(self, limit: Limit) -> int:
        resting = self._resting.get(limit.scope, 0) if limit.hold == "run" else 0
        return self._leased.get(limit.scope, 0) + resting

    def blocking(self, lane: str, *, started: bool) -> Limit | None:
        """The first limit that keeps such a ticket of this lane back."""
        for limit in self.limits(lane):
            holds_already = started and limit.hold == "run"
            if not holds_already and self.used(limit) >= (limit.most or 0):
                return limit
        return None

    def closed(self, lane: str) -> bool:
        """No ticket of this lane can be taken, begun or not."""
        return self.blocking(lane, started=True) is not None

    def take(self, lane: str, *, started: bool) -> None:
        for scope, _, _ in read_lane(lane).scopes() if lane else ():
            self._leased[scope] = self._leased.get(scope, 0) + 1
            if started:
                self._resting[scope] = self._resting.get(scope, 0) - 1


def rest_counts(table: Iterable[Limit], lanes: Iterable[str]) -> bool:
    """Some limit of these lanes may hold for the whole run, so that suspended runs must be counted."""
    return any(limit.hold == "run" for limit in table) or any(
        read_lane(lane).key_hold == "run" for lane in lanes
    )


def _by_scope(lanes: Mapping[str, int]) -> dict[Scope, int]:
    counts: dict[Scope, int] = {}
    for lane, count in lanes.items():
        for scope, _, _ in read_lane(lane).scopes():
            counts[scope] = counts.get(scope, 0) + count
    return counts


class LaneUse(NamedTuple):
    """Tickets of a lane that somebody owns, and that nobody owns but once did."""

    lane: str
    leased: int
    resting: int


class Waiting(NamedTuple):
    """An unowned ticket, of a lane or (lane '') of none."""

    lane: str
    started: bool
    priority: int
    due_at: float
    run_id: str
    path: str
    ending: bool


class Chosen(NamedTuple):
    tickets: Sequence[Waiting]
    next_due: float  # when the first that is not due yet will be
    blocked: bool  # some are due and wait for a slot
    more: bool  # there are more to take at once

    def next_in(self, now: float) -> float | None:
        if self.more:
            return 0.0
        return None if self.next_due == NEVER else self.next_due - now


def choose(waiting: Iterable[Waiting], slots: Slots, *, now: float, wanted: int) -> Chosen:
    """Which tickets go next: begun before fresh, priority, due time; what must clean up is exempt.

    FIFO within a lane. A lane whose limit is full does not hold up the others.
    """
    taken: list[Waiting] = []
    next_due, blocked, more = NEVER, False, False
    for ticket in sorted(waiting, key=lambda t: (not t.started, -t.priority, t.due_at, t.run_id, t.path)):
        if ticket.due_at > now:
            next_due = min(next_due, ticket.due_at)
        elif not ticket.ending and slots.blocking(ticket.lane, started=ticket.started) is not None:
            blocked = True
        elif len(taken) < wanted:
            slots.take(ticket.lane, started=ticket.started)
            taken.append(ticket)
        else:
            more = True
    return Chosen(taken, next_due, blocked, more)


def lanes_for(request: ClaimRequest, lanes: Iterable[str]) -> list[str]:
    """Those of the queues that this worker looks after."""
    queues = set(request.queues)
    return [lane for lane in lanes if read_lane(lane).queue in queues]
