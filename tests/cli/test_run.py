"""`stepwell run` and `stepwell watch`: in a process of their own, with pipes and in a terminal."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.step_tree import StepTree
from stepwell.client import RunEvent
from tests.cli.program import PROGRAM, Terminal, run

FLOWS = """
import asyncio
from stepwell import Context, Retry, step, workflow

@step
async def greet(name: str) -> str:
    return f"hello {name}"

@step(retry=Retry(2, delay="10ms"))
async def charge(name: str) -> str:
    raise ValueError("card declined\\x1b[31m")

@workflow
async def hello(ctx: Context, name: str = "world") -> str:
    return await ctx.step(greet, name)

@workflow
async def pay(ctx: Context, order: dict) -> str:
    await ctx.step(greet, order["name"])
    return await ctx.step(charge, order["name"])

@workflow
async def ask(ctx: Context, name: str) -> str:
    answer = await ctx.approval(str, title="Refund?")
    return f"{name}: {answer}"
"""

pytestmark = [pytest.mark.slow, pytest.mark.req("C1", "C2")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS)
    return tmp_path


def test_the_result_is_on_stdout_and_the_steps_are_on_stderr(folder: Path) -> None:
    done = run("run", "flows.py:hello", "--input", '"Ada"', folder=folder)

    assert done.returncode == 0
    assert json.loads(done.stdout) == "hello Ada"
    assert "✓ greet" in done.stderr
    assert "✓ completed in" in done.stderr
    assert (folder / ".stepwell" / ".gitignore").read_text() == "*\n"
    listed = run("runs", "list", "--json", folder=folder)
    assert [row["status"] for row in json.loads(listed.stdout)] == ["completed"]


def test_a_step_took_the_time_since_its_run_was_claimed() -> None:
    """The claim and the start of a long step are recorded later than they happened."""
    tree = StepTree()
    log: list[tuple[int, str, float, str, dict[str, Any]]] = [
        (1, "accepted", 10.0, "", {}),
        (2, "claimed", 10.4, "", {"since": 10.1}),
        (3, "step_started", 10.4, "0/slow#1", {"step": "slow"}),
        (4, "step_completed", 10.6, "0/slow#1", {"result": 1}),
    ]
    for seq, kind, at, path, data in log:
        moment = datetime.fromtimestamp(at, tz=UTC)
        tree.take(RunEvent(seq=seq, at=moment, kind=kind, type="", path=path, attempt=0, data=data))

    assert tree.lines["0/slow#1"].texts(20.0)[1] == "0.5s"


def test_a_failed_run_ends_with_one_and_a_next_step(folder: Path) -> None:
    done = run("run", "flows.py:pay", "-i", "name=Ada", "-i", "amount=12", folder=folder)

    assert done.returncode == 1
    assert done.stdout == ""
    assert "card declined" in done.stderr
    assert "\x1b" not in done.stderr
    assert "stepwell runs retry" in done.stderr.splitlines()[-1]
    whole = run("run", "flows.py:pay", "-i", "name=Bob", "--json", folder=folder)
    assert whole.returncode == 1
    assert json.loads(whole.stdout)["status"] == "failed"


def test_a_key_names_the_same_run(folder: Path) -> None:
    first, again = [
        json.loads(run("run", "flows.py:hello", "--key", "k", "--json", folder=folder).stdout) for _ in "12"
    ]

    assert first["id"] == again["id"]
    assert first["output"] == "hello world"
    other = run("run", "flows.py:hello", "--key", "k", "--input", '"Bob"', folder=folder)
    assert other.returncode == 4
    assert "KEY_CONFLICT" in other.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["flows.py:helo"], 2, "did you mean 'hello'?"),
        (["flows.py"], 2, "has 3 workflows"),
        (["none.py:hello"], 2, "there is no file"),
        (["flows.py:hello", "--input", "Ada"], 2, "not JSON"),
        (["flows.py:hello", "--input", "@missing.json"], 2, "cannot be read"),
        (["flows.py:hello", "--input", "12"], 2, "INVALID_INPUT"),
        (["flows.py:ask"], 2, "give its input: --input JSON"),
        (["flows.py:hello", "--timeout", "soon"], 2, "--timeout"),
        (["nothing"], 2, "there is no database"),
        (["flows.py:ask", "--input", '"x"', "--timeout", "300ms"], 8, "stepwell watch"),
        (["flows.py:ask", "--input", '"x"', "--exit-on-wait"], 9, "approvals approve"),
    ],
)
def test_the_exit_code_says_what_happened(folder: Path, words: list[str], code: int, said: str) -> None:
    done = run("run", *words, folder=folder)

    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_detached_run_is_watched_while_a_worker_runs_it(folder: Path) -> None:
    started = run("run", "flows.py:ask", "--input", '"Ada"', "--detach", folder=folder)
    run_id = started.stdout.strip()
    assert "stepwell watch" in started.stderr
    worker = subprocess.Popen([*PROGRAM, "worker", "flows.py"], cwd=folder, stderr=subprocess.PIPE, text=True)
    assert worker.stderr is not None
    try:
        assert "working on" in worker.stderr.readline()
        waiting = run("watch", run_id[:14], "--exit-on-wait", folder=folder)
        assert waiting.returncode == 9
        watcher = subprocess.Popen(
            [*PROGRAM, "watch", "@last", "--json"], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        assert run("runs", "decide", "@waiting", '"yes"', "--json", folder=folder).returncode == 0
        lines = [json.loads(line) for line in watcher.communicate(timeout=60)[0].splitlines()]
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)

    assert watcher.returncode == 0
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["kind"] == "completed"
    assert worker.returncode == 0
    later = run("watch", "@last", "--exit-on-wait", folder=folder)  # nothing waits any more
    assert (later.returncode, later.stdout) == (0, '"Ada: yes"\n')
    assert "waiting:" not in later.stderr


def test_ctrl_c_detaches_and_the_run_goes_on(folder: Path) -> None:
    terminal = Terminal("run", "flows.py:ask", "--input", '"Ada"', folder=folder, width=120)
    terminal.read(until="approvals approve")
    terminal.interrupt()

    assert terminal.end() == 130
    assert "detached; the run is safe" in terminal.text
    assert "Traceback" not in terminal.text
    decided = run("runs", "decide", "@waiting", '"yes"', folder=folder)
    assert decided.returncode == 0
    again = run("run", "flows.py:hello", folder=folder)  # its worker takes the other run as well
    assert again.returncode == 0
    seen = run("watch", "@waiting", "--timeout", "1s", folder=folder)
    assert seen.returncode in (3, 8)


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_shows_a_tree_that_fits(folder: Path, width: int) -> None:
    terminal = Terminal("run", "flows.py:hello", folder=folder, width=width)

    assert terminal.end() == 0
    assert "✓ greet" in terminal.text
    listed = Terminal("runs", "list", folder=folder, width=width)
    assert listed.end() == 0
    assert "\x1b[32m" in listed.text
    plain = listed.text.replace("\x1b[32m", "").replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(map(len, plain.split("\r\n"))) <= width
    assert "✓ completed" in plain
