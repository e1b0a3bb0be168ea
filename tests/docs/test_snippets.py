"""Every piece of code in README and docs runs, and says what the text says it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_A_SERVER = {"http-client.md"}  # tests/http_client/test_connection.py runs them
WITH_CODE = [page for page in PAGES if "```python" in page.read_text() and page.name not in WITH_A_SERVER]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_code_in_the_docs_runs(page: Path, tmp_path: Path) -> None:
    said = "".join(
        _run(block, tmp_path / f"flows_{number}.py")
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    )

    for promised in re.findall(r"it prints\s+`([^`]+)`", page.read_text()):
        assert promised in said


def _run(block: str, script: Path) -> str:
    """One after the other in one folder, as a reader would; a block with tests is given to pytest."""
    script.write_text(block)
    how = ["-m", "pytest", "-q"] if "def test_" in block else []
    done = subprocess.run(
        [sys.executable, *how, script],
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.req("K4", "F1")
def test_the_demo_dies_and_resumes(tmp_path: Path) -> None:
    script = ROOT / "examples" / "crash_and_resume.py"

    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "died with signal 9" in done.stdout
    assert done.stdout.count("charging") == done.stdout.count("shipping 3") == 1
    assert "receipt-42 sent as TRACK-1" in done.stdout


def test_commands_in_the_readme_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    named = set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text()))

    assert named
    assert named <= targets
