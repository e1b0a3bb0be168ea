"""What a schedule does about the slots that are due."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.domain.triggers.input import check_references, filled
from stepwell.domain.triggers.schedule import ScheduleSettings, decide
from stepwell.errors import InvalidInput


def minutes(**settings: Any) -> ScheduleSettings:
    return ScheduleSettings(**{"every": 60.0, "overlap": "allow", **settings})


@pytest.mark.req("T1")
def test_one_slot_that_is_due_starts_whatever_the_policy() -> None:
    for missed in ("skip", "one", "all"):
        decision = decide(minutes(missed=missed), 600.0, 601.0, live=False)
        assert (decision.starts, decision.skipped, decision.next_slot) == ([600.0], 0, 660.0)


@pytest.mark.req("T1")
def test_a_slot_that_is_a_minute_late_is_missed() -> None:
    late = {
        missed: decide(minutes(every=3600.0, missed=missed), 3600.0, 3661.0, live=False)
        for missed in ("skip", "one")
    }

    assert (late["skip"].starts, late["skip"].skipped, late["skip"].reason) == ([], 1, "missed")
    assert late["one"].starts == [3600.0]


@pytest.mark.req("T1")
def test_of_several_slots_one_starts_the_last() -> None:
    decision = decide(minutes(missed="one"), 600.0, 901.0, live=False)

    assert (decision.starts, decision.skipped, decision.last_skipped) == ([900.0], 5, 840.0)
    assert decision.next_slot == 960.0


@pytest.mark.req("T1")
def test_all_slots_start_in_order_ten_at_a_time() -> None:
    settings, slot, found = minutes(missed="all"), 600.0, []
    for _ in range(3):
        decision = decide(settings, slot, 600.0 + 60.0 * 24, live=True)
        found += decision.starts
        assert decision.next_slot is not None
        slot = decision.next_slot

    assert found == [600.0 + 60.0 * number for number in range(25)]


@pytest.mark.req("T1")
def test_skip_wins_over_missed_slots() -> None:
    idle = decide(minutes(missed="all", overlap="skip"), 600.0, 781.0, live=False)
    busy = decide(minutes(missed="all", overlap="skip"), 600.0, 781.0, live=True)

    assert (idle.starts, idle.skipped, idle.reason) == ([600.0], 3, "overlap")
    assert (busy.starts, busy.skipped, busy.last_skipped) == ([], 4, 780.0)


@pytest.mark.req("T1")
def test_a_year_without_workers_is_decided_at_once() -> None:
    year = 366 * 86_400.0
    by_cron = decide(
        ScheduleSettings(cron="* * * * *", missed="all"), 1_800_000_000.0, 1_800_000_000.0 + year, live=False
    )
    by_interval = decide(minutes(every=1.0, missed="one"), 600.0, 600.0 + year, live=False)

    assert len(by_cron.starts) == 10
    assert by_cron.next_slot == by_cron.starts[-1] + 60.0
    assert by_cron.starts[0] == 1_800_000_000.0 + year - 99 * 60.0
    assert (by_interval.starts, by_interval.skipped) == ([600.0 + year], int(year))


@pytest.mark.req("T1")
def test_references_in_the_input_are_replaced_once_and_nothing_is_evaluated() -> None:
    known = {"slot": "{{trigger.name}}", "n": 7, "body": {"a": {"b": [1]}}}
    value = {
        "alone": "{{ trigger.n }}",
        "inside": "at {{trigger.slot}} for {{trigger.n}}",
        "deep": ["{{trigger.body.a.b}}", "{{trigger.body.x.y}}"],
        "other": "{{secrets.KEY}} {{ 1 + 1 }} {{ctx.host}}",
    }

    assert filled(value, known) == {
        "alone": 7,
        "inside": "at {{trigger.name}} for 7",
        "deep": [[1], None],
        "other": "{{secrets.KEY}} {{ 1 + 1 }} {{ctx.host}}",
    }


@pytest.mark.req("T1")
def test_a_reference_that_no_schedule_knows_is_refused() -> None:
    check_references({"a": ["{{trigger.slot}}"]}, ["slot"])
    with pytest.raises(InvalidInput) as refused:
        check_references({"a": ["{{trigger.slott}}"]}, ["slot"])

    assert "did you mean 'slot'?" in str(refused.value)
