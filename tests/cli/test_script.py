"""What a person does with the program in one sitting: in a terminal, in pipes, by exit codes, with Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Context, Engine, workflow
from stepwell.domain.status import Status
from tests.cli.program import PROGRAM, Terminal, run
from tests.engines import reaches
from tests.server.test_serve import running


@workflow(name="fail")
async def failing(ctx: Context, number: int) -> None:
    raise ValueError(number)


async def failed_runs(database: Path) -> int:
    async with Engine(database, workflows=[failing]) as engine:
        runs = await engine.start_many(failing, range(12))
        for handle in runs:
            await reaches(handle, Status.FAILED)
    return len(runs)


FLOWS = """
import asyncio
from pathlib import Path
from stepwell import Context, Retry, step, workflow

@step
async def load(order: int) -> int:
    return order

@step(timeout="60s")
async def charge(order: int) -> str:
    while not Path("paid").exists():
        await asyncio.sleep(0.02)
    return f"receipt-{order}"

@step(retry=Retry(2, delay="10ms"))
async def refuse(order: int) -> str:
    raise ValueError("card declined")

@workflow
async def buy(ctx: Context, order: int) -> str:
    return await ctx.step(charge, await ctx.step(load, order))

@workflow
async def fail(ctx: Context, order: int) -> str:
    return await ctx.step(refuse, order)

@workflow
async def ask(ctx: Context, order: int) -> str:
    return await ctx.approval(str, title="Refund?")
"""
REDRAWN = re.compile(r"\x1b\[\d*[AK]|\x1b\[2K")  # the cursor goes up, or a line is cleared

pytestmark = [pytest.mark.slow, pytest.mark.req("C1", "C2")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS)
    return tmp_path


def test_a_terminal_shows_steps_as_they_happen_and_a_pipe_gets_plain_lines(folder: Path) -> None:
    terminal = Terminal("run", "flows.py:buy", "--input", "7", folder=folder, width=100)
    terminal.read(until="charge")
    assert "✓ load" in terminal.text, "the first step is done, the second one is under way"
    assert "✓ charge" not in terminal.text
    (folder / "paid").touch()
    assert terminal.end() == 0
    assert "✓ charge" in terminal.text
    assert "receipt-7" in terminal.text
    assert REDRAWN.search(terminal.text), "the tree changes in its place"

    piped = run("run", "flows.py:buy", "--input", "8", folder=folder)
    assert piped.returncode == 0
    assert json.loads(piped.stdout) == "receipt-8"
    assert "\x1b" not in piped.stdout + piped.stderr
    done = [line.split() for line in piped.stderr.splitlines() if "✓" in line]
    assert [words[words.index("✓") + 1] for words in done] == ["load", "charge", "completed"]


def test_json_goes_through_a_pipe_into_another_program(folder: Path) -> None:
    (folder / "paid").touch()
    assert run("run", "flows.py:buy", "--input", "8", folder=folder).returncode == 0
    jq = shutil.which("jq")
    reader = (
        f"{jq} -r '.[].id'"
        if jq
        else f"{sys.executable} -c 'import json,sys; print(json.load(sys.stdin)[0][\"id\"])'"
    )
    line = f"{' '.join(PROGRAM)} runs list --json | {reader}"

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[0-9a-f]{32}\n", done.stdout)
    whole = run("run", "flows.py:fail", "--input", "1", "--json", folder=folder)
    assert json.loads(whole.stdout)["status"] == "failed"
    for text in run("watch", "@last", "--json", folder=folder).stdout.splitlines():
        assert json.loads(text)["seq"]


CODES: list[tuple[int, list[str]]] = [
    (0, ["runs", "list"]),
    (1, ["run", "flows.py:fail", "--input", "1"]),
    (2, ["runs", "list", "--colour", "red"]),
    (2, ["run", "flows.py:fail", "--input", '"text"']),
    (3, ["runs", "show", "0" * 32]),
    (3, ["workflows", "show", "nothing"]),
    (4, ["runs", "retry", "@waiting"]),
    (5, ["runs", "list", "--server", "SERVER", "--api-key", "sw_key_wrong"]),
    (6, ["runs", "list", "--server", "http://127.0.0.1:9"]),
    (6, ["runs", "list", "--database", "postgresql://127.0.0.1:9/nothing"]),
    (7, ["watch", "CANCELLED"]),
    (8, ["watch", "@waiting", "--timeout", "200ms"]),
    (9, ["watch", "@waiting", "--exit-on-wait"]),
]


def test_every_exit_code_of_the_table_means_what_it_says(folder: Path) -> None:
    """Code 70 is a bug: tests/cli/test_hostile.py makes one. Code 130 is below."""
    assert run("run", "flows.py:ask", "--input", "1", "--exit-on-wait", folder=folder).returncode == 9
    cancelled = run("runs", "list", "--json", folder=folder).stdout
    cancelled = json.loads(cancelled)[0]["id"]
    run("runs", "force", cancelled, "--yes", folder=folder)
    assert run("run", "flows.py:ask", "--input", "2", "--exit-on-wait", folder=folder).returncode == 9
    got: list[tuple[int, list[str]]] = []
    with running("serve", "--database", ".stepwell/dev.db", "--port", "0", folder=folder) as (_, url):
        for _, words in CODES:
            names = {"SERVER": url, "CANCELLED": cancelled}
            done = run(*(names.get(word, word) for word in words), folder=folder)
            got.append((done.returncode, words))
            assert "Traceback" not in done.stderr
            if done.returncode in (2, 3, 4, 5, 6, 8):
                assert "hint" in done.stderr, words

    assert got == CODES


def test_ctrl_c_detaches_and_never_cancels(folder: Path) -> None:
    terminal = Terminal("run", "flows.py:ask", "--input", "1", folder=folder, width=120)
    terminal.read(until="approvals approve")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "detached" in terminal.text
    watching = Terminal("watch", "@waiting", folder=folder, width=120)
    watching.read(until="Refund?")
    watching.interrupt()
    assert watching.end() == 130

    [row] = json.loads(run("runs", "list", "--json", folder=folder).stdout)
    assert row["status"] == "suspended"


def test_long_work_shows_a_bar_in_a_terminal_and_tenths_elsewhere(folder: Path) -> None:
    terminal = Terminal("bench", "--runs", "200", folder=folder, width=100)
    assert terminal.end() == 0
    assert "200/200" in terminal.text
    count = asyncio.run(failed_runs(folder / "stepwell.db"))
    exported = Terminal("runs", "export", "--workflow", "fail", "-o", "out", folder=folder, width=100)
    assert exported.end() == 0
    assert f"{count}/{count}" in exported.text
    assert len(list((folder / "out").glob("run-*.json"))) == count
    again = run("runs", "export", "--workflow", "fail", "-o", "out", folder=folder)
    assert f"export: {count} of {count}" in again.stderr
    refused = run("runs", "export", "--workflow", "fail", folder=folder)
    assert refused.returncode == 2
    assert "name a folder" in refused.stderr
    pruned = Terminal("db", "prune", "--older-than", "1ms", "--yes", folder=folder, width=100)
    assert pruned.end() == 0
    assert "runs" in pruned.text
