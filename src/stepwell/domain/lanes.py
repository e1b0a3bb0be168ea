"""Lanes: the group in which a run queues when a limit can apply to it.

A lane names the run's workspace, workflow, queue and limit key, and carries the limits that its definition
and its start set. A run without such limits has no lane until a worker claims while a stored limit covers it.

A child counts like any other run while it is active, and cannot lock out its parent: a parent that waits for
it parks and holds no slot. With hold = run the parent keeps its slot to the end and its children work inside
that slot: such a limit neither counts the children nor holds them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from stepwell.domain.commit import ClaimRequest, Definition
from stepwell.domain.ids import NEEDS_EMIT, needs_step
from stepwell.domain.limits import Concurrency, Hold, Limit, LimitScope
from stepwell.domain.program import RunOptions
from stepwell.domain.scope_holds import ScopeHold

GRAPHS_PER_WORKSPACE = 50


class Lane(msgspec.Struct, frozen=True, array_like=True):
    """Where a run queues; as text it is compact JSON. The `*_limit` fields are the limits that it carries."""

    workspace: str
    workflow: str
    queue: str
    key: str = ""
    workspace_limit: int | None = None
    workflow_limit: int | None = None
    key_limit: int | None = None
    key_hold: Hold = "active"
    child: bool = False
    exempt: bool = False  # not counted by limits: a test run or a remote step, which can only be held

    def is_in(self, scope: LimitScope) -> bool:
        return any(own == scope for own, _, _ in self.scopes())

    @property
    def text(self) -> str:
        text = msgspec.json.encode(self).decode()
        if self.exempt:
            return text
        text = text.removesuffix(",false]") + "]"
        return text if self.child else text.removesuffix(",false]") + "]"

    def scopes(self) -> list[tuple[LimitScope, int | None, Hold]]:
        """The scopes that count this lane, each with the limit that the lane carries for it."""
        if self.exempt:
            return []
        scopes: list[tuple[LimitScope, int | None, Hold]] = [
            (LimitScope("workspace", self.workspace, ""), self.workspace_limit, "active"),
            (LimitScope("workflow", self.workspace, self.workflow), self.workflow_limit, "active"),
            (LimitScope("queue", "", self.queue), None, "active"),
        ]
        if self.key:
            scopes.append((LimitScope("key", self.workspace, self.key), self.key_limit, self.key_hold))
        return scopes


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
    test: bool = False,
) -> str:
    """Return the lane of a new run, or '' if it carries no limit, so that claiming it costs nothing extra.

    A test run takes no slots of production, and waits for none.
    """
    if test:
        return ""
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
        key.limit if key else None,
        key.hold if key else "active",
        child,
    ).text


def is_child(lane: str) -> bool:
    return bool(lane) and read_lane(lane).child


class LaneUse(NamedTuple):
    """How many tickets of a lane have an owner, and how many had one and have none now."""

    lane: str
    leased: int
    resting: int


def lanes_for(request: ClaimRequest, lanes: Iterable[str]) -> list[str]:
    """The lanes whose queue this worker serves."""
    queues = set(request.queues)
    return [lane for lane in lanes if read_lane(lane).queue in queues]


class LimitCoverage(NamedTuple):
    """The tickets without a lane that stored limits may count, or a hold may stop. They get a lane."""

    queues: Sequence[str]
    workflows: Sequence[str]
    everything: bool  # a workspace has a limit, or is held
    holds: Sequence[ScopeHold] = ()

    def __bool__(self) -> bool:
        return bool(self.queues or self.workflows or self.everything)

    def covers(self, queue: str, needs: str) -> bool:
        """Return whether a limit may count, or a hold stop, work of this queue and needs in any workspace."""
        if needs == NEEDS_EMIT:
            return False
        if any(hold.may_cover(queue, needs) for hold in self.holds):
            return True
        if needs.startswith(needs_step("")):
            return False
        named = any(needs.startswith(f"{name}@") for name in self.workflows)
        return self.everything or queue in self.queues or named


def coverage_of(table: Iterable[Limit], holds: Sequence[ScopeHold] = ()) -> LimitCoverage:
    scopes = [(limit.kind, limit.name) for limit in table if limit.limit is not None]
    scopes += [(hold.kind, hold.name) for hold in holds]
    return LimitCoverage(
        [name for kind, name in scopes if kind == "queue"],
        [name for kind, name in scopes if kind == "workflow"],
        any(kind == "workspace" for kind, _ in scopes),
        holds,
    )
