"""Handles and results are inferred by mypy --strict and by pyright; wrong calls are rejected."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def mypy_lines(name: str) -> tuple[set[int], str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(HERE / name)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = re.findall(rf"{name}:(\d+): error", done.stdout)
    return {int(line) for line in found}, done.stdout + done.stderr


def pyright_lines(name: str) -> tuple[set[int], str]:
    beside = Path(sys.executable).with_name("pyright")
    command = str(beside) if beside.exists() else shutil.which("pyright")
    assert command is not None, "pyright is a tool of the project: make setup"
    done = subprocess.run(
        [command, "--outputjson", str(HERE / name)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {d["range"]["start"]["line"] + 1 for d in found if d["severity"] == "error"}, done.stdout


CHECKERS = {"mypy": mypy_lines, "pyright": pyright_lines}


@pytest.mark.req("F11")
@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_results_are_inferred(checker: str) -> None:
    lines, output = CHECKERS[checker]("right.py")

    assert not lines, output


@pytest.mark.req("F11")
@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_wrong_calls_are_rejected(checker: str) -> None:
    source = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(source, start=1) if line.endswith("# WRONG")}

    lines, output = CHECKERS[checker]("wrong.py")

    assert lines == marked, output
