"""`--json` of every command parses, on real databases; nothing else is on stdout."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from stepwell import Context, Engine, RunFailed, step, workflow
from stepwell.cli import main
from stepwell.cli.app import walk
from tests.cli.program import PROGRAM
from tests.engines import Engines, suspended
from tests.server.served import TOKEN
from tests.server.test_serve import running

GRAPH = {
    "name": "tiny",
    "nodes": [{"id": "s", "type": "start", "data": {}}, {"id": "e", "type": "end", "data": {}}],
    "edges": [{"source": "s", "target": "e"}],
}


@step
async def noted(n: int) -> int:
    print("noted", n)
    return n


@workflow(title="Asks for more")
async def asking(ctx: Context, n: int = 1) -> int:
    n = await ctx.step(noted, n)
    ctx.save("note", {"n": n})
    return n + await ctx.signal("more", int)


@workflow
async def approving(ctx: Context, n: int) -> str:
    return await ctx.approval(str, title="May I?")


@workflow
async def failing(ctx: Context, why: str) -> None:
    await ctx.step(noted, 1)
    raise ValueError(why)


# One process each: worker, serve and dev are below; the others are in test_script, test_projects, test_move
# and test_db, each with --json.
ELSEWHERE = {"run", "watch", "worker", "serve", "dev", "demo", "bench", "check", "init", "move", "db backup"}
ELSEWHERE |= {"secrets set"}  # reads the value from standard input: test_secrets
ELSEWHERE |= {"records import"}  # reads a file: tests/cli/test_records.py
# Printed as one object a line.
LINES = {"runs events", "runs logs", "records export"}
CALLS: dict[str, list[str]] = {
    "runs list": ["--limit", "2"],
    "runs show": ["WAITING"],
    "runs get": ["WAITING"],
    "runs why": ["WAITING"],
    "why": ["WAITING"],
    "runs events": ["WAITING"],
    "runs logs": ["FAILED"],
    "runs state": ["WAITING"],
    "runs waits": ["WAITING"],
    "runs checkpoints": ["WAITING"],
    "runs documents": ["WAITING"],
    "runs start": ["asking", "--input", "4", "--tag", "a=b", "--key", "k"],
    "runs signal": ["WAITING", "other", "--payload", "1", "--id", "x"],
    "approvals list": [],
    "approvals show": ["APPROVING"],
    "approvals remind": ["APPROVING"],
    "approvals link": ["APPROVING", "--assignee", "ann"],
    "approvals reassign": ["APPROVING", "ann", "role:finance"],
    "approvals approve": ["APPROVING", "--role", "finance"],
    "runs decide": ["DECIDING", '"yes"', "--by", "ann"],
    "approvals deny": ["DENYING", "--answer", '"no"'],
    "runs hold": ["WAITING"],
    "runs release": ["WAITING"],
    "runs rerun": ["FAILED"],
    "runs rerun-from": ["FAILED", "noted"],
    "runs fork": ["FAILED", "--at", "1"],
    "runs export": ["FAILED"],
    "runs import": ["FILE"],
    "runs retry": ["FAILED"],
    "runs cancel": ["--workflow", "asking", "--yes"],
    "runs force": ["WAITING", "--yes"],
    "runs delete": ["WAITING"],
    "workflows list": [],
    "workflows show": ["asking"],
    "workflows versions": ["asking"],
    "workflows disable": ["asking"],
    "workflows enable": ["asking"],
    "workflows validate": ["GRAPH"],
    "workflows save": ["GRAPH"],
    "workflows publish": ["tiny"],
    "workflows diff": ["tiny"],
    "workflows draw": ["tiny"],
    "keys create": ["ci"],
    "keys list": [],
    "keys revoke": ["KEY"],
    "alerts set": ["failures", "failed"],
    "alerts list": [],
    "alerts delete": ["failures"],
    "secrets list": [],
    "secrets delete": ["stripe"],
    "schedules create": ["often", "asking", "--every", "1h"],
    "schedules list": [],
    "schedules show": ["often"],
    "schedules update": ["often", "--every", "2h"],
    "schedules pause": ["often"],
    "schedules resume": ["often"],
    "schedules trigger": ["often"],
    "schedules preview": ["--cron", "30 2 * * *"],
    "schedules backfill": ["often", "--since", "2026-01-01", "--until", "2026-01-02"],
    "schedules delete": ["often"],
    "records define": ["people", "--find", "city"],
    "records list": [],
    "records show": ["people"],
    "records create": ["people", "--set", "city=Rome", "--id", "ann"],
    "records get": ["people", "ann"],
    "records update": ["people", "ann", "--set", "city=Bonn"],
    "records find": ["people", "--where", "city=Bonn"],
    "records export": ["people"],
    "records delete": ["people", "ann"],
    "records drop": ["people", "--with-records", "--yes"],
    "webhooks create": ["hook", "asking", "--scheme", "none"],
    "webhooks list": [],
    "webhooks pause": ["hook"],
    "webhooks resume": ["hook"],
    "webhooks delete": ["hook"],
    "triggers create": ["paid", "asking", "--event", "paid"],
    "triggers list": [],
    "triggers pause": ["paid"],
    "triggers resume": ["paid"],
    "triggers delete": ["paid"],
    "limits set": ["workflow", "asking", "3"],
    "limits list": [],
    "limits drop": ["workflow", "asking"],
    "limits set-rate": ["user", "1000", "--within", "1h"],
    "limits rates": [],
    "limits drop-rate": ["user", "--within", "1h"],
    "holds set": ["workflow", "asking", "--reason", "audit"],
    "holds list": [],
    "holds release": ["workflow", "asking"],
    "db info": [],
    "db check": [],
    "db upgrade": [],
    "db prune": ["--older-than", "30d", "--yes"],
    "runs steps": ["FAILED"],
    "workers list": [],
    "queues list": [],
    "audit list": [],
    "doctor": [],
    "completion show": ["bash"],
}
EXITS = {"doctor": 1, "secrets delete": 3}  # no worker is alive; there is no secret, which takes a key
# Refused here, with an error as JSON on stderr: there is nothing to trigger or to undo.
REFUSED: dict[str, tuple[int, list[str]]] = {
    "runs trigger": (4, ["FAILED", "go"]),
    "runs compensate": (4, ["FAILED"]),
    "runs skip": (4, ["FAILED"]),
    "runs set-variable": (4, ["FAILED", "amount", "1"]),
    "workers drain": (3, ["nobody"]),
    "secrets rotate": (2, []),
    "completion install": (2, ["tcsh"]),
    "runs delay": (4, ["FAILED", "10m"]),
    "runs discard": (4, ["FAILED", "--yes"]),
}


class Story:
    """A database with a run of each kind, and the names of what is in it."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database, self.folder = database, folder
        self.place = ["--database", database]
        self.names: dict[str, str] = {}

    async def prepare(self) -> None:
        async with Engine(self.database, workflows=[asking, approving, failing]) as engine:
            waiting = await engine.start(asking, 2)
            approvals = [await engine.start(approving, n) for n in range(3)]
            await suspended(waiting)
            for approval in approvals:
                await suspended(approval)
            failed, other = [await engine.start(failing, "no luck\x1b[2J") for _ in "12"]
            for run in (failed, other):
                with pytest.raises(RunFailed):
                    await run.result(30)
            key = await engine.keys.create("ann")
            exported = await engine.export(other)
            await other.delete()
        (self.folder / "run.json").write_bytes(exported)
        (self.folder / "tiny.json").write_text(json.dumps(GRAPH))
        self.names = {
            "WAITING": waiting.id,
            "APPROVING": approvals[0].id,
            "DECIDING": approvals[1].id,
            "DENYING": approvals[2].id,
            "FAILED": failed.id,
            "FILE": str(self.folder / "run.json"),
            "GRAPH": str(self.folder / "tiny.json"),
            "KEY": key.credential.id,
        }

    def call(self, name: str, words: list[str], *more: str) -> list[str]:
        place = [] if name.startswith("completion") else self.place
        return [*name.split(), *(self.names.get(word, word) for word in words), *place, *more]


