"""The published automaton of a run's status."""

from __future__ import annotations

import pytest

from stepwell.domain.status import MOVES, RETRYABLE, TERMINAL, Status, may_move

ALLOWED = {
    "pending": {"running", "cancelled", "timed_out", "failed"},
    "running": {"suspended", "completed", "failed", "cancelled", "timed_out"},
    "suspended": {"running", "completed", "failed", "cancelled", "timed_out"},
    "completed": set(),
    "failed": {"running", "suspended"},
    "cancelled": set(),
    "timed_out": {"running", "suspended"},
}


@pytest.mark.req("K7")
@pytest.mark.parametrize("before", Status)
@pytest.mark.parametrize("after", Status)
def test_moves(before: Status, after: Status) -> None:
    assert may_move(before, after) == (before == after or after in ALLOWED[before])


@pytest.mark.req("K7")
def test_terminal_is_final_except_for_an_explicit_retry() -> None:
    assert {status for status in Status if status.terminal} == TERMINAL
    assert {status.value for status in TERMINAL} == {"completed", "failed", "cancelled", "timed_out"}
    assert {status for status in TERMINAL if MOVES[status]} == RETRYABLE == {Status.FAILED, Status.TIMED_OUT}


def test_every_status_is_in_the_automaton() -> None:
    assert set(MOVES) == set(Status)
