"""The frontier's helpers alone: values in, values out, without a frontier."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.authoring.graphs.build.plan import ScopePlan
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome
from stepwell.authoring.graphs.nodes.waits import EventRequest
from stepwell.authoring.graphs.run.containers import Containers
from stepwell.authoring.graphs.run.evaluator import Evaluator
from stepwell.authoring.graphs.run.event_mailbox import Mailbox
from stepwell.authoring.graphs.run.finally_blocks import FinallyBlocks
from stepwell.authoring.graphs.run.join_rules import JoinVerdict
from stepwell.authoring.graphs.run.joins import JoinResult, count_arrivals, join_result
from stepwell.authoring.graphs.run.loops import Loops
from stepwell.authoring.graphs.run.state import (
    STOP,
    Command,
    CommandKind,
    Failure,
    Marker,
    MarkerKind,
    NodeRun,
    NodeStatus,
    ScopeRun,
    new_node_run,
)
from stepwell.authoring.graphs.run.variables import Variables
from stepwell.testing.graphs.task import registry
from tests.authoring.graphs.graphs import START, a, chart

EVALUATOR = Evaluator({"id": "run", "workflow": "w"}, lambda path: 0.0)
NOTHING = Variables({}, {})


def waiter(name: str, key: str = "") -> Command:
    return Command(CommandKind.EVENT, f"{name}{key}", None, EventRequest(name, key, None))


def scope() -> ScopeRun:
    return ScopeRun(ScopePlan([], ""), "", NOTHING)


def node_run(node: str, nodes: list[Any], edges: str) -> NodeRun:
    plan, problems = PlanBuilder(registry()).examine(chart([START, *nodes], edges))
    assert plan is not None, problems
    root = ScopeRun(plan.root, "", NOTHING)
    return new_node_run(plan.root.by_id[node], root, NOTHING, 1)


@pytest.mark.req("N9")
def test_an_event_goes_to_the_earliest_wait_that_it_matches() -> None:
    mailbox = Mailbox()
    first, second = waiter("paid", "1"), waiter("paid")
    assert mailbox.add(first) is None
    listening = mailbox.listen("paid")
    assert listening is not None
    assert mailbox.add(second) is None
    assert mailbox.listen("paid") is None, "one command listens for all waits"

    assert mailbox.receive(listening, {"key": "2"}) is second
    assert mailbox.remove(second) is None
    assert mailbox.listen("paid") is not None


@pytest.mark.req("N9")
def test_an_early_event_is_kept_for_its_wait() -> None:
    mailbox = Mailbox()
    mailbox.add(other := waiter("paid", "1"))
    listening = mailbox.listen("paid")
    assert listening is not None
    early = {"key": "2", "data": 5}
    assert mailbox.receive(listening, early) is None

    assert mailbox.add(waiter("paid", "2")) is early
    again = mailbox.listen("paid")
    assert again is not None
    assert again.path == "@event:paid#2"
    assert mailbox.remove(other) is None, "the second wait is still there"


@pytest.mark.req("G10")
def test_the_finally_of_an_outer_try_waits_for_the_inner_one() -> None:
    blocks, inner, outer = FinallyBlocks(), scope(), scope()
    before = blocks.scopes()
    assert blocks.add(inner, before) is inner
    assert blocks.add(outer, before) is None

    end = blocks.end(inner)
    assert end is not None
    assert end.next is outer
    assert blocks.end(outer) == (None,)
    assert not blocks
    assert blocks.end(scope()) is None


def fired(**data: Any) -> JoinResult:
    """A join of two branches that wrote 1 and 2 to `x`."""
    join = node_run(
        "J",
        [a("F", "fork"), a("A"), a("B"), a("J", "merge", **data)],
        "S>F F>A F>B A>J B>J",
    )
    for value, edge in enumerate(join.node.ins, 1):
        source = new_node_run(join.scope.plan.nodes[edge.source], join.scope, NOTHING, value)
        source.after = NOTHING.written(value, "x", value, None)
        join.scope.node_runs[edge.source] = source
        join.scope.live.setdefault(join.node.index, []).append(edge)
        join.scope.unknown[join.node.index] -= 1
    return join_result(join, JoinVerdict.FIRE, count_arrivals(join.scope, join.node.index), EVALUATOR)


@pytest.mark.req("G5")
def test_a_join_that_fires_gives_the_merged_variables() -> None:
    result = fired()

    assert result.status is NodeStatus.COMPLETED
    assert result.variables.values == {"x": 2}
    assert result.output == {"arrived": ["A", "B"], "errors": [], "timedOut": False}
    assert [marker.kind for marker in result.markers] == ["merge_conflict", "node_completed"]
    assert not result.cancels, "both branches are in"


@pytest.mark.req("G5")
def test_a_conflict_fails_a_join_that_says_so() -> None:
    result = fired(onConflict="error")

    assert result.status is NodeStatus.FAILED
    assert result.failure is not None
    assert result.failure.code == "MERGE_CONFLICT"
    assert result.variables is NOTHING


@pytest.mark.req("N16")
def test_a_loop_opens_its_iterations_and_gives_their_results() -> None:
    loop = node_run("L", [a("L", "loop", times=2), a("A", parent="L")], "S>L")
    loops = Loops(EVALUATOR)

    marker, first = loops.start(loop)
    assert isinstance(marker, Marker)
    assert isinstance(first, ScopeRun)
    assert first.prefix == "L[0]/"
    _, second = loops.iteration_done(loop, first, NOTHING)
    assert isinstance(second, ScopeRun)
    stop, over, _, outcome = loops.iteration_done(loop, second, NOTHING)

    assert stop is STOP
    assert over == Marker(MarkerKind.LOOP_COMPLETED, "L", (2, 0))
    assert isinstance(outcome, NodeOutcome)
    assert outcome.output == {"results": [None, None], "failed": [], "count": 2, "carry": None}


@pytest.mark.req("N17")
def test_a_retry_container_backs_off_until_its_last_attempt() -> None:
    retry = node_run("R", [a("R", "retry", maxAttempts=2, delayMs=50), a("A", parent="R")], "S>R")
    containers = Containers(EVALUATOR, lambda path: False)
    failure = Failure("E", "failed", "A", "R#1/A")
    (body,) = containers.start(retry)
    assert isinstance(body, ScopeRun)

    (backoff,) = containers.body_failed(retry, body, failure)
    assert isinstance(backoff, Command)
    assert (backoff.kind, backoff.data) == (CommandKind.BACKOFF, 0.05)
    (body,) = containers.try_again(retry)
    assert isinstance(body, ScopeRun)
    assert body.prefix == "R#2/"
    assert containers.body_failed(retry, body, failure)[-1] is failure
