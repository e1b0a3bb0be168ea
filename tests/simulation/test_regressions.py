"""Seeds that once showed a bug of the engine.

A seed's history changes with the code and the shapes, so this is a record of past bugs, not a
proof; the bugs that can be planted again are in `mutants`.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulator import simulate
from tests.simulation.simulator.shapes import MACHINES

FOUND = {
    0: "a run parked between announcing a step and beginning it",
    2: "a remote result that came with the claim was dropped",
    16: "a claim that was executed after its error left tickets that nobody drove",
    19: "an event's fan-out that failed once was not tried again",
    39: "the same, for a run that was never begun",
    56: "continue_as_new was skipped when another commit was in flight",
    85: "a signal that came while continue_as_new was written was lost",
    275: "one transactional step gave back the turn of another",
    381: "a heartbeat's old answer ended a run that had just been claimed anew",
    461: "a transactional step that lost its run said so as an error",
    769: "a claim asked for again began the same remote step twice",
    1725: "a retry that was due while its run parked was begun and cut off",
    2083: "a claim answered after stop() began work that was already given back",
    2178: "a claim asked for again took a run under the lease that it had been left with",
}
FOUND_IN_MACHINES = {
    329: "steps ran under a lease that the log never heard of, because the run was given back",
    363: "the same",
}


@pytest.mark.req("R1")
@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}")
def test_it_stays_mended(seed: int) -> None:
    report = simulate(seed)

    assert not report.violations, f"once: {FOUND[seed]}"


@pytest.mark.req("R1")
@pytest.mark.parametrize("seed", FOUND_IN_MACHINES, ids=lambda seed: f"{seed}")
def test_it_stays_mended_for_machines(seed: int) -> None:
    report = simulate(seed, shapes=MACHINES)

    assert not report.violations, f"once: {FOUND_IN_MACHINES[seed]}"
