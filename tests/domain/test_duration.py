"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.domain.duration import Duration, seconds, timeout_seconds
from stepwell.errors import InvalidDefinition


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("30s", 30.0),
        ("500ms", 0.5),
        ("5m", 300.0),
        ("5min", 300.0),
        ("1h30m", 5400.0),
        ("1h 30m 5s", 5405.0),
        ("2d", 172_800.0),
        ("1w", 604_800.0),
        (" 1.5H ", 5400.0),
        ("90", 90.0),
        ("0", 0.0),
        (90, 90.0),
        (0.25, 0.25),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_reads_what_people_write(text: Duration, wanted: float) -> None:
    assert seconds(text) == wanted


WRONG = ["", "soon", "1x", "h", "-5s", "1h30", "1h garbage", "nan", "1e400", "200000w"]
WRONG_TYPES = [-1, float("nan"), float("inf"), True, None, timedelta(seconds=-1), [1]]


@pytest.mark.parametrize("wrong", [*WRONG, *WRONG_TYPES])
def test_refuses_nonsense_with_its_name(wrong: object) -> None:
    with pytest.raises(InvalidDefinition, match="sleep"):
        seconds(wrong, name="sleep")  # type: ignore[arg-type]  # on purpose


@given(st.floats(0, 1e9))
def test_numbers_are_seconds(value: float) -> None:
    assert seconds(value) == value


@pytest.mark.req("K12")
def test_no_timeout_is_none_and_zero_is_an_error_that_says_so() -> None:
    assert timeout_seconds(None) is None
    assert timeout_seconds("5m") == 300.0
    for zero in (0, "0s", timedelta()):
        with pytest.raises(InvalidDefinition, match="timeout is 0") as caught:
            timeout_seconds(zero)
        assert "None disables" in caught.value.hint
