"""The tutorial, followed to the letter: each file written, each command typed, the server running beside."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.demo_process import until

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
TOKEN = "token-of-the-tutorial"


class Reader:
    """Somebody who follows the page in a terminal, and has a second one for `stepwell dev`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, ""
        self.server: subprocess.Popen[bytes] | None = None

    def write(self, block: str) -> None:
        name = re.match(r"# (\w+\.py)\n", block)
        assert name, "a block of Python begins with the name of its file"
        (self.folder / name[1]).write_text(block)

    def type(self, line: str) -> None:
        program, *arguments = shlex.split(line)
        if program == "cd":
            self.folder /= arguments[0]
        elif arguments[:1] == ["dev"]:
            self._serve(arguments)
        else:
            done = subprocess.run(
                [sys.executable, "-m", program, *arguments],
                cwd=self.folder,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            self.said += done.stdout

    def workflows(self) -> set[str]:
        """What the running server knows."""
        address = re.search(r"API +(http://\S+/api/v1)", (self.folder / "said.txt").read_text())
        if address is None:
            return set()
        try:
            answer = httpx.get(f"{address[1]}/workflows", headers={"Authorization": f"Bearer {TOKEN}"})
        except httpx.HTTPError:  # it reloads
            return set()
        return {each["name"] for each in answer.json()["workflows"]} if answer.is_success else set()

    def _serve(self, arguments: list[str]) -> None:
        with (self.folder / "said.txt").open("w") as said:
            self.server = subprocess.Popen(
                [sys.executable, "-m", "stepwell", *arguments, "--port", "0"],
                cwd=self.folder,
                env=self._environment,
                stderr=said,
            )
        until(lambda: "hello" in self.workflows())

    def stop(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.wait(60)

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "STEPWELL_LAUNCH_TOKEN": TOKEN}


@pytest.mark.slow
@pytest.mark.req("D5")
def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    try:
        for language, block in re.findall(r"```(\w+)\n(.*?)```", TUTORIAL.read_text(), re.DOTALL):
            if language == "python":
                reader.write(block)
                if block.startswith("# flows.py"):
                    until(lambda: {"welcome", "discount"} <= reader.workflows())
                continue
            assert language == "console"
            for line in block.splitlines():
                reader.type(line.removeprefix("$ "))
    finally:
        reader.stop()

    assert '"hello Ada"' in reader.said
    assert "welcome" in reader.said
    assert "sleep" in reader.said or "timer" in reader.said
    assert "3 passed" in reader.said


def test_every_page_that_the_tutorial_names_exists() -> None:
    pages = set(re.findall(r"\]\(([\w-]+\.md)", TUTORIAL.read_text()))

    assert pages
    assert [page for page in pages if not (TUTORIAL.parent / page).exists()] == []
