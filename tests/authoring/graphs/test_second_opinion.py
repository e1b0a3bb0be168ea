"""The engine against a second opinion, on graphs that nobody would draw."""

from __future__ import annotations

import json
import re

import pytest

from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.run.state import MarkerKind
from stepwell.testing.graphs.cases import Case
from stepwell.testing.graphs.runner import run_case
from stepwell.testing.graphs.simulated import Simulated
from stepwell.testing.graphs.task import registry
from tests.authoring.graphs.data_opinion import DataOpinion, Tangle
from tests.authoring.graphs.second_opinion import Opinion
from tests.authoring.graphs.wild_graphs import Wild

# Among these no two decisions fall into the same instant so that their order shows: the rules leave it open.
_SEEDS = range(1210, 1350)
_INDEX = re.compile(r"\[\d+\]")


@pytest.mark.req("G3", "G5", "G6", "G7", "G8", "G10", "G11", "N11", "N12", "N16", "N17")
@pytest.mark.parametrize("first", _SEEDS[::20])
def test_both_say_the_same_of_wild_graphs(first: int) -> None:
    for seed in range(first, first + 20):
        wild = Wild(seed)
        found = run_case(Case.read(wild.case()))

        other = Opinion(wild)
        told = json.dumps({"seed": seed, **wild.case()})
        assert (found["status"], found["error"], found["t"]) == (*(other.end or ()), other.now), told
        assert _told(found["steps"]) == _told(other.steps), told


def _told(steps: dict[str, str]) -> list[tuple[str, str]]:
    """Iterations side by side take the same time: which of them ends first is nobody's promise."""
    return sorted((_INDEX.sub("[]", path), status) for path, status in steps.items())


@pytest.mark.req("G5", "G7", "G13")
def test_both_say_the_same_of_what_nodes_see() -> None:
    """Branches that overlap, variables that many write."""
    compared = 0
    for seed in range(400):
        tangle = Tangle(seed)
        other = DataOpinion(tangle)
        if other.is_open:
            continue
        case = tangle.case()
        plan, problems = PlanBuilder(registry()).examine(case.graph)
        assert plan is not None, problems
        run = Simulated(plan, case)
        end = run.run().result

        told = json.dumps({"seed": seed, "graph": case.graph, "script": case.script})
        assert end is not None, told
        assert end.failure is None, told
        assert end.output == other.output, told
        assert run.steps == other.steps, told
        conflicts = [marker for marker in run.markers if marker.kind is MarkerKind.MERGE_CONFLICT]
        assert bool(conflicts) == bool(other.conflicts), told
        compared += 1
    assert compared > 300
