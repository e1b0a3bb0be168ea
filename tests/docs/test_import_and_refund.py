"""The examples of a refund and of an import do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_machine_examples import said


@pytest.mark.slow
@pytest.mark.req("N12", "N13", "N18", "G11")
def test_a_refund_waits_for_a_person_and_then_does_two_things_at_once(tmp_path: Path) -> None:
    assert said("order_refund.py", tmp_path).splitlines() == [
        "tea: transfer-1, asked 2 times; ['2 x tea']",
        "sofa: waits for finance, and the bank was asked 0 times",
        "sofa: transfer-2, asked 2 times; ['1 x sofa', '4 x cushion']",
        "broken: transfer-3, asked 2 times; ['1 x vase', {'error': 'ERROR'}]",
        "sofa again: {'refused': 'sofa'}",
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.req("N15")
def test_an_import_sets_bad_rows_aside_and_shows_how_far_it_is(tmp_path: Path) -> None:
    lines = said("import_rows.py", tmp_path).splitlines()

    assert lines[-1] == "10,000 rows: 9,990 stored, 10 set aside: row 1000 has the price 'free', ..."
    assert len(lines) > 1
    assert all(line.endswith("of 10,000 rows") for line in lines[:-1])
