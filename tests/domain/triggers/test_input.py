"""The input of a trigger with its references filled in."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from stepwell.domain.triggers.input import filled
from stepwell.errors import PayloadTooLarge


@pytest.mark.req("T3")
@pytest.mark.parametrize(
    "input", ["{{trigger.payload}}-" * 500, ["<{{ trigger.payload }}>"] * 500], ids=["one", "many"]
)
def test_references_to_a_large_value_are_refused_before_they_use_memory(input: Any) -> None:
    known = {"payload": "x" * 500_000}
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLarge, match="2,000,000 bytes"):
            filled(input, known, 2_000_000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 10_000_000


@pytest.mark.req("T3")
def test_references_may_fill_the_limit_exactly() -> None:
    known = {"payload": {"text": "é" * 10}}  # 20 bytes; with the object around it 31

    assert filled(["{{trigger.payload.text}}", "{{trigger.payload}}"], known, 51) == [
        "é" * 10,
        known["payload"],
    ]
    with pytest.raises(PayloadTooLarge):
        filled(["{{trigger.payload.text}}", "{{trigger.payload}}"], known, 50)
