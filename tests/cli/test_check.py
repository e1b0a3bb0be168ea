"""`stepwell check --against`: live runs are replayed on new code before it is deployed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell.app import Engine
from stepwell.cli import main
from stepwell.cli.source import collect

OLD = """
from stepwell import Context, step, workflow

@step
async def charge(cents: int) -> int:
    return cents

@workflow
async def pay(ctx: Context, cents: int) -> int:
    paid = await ctx.step(charge, cents)
    return paid + await ctx.signal("more", int)
"""
RENAMED = OLD.replace("charge", "collect_money")
SLEEPS_FIRST = OLD.replace("    paid =", "    await ctx.sleep('1d')\n    paid =")
SLEEPS_LATER = OLD.replace("    return paid", "    await ctx.sleep('1d')\n    return paid")
CHARGES_LATER = OLD.replace("    return paid", "    await ctx.step(charge, 1)\n    return paid")
GUARDED = OLD.replace(
    "    return paid", "    if ctx.patched('x'): await ctx.step(charge, 1)\n    return paid"
)


async def _leave_a_live_run(source: Path, database: str) -> None:
    async with Engine(database, workflows=collect(str(source)).workflows) as engine:
        run = await engine.start("pay", 5)
        async for event in run.events(follow=True):
            if event.kind == "wait_opened":
                break


@pytest.mark.req("F8", "K36")
@pytest.mark.parametrize(
    ("code", "exit_code"),
    [(OLD, 0), (RENAMED, 1), (SLEEPS_FIRST, 1), (SLEEPS_LATER, 1), (CHARGES_LATER, 1), (GUARDED, 0)],
)
def test_check_tells_which_live_runs_do_not_fit(
    code: str, exit_code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "flows_before.py"
    source.write_text(OLD)
    database = str(tmp_path / "app.db")
    asyncio.run(_leave_a_live_run(source, database))
    changed = tmp_path / "flows_after.py"
    changed.write_text(code)

    assert main(["check", str(changed), "--against", database]) == exit_code

    out, err = capsys.readouterr()
    assert "live runs replayed: 1" in err
    assert ("pay@1" in out) == bool(exit_code)


def test_a_file_without_workflows_is_asked_for_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("")

    assert main(["check", str(empty), "--against", str(tmp_path / "app.db")]) == 2

    assert "@workflow" in capsys.readouterr().err


@pytest.mark.req("F8")
def test_a_database_that_does_not_exist_is_refused_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "some_flows.py"
    source.write_text(OLD)
    database = tmp_path / "typo.db"

    assert main(["check", str(source), "--against", str(database)]) == 2

    assert "there is no database" in capsys.readouterr().err
    assert not database.exists()


GRAPH = """
from stepwell import GraphBuilder, node

@node("echo")
async def echo(config, ctx, helpers):
    return "echoed"

g = GraphBuilder("echoing")
ask = g.node("approval", "ask")
g.start() >> ask
ask["approved"] >> g.node("echo", "e") >> g.end()
"""


async def _leave_a_live_graph(source: Path, database: str) -> None:
    found = collect(str(source))
    async with Engine(database, workflows=found.workflows, nodes=found.nodes) as engine:
        run = await engine.start("echoing", {})
        async for event in run.events(follow=True):
            if event.kind == "wait_opened":
                break


@pytest.mark.req("F8", "K37")
@pytest.mark.parametrize(
    ("code", "exit_code", "told"),
    [
        (GRAPH, 0, ""),
        (GRAPH.replace('"ask"', '"other"'), 0, ""),  # the run goes on from the graph that it began with
        (GRAPH.replace('"echo"', '"sing"'), 1, "there is no node type 'echo'"),
    ],
    ids=["same", "edited", "without_its_node_type"],
)
def test_check_covers_graphs(
    code: str, exit_code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "graphs_before.py"
    source.write_text(GRAPH)
    database = str(tmp_path / "app.db")
    asyncio.run(_leave_a_live_graph(source, database))
    changed = tmp_path / "graphs_after.py"
    changed.write_text(code)

    assert main(["check", str(changed), "--against", database]) == exit_code

    out, err = capsys.readouterr()
    assert f"live runs replayed: {1 - exit_code}" in err
    assert told in out


@pytest.mark.req("F8", "K37")
def test_check_names_runs_whose_workflow_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "flows_there.py"
    source.write_text(OLD)
    database = str(tmp_path / "app.db")
    asyncio.run(_leave_a_live_run(source, database))
    changed = tmp_path / "flows_gone.py"
    changed.write_text(OLD.replace("def pay", "def pay_later"))

    assert main(["check", str(changed), "--against", database]) == 1

    out, err = capsys.readouterr()
    assert "pay@1: " in out
    assert "does not have this workflow" in out
    assert "does not have: 1" in err