@pytest.fixture
def story(durable_engines: Engines, tmp_path: Path) -> Story:
    story = Story(str(durable_engines.database), tmp_path)
    asyncio.run(story.prepare())
    return story


@pytest.mark.req("C2")
def test_every_command_is_in_the_table() -> None:
    assert {name for name, _ in walk()} == {*CALLS, *REFUSED, *ELSEWHERE}


@pytest.mark.req("C1", "C2")
@pytest.mark.slow
def test_json_of_every_command_parses(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in CALLS.items():
        code = main(story.call(name, words, "--json"))
        assert code == EXITS.get(name, 0), (name, capsys.readouterr())
        printed = capsys.readouterr()
        texts = printed.out.splitlines() if name in LINES else [printed.out]
        assert texts, name
        assert all(json.loads(text) is not None for text in texts), name

    for name, (code, words) in REFUSED.items():
        assert main(story.call(name, words, "--json")) == code, name
        printed = capsys.readouterr()
        assert printed.out == ""
        error = json.loads(printed.err)["error"]
        assert error["code"]
        assert error["message"]


@pytest.mark.req("C2")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["worker", "serve", "dev"])
def test_a_process_that_serves_says_as_json_what_and_where(name: str, tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(
        "from stepwell import workflow\n@workflow\nasync def hello(ctx, n: int) -> int:\n    return n\n"
    )
    database = str(tmp_path / "a.db")
    asyncio.run(created(database))
    words = [name, *([] if name == "serve" else ["flows.py"]), "--database", database, "--json"]
    process = subprocess.Popen(
        [*PROGRAM, *words, *([] if name == "worker" else ["--port", "0"])],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    rest, errors = process.communicate(timeout=60)

    assert said["workflows" if name == "worker" else "api"]
    assert (process.returncode, rest) == (0, ""), errors


async def created(database: str) -> None:
    async with Engine(database, worker=False):
        pass


# What only the machine of the database can do; `stepwell move`, `check`, `worker` and `serve` need it, too.
OF_A_DATABASE = {"db upgrade": [], "db prune": ["--older-than", "30d", "--yes"], "db backup": ["copy.db"]}


@pytest.mark.req("C1", "C2", "A4")
@pytest.mark.slow
def test_every_command_works_on_a_server_as_on_its_database(
    story: Story, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with running("serve", "--database", story.database, "--port", "0", folder=tmp_path) as (_, url):
        story.place = ["--server", url, "--api-key", TOKEN]
        for name, words in CALLS.items():
            if name in OF_A_DATABASE:
                continue
            code = main(story.call(name, words, "--json"))
            printed = capsys.readouterr()
            assert code == EXITS.get(name, 0), (name, printed)
            texts = printed.out.splitlines() if name in LINES else [printed.out]
            assert all(json.loads(text) is not None for text in texts), name
        for name, (code, words) in REFUSED.items():
            assert main(story.call(name, words, "--json")) == code, (name, capsys.readouterr())
            assert json.loads(capsys.readouterr().err)["error"]["code"], name
        for name, words in OF_A_DATABASE.items():
            assert main(story.call(name, words)) == 2, name
            assert "call it where the database can be reached" in capsys.readouterr().err


@pytest.mark.req("C2", "X9")
@pytest.mark.slow
def test_plain_output_has_no_control_characters(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in CALLS.items():
        assert main(story.call(name, words)) == EXITS.get(name, 0), (name, capsys.readouterr())
        printed = capsys.readouterr()
        assert "\x1b" not in printed.out + printed.err, name
        assert all(len(line) < 4000 for line in printed.err.splitlines()), name
