"""The same commands against a server: `--database http://...` with a key."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell import connect
from stepwell.cli import main
from stepwell.system import SystemClock
from tests.cli.program import PROGRAM, run

FLOWS = """
from stepwell import Context, step, workflow

@step
async def greet(name: str) -> str:
    print("greeting", name)
    return f"hello {name}"

@workflow
async def hello(ctx: Context, name: str) -> str:
    return await ctx.step(greet, name)

@workflow
async def ask(ctx: Context, name: str) -> str:
    return await ctx.approval(str, title="Really?")

@workflow
async def fail(ctx: Context, name: str) -> str:
    raise ValueError(name)
"""
TOKEN = "t" * 43

pytestmark = [pytest.mark.slow, pytest.mark.req("C1", "C2", "A4")]


BY_HAND = {
    "name": "byhand",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "end", "type": "end", "data": {"output": {"hello": "{{ctx.input.who}}"}}},
    ],
    "edges": [{"source": "start", "target": "end"}],
    "triggers": [
        {
            "id": "form",
            "type": "manual",
            "form": {"type": "object", "required": ["name"]},
            "input": {"who": "{{trigger.form.name}}"},
        }
    ],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "flows.py").write_text(FLOWS)
    process = subprocess.Popen(
        [*PROGRAM, "dev", "flows.py", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "STEPWELL_LAUNCH_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        lines = "".join(process.stderr.readline() for _ in range(3))
        address = re.search(r"API +(http://\S+)/api/v1", lines)
        assert address, lines
        yield address[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_commands_work_on_a_server_as_on_a_database(server: str, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    environment = {"STEPWELL_DATABASE": server, "STEPWELL_API_KEY": TOKEN}

    def call(*words: str, code: int = 0) -> str:
        done = run(*words, folder=folder, env=environment)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    assert json.loads(call("run", "hello", "--input", '"Ada"')) == "hello Ada"
    assert json.loads(call("run", "fail", "--input", '"no"', "--json", code=1))["status"] == "failed"
    waiting = call("run", "ask", "--input", '"x"', "--detach").strip()
    call("watch", waiting, "--exit-on-wait", code=9)
    rows = json.loads(call("runs", "list", "--json"))
    assert [row["workflow"] for row in rows] == ["ask", "fail", "hello"]
    assert json.loads(call("runs", "show", "@waiting", "--json"))["id"] == waiting
    assert "approval" in call("runs", "why", waiting[:20])
    assert json.loads(call("approvals", "list", "--json"))[0]["run"] == waiting
    assert "greeting Ada" in call("runs", "logs", rows[-1]["id"])
    call("runs", "hold", "@waiting")
    call("runs", "release", "@waiting")
    call("approvals", "approve", "@waiting", "--answer", '"yes"')
    assert call("watch", waiting) == '"yes"\n'
    [decided] = json.loads(call("approvals", "list", "--done", "--json"))
    assert (decided["run"], decided["decision"], decided["answer"]) == (waiting, "approved", "yes")
    assert "approved" in call("approvals", "list", "--done")
    events = [json.loads(line) for line in call("runs", "events", waiting, "--json").splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {row["name"] for row in json.loads(call("workflows", "list", "--json"))} == {
        "ask",
        "fail",
        "hello",
    }
    call("workflows", "disable", "hello", "--reason", "closed")
    call("run", "hello", "--input", '"Ada"', code=4)
    call("workflows", "enable", "hello")
    again = call("runs", "rerun", "@failed").strip()
    assert len(again) == 32
    call("runs", "export", waiting, "-o", "run.json")
    call("runs", "delete", waiting)
    assert call("runs", "import", "run.json").strip() == waiting
    assert json.loads(call("workers", "list", "--json"))[0]["alive"]
    assert json.loads(call("queues", "list", "--json"))[0]["workers"] == 1
    key = json.loads(call("keys", "create", "reader", "--json"))["secret"]
    call("doctor", code=0)

    own = json.loads(call("keys", "create", "ann", "--scope", "read", "--scope", "run", "--json"))["secret"]
    environment["STEPWELL_API_KEY"] = own  # the key says who it is, not the user of this machine
    started = call("run", "ask", "--input", '"y"', "--detach").strip()
    call("runs", "cancel", started)
    assert json.loads(call("runs", "show", started, "--json"))["started_by"] == "ann"
    refused = run("runs", "cancel", "@last", folder=folder, env={**environment, "STEPWELL_API_KEY": key})
    assert refused.returncode == 5
    wrong = run("runs", "list", folder=folder, env={**environment, "STEPWELL_API_KEY": "wrong"})
    assert wrong.returncode == 5
    assert "hint" in wrong.stderr


def test_doctor_compares_the_clock_with_that_of_the_server(
    server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def clock() -> dict[str, str]:
        main(["doctor", "--json", "--server", f"{server}/?t={TOKEN}"])
        printed = capsys.readouterr().out
        assert TOKEN not in printed
        found: dict[str, str] = next(row for row in json.loads(printed) if row["check"] == "clock")
        return found

    agrees = clock()
    monkeypatch.setattr(SystemClock, "time", staticmethod(lambda: time.time() + 60))
    differs = clock()

    assert (agrees["state"], agrees["text"]) == ("ok", "agrees with the server's")
    assert differs["state"] == "warning"
    assert "this clock and the server's differ by" in differs["text"]


@pytest.mark.req("N2")
async def test_a_graph_is_started_by_hand_with_its_form(server: str, tmp_path: Path) -> None:
    environment = {"STEPWELL_DATABASE": server, "STEPWELL_API_KEY": TOKEN}
    async with connect(server, key=TOKEN) as client:
        await client.library.create(BY_HAND)
        await client.library.publish("byhand")
    wrong = run("run", "byhand", "--manual", "-i", "who=Ada", folder=tmp_path, env=environment)
    done = run("run", "byhand", "--manual", "-i", "name=Ada", folder=tmp_path, env=environment)
    listed = run("runs", "list", "--json", folder=tmp_path, env=environment)

    assert wrong.returncode == 2
    assert '"name" is a required property' in wrong.stderr
    assert json.loads(done.stdout) == {"hello": "Ada"}
    assert [row["trigger"] for row in json.loads(listed.stdout)] == ["manual"]


@pytest.mark.req("N2")
def test_a_graph_of_a_file_is_started_by_hand_with_its_form(tmp_path: Path) -> None:
    (tmp_path / "byhand.json").write_text(json.dumps(BY_HAND))
    done = run("run", "byhand.json:byhand", "--manual", "-i", "name=Ada", folder=tmp_path)

    assert json.loads(done.stdout) == {"hello": "Ada"}
