"""A browser for the tests of this folder. Each module starts its own server: few and long tests share it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.effort import EFFORT, Effort
from tools import chromium, studio

PATIENCE = 15_000  # milliseconds: other tests run beside, and a machine may be busy
expect.set_options(timeout=PATIENCE)


# Not for the session: Playwright runs a loop in this thread, and tests of other modules need their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if EFFORT is Effort.QUICK:
        pytest.skip("no browser between two edits")
    program = chromium.find()
    if program is None:
        pytest.fail("no Chromium, and it could not be installed; install it, or name it in CHROMIUM")
    studio.build()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield launched
        launched.close()
