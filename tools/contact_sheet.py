"""Studio's screens beside their reference: `python -m tools.contact_sheet [--reference FOLDER] [NAME ...]`.

Takes each screen at 1280 px in light and dark and at 375 px, from runs that a server and workers of this
machine have just made. `build/contact-sheet/index.html` shows them beside the pictures of the reference with
the same names, and `pair-NAME.png` is both in one picture. The reference is a folder of pictures named
`runs-light.png`, `runs-375-dark.png` and so on; without it only ours are shown.
"""

from __future__ import annotations

import argparse
import html
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tools import budgets, chromium, studio
from tools.contact_scene import Scene
from tools.contact_screens import DEMO_SCREENS, OTHER_SCREENS, SCREENS, Screen, Visitor

OUT = studio.ROOT / "build" / "contact-sheet"
REFERENCE = "STUDIO_REFERENCE"

Scheme = Literal["light", "dark"]


@dataclass(frozen=True)
class Size:
    suffix: str
    width: int
    height: int
    scheme: Scheme


SIZES = (
    Size("light", 1280, 800, "light"),
    Size("dark", 1280, 800, "dark"),
    Size("375-light", 375, 812, "light"),
)


@dataclass(frozen=True)
class Visit:
    url: str  # of the server
    address: str  # of the screen
    entrance: str  # what signs the visitor in: an address, a key or nothing


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.contact_sheet", description=__doc__)
    parser.add_argument("names", nargs="*", help="screens; else all")
    parser.add_argument("--reference", default=os.environ.get(REFERENCE, ""), metavar="FOLDER")
    parser.add_argument("--out", default=str(OUT), metavar="FOLDER")
    asked = parser.parse_args(arguments)
    everything = (*SCREENS, *OTHER_SCREENS, *DEMO_SCREENS)
    wanted = [screen for screen in everything if not asked.names or screen.name in asked.names]
    if not wanted:
        parser.error(f"no such screen; there are {', '.join(screen.name for screen in everything)}")
    program = chromium.find()
    if program is None:
        print("no Chromium; install it, or name it in CHROMIUM", file=sys.stderr)
        return 1
    studio.build()
    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    reference = Path(asked.reference) if asked.reference else None
    with ExitStack() as stack:
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        stack.callback(browser.close)
        taken = []
        if around := [screen for screen in wanted if screen not in DEMO_SCREENS]:
            with (
                tempfile.TemporaryDirectory(prefix="stepwell-sheet-") as folder,
                Scene(Path(folder)) as scene,
            ):
                newcomer = scene.key("empty")
                visits = {Visitor.OWNER: scene.open_url, Visitor.STRANGER: "", Visitor.NEWCOMER: newcomer}
                for screen in around:
                    address = _address(scene.url, screen.address(scene))
                    visit = Visit(scene.url, address, visits[screen.visitor])
                    taken += _take(browser, visit, screen, out)
        if shown := [screen for screen in wanted if screen in DEMO_SCREENS]:
            with budgets.demo(0) as (url, token):
                for screen in shown:
                    taken += _take(browser, Visit(url, f"{url}/demo", f"{url}/?t={token}"), screen, out)
        _pair(browser, taken, out, reference)
    print(out / "index.html")
    return 0


def _address(url: str, path: str) -> str:
    return path if path.startswith("http") else f"{url}{path}"


def _take(browser: Browser, visit: Visit, screen: Screen, out: Path) -> list[str]:
    """Take the pictures of a screen; return their names."""
    taken = []
    for size in SIZES:
        context = browser.new_context(
            viewport={"width": size.width, "height": size.height},
            color_scheme=size.scheme,
            reduced_motion="reduce",
        )
        name = f"{screen.name}-{size.suffix}"
        try:
            _enter(context, visit)
            _shoot(context, visit.address, screen, out / f"{name}.png")
            taken.append(name)
        except Exception as error:  # the other screens are still worth a look
            print(f"{name}: {error}", file=sys.stderr)
        finally:
            context.close()
    return taken


def _enter(context: BrowserContext, visit: Visit) -> None:
    if not visit.entrance:
        return
    page = context.new_page()
    if visit.entrance.startswith("http"):
        page.goto(visit.entrance)
    else:
        page.goto(f"{visit.url}/sign-in")
        page.get_by_label("API key").fill(visit.entrance)
        page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.close()


def _shoot(context: BrowserContext, address: str, screen: Screen, file: Path) -> None:
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.goto(address)
    expect(page.get_by_role("heading").first).to_be_visible()
    page.wait_for_timeout(900)  # what is fetched after the page itself
    expect(page.get_by_text("Laying out")).to_have_count(0, timeout=60_000)
    if screen.act is not None:
        screen.act(page)
        page.wait_for_timeout(400)
    page.screenshot(path=file)


def _pair(browser: Browser, names: list[str], out: Path, reference: Path | None) -> None:
    """Write the sheet, and one picture for each pair."""
    rows = []
    for name in names:
        theirs = reference / f"{name}.png" if reference else None
        if theirs is not None and theirs.exists():
            shutil.copy(theirs, out / f"reference-{name}.png")
            left = f'<img src="reference-{name}.png" alt="reference">'
        else:
            left = "<p>no reference</p>"
        pair = f'<div class="pair">{left}<img src="{name}.png" alt="ours"></div>'
        rows.append((name, pair))
    style = (
        "<style>body{font:14px sans-serif;margin:12px;background:#888}"
        ".pair{display:flex;gap:12px;align-items:flex-start}.pair img,.pair p{width:calc(50% - 6px)}"
        "img{max-width:640px}</style>"
    )
    body = "".join(f"<h2>{html.escape(name)}</h2>{pair}" for name, pair in rows)
    (out / "index.html").write_text(f"<!doctype html><title>Contact sheet</title>{style}{body}")
    page = browser.new_page(viewport={"width": 1330, "height": 480}, device_scale_factor=1.5)
    for name, pair in rows:
        (out / "pair.html").write_text(f"<!doctype html>{style}{pair}")
        page.goto((out / "pair.html").as_uri())
        page.screenshot(path=out / f"pair-{name}.png", full_page=True)
    page.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
