"""axe-core in a page: what it finds wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

AXE = Path(__file__).parents[2] / "studio" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
COLOUR_RULES = ["color-contrast", "link-in-text-block"]

_RUN = """only => axe.run({runOnly: only, resultTypes: ['violations']}).then(answer =>
  answer.violations.map(each => [each.id, each.nodes[0].target]))"""


def violations(page: Page) -> list[tuple[str, Any]]:
    """Rules that the page breaks in light or dark colours, each with the first element that does.

    All rules look at the light page. The dark one has the same elements: only rules about colours look again.
    """
    page.evaluate(AXE.read_text(encoding="utf-8"))
    page.emulate_media(color_scheme="light")
    found = page.evaluate(_RUN, {"type": "tag", "values": RULES})
    page.emulate_media(color_scheme="dark")
    found += page.evaluate(_RUN, {"type": "rule", "values": COLOUR_RULES})
    page.emulate_media(color_scheme="null")
    return [(rule, target) for rule, target in found]
