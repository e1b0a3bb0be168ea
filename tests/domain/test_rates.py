"""Start rates: whatever comes, never more starts in any window than allowed, and little is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.domain.rates import STARTS_KEPT, Full, Ledger, Window, WindowKey

Asked = list[tuple[float, int]]


def started(window: Window, asked: Asked) -> tuple[Asked, str]:
    """Those that got in, and what is kept at the end; `asked`: seconds since the one before, how many."""
    rows: dict[WindowKey, str] = {}
    now, found = 1000.0, []
    for pause, count in asked:
        now += pause
        ledger = Ledger(rows, now)
        if ledger.admit([window], count) is None:
            found.append((now, count))
        rows |= {key: starts for key, starts, _ in ledger.changed()}
    return found, rows.get(window.key, "[]")


@pytest.mark.req("K20")
@given(st.integers(1, 20), st.lists(st.tuples(st.floats(0, 30), st.integers(1, 6)), max_size=60))
def test_no_window_of_time_has_more_starts_than_allowed(most: int, asked: Asked) -> None:
    found, _ = started(Window("w", most, 60.0), asked)

    for at, _ in found:
        assert sum(count for when, count in found if at <= when < at + 59.999) <= most


@pytest.mark.req("K20")
def test_a_wide_window_keeps_few_times_and_allows_no_more() -> None:
    found, kept = started(Window("w", 1_000, 60.0), [(0.05, 1)] * 2_000)

    for at, _ in found:
        assert sum(count for when, count in found if at <= when < at + 59.999) <= 1_000
    assert len(found) > 1_600
    assert kept.count("[") <= STARTS_KEPT + 1


@pytest.mark.req("K20")
def test_a_clock_that_was_set_back_closes_no_window_for_longer_than_it_is() -> None:
    window = Window("w", 1, 60.0)
    rows = {window.key: "[[5000.0,1]]"}

    full = Ledger(rows, 1000.0).admit([window], 1)

    assert full == Full(window, 60.0)


@pytest.mark.req("K20")
@pytest.mark.parametrize("row", ["", "null", "[[1]]", "nonsense"])
def test_a_window_that_cannot_be_read_says_so(row: str) -> None:
    window = Window("w", 1, 60.0)

    assert Ledger({window.key: row}, 1000.0).admit([window], 1) == Full(window, None)
