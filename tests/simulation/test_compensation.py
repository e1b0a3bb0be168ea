"""Sagas in a hostile world: what was recorded as done is undone, in reverse, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stepwell.testing.checker import check
from stepwell.testing.evidence import Evidence, History, Wanted
from stepwell.testing.simulation import simulate, world
from stepwell.testing.simulation import workflows as w
from stepwell.testing.simulation.shapes import SHAPES, Shape

SEEDS = range(100)
PREFIX = "compensate/"


def failing(rng: Any) -> dict[str, Any]:
    return {"n": rng.randint(0, 3), "fails": rng.choice((0, 1, 3)), "waits": False}


def waiting(rng: Any) -> dict[str, Any]:
    return {**failing(rng), "waits": True, "seconds": rng.choice((0.1, 3.0, 900.0))}


SAGAS = (
    Shape(w.saga, failing, lambda plan: Wanted(("failed",))),
    Shape(w.saga, waiting, lambda plan: Wanted(("cancelled",)), "cancel"),
)


def undoing(history: History) -> Iterator[str]:
    """What is wrong with how this run undid what it did."""
    done = [e.path for e in history.entries if e.kind == "step_completed"]
    undone = [path.removeprefix(PREFIX) for path in done if path.startswith(PREFIX)]
    wanted = [path for path in done if not path.startswith(PREFIX)]
    if [path for path in wanted if "/do#" in path][::-1] != undone:
        yield f"{history.run}: did {wanted}, undid {undone}"
    if len(set(undone)) != len(undone):
        yield f"{history.run}: undid {undone}"
    begun = sum(e.kind == "compensation_started" for e in history.entries)
    if begun != bool(undone) or begun != sum(e.kind == "compensation_completed" for e in history.entries):
        yield f"{history.run}: began {begun} times"


@pytest.mark.slow
@pytest.mark.req("R1", "K27")
def test_no_seed_leaves_anything_done(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[History] = []

    def look(evidence: Evidence) -> Any:
        seen.extend(evidence.histories)
        return check(evidence)

    # The first shape is the probe's: it must still complete.
    monkeypatch.setattr(world, "SHAPES", (SHAPES[0], *SAGAS))
    monkeypatch.setattr(world, "check", look)
    broken = {seed: found for seed in SEEDS if (found := simulate(seed).violations)}

    assert not broken
    sagas = [h for h in seen if h.accepted.get("workflow") == "saga"]
    assert [text for history in sagas for text in undoing(history)] == []
    ends = [h.entries[-1].kind for h in sagas]
    assert min(ends.count("failed"), ends.count("cancelled")) > 20
    assert any(e.kind == "lease_lost" for h in sagas for e in h.entries)
