"""Units and the container file are valid for the programs that read them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import debian

DEPLOY = Path(__file__).parents[2] / "deploy"
STEPWELL = Path(sys.executable).parent / "stepwell"


@pytest.mark.slow
@pytest.mark.req("D6")
def test_units_are_valid_for_systemd(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None and not debian.install("systemd"):
        pytest.skip("systemd-analyze is not installed and cannot be")
    units = sorted(DEPLOY.glob("*.service"))
    assert len(units) == 2
    for unit in units:
        here = tmp_path / unit.name.replace("@", "@1")
        here.write_text(unit.read_text().replace("/opt/stepwell/bin/stepwell", str(STEPWELL)))

        done = subprocess.run(
            [program or "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", here],
            capture_output=True,
            text=True,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.req("D6")
def test_options_of_the_units_are_options_of_the_program() -> None:
    for unit in DEPLOY.glob("*.service"):
        command = next(
            line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")
        ).split()
        known = subprocess.run(
            [STEPWELL, command[1], "--help"], capture_output=True, text=True, check=True
        ).stdout

        assert [option for option in command if option.startswith("--") and option not in known] == []


@pytest.mark.req("D6")
def test_container_file_has_no_findings() -> None:
    done = subprocess.run(
        [
            Path(sys.executable).parent / "hadolint",
            "--failure-threshold",
            "info",
            DEPLOY / "Containerfile",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")
