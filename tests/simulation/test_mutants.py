"""The test of the test: every planted bug must be caught within a bounded number of seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.simulator.change_mutants import CHANGE_MUTANTS
from tests.simulation.simulator.machine_mutants import MACHINE_MUTANTS
from tests.simulation.simulator.mutants import MUTANTS, Mutant, hunt

HUNTED = [*MUTANTS, *CHANGE_MUTANTS]
# Few seeds show these: `make quick` leaves them to `make test`. At most one mutant in five may be here.
RARE = {"two_transactions", "forgets_keys", "owns_twice", "sent_again", "deaf_between", "orphans"}


def named(mutant: Mutant) -> object:
    return pytest.param(mutant, id=mutant.name, marks=[pytest.mark.slow] if mutant.name in RARE else [])


def test_make_quick_hunts_four_of_five_mutants() -> None:
    names = {mutant.name for mutant in (*HUNTED, *MACHINE_MUTANTS)}

    assert names >= RARE
    assert len(RARE) <= len(names) / 5


@pytest.mark.req("R1")
@pytest.mark.parametrize("mutant", [named(mutant) for mutant in HUNTED])
def test_mutant_is_caught(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    report = hunt(mutant)

    assert report is not None, f"{mutant.name} survived: {mutant.what}"
    record_property("mutants caught", f"{mutant.name} by seed {report.seed}")
