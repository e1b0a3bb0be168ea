"""The page about events names every kind and type."""

from __future__ import annotations

from stepwell.domain.event_types import vocabulary
from stepwell.domain.events import FACTS, KIND
from tests.architecture.sources import ROOT


def test_the_page_of_events_names_every_kind_and_type() -> None:
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    names = {*vocabulary(), *(KIND[fact] for fact in FACTS)}
    missing = sorted(name for name in names if f"`{name}`" not in page)
    assert not missing, (
        f"docs/events.md lacks {missing}: say what they mean, with their types if they have one"
    )
