"""The test of the test: every planted bug must be caught within a bounded number of seeds."""

from __future__ import annotations

import pytest

from stepwell.testing.simulation.mutants import MUTANTS, Mutant, hunt

caught: dict[str, int] = {}


@pytest.mark.slow
@pytest.mark.req("R1")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    report = hunt(mutant)

    assert report is not None, f"{mutant.name} survived: {mutant.what}"
    caught[mutant.name] = report.seed


@pytest.mark.req("R1")
def test_mutants_caught(capsys: pytest.CaptureFixture[str]) -> None:
    """Last: one line about all of them."""
    with capsys.disabled():
        print(f"\nmutants caught {len(caught)}/{len(MUTANTS)} (first seed that did: {caught})")
    if len(caught) < len(MUTANTS):
        pytest.skip("not all of them were hunted in this session")
