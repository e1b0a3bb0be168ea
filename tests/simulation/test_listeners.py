"""Runs loop over broadcast events under faults: every event is taken once, in order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.checker.checker import check
from tests.simulation.checker.evidence import Emitted, Entry, Evidence, History
from tests.simulation.simulator import simulate, world
from tests.simulation.simulator.shapes import LISTENERS

SEEDS = range(140)


@pytest.mark.slow
@pytest.mark.req("R1", "K35")
def test_no_seed_loses_repeats_or_swaps_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[History] = []

    def look(evidence: Evidence) -> Any:
        seen.extend(evidence.histories)
        return check(evidence)

    monkeypatch.setattr(world, "check", look)
    broken = {
        seed: str(violations[0])
        for seed in SEEDS
        if (violations := simulate(seed, shapes=LISTENERS).violations)
    }

    assert not broken
    # Not a trivial pass: runs lost their owners, continued as new and timed out between the events.
    kinds = [event.kind for history in seen for event in history.entries]
    for kind in ("lease_lost", "continued", "transition_completed"):
        assert kinds.count(kind) > 5, kind
    outcomes = [e.data["outcome"] for h in seen for e in h.entries if e.kind == "wait_ended"]
    assert min(outcomes.count("answered"), outcomes.count("timed_out")) > 100


def _run(*taken: str) -> History:
    """A run that waits for `news` of key k and took these events."""
    entries = [Entry(1, 5.0, "accepted", "", 0, {})]
    for number, id in enumerate(taken):
        wait, path = {"what": "event", "name": "news", "key": "k"}, f"w#{number}"
        entries.append(Entry(len(entries) + 1, 6.0, "wait_opened", path, 0, wait))
        message = {"key": f"evt/{id}", "what": "event", "name": path}
        entries.append(Entry(len(entries) + 1, 7.0, "received", "", 0, message))
    return History("run", entries)


@pytest.mark.req("R1", "K35")
@pytest.mark.parametrize(
    ("taken", "verdict"),
    [
        ([], ""),
        (["b"], ""),
        (["b", "d"], ""),
        (["a"], "event b was missed"),  # from before the run's start
        (["c"], "event b was missed"),  # of another key
        (["d"], "event b was missed"),
        (["d", "b"], "event b was missed"),
        (["b", "b"], "event d was missed"),
        (["b", "d", "d"], "it had taken all"),
    ],
)
def test_checker_knows_which_event_is_next(taken: list[str], verdict: str) -> None:
    events = [("d", "k", 9.0), ("a", "k", 1.0), ("c", "j", 7.0), ("b", "k", 6.0)]
    evidence = Evidence([_run(*taken)], emitted=[Emitted(id, "news", key, at) for id, key, at in events])

    violations = [violation.text for violation in check(evidence) if "event" in violation.text or verdict]

    assert (
        any(verdict in text for text in violations)
        if verdict
        else not [t for t in violations if "taken" in t]
    )
