"""Which Python the bench measures with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.interpreter import by_speed, interpreters, make_environment


def test_a_program_with_two_names_is_timed_as_one_and_what_is_no_python_is_left_out(tmp_path: Path) -> None:
    again, other = tmp_path / "again", tmp_path / "other"
    again.symlink_to(sys.executable)
    other.write_text("#!/bin/sh\necho 3.11\n")
    other.chmod(0o755)

    found = by_speed([sys.executable, str(again), str(other), str(tmp_path / "missing")])

    assert [program for _, program in found] == [os.path.realpath(sys.executable)]
    assert found[0][0] > 0


def test_this_python_is_always_among_them() -> None:
    assert interpreters()[0] == sys.executable


@pytest.mark.slow
def test_the_environment_is_of_the_one_that_is_named(tmp_path: Path) -> None:
    said = make_environment(tmp_path / "home")

    python = tmp_path / "home" / "bin" / "python"
    code = "import os, sys; print(os.path.realpath(sys.executable), sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert said.partition(";")[0] == f"measuring with {done.stdout.split()[0]}"
    assert done.stdout.strip().endswith(str(sys.version_info[:2]))
