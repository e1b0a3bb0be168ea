"""`stepwell runs list | get | events | signal`: finding a run, seeing why it stands still, sending it on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Context, Engine, RunFailed, SyncClient, workflow
from stepwell.cli import main
from stepwell.store.payloads import Compression
from tests.engines import suspended


@workflow
async def adding(ctx: Context, n: int) -> int:
    return n + await ctx.signal("more", int)


@workflow
async def failing(ctx: Context, why: str) -> None:
    raise ValueError(why)


async def one_of_each(database: str) -> tuple[str, str]:
    async with Engine(database, workflows=[adding, failing]) as engine:
        waiting = await engine.start(adding, 2, key="two")
        await suspended(waiting)
        failed = await engine.start(failing, "no luck\ntoday")
        with pytest.raises(RunFailed):
            await failed.result(15)
        return waiting.id, failed.id


@pytest.mark.req("C1")
def test_runs_are_found_and_what_holds_them_up_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    waiting, failed = asyncio.run(one_of_each(here[1]))

    assert main(["runs", "list", *here]) == 0
    heads, newest, oldest = capsys.readouterr().out.splitlines()
    assert heads.split() == ["STATUS", "RUN", "WORKFLOW", "KEY", "CREATED", "TOOK", "WHERE"]
    assert newest.split()[:3] == ["failed", failed, "failing@1"]
    assert "no luck today" in newest
    assert oldest.split()[:4] == ["suspended", waiting, "adding@1", "two"]

    assert main(["runs", "list", "--status", "suspended", "--json", *here]) == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert (only["id"], only["key"], only["ended_at"]) == (waiting, "two", None)

    assert main(["runs", "get", waiting, *here]) == 0
    told = capsys.readouterr().out
    assert "signal" in told
    assert "more" in told
    assert main(["runs", "get", failed, "--json", *here]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["input"] == "no luck\ntoday"
    assert "no luck" in whole["error"]["message"]

    assert main(["runs", "events", waiting, "--json", *here]) == 0
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["accepted", "claimed", "wait_opened", "suspended"]
    assert main(["runs", "events", waiting, *here]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[3:5] == ["wait_opened", "0/signal:more#1"]


@pytest.mark.req("C1")
def test_a_signal_sends_a_run_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "a.db")
    waiting, failed = asyncio.run(one_of_each(database))

    assert main(["runs", "signal", waiting, "more", "--payload", "40", "--database", database]) == 0
    with SyncClient(engine=Engine(database, workflows=[adding])) as client:
        assert client.handle(waiting).result(15) == 42

    assert main(["runs", "signal", failed, "more", "--database", database]) == 4
    assert main(["runs", "signal", waiting, "more", "--payload", "{", "--database", database]) == 2
    assert "--payload is not JSON" in capsys.readouterr().err


@pytest.mark.req("C1")
def test_what_is_wrong_or_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    assert main(["runs", "list", *here]) == 2  # and none is made
    asyncio.run(one_of_each(here[1]))

    assert main(["runs", "list", "--workflow", "other", *here]) == 0
    assert "no matching runs" in capsys.readouterr().err
    assert main(["runs", "list", "--status", "faild", *here]) == 2
    assert "failed" in capsys.readouterr().err
    assert main(["runs", "get", "nobody", *here]) == 3
    assert main(["runs", "events", "nobody", *here]) == 3


@pytest.mark.req("C1")
def test_what_is_kept_in_another_form_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "a.db")

    async def failed() -> str:
        async with Engine(database, workflows=[failing], codec=Compression()) as engine:
            run = await engine.start(failing, "x" * 1000)
            with pytest.raises(RunFailed):
                await run.result(15)
            return run.id

    run_id = asyncio.run(failed())

    for asked in (["list"], ["get", run_id], ["events", run_id]):
        assert main(["runs", *asked, "--database", database]) == 2
        assert "codec=" in capsys.readouterr().err


@pytest.mark.req("C1")
@pytest.mark.slow
def test_whoever_reads_only_the_beginning_is_no_error(tmp_path: Path) -> None:
    database = str(tmp_path / "a.db")
    _, failed = asyncio.run(one_of_each(database))
    command = f"{sys.executable} -m stepwell runs events {failed} --database {database} | true"

    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env=buffered)

    assert done.stderr == ""
