"""`stepwell workflows`, and who runs a command."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stepwell import Context, Engine, workflow
from stepwell.cli import main
from stepwell.cli.session import CliSession


@workflow
async def failing(ctx: Context) -> None:
    """Fails always."""
    raise ValueError("no luck")


async def one_failed(database: str) -> str:
    async with Engine(database, workflows=[failing]) as engine:
        run = await engine.start(failing)
        with pytest.raises(Exception, match="no luck"):
            await run.result()
        return run.id


@pytest.mark.req("K39", "C1")
def test_workflows_are_listed_shown_disabled_and_enabled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    asyncio.run(one_failed(here[1]))

    assert main(["workflows", "list", *here]) == 0
    heads, line = capsys.readouterr().out.splitlines()
    assert heads.split() == ["STATE", "WORKFLOW", "KIND", "TITLE", "CREATED", "BY"]
    assert line.split()[:5] == ["enabled", "failing@1", "function", "Fails", "always."]

    disable = ["workflows", "disable", "failing", "--by", "ann", "--reason", "audit"]
    assert main([*disable, *here]) == 0
    assert "failing is disabled" in capsys.readouterr().err
    assert main([*disable, *here]) == 0
    assert "already disabled" in capsys.readouterr().err
    assert main(["workflows", "show", "failing", "--json", *here]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["enabled"], shown["switched_by"], shown["reason"]) == (False, "ann", "audit")
    assert main(["workflows", "show", "failing", *here]) == 0
    assert "audit" in capsys.readouterr().out

    assert main(["workflows", "enable", "failing", *here]) == 0
    assert main(["workflows", "list", "--json", *here]) == 0
    [listed] = json.loads(capsys.readouterr().out)[-1:]
    assert (listed["enabled"], listed["switched_by"]) == (True, CliSession().user)
    assert main(["workflows", "disable", "failin", *here]) == 3
    assert main(["workflows", "show", "other", *here]) == 3


@pytest.mark.req("K38", "C1")
def test_a_command_records_who_ran_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    failed = asyncio.run(one_failed(here[1]))

    assert main(["runs", "retry", failed, "--reason", "again", *here]) == 0
    assert main(["runs", "rerun", failed, "--by", "ann", *here]) == 0
    again = capsys.readouterr().out.strip()
    assert main(["runs", "events", failed, "--json", *here]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["kind"], last["data"]["by"], last["data"]["reason"]) == (
        "retried",
        CliSession().user,
        "again",
    )
    assert main(["runs", "get", again, "--json", *here]) == 0
    run = json.loads(capsys.readouterr().out)
    assert (run["number"], run["trigger"], run["started_by"], run["steps"]) == (2, "rerun", "ann", 0)
    assert main(["runs", "get", again, "--workspace", "acme", *here]) == 3
    assert main(["runs", "cancel", failed, "--by", "bob", "--workspace", "acme", *here]) == 3


@pytest.mark.req("C1", "G18")
def test_a_graph_without_a_name_is_saved_under_that_of_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    asyncio.run(one_failed(here[1]))
    nodes = [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}]
    graph = {"nodes": nodes, "edges": [{"source": "start", "target": "end"}]}
    (tmp_path / "payout.json").write_text(json.dumps(graph))
    (tmp_path / "bonus.json").write_text(json.dumps({"name": "extra", **graph}))

    for file, name in (("payout", "payout"), ("bonus", "extra"), ("payout", "payout")):
        assert main(["workflows", "save", str(tmp_path / f"{file}.json"), *here]) == 0
        assert f"saved a draft of {name};" in capsys.readouterr().err
