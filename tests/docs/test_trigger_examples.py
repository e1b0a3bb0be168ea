"""The examples of what starts runs by itself do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_machine_examples import said


@pytest.mark.slow
@pytest.mark.req("T1")
def test_a_report_is_made_for_each_night_once(tmp_path: Path) -> None:
    assert said("nightly_report.py", tmp_path).splitlines() == [
        "At 02:30 every day, Europe/Berlin",
        "in UTC: 29 March 01:30, 30 March 01:00",
        "nights: 5 slots, 5 runs started",
        "nights again: 5 slots, 0 runs started",
        "  2025-03-26: 52 euros in 2 orders",
        "  2025-03-27: 15 euros in 2 orders",
        "  2025-03-28: 0 euros in 0 orders",
        "  2025-03-29: 935 euros in 3 orders",
        "  2025-03-30: 80 euros in 2 orders",
        "by hand: 0 euros in 0 orders",
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.req("T2", "X6")
def test_a_signed_delivery_waits_for_a_person_and_a_forged_one_does_nothing(tmp_path: Path) -> None:
    assert said("webhook_to_approval.py", tmp_path).splitlines() == [
        "the shop: 202 starts a run",
        "the shop again: 200 known already",
        "somebody else: 401 SIGNATURE",
        "1 run, started by webhook refunds",
        "waits: Refund 900 euros for sofa-7?",
        "paid 900 euros for sofa-7",
    ]
    assert not list(tmp_path.iterdir())
