"""Machines and sagas under faults: a transition happens completely or not at all, and the steps of a run are
undone once if it ends badly. The rules are in `tests/simulation/checker/machines`."""

from __future__ import annotations

from typing import Any

import pytest

from tests import effort
from tests.simulation.checker.checker import check
from tests.simulation.checker.evidence import Evidence, History
from tests.simulation.simulator import simulate, world
from tests.simulation.simulator.machine_mutants import MACHINE_MUTANTS
from tests.simulation.simulator.mutants import Mutant, hunt
from tests.simulation.simulator.shapes import MACHINES

SEEDS = effort.seeds(quick=4, change=120, all=240)


@pytest.mark.slow
@pytest.mark.req("R1", "M3", "M9", "K25", "K27")
def test_no_seed_leaves_half_a_transition_or_anything_done(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[History] = []
    looks = 0

    def look(evidence: Evidence) -> Any:
        nonlocal looks
        seen.extend(evidence.histories)
        looks += len(evidence.looks)
        return check(evidence)

    monkeypatch.setattr(world, "check", look)
    broken = {
        seed: str(violations[0])
        for seed in SEEDS
        if (violations := simulate(seed, shapes=MACHINES).violations)
    }

    assert not broken, "replay with --machines --seed N -v"
    # Not a trivial pass: all of this happened, and workers were lost in the middle of it.
    kinds = [event.kind for history in seen for event in history.entries]
    for kind in ("transition_failed", "document_saved", "compensation_completed", "lease_lost", "retried"):
        assert kinds.count(kind) > 20, kind
    routed = [e for h in seen for e in h.entries if e.kind == "transition_completed" and "error" in e.data]
    assert {event.data["target"] for event in routed} == {"late", "by_hand"}
    assert looks > 200
    ends = [history.entries[-1].kind for history in seen]
    assert min(ends.count("completed"), ends.count("failed"), ends.count("cancelled")) > 20


@pytest.mark.req("R1", "M3", "K27")
@pytest.mark.parametrize("mutant", MACHINE_MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    report = hunt(mutant, range(100))

    assert report is not None, f"{mutant.name} survived: {mutant.what}"
