"""Retry: how often, and how long between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.domain.retry import ONCE, Backoff, Retry, backoff_delay
from stepwell.errors import InvalidDefinition, Permanent, RetryAfter

ERROR = RuntimeError("try again")


@pytest.mark.req("K9")
@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        ("exponential", [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]),
        ("linear", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("fixed", [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_delays_after_the_first_second_third_failure(backoff: Backoff, delays: list[float]) -> None:
    retry = Retry(7, delay=1, backoff=backoff, max_delay=10)

    assert [retry.wait_after(failures, ERROR, 0.0) for failures in range(1, 7)] == delays


@pytest.mark.req("K9")
@pytest.mark.parametrize(("delay", "first"), [("500ms", 0.5), ("2s", 2.0), (3, 3.0)])
def test_delay_may_be_written_as_people_do(delay: str | int, first: float) -> None:
    assert Retry(2, delay=delay).wait_after(1, ERROR, 0.0) == first


@pytest.mark.req("K9")
def test_an_attempt_is_an_execution() -> None:
    assert Retry(3).wait_after(2, ERROR, 0.0) == 2.0
    assert Retry(3).wait_after(3, ERROR, 0.0) is None
    assert ONCE.wait_after(1, ERROR, 0.0) is None


@pytest.mark.req("K10")
def test_permanent_errors_are_never_retried() -> None:
    assert Retry(5, on=(Permanent,)).wait_after(1, Permanent("no"), 0.0) is None


@pytest.mark.req("K9", "K10")
def test_error_types_decide() -> None:
    retry = Retry(5, on=(OSError,), never=(FileNotFoundError,))

    assert retry.wait_after(1, ConnectionError(), 0.0) == 1.0
    assert retry.wait_after(1, FileNotFoundError(), 0.0) is None
    assert retry.wait_after(1, ValueError(), 0.0) is None


@pytest.mark.req("K9")
def test_retry_after_says_how_long_but_not_how_often() -> None:
    retry = Retry(3, max_delay=10, never=(RetryAfter,))

    assert retry.wait_after(1, RetryAfter(77.0), 0.9) == 77.0
    assert retry.wait_after(1, RetryAfter(-1.0), 0.0) == 0.0
    assert retry.wait_after(3, RetryAfter(77.0), 0.0) is None


@pytest.mark.req("K9")
@given(chance=st.floats(0, 1, exclude_max=True), jitter=st.floats(0, 1), failures=st.integers(1, 5))
def test_jitter_only_takes_away(chance: float, jitter: float, failures: int) -> None:
    full = Retry(9).wait_after(failures, ERROR, 0.0)

    found = Retry(9, jitter=jitter).wait_after(failures, ERROR, chance)

    assert full is not None
    assert found is not None
    assert full * (1 - jitter) <= found <= full


@given(failures=st.integers(1, 10_000), longest=st.floats(0, 1e6), first=st.floats(0, 1e6))
def test_delays_stay_finite_and_below_the_longest(failures: int, longest: float, first: float) -> None:
    for backoff in ("exponential", "linear", "fixed"):
        assert 0 <= backoff_delay(first, backoff, failures, longest) <= longest


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"backoff": "fibonacci"},
        {"jitter": 1.1},
        {"jitter": -0.1},
        {"delay": -1},
        {"max_delay": "soon"},
    ],
)
def test_nonsense_is_refused_when_it_is_declared(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidDefinition):
        Retry(**wrong)  # type: ignore[arg-type]  # on purpose


@pytest.mark.req("K9")
@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(4, delay="1h"), [3600, 3600, 3600]),  # what was asked for is not made shorter
        (Retry(4, delay="2m"), [120, 240, 300]),
        (Retry(4, delay="1h", max_delay="10m"), [600, 600, 600]),
    ],
)
def test_the_longest_delay_is_five_minutes_or_what_was_asked_for(retry: Retry, delays: list[float]) -> None:
    assert [retry.wait_after(n, ValueError(), 0.0) for n in (1, 2, 3)] == delays
