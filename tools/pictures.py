"""The pictures of the README: `python -m tools.pictures` runs the demo and takes them into docs/images."""

from __future__ import annotations

import io
import re
import sys
import time
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tools import budgets, chromium, studio

FOLDER = studio.ROOT / "docs" / "images"
SIZE = {"width": 1280, "height": 800}
MOVING_SIZE = (960, 600)
MOVING_QUALITY = 55
FRAME_MS = 450
FRAMES_BEFORE, FRAMES_AFTER = 4, 8
FRAMES_MAX = 40
_KILL = re.compile("^Kill the worker")


def main() -> int:
    program = chromium.find()
    if program is None:
        print("no Chromium; install it, or name it in CHROMIUM", file=sys.stderr)
        return 2
    studio.build()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, budgets.demo(2000) as (address, token):
        browser = playwright.chromium.launch(executable_path=program, args=budgets.ARGUMENTS)
        page = _page(browser)
        page.goto(f"{address}/?t={token}")
        _crash(page)
        page.goto(f"{address}/runs")
        page.get_by_role("link", name="refund-7781").wait_for()
        _both(page, "runs")
        page.get_by_role("link", name="release-8839").first.click()
        page.get_by_role("group", name=re.compile("^store_label, Completed")).wait_for()
        _both(page, "run")
        browser.close()
    for picture in sorted(FOLDER.iterdir()):
        print(f"{picture.name:24} {picture.stat().st_size / 1000:8.0f} kB")
    return 0


def _page(browser: Browser) -> Page:
    page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")  # type: ignore[arg-type]
    page.set_default_timeout(60_000)
    return page


def _crash(page: Page) -> None:
    """Kill the worker in the middle of an order, and keep what is seen as one moving picture."""
    page.get_by_label("Log of the run").get_by_text(re.compile("box [3-5]")).first.wait_for()
    frames = [_frame(page) for _ in range(FRAMES_BEFORE)]
    page.get_by_role("button", name=_KILL).click()
    page.get_by_text(re.compile(r"^Worker \d+ is dead")).wait_for()
    _both(page, "demo-killed")
    while page.get_by_role("button", name=_KILL).is_hidden() and len(frames) < FRAMES_MAX:
        frames.append(_frame(page))
    frames += [_frame(page) for _ in range(FRAMES_AFTER)]
    frames[0].save(
        FOLDER / "crash-and-resume.webp",
        save_all=True,
        append_images=frames[1:],
        duration=FRAME_MS,
        loop=0,
        quality=MOVING_QUALITY,
        method=6,
    )


def _frame(page: Page) -> Image.Image:
    time.sleep(FRAME_MS / 1000)
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return shot.resize(MOVING_SIZE, Image.Resampling.LANCZOS)


def _both(page: Page, name: str) -> None:
    """Take a picture in light and in dark."""
    schemes: tuple[Literal["dark", "light"], ...] = ("dark", "light")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")  # all colours: few cover a status
        shot.save(FOLDER / f"{name}-{scheme}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
