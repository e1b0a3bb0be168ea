"""Limits: how many runs may be active at once, and which of those that wait go next.

A run that a limit can apply to has a *lane*: its workspace, workflow, queue and key, and the limits
that it brings along. A row of `limits` with the same scope replaces what the lane brings, so limits
change at run time; a run that brings none gets its lane when somebody claims and such a row is there.
What is used of a limit is counted from tickets (leased ones, or with hold = run all that ever began), so
a dead worker's slots come free with its lease and nothing can leak.

A child counts like any other run while it is active, and cannot lock out its parent: one that waits for it
parks and holds no slot. With hold = run the parent holds its slot to the end, so that its children work
in it: such a limit neither counts them nor keeps them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from stepwell.domain.commit import NEVER, ClaimRequest, Definition, NewRun
from stepwell.domain.ids import NEEDS_EMIT, needs_step
from stepwell.domain.program import RunOptions
from stepwell.errors import InvalidDefinition, InvalidInput, excerpt

GRAPHS_PER_WORKSPACE = 50

Kind = Literal["workspace", "workflow", "queue", "key"]
Hold = Literal["active", "run"]
KINDS: tuple[Kind, ...] = ("workspace", "workflow", "queue", "key")


class LimitScope(NamedTuple):
    """What a limit counts. Queues are shared by all workspaces: theirs is ''."""

    kind: Kind
    workspace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {excerpt(self.name or self.workspace)}"


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
    def scope(self) -> LimitScope:
        return LimitScope(self.kind, self.workspace, self.name)


class Concurrency(msgspec.Struct, frozen=True):
    """Given at start: runs with the same key share this limit."""

    key: str
    most: int = 1
    hold: Hold = "active"


class Lane(msgspec.Struct, frozen=True, array_like=True):
    """Where a run queues; as text it is compact JSON. The `most`s are limits that it brings along."""

    workspace: str
    workflow: str
    queue: str
    key: str = ""
    workspace_most: int | None = None
    workflow_most: int | None = None
    key_most: int | None = None
    key_hold: Hold = "active"
    child: bool = False

    def is_in(self, scope: LimitScope) -> bool:
        return any(own == scope for own, _, _ in self.scopes())

    @property
    def text(self) -> str:
        text = msgspec.json.encode(self).decode()
        return text if self.child else text.removesuffix(",false]") + "]"

    def scopes(self) -> list[tuple[LimitScope, int | None, Hold]]:
        found: list[tuple[LimitScope, int | None, Hold]] = [
            (LimitScope("workspace", self.workspace, ""), self.workspace_most, "active"),
            (LimitScope("workflow", self.workspace, self.workflow), self.workflow_most, "active"),
            (LimitScope("queue", "", self.queue), None, "active"),
        ]
        if self.key:
            found.append((LimitScope("key", self.workspace, self.key), self.key_most, self.key_hold))
        return found


@lru_cache(maxsize=10_000)
def read_lane(text: str) -> Lane:
    return msgspec.json.decode(text, type=Lane)


def lane_of(
    definition: Definition,
    options: RunOptions,
    queue: str,
    workspace: str,
    key: Concurrency | None,
    *,
    child: bool,
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
        child,
    ).text


def checked_concurrency(most: int | None, where: str) -> int | None:
    """How many runs at once a definition asks for, or InvalidDefinition."""
    if most is not None and (type(most) is not int or most < 1):
        raise InvalidDefinition(
            f"{where}(concurrency={excerpt(most)})", hint="at least one run at once: give 1 or more"
        )
    return most


def checked_limit(limit: Limit) -> Limit:
    """The limit, or InvalidInput: what is wrong with it."""
    if limit.kind not in KINDS:
        raise InvalidInput(
            f"no limit is of kind {excerpt(limit.kind)}", hint=f"it is one of {', '.join(KINDS)}"
        )
    if limit.hold not in ("active", "run"):
        raise InvalidInput(f"a limit cannot hold {excerpt(limit.hold)}", hint="hold is 'active' or 'run'")
    if limit.most is not None and (type(limit.most) is not int or not 0 <= limit.most <= 10**9):
        raise InvalidInput(
            f"at most {excerpt(limit.most)} runs", hint="0 lets none begin; None takes the limit away"
        )
    if type(limit.name) is not str or len(limit.name) > 500 or not limit.name.isprintable():
        raise InvalidInput(
            f"a limit cannot be of {excerpt(limit.name)}", hint="use at most 500 printable characters"
        )
    if (limit.kind == "workspace") != (not limit.name):
        raise InvalidInput(
            f"a limit of kind {excerpt(limit.kind)} with name {excerpt(limit.name)}",
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
        roots = {lane: count for lane, count in leased.items() if not read_lane(lane).child}
        self._begun = _by_scope(roots)  # what a limit that holds for the whole run counts
        for lane, count in (resting or {}).items():
            if not read_lane(lane).child:
                _count(self._begun, lane, count)

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
        counts = self._begun if limit.hold == "run" else self._leased
        return counts.get(limit.scope, 0)

    def blocking(self, lane: str, *, started: bool) -> Limit | None:
        """The first limit that keeps such a ticket of this lane back."""
        started = started or is_child(lane)
        for limit in self.limits(lane):
            holds_already = started and limit.hold == "run"
            if not holds_already and self.used(limit) >= (limit.most or 0):
                return limit
        return None

    def closed(self, lane: str) -> bool:
        """No ticket of this lane can be taken, begun or not."""
        return self.blocking(lane, started=True) is not None

    def take(self, lane: str, *, started: bool) -> None:
        if lane:
            _count(self._leased, lane, 1)
            if not started and not is_child(lane):
                _count(self._begun, lane, 1)


def rest_counts(table: Iterable[Limit], lanes: Iterable[str]) -> bool:
    """Some limit of these lanes may hold for the whole run, so that suspended runs must be counted."""
    return any(limit.hold == "run" for limit in table) or any(
        read_lane(lane).key_hold == "run" for lane in lanes
    )


def _by_scope(lanes: Mapping[str, int]) -> dict[LimitScope, int]:
    counts: dict[LimitScope, int] = {}
    for lane, count in lanes.items():
        _count(counts, lane, count)
    return counts


def _count(counts: dict[LimitScope, int], lane: str, count: int) -> None:
    for scope, _, _ in read_lane(lane).scopes():
        counts[scope] = counts.get(scope, 0) + count


def is_child(lane: str) -> bool:
    return bool(lane) and read_lane(lane).child


class LaneUse(NamedTuple):
    """Tickets of a lane that somebody owns, and that nobody owns but once did."""

    lane: str
    leased: int
    resting: int


class WaitingTicket(NamedTuple):
    """An unowned ticket, of a lane or (lane '') of none."""

    lane: str
    started: bool
    priority: int
    due_at: float
    run_id: str
    path: str
    ending: bool


class Chosen(NamedTuple):
    tickets: Sequence[WaitingTicket]
    next_due: float  # when the first that is not due yet will be
    blocked: bool  # some are due and wait for a slot
    more: bool  # there are more to take at once

    def next_in(self, now: float) -> float | None:
        if self.more:
            return 0.0
        return None if self.next_due == NEVER else self.next_due - now


def choose(
    waiting: Iterable[WaitingTicket], slots: Slots, *, now: float, wanted: int, fresh: int = 0
) -> Chosen:
    """Which tickets go next, of lanes and of none: begun before fresh, priority, due time. But so many of
    the places (`fresh`) are first for fresh ones.

    FIFO within a lane. A lane whose limit is full does not hold up the others; what must clean up is
    exempt. A child of a lane goes with those that have begun: else as many parents as wait would begin,
    one after the other, before the first of their children could.
    """
    ordered = sorted(waiting, key=_place)
    taken = _take_fresh(ordered, slots, now=now, wanted=min(fresh, wanted)) if fresh else []
    if taken:
        first = set(taken)
        ordered = [ticket for ticket in ordered if ticket not in first]
    next_due, blocked, more = NEVER, False, False
    for ticket in ordered:
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


def _take_fresh(
    ordered: Iterable[WaitingTicket], slots: Slots, *, now: float, wanted: int
) -> list[WaitingTicket]:
    taken: list[WaitingTicket] = []
    for ticket in ordered:
        if len(taken) == wanted:
            break
        if ticket.due_at > now or _has_begun(ticket):
            continue
        if ticket.ending or slots.blocking(ticket.lane, started=False) is None:
            slots.take(ticket.lane, started=False)
            taken.append(ticket)
    return taken


def brought(runs: Iterable[NewRun]) -> set[str]:
    """The lanes of those whose owner wants them as they start: their limits are to be asked first."""
    return {run.lane for run in runs if run.lane and run.wanted}


def owned_within(runs: Sequence[NewRun], slots: Slots, *, waiting: bool) -> Sequence[NewRun]:
    """The same runs; those of a lane keep their owner where there is a slot and nobody to be passed.

    `waiting`: a ticket of a lane is due. Which of their limits they share is not looked at.
    """
    found: list[NewRun] = []
    for run in runs:
        limited = run.lane and run.at_once
        if limited and not waiting:
            waiting = not run.owner or slots.blocking(run.lane, started=False) is not None
            if not waiting:
                slots.take(run.lane, started=False)
        found.append(replace(run, owner="") if limited and waiting else run)
    return found


def _has_begun(ticket: WaitingTicket) -> bool:
    return ticket.started or is_child(ticket.lane)


def _place(ticket: WaitingTicket) -> tuple[bool, int, float, str, str]:
    return (not _has_begun(ticket), -ticket.priority, ticket.due_at, ticket.run_id, ticket.path)


class Reach(NamedTuple):
    """What limits that were set can say of runs that bring none: they are given lanes by these."""

    queues: Sequence[str]
    workflows: Sequence[str]
    everything: bool  # a workspace has a limit

    def __bool__(self) -> bool:
        return bool(self.queues or self.workflows or self.everything)

    def has(self, queue: str, needs: str) -> bool:
        """Tickets of runs that wait there may be in it, whatever their workspace."""
        if needs == NEEDS_EMIT or needs.startswith(needs_step("")):
            return False
        named = any(needs.startswith(f"{name}@") for name in self.workflows)
        return self.everything or queue in self.queues or named


def reach(table: Iterable[Limit]) -> Reach:
    counting = [limit for limit in table if limit.most is not None]
    return Reach(
        [limit.name for limit in counting if limit.kind == "queue"],
        [limit.name for limit in counting if limit.kind == "workflow"],
        any(limit.kind == "workspace" for limit in counting),
    )


def lanes_for(request: ClaimRequest, lanes: Iterable[str]) -> list[str]:
    """Those of the queues that this worker looks after."""
    queues = set(request.queues)
    return [lane for lane in lanes if read_lane(lane).queue in queues]
