"""Operators hold, release, force, skip and set variables under faults: what was acknowledged holds."""

from __future__ import annotations

from typing import Any

import pytest

from tests import effort
from tests.simulation.checker.checker import check
from tests.simulation.checker.evidence import Entry, Evidence, Execution, History, Operated
from tests.simulation.simulator import simulate, world
from tests.simulation.simulator.mutants import Mutant, hunt
from tests.simulation.simulator.operator_mutants import OPERATOR_MUTANTS
from tests.simulation.simulator.operators import OPERATORS

SEEDS = effort.seeds(quick=8, change=150, all=600)


@pytest.mark.req("R1", "K39")
def test_no_seed_breaks_what_was_acknowledged_to_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[History] = []

    def look(evidence: Evidence) -> Any:
        seen.extend(evidence.histories)
        return check(evidence)

    monkeypatch.setattr(world, "check", look)
    broken = {
        seed: str(violations[0])
        for seed in SEEDS
        if (violations := simulate(seed, shapes=OPERATORS).violations)
    }

    assert not broken, "replay with --operators --seed N -v"
    if effort.EFFORT is effort.Effort.QUICK:
        return
    # Not a trivial pass: all of this happened, and workers were lost in the middle of it.
    entries = [entry for history in seen for entry in history.entries]
    kinds = [entry.kind for entry in entries]
    for kind in ("held", "released", "variable_set", "lease_lost", "retried"):
        assert kinds.count(kind) > 20, kind
    assert sum(entry.data.get("forced", False) for entry in entries) > 20
    assert sum(entry.data.get("skipped", False) for entry in entries) > 20


@pytest.mark.req("R1", "K39")
@pytest.mark.parametrize("mutant", OPERATOR_MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    report = hunt(mutant, range(100))

    assert report is not None, f"{mutant.name} survived: {mutant.what}"


def _broken(kinds: str, *told: Operated, executions: tuple[Execution, ...] = ()) -> list[str]:
    """The verdict on a log of these kinds, one a second."""
    entries = [
        Entry(seq, float(seq), kind, "", 0, {"lease": "l"} if kind == "claimed" else {})
        for seq, kind in enumerate(kinds.split(), start=1)
    ]
    evidence = Evidence([History("run", entries)], executions=executions, operated=told)
    return [violation.text for violation in check(evidence) if violation.rule == "I19"]


@pytest.mark.req("R1", "K39")
def test_checker_knows_what_holds() -> None:
    def began(at: float) -> tuple[Execution, ...]:
        return (Execution("run", "0/a#1", 1, "l", at),)

    held, forced = Operated("run", "held"), Operated("run", "forced")
    assert not _broken("accepted claimed held released completed", held, executions=began(2.5))
    assert not _broken("accepted claimed held released completed", held, executions=began(4.5))
    assert "began 0.500 s after" in _broken("accepted claimed held released", executions=began(3.5))[0]
    assert "hold was acknowledged and is lost" in _broken("accepted claimed completed", held)[0]
    assert "without a release" in _broken("accepted held held released completed")[0]
    assert "was not held" in _broken("accepted released completed")[0]
    assert "continued with claimed" in _broken("accepted claimed", forced)[0]
    assert not _broken("accepted claimed cancelled", forced)
    assert "is lost" in _broken("accepted claimed completed", Operated("run", "set", "variable/1"))[0]
