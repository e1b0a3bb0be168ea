"""Telemetry: what a histogram counts."""

from __future__ import annotations

from stepwell.telemetry.measures import SECONDS, Histogram


def test_many_values_at_once_count_as_they_do_one_by_one() -> None:
    values = [*SECONDS, 0.0, 0.0011, 0.3, 7200.0, 0.3, 1e6]
    one_by_one, at_once = Histogram(), Histogram()

    for value in values:
        one_by_one.add(value)
    at_once.add_all(values[:7])
    at_once.add_all(values[7:])

    assert list(at_once.cumulative()) == list(one_by_one.cumulative())
    assert (at_once.count, round(at_once.sum, 6)) == (one_by_one.count, round(one_by_one.sum, 6))
