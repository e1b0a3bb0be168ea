"""What a person sees who asks the command line wrongly: one error in words, and nothing is made."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from stepwell.cli import main, session
from stepwell.cli.session import redacted
from tests.engines import Engines, until
from tests.server.served import FLOWS, TOKEN, served

FLOW = """
from stepwell import Context, workflow

@workflow
async def hello(ctx: Context, x: int) -> int:
    return x
"""


@pytest.mark.req("C1", "F8")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_module", "flows_wrong.py:1"),
        ("x = 1\ndef f(:", "flows_wrong.py:2"),
        ("x = 1\n1 / 0", "ZeroDivisionError"),
        ("x = 1", "has no workflows"),
        (FLOW.replace("ctx: Context, x", "x"), "takes 'x' as its first parameter, which is its context"),
    ],
)
def test_a_source_that_cannot_be_used_is_told_by_its_line(
    code: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "flows_wrong.py"
    source.write_text(code)

    assert main(["worker", str(source), "--database", str(tmp_path / "app.db")]) == 2

    error = capsys.readouterr().err
    assert said in error
    assert "hint" in error
    assert "Traceback" not in error
    assert not (tmp_path / "app.db").exists()


@pytest.mark.req("C1")
def test_a_database_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = tmp_path / "nowhere.db"

    for verb in ("export", "retry", "compensate", "delete"):
        assert main(["runs", verb, "some-run", "--database", str(database)]) == 2
        assert f"there is no database {database}" in capsys.readouterr().err

    assert not database.exists()


@pytest.mark.req("C1")
@pytest.mark.parametrize(
    "words", ["webhooks", "triggers", "alerts", "secrets", "schedules", "records drop", "records delete box"]
)
def test_what_is_not_there_cannot_be_deleted(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--database", str(tmp_path / "app.db")]
    assert main(["records", "define", "box", *here]) == 0
    verb = words.split() if " " in words else [words, "delete"]

    assert main([*verb, "nobody", *here]) == 3
    assert "nobody does not exist; see stepwell" in capsys.readouterr().err


@pytest.mark.req("C1")
@pytest.mark.parametrize(
    "command", ["dev FILE", "worker FILE", "serve", "run FILE:hello", "bench", "db backup x.db"]
)
def test_what_needs_a_database_says_so_when_a_server_is_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is asked of the server, and `dev` does not wait for a file to change."""
    source = tmp_path / "flows.py"
    source.write_text(FLOW)
    words = command.replace("FILE", str(source)).split()

    assert main([*words, "--server", "http://127.0.0.1:9/?t=secret"]) == 2
    told = capsys.readouterr().err
    assert "http://127.0.0.1:9/ is a server" in told
    assert "--database FILE" in told

    monkeypatch.setenv("STEPWELL_SERVER", "http://127.0.0.1:9")
    assert main(words) == 2
    told = capsys.readouterr().err
    assert ("stepwell run hello" if words[0] == "run" else "STEPWELL_SERVER names the server") in told


@pytest.mark.req("C1")
def test_wrong_values_say_how_to_write_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", str(tmp_path / "app.db")]

    assert main(["runs", "decide", "@last", "maybe", *here]) == 2
    assert "approved, denied, or JSON" in capsys.readouterr().err
    assert main(["runs", "start", "hello", "--input", "12", "-i", "x=3", *here]) == 2
    assert "--input is not an object" in capsys.readouterr().err


@pytest.mark.req("C1")
@pytest.mark.parametrize("command", ["run", "dev"])
def test_a_folder_that_cannot_be_written_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flows_here.py").write_text(FLOW)
    (tmp_path / ".stepwell").touch()  # a file, where the folder should be
    monkeypatch.chdir(tmp_path)
    with socket.socket() as listener:
        more = {"run": [], "dev": ["--fd", str(listener.fileno())]}[command]
        source = {"run": "flows_here.py:hello", "dev": "flows_here.py"}[command]

        assert main([command, source, *more]) == 2

    error = capsys.readouterr().err
    assert f"{tmp_path / '.stepwell'} cannot be written" in error
    assert "--database FILE" in error


@pytest.mark.req("C1", "C2")
@pytest.mark.parametrize("run", ["zzz", "0192-f0c1", "A" * 32])
async def test_an_id_that_cannot_be_one_is_not_found_here_and_on_a_server(
    run: str, sqlite: Engines, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    async with served(sqlite.client()) as server:
        for place in (["--database", str(sqlite.database)], ["--server", server.url, "--api-key", TOKEN]):
            code = await asyncio.to_thread(main, ["runs", "show", run, *place])
            said.append((code, capsys.readouterr().err))

    assert said[0][0] == said[1][0] == 3
    assert "there is no run" in said[0][1]
    assert "there is no run" in said[1][1]


@pytest.mark.req("C1", "A5")
async def test_a_wrong_key_says_how_to_give_one(
    memory_engines: Engines, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(memory_engines.client()) as server:
        words = ["runs", "list", "--server", server.url, "--api-key", "sw_key_nobody"]
        code = await asyncio.to_thread(main, words)

    assert code == 5
    assert "--api-key KEY, or set STEPWELL_API_KEY" in capsys.readouterr().err


@pytest.mark.req("C1", "A5")
async def test_a_watch_whose_server_goes_away_says_so(
    sqlite: Engines, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_RETRY_SECONDS", 0.2)
    async with served(sqlite.new(*FLOWS)) as server:
        run = await server.started("listening", 1)
        await server.waiting(run)
        words = ["watch", run, "--server", server.url, "--api-key", TOKEN]
        watching = asyncio.create_task(asyncio.to_thread(main, words))
        await until(lambda: server.app.state.streams.open)
    code = await watching

    assert code == 6
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.req("C1")
def test_a_worker_says_that_it_works_only_when_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "flows_right.py"
    source.write_text(FLOW)

    assert main(["worker", str(source), "--database", str(tmp_path)]) == 2

    error = capsys.readouterr().err
    assert "the path is a directory" in error
    assert "working on" not in error


@pytest.mark.req("C1", "X8")
def test_a_password_is_not_shown() -> None:
    assert redacted("postgresql://ana:secret@host/app") == "postgresql://ana:…@host/app"
    assert redacted("app.db") == "app.db"
