"""docs/cli.md: its commands run, its exit codes are those of the program, and the reference is current."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.cli import failure
from stepwell.cli.app import walk
from tools import cli_reference

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.req("C1")
def test_the_reference_is_that_of_the_program() -> None:
    assert cli_reference.PAGE.read_text(encoding="utf-8") == cli_reference.reference(), (
        "write it again: python -m tools.cli_reference"
    )


@pytest.mark.req("C1")
def test_commands_of_the_page_run(tmp_path: Path) -> None:
    script = "set -e\n" + "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert '"hello Ada"' in done.stdout
    assert "it waits for a decision" in done.stdout


@pytest.mark.req("C2")
def test_the_exit_codes_of_the_page_are_those_of_the_program() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    codes = {value for name, value in vars(failure).items() if name.isupper() and isinstance(value, int)}

    assert listed == codes | {0}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_pages_name_exist(page: Path) -> None:
    names = {name for name, _ in walk()}
    groups = {name.split()[0] for name in names if " " in name}
    text = page.read_text(encoding="utf-8")

    for line in re.findall(
        r"(?:^|`|\$ )stepwell ([a-z][a-z-]*(?: [a-z][a-z-]*)?)(?=[ `\n])", text, re.MULTILINE
    ):
        words = line.split()
        if words[0] in groups and len(words) == 2 and " | " not in line:
            assert " ".join(words) in names or words[1] in ("list", "get"), line
        else:
            assert words[0] in {name.split()[0] for name in names}, line
