"""The example of the three styles does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_machine_examples import said


@pytest.mark.slow
@pytest.mark.req("N22", "K18", "K13")
def test_a_graph_a_machine_and_a_function_call_one_another(tmp_path: Path) -> None:
    assert said("three_styles.py", tmp_path).splitlines() == [
        "charged 500, sent tea",
        "declined: the card limit is 100.00",
        "the shop is cancelled and the parcel is cancelled",
    ]
