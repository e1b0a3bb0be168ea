"""A server, two workers and a tab for the tests of the runs list and the run page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tools.local_server import LocalServer

FLOWS = Path(__file__).with_name("run_flows.py")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    folder = tmp_path_factory.mktemp("local")
    shutil.copy(FLOWS, folder / "run_flows.py")
    with LocalServer(folder, "run_flows.py", lease=3.0) as server:
        server.start_worker()
        yield server


@pytest.fixture
def tab(browser: Browser, local: LocalServer) -> Iterator[Page]:
    """A signed-in tab. Errors of its scripts and refusals of the content policy fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(20_000)
    expect.set_options(timeout=20_000)  # the machine may be busy
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
    page.goto(local.open_url)
    yield page
    context.close()
    assert not problems, problems


def tab_to(page: Page, wanted: Locator, most: int = 120) -> None:
    """Press Tab until the focus is there, as somebody without a mouse does."""
    for _ in range(most):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} is not reached by Tab")


def allow(local: LocalServer, name: str) -> None:
    (local.folder / name).touch()


def ledger(local: LocalServer) -> list[str]:
    file = local.folder / "ledger.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
