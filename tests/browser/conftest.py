"""A browser, and a server that runs the workflows of `flows.py`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.effort import EFFORT, Effort
from tools import chromium, studio

FLOWS = Path(__file__).with_name("flows.py")
TOKEN = "token-of-the-browser-tests"


@dataclass(frozen=True)
class Server:
    url: str

    def start(self, workflow: str, input: object, **more: object) -> str:
        """Start a run as a program does, and return its id."""
        body = {"workflow": workflow, "input": input, **more}
        answer = httpx.post(f"{self.url}/api/v1/runs", json=body, headers=self._headers)
        assert answer.status_code == 201, answer.text
        run: str = answer.json()["id"]
        return run

    def run(self, run: str) -> dict[str, object]:
        data: dict[str, object] = httpx.get(f"{self.url}/api/v1/runs/{run}", headers=self._headers).json()
        return data

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}


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


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(FLOWS, folder / "flows.py")
    process = subprocess.Popen(
        [sys.executable, "-m", "stepwell", "dev", "flows.py", "--port", "0"],
        cwd=folder,
        env={**os.environ, "STEPWELL_LAUNCH_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        lines: list[str] = []
        while not (address := re.search(r"API +(http://\S+)/api/v1", "".join(lines))):
            line = process.stderr.readline()
            assert line, lines
            lines.append(line)
        yield Server(address[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A signed-in tab. Errors of its scripts and refusals of the content policy fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    tab.set_default_timeout(15_000)
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
    tab.goto(f"{server.url}/?t={TOKEN}")
    yield tab
    context.close()
    assert not problems, problems
