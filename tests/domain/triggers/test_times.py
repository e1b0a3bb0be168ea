"""When schedules are due: cron on ordinary days and on days when the clocks change, intervals, words."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.domain.triggers.cron import cron_fault
from stepwell.domain.triggers.schedule import (
    ScheduleSettings,
    checked_settings,
    described,
    next_slot,
    slot_key,
    slots,
    spread_of,
)
from stepwell.errors import BadCron, BadTimeZone, InvalidInput


def times(cron: str, zone: str, day: tuple[int, int, int], count: int) -> list[str]:
    """The first times from the beginning of that day on, as the clock on the wall shows them."""
    begin = datetime(*day, tzinfo=ZoneInfo(zone)).timestamp() - 1
    found = islice(slots(ScheduleSettings(cron=cron, timezone=zone), begin), count)
    return [datetime.fromtimestamp(slot, ZoneInfo(zone)).strftime("%d. %H:%M %Z") for slot in found]


BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
SPRING = {BERLIN: (2026, 3, 29), NEW_YORK: (2026, 3, 8)}  # 02:00 to 03:00 does not exist
AUTUMN = {
    BERLIN: (2026, 10, 25),
    NEW_YORK: (2026, 11, 1),
}  # 02:00 to 03:00 in Berlin, 01:00 to 02:00 in New York


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("zone", "cron", "expected"),
    [
        # Fixed minute and hour: once a day, as soon as the clocks have skipped the time.
        (BERLIN, "30 2 * * *", ["29. 03:00 CEST", "30. 02:30 CEST"]),
        (NEW_YORK, "30 2 * * *", ["08. 03:00 EDT", "09. 02:30 EDT"]),
        # Two that fall on the same moment are one.
        (BERLIN, "0 2,3 * * *", ["29. 03:00 CEST", "30. 02:00 CEST", "30. 03:00 CEST"]),
        # Others follow the wall: times that are skipped do not occur.
        (BERLIN, "0 * * * *", ["29. 00:00 CET", "29. 01:00 CET", "29. 03:00 CEST"]),
        (
            NEW_YORK,
            "*/30 * * * *",
            ["08. 00:00 EST", "08. 00:30 EST", "08. 01:00 EST", "08. 01:30 EST", "08. 03:00 EDT"],
        ),
        (BERLIN, "*/30 2 * * *", ["30. 02:00 CEST", "30. 02:30 CEST"]),
    ],
)
def test_on_the_day_when_an_hour_is_skipped(zone: str, cron: str, expected: list[str]) -> None:
    assert times(cron, zone, SPRING[zone], len(expected)) == expected


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("zone", "cron", "expected"),
    [
        # Fixed minute and hour: once a day, the first time round.
        (BERLIN, "30 2 * * *", ["25. 02:30 CEST", "26. 02:30 CET"]),
        (NEW_YORK, "30 1 * * *", ["01. 01:30 EDT", "02. 01:30 EST"]),
        # Others follow the wall: times that are repeated occur twice.
        (
            BERLIN,
            "0 * * * *",
            ["25. 00:00 CEST", "25. 01:00 CEST", "25. 02:00 CEST", "25. 02:00 CET", "25. 03:00 CET"],
        ),
        (NEW_YORK, "*/30 1 * * *", ["01. 01:00 EDT", "01. 01:30 EDT", "01. 01:00 EST", "01. 01:30 EST"]),
    ],
)
def test_on_the_day_when_an_hour_is_repeated(zone: str, cron: str, expected: list[str]) -> None:
    assert times(cron, zone, AUTUMN[zone], len(expected)) == expected


@pytest.mark.req("T1")
def test_a_schedule_made_in_the_repeated_hour_is_not_due_in_the_past() -> None:
    second_round = datetime(2026, 10, 25, 2, 15, fold=1, tzinfo=ZoneInfo(BERLIN)).timestamp()

    slot = next_slot(ScheduleSettings(cron="45 2 * * *", timezone=BERLIN), second_round)

    assert slot is not None
    assert slot > second_round
    assert datetime.fromtimestamp(slot, ZoneInfo(BERLIN)).strftime("%d. %H:%M") == "26. 02:45"


@pytest.mark.req("T1")
def test_an_interval_has_the_same_length_on_every_day() -> None:
    anchor = datetime(2026, 3, 28, 2, 30, tzinfo=ZoneInfo(BERLIN)).timestamp()
    settings = ScheduleSettings(every=86_400.0, anchor=anchor, timezone=BERLIN)

    assert list(islice(slots(settings, anchor), 3)) == [anchor + 86_400.0 * n for n in (1, 2, 3)]


@given(st.floats(min_value=0, max_value=4e9), st.integers(min_value=1, max_value=10**6), st.floats(0, 2e9))
def test_the_next_slot_of_an_interval_is_later_and_at_most_one_interval_away(
    after: float, every: int, anchor: float
) -> None:
    slot = next_slot(ScheduleSettings(every=float(every), anchor=float(int(anchor))), after)

    assert slot is not None
    assert after < slot <= after + every + 1e-3


@given(
    st.sampled_from(
        ["30 2 * * *", "0 * * * *", "*/7 1-4 * * *", "15 2 1 * *", "0 3 * * 0", "59 23 28-31 * *"]
    ),
    st.sampled_from([BERLIN, NEW_YORK, "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]),
    st.floats(min_value=1.7e9, max_value=1.9e9),
)
def test_the_next_slot_of_a_cron_is_always_later(cron: str, zone: str, after: float) -> None:
    slot = next_slot(ScheduleSettings(cron=cron, timezone=zone), after)

    assert slot is not None
    assert slot > after


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("cron", "named"),
    [
        ("* * * * * *", "it has 6 fields, not 5"),  # every second
        ("61 * * * *", "'61' is not a minute (0 to 59)"),
        ("* 24 * * *", "'24' is not an hour"),
        ("* * 0 * *", "'0' is not a day of the month"),
        ("* * * 13 *", "'13' is not a month"),
        ("* * * * 8", "'8' is not a day of the week"),
        ("*/0 * * * *", "minute"),
        ("0 0 31 2 *", "none of its months has that day"),
        ("0 0 31 2 */2", "none of its months has that day"),
        ("", "cron or by interval"),
        ("@reboot", "it has 1 fields"),
    ],
)
def test_a_wrong_cron_is_refused_and_says_which_field(cron: str, named: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_settings(ScheduleSettings(cron=cron))

    assert named in str(refused.value)
    assert not cron or refused.value.code == "CRON"


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("settings", "error", "named"),
    [
        (ScheduleSettings(cron="0 2 * * *", every=60.0), InvalidInput, "cron or by interval"),
        (ScheduleSettings(every=0.5), InvalidInput, "every is 0.5 s"),
        (ScheduleSettings(cron="0 2 * * *", timezone="Europe/Berln"), BadTimeZone, "Europe/Berlin"),
        (ScheduleSettings(cron="0 2 * * *", timezone="../etc/passwd"), BadTimeZone, "no time zone"),
        (ScheduleSettings(cron="0 2 * * *", overlap="both"), InvalidInput, "skip, queue, allow"),  # type: ignore[arg-type]
        (ScheduleSettings(cron="0 2 * * *", missed="some"), InvalidInput, "skip, one, all"),  # type: ignore[arg-type]
        (ScheduleSettings(cron="x 2 * * *"), BadCron, "minute"),
    ],
)
def test_other_wrong_settings_are_refused(
    settings: ScheduleSettings, error: type[InvalidInput], named: str
) -> None:
    with pytest.raises(error) as refused:
        checked_settings(settings)

    assert named in str(refused.value)


@pytest.mark.req("T1")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ScheduleSettings(cron="30 2 * * 1-5", timezone=BERLIN),
            "At 02:30 on Monday through Friday, Europe/Berlin",
        ),
        (ScheduleSettings(cron="@daily"), "At 00:00 every day, UTC"),
        (ScheduleSettings(every=900.0), "Every 15 minutes"),
        (ScheduleSettings(every=86_400.0), "Every day"),
        (ScheduleSettings(every=1.5), "Every 1.5 seconds"),
    ],
)
def test_a_schedule_is_told_in_words(settings: ScheduleSettings, words: str) -> None:
    assert described(settings) == words


def test_a_cron_that_is_accepted_has_a_next_time() -> None:
    for cron in (
        "0 0 29 2 *",
        "5-5/2 * * * *",
        "*/100 * * * *",
        "0 0 30 2 1",
        "0 0 * JAN-MAR sun",
        "@weekly",
    ):
        assert cron_fault(cron) == ""
        assert (
            next_slot(ScheduleSettings(cron=cron), datetime(2026, 1, 1, tzinfo=UTC).timestamp()) is not None
        )


@pytest.mark.req("T1")
def test_a_spread_is_the_same_for_a_schedule_and_different_for_others() -> None:
    settings = ScheduleSettings(cron="0 0 * * *", spread=300.0)
    delays = [spread_of(settings, f"id{number}") for number in range(1000)]

    assert delays == [spread_of(settings, f"id{number}") for number in range(1000)]
    assert 0 <= min(delays) < 30
    assert 270 < max(delays) < 300


def test_the_key_of_a_slot_is_its_time_in_utc() -> None:
    slot = datetime(2026, 3, 29, 3, 0, tzinfo=ZoneInfo(BERLIN)).timestamp()

    assert slot_key("s1", slot) == "sched/s1/2026-03-29T01:00:00Z"
    assert slot_key("s1", slot + 0.5) == "sched/s1/2026-03-29T01:00:00.500Z"
