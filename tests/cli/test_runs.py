"""`stepwell runs`: a run leaves one database as a file and goes on in another."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stepwell import Context, Engine, RunFailed, SyncClient, step, workflow
from stepwell.cli import main
from stepwell.domain.status import Status
from stepwell.errors import NotCompensable, RunCancelled
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import suspended


@workflow
async def asking(ctx: Context, n: int) -> int:
    n = await ctx.step(lambda: n + 1)
    return n + await ctx.signal("more", int)


async def started(database: str) -> str:
    async with Engine(database, workflows=[asking]) as engine:
        run = await engine.start(asking, 1)
        await suspended(run)
        return run.id


@pytest.mark.req("K29", "C1")
def test_a_run_is_exported_and_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, there, file = str(tmp_path / "a.db"), str(tmp_path / "b.db"), str(tmp_path / "run.json")
    run_id = asyncio.run(started(here))

    assert main(["runs", "--database", here, "export", run_id, "-o", file]) == 0
    assert main(["runs", "--database", there, "import", file]) == 0
    assert capsys.readouterr().out.strip() == run_id
    assert json.loads(Path(file).read_text())["runs"][0]["id"] == run_id
    with SyncClient(engine=Engine(there, workflows=[asking])) as client:
        run = client.handle(run_id)
        run.signal("more", 40)
        assert run.result(15) == 42

    assert main(["runs", "--database", there, "import", file]) == 4
    assert "RUN_EXISTS" in capsys.readouterr().err
    assert main(["runs", "--database", there, "delete", run_id]) == 0
    assert main(["runs", "--database", here, "delete", run_id]) == 4
    assert "NOT_REMOVABLE" in capsys.readouterr().err
    assert main(["runs", "--database", there, "export", run_id]) == 3
    assert main(["runs", "--database", there, "import", str(tmp_path / "none.json")]) == 2
    assert "INVALID_FILE" in capsys.readouterr().err


def unbook(name: str) -> None:
    Path(name).write_text("undone")


@step(compensate=unbook)
def book(name: str) -> str:
    return name


@workflow(on_failure="hold")
async def booking(ctx: Context, name: str) -> None:
    await ctx.step(book, name)
    raise ValueError("no room")


@pytest.mark.req("K27", "C1", "A4")
def test_a_held_run_is_undone_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database, mark = str(tmp_path / "a.db"), tmp_path / "mark"
    with SyncClient(engine=Engine(database, workflows=[booking])) as client:
        run = client.start(booking, str(mark))
        with pytest.raises(RunFailed):
            run.result(15)
        assert not mark.exists()

    assert main(["runs", "--database", database, "compensate", run.id]) == 0
    assert main(["runs", "--database", database, "retry", run.id]) == 4
    assert "NOT_RETRYABLE" in capsys.readouterr().err
    with SyncClient(engine=Engine(database, workflows=[booking])) as client:
        again = client.handle(run.id)
        with pytest.raises(RunFailed):
            again.result(15)
        assert mark.read_text() == "undone"
        with pytest.raises(NotCompensable):
            again.compensate()


@pytest.mark.req("A4", "K26")
def test_the_sync_client_has_the_verbs_of_history(tmp_path: Path) -> None:
    with SyncClient(engine=Engine(str(tmp_path / "a.db"), workflows=[asking])) as client:
        run = client.start(asking, 1)
        # Else the signal may come before the checkpoint in the log: then the fork has it too.
        assert any(run.checkpoints() for _ in range(20_000))
        run.signal("more", 1)
        assert run.result(15) == 3
        [checkpoint] = run.checkpoints()
        new = client.fork(run, at=checkpoint.seq, outputs={checkpoint.place: 10})
        new.signal("more", 5)
        assert new.result(15) == 15
        again = client.rerun(run.id, input=7)
        again.signal("more", 1)
        assert again.result(15) == 9
        later = client.rerun_from(run, checkpoint.place)
        later.signal("more", 2)
        assert later.result(15) == 4
        file = client.export(new)
        assert new.documents() == []
        assert run.state(at=1).status is Status.PENDING
        new.delete()
        assert client.import_run(file).result(15) == 15


@pytest.mark.req("K13", "K26", "C1")
def test_a_run_is_forked_run_again_and_cancelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "a.db")
    old = asyncio.run(started(database))
    (tmp_path / "input.json").write_text("10")

    def made(*arguments: str) -> str:
        assert main(["runs", *arguments, "--database", database]) == 0
        return capsys.readouterr().out.strip()

    new = [made("rerun", old), made("rerun", old, "--input", f"@{tmp_path / 'input.json'}")]
    new += [made("fork", old, "--at", "3"), made("rerun", old, "--from-step", "0/signal:more#1")]
    assert made("cancel", old, "--reason", "enough") == ""
    with SyncClient(engine=Engine(database, workflows=[asking])) as client:
        for run_id in new:
            client.handle(run_id).signal("more", 1)
        assert [client.handle(run_id).result(15) for run_id in new] == [3, 12, 3, 3]
        with pytest.raises(RunCancelled, match="enough"):
            client.handle(old).result(15)


@pytest.mark.req("K13", "C1")
def test_a_cancel_says_whether_the_run_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "a.db")
    run = asyncio.run(started(database))

    def told() -> str:
        assert main(["runs", "cancel", run, "--database", database]) == 0
        return capsys.readouterr().err.strip()

    assert told() == f"{run} is being cancelled"  # a worker must clean up: it was waiting
    assert told() == f"{run} was already being cancelled"
    with (
        SyncClient(engine=Engine(database, workflows=[asking])) as client,
        pytest.raises(RunCancelled),
    ):
        client.handle(run).result(15)
    assert told() == f"{run} had already ended: it is cancelled"


@pytest.mark.req("C1", "K26")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fork", "RUN", "--at", "99"], 4, "NOT_FORKABLE"),
        (["fork", "RUN", "--at", "3", "--input", "{"], 2, "--input is not JSON"),
        (["fork", "RUN", "--at", "3", "--input", '"x"'], 2, "INVALID_INPUT"),
        (["fork", "RUN", "--at", "3", "--state", "{}"], 2, "a function has no state"),
        (["rerun", "RUN", "--from-step", "nope"], 3, "STEP_NOT_FOUND"),
        (["rerun", "RUN", "--from-step", "0/signal:more#1", "--input", "1"], 2, "cannot be combined with"),
        (["cancel", "nope"], 3, "RUN_NOT_FOUND"),
    ],
)
def test_what_cannot_be_made_is_told_as_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    database = str(tmp_path / "a.db")
    run_id = asyncio.run(started(database))

    asked = [run_id if argument == "RUN" else argument for argument in arguments]
    assert main(["runs", *asked, "--database", database]) == code

    told = capsys.readouterr().err
    assert words in told
    assert "hint" in told


WAITING = chart(
    [
        START,
        a("A", "set", values={"amount": 1}),
        a("W", "wait", mode="event", event="go"),
        a("Z", "end", output={"amount": "{{ctx.amount}}"}),
    ],
    "S>A A>W W>Z",
)


async def waiting(database: str) -> str:
    async with Engine(database, workflows=[WAITING]) as engine:
        run = await engine.start("chart", {})
        await suspended(run)
        return run.id


@pytest.mark.req("K39", "C1")
def test_a_variable_is_set_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "app.db")
    run_id = asyncio.run(waiting(database))
    command = ["runs", "--database", database, "set-variable", run_id]

    assert main(["runs", "--database", database, "state", run_id, "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["input"], state["variables"], state["nodes"]["A"]) == ({}, {"amount": 1}, {"amount": 1})
    assert main([*command, "amuont", "2"]) == 4
    assert "NOT_SETTABLE" in capsys.readouterr().err
    assert main([*command, "amount", "not json"]) == 2
    assert main([*command, "amount", "120", "--by", "ann", "--reason", "the invoice was wrong"]) == 0

    with SyncClient(engine=Engine(database, workflows=[WAITING])) as client:
        run = client.handle(run_id)
        run.event("go")
        assert run.result(15) == {"amount": 120}
        [said] = [event.data for event in run.events() if event.kind == "variable_set"]
    assert (said["by"], said["reason"]) == ("ann", "the invoice was wrong")
