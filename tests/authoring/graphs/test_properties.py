"""What holds for every graph: over many random ones, in virtual time, against the frontier itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepwell.authoring.graphs.build.plan import GraphPlan
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.testing.graphs.cases import Case
from stepwell.testing.graphs.runner import run_case
from stepwell.testing.graphs.simulated import Simulated
from stepwell.testing.graphs.task import registry
from tests import effort
from tests.authoring.graphs.random_graphs import Grower

CHUNK = 100
SEEDS = effort.seeds(quick=100, change=300, all=2100)


def plan_of(case: Case) -> GraphPlan:
    plan, problems = PlanBuilder(registry()).examine(case.graph)
    assert plan is not None, [str(problem) for problem in problems]
    return plan


def lived(plan: GraphPlan, case: Case) -> Simulated:
    run = Simulated(plan, case)
    run.run()
    return run


def grown(seed: int, *, only_all: bool = False) -> Case | None:
    """A random case; None when it came out deeper than containers may be nested."""
    case = Grower(seed, only_all=only_all).case()
    _, problems = PlanBuilder(registry()).examine(case.graph)
    return None if any(p.code in ("NESTING_TOO_DEEP", "GRAPH_TOO_LARGE") for p in problems) else case


@pytest.mark.req("G3", "G6")
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_every_step_settles_once_and_nothing_is_stuck(first: int) -> None:
    for seed in range(first, first + CHUNK):
        case = grown(seed)
        if case is None:
            continue
        run = lived(plan_of(case), case)

        assert run.frontier.result is not None, f"seed {seed} is stuck: {list(run.frontier.open_commands)}"
        twice = [path for path, count in Counter(run.settled).items() if count > 1]
        assert not twice, f"seed {seed}: settled twice: {twice}"
        left = [path for path, status in run.steps.items() if status in ("running", "waiting")]
        assert not left, f"seed {seed}: never settled: {left}"


@pytest.mark.req("G3")
@pytest.mark.parametrize("first", effort.seeds(quick=100, change=200, all=400)[::CHUNK])
def test_a_crash_at_any_fact_decides_the_same(first: int) -> None:
    """Feed a prefix of the facts to a new frontier: it stands where the old one stood."""
    for seed in range(first, first + CHUNK):
        case = grown(seed)
        if case is None:
            continue
        plan = plan_of(case)
        whole = lived(plan, case)
        for cut in range(0, len(whole.facts) + 1, max(1, len(whole.facts) // 7)):
            again = Simulated(plan, case)
            again.replay(whole.facts[:cut])
            for path, how, value in whole.facts[cut:]:
                again.feed(again._commands[path], how, value, live=False)

            assert again.steps == whole.steps, f"seed {seed}, cut at {cut}"
            assert again.frontier.result == whole.frontier.result, f"seed {seed}, cut at {cut}"


@pytest.mark.req("G6", "G7")
@pytest.mark.parametrize("first", effort.seeds(quick=100, change=200, all=600)[::CHUNK])
def test_graphs_with_only_all_joins_do_not_depend_on_timing(first: int) -> None:
    for seed in range(first, first + CHUNK):
        grower = Grower(seed, only_all=True)
        case = grower.case()
        plan = plan_of(case)
        seen: list[tuple[dict[str, str], Any]] = []
        for timing in range(2):
            run = lived(plan, grower.timed_anew(case, timing))
            assert run.frontier.result is not None
            seen.append((run.steps, run.frontier.result.output))

        assert seen[0] == seen[1], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.req("G3")
@pytest.mark.parametrize("seed", range(40))
def test_the_engine_does_what_the_frontier_says(seed: int) -> None:
    """The same random graph through the kernel, with its code replayed after every commit."""
    case = grown(seed)
    if case is None:
        pytest.skip("nested too deep")
    run = lived(plan_of(case), case)
    end = run.frontier.result
    assert end is not None

    for replay_always in (False, True):
        found = run_case(case, replay_always=replay_always)

        assert found["status"] == ("failed" if end.failure else "completed")
        assert found["error"] == (end.failure.code if end.failure else None)
        assert found["output"] == end.output
        assert found["steps"] == run.steps
