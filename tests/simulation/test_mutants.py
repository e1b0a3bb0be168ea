"""The test of the test: every planted bug must be caught within a bounded number of seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepwell.testing.simulation.change_mutants import CHANGE_MUTANTS
from stepwell.testing.simulation.mutants import MUTANTS, Mutant, hunt


@pytest.mark.slow
@pytest.mark.req("R1")
@pytest.mark.parametrize("mutant", [*MUTANTS, *CHANGE_MUTANTS], ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    report = hunt(mutant)

    assert report is not None, f"{mutant.name} survived: {mutant.what}"
    record_property("mutants caught", f"{mutant.name} by seed {report.seed}")
