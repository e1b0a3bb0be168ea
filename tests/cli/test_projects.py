"""`stepwell init`, `demo`, `bench`, `doctor`, `check` and completion, as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM, run

pytestmark = [pytest.mark.slow, pytest.mark.req("C1", "C2")]


def test_a_new_project_runs_and_its_tests_pass(tmp_path: Path) -> None:
    written = run("init", "orders", "--json", folder=tmp_path)
    folder = tmp_path / "orders"

    assert written.returncode == 0
    assert "orders/flows.py" in json.loads(written.stdout)["files"]
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout
    assert "2 passed" in tests.stdout
    done = run("run", "flows.py:hello", "--input", '"Ada"', folder=folder)
    assert json.loads(done.stdout) == "hello Ada"
    checked = run("check", "flows.py", "--json", folder=folder)
    assert json.loads(checked.stdout)["problems"] == []
    again = run("init", "orders", folder=tmp_path)
    assert again.returncode == 4
    assert "nothing was written" in again.stderr


def test_the_demo_survives_kill_9(tmp_path: Path) -> None:
    done = run("demo", "--terminal", "--json", folder=tmp_path, env={"TMPDIR": str(tmp_path)})

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["result"] == "order of Ada is done"
    assert len(told["killed_after"]) < 5
    assert [line.split()[0] for line in dict.fromkeys(told["happened"])] == [
        *("reserve", "charge", "pack", "ship", "thank")
    ]
    assert "kill -9" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_bench_measures_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("bench", "--runs", "100", "--json", folder=tmp_path, env={"TMPDIR": str(tmp_path)})

    figures = json.loads(done.stdout)
    assert figures["runs_per_second"] > 0
    assert figures["run_ms_p50"] > 0
    assert list(tmp_path.iterdir()) == []
    run("init", folder=tmp_path)
    run("run", "flows.py:hello", "--input", '"Ada"', folder=tmp_path)
    refused = run("bench", "--runs", "100", "--database", ".stepwell/dev.db", folder=tmp_path)
    assert refused.returncode == 2
    assert "has runs" in refused.stderr


def test_doctor_names_what_is_missing_and_the_next_step(tmp_path: Path) -> None:
    assert run("doctor", folder=tmp_path).returncode == 0
    run("init", folder=tmp_path)
    run("run", "flows.py:refund", "--input", "1", "--exit-on-wait", folder=tmp_path)

    done = run("doctor", "--json", folder=tmp_path)

    assert done.returncode == 1
    findings = {finding["check"]: finding for finding in json.loads(done.stdout)}
    assert findings["python"]["state"] == "ok"
    assert findings["clock"]["state"] == "ok"
    assert findings["workers"]["state"] == "problem"
    assert findings["workers"]["next"] == "stepwell worker FILE"
    broken = run("doctor", "--database", "flows.py", folder=tmp_path)
    assert broken.returncode == 1
    assert "✕ database" in broken.stdout
    assert "→" in broken.stdout


def test_doctor_sees_versions_that_no_worker_has(tmp_path: Path) -> None:
    run("init", folder=tmp_path)
    run("run", "flows.py:hello", "--input", '"Ada"', "--detach", folder=tmp_path)
    (tmp_path / "others.py").write_text((tmp_path / "flows.py").read_text().replace("def hello", "def bye"))
    worker = subprocess.Popen(
        [*PROGRAM, "worker", "others.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert worker.stderr is not None
    try:
        worker.stderr.readline()
        done = run("doctor", "--json", folder=tmp_path)
        queues = run("queues", "list", "--json", folder=tmp_path)
        workers = run("workers", "list", folder=tmp_path)
        name = json.loads(run("workers", "list", "--json", folder=tmp_path).stdout)[0]["name"]
        drained = run("workers", "drain", name, folder=tmp_path)
        assert drained.returncode == 0, drained.stderr
        assert worker.wait(60) == 0
    finally:
        worker.terminate()
        worker.communicate(timeout=60)

    findings = {finding["check"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 1
    assert "hello@1" in findings["versions"]["text"]
    assert "stepwell check FILE" in findings["versions"]["next"]
    [default] = json.loads(queues.stdout)
    assert (default["name"], default["ready"], default["workers"]) == ("default", 1, 1)
    assert "alive" in workers.stdout
    assert "bye@1" in workers.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell: str, tmp_path: Path) -> None:
    script = run("completion", "show", shell, folder=tmp_path)
    assert "_STEPWELL_COMPLETE" in script.stdout
    asked = {
        "_STEPWELL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "stepwell runs ca",
        "COMP_CWORD": "2",
        "_TYPER_COMPLETE_ARGS": "stepwell runs ca",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }

    done = subprocess.run(
        PROGRAM, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=False
    )

    assert "cancel" in done.stdout
