"""The generated pages are current, and leave out no public name and no route."""

from __future__ import annotations

import pytest

import stepwell
from tools.reference.pages import FOLDER, pages


@pytest.mark.req("D4")
def test_reference_is_current() -> None:
    stale = [
        name
        for name, text in pages().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != text
    ]

    assert stale == [], "run `make reference` and commit docs/reference"


@pytest.mark.req("D4", "A1")
def test_reference_names_everything() -> None:
    python = (FOLDER / "python.md").read_text(encoding="utf-8")

    assert [name for name in stepwell.__all__ if f"\n### {name}\n" not in python] == []
