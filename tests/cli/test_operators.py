"""Every operator's command is recorded with who ran it and why."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, Permanent, step, workflow
from stepwell.cli import main
from tests.engines import suspended


@step
async def broken() -> int:
    raise Permanent("no luck")


@workflow
async def sleeping(ctx: Context) -> None:
    await ctx.sleep("1h")


@workflow
async def dozing(ctx: Context) -> None:
    await ctx.sleep("1h")


@workflow
async def approving(ctx: Context) -> str:
    return await ctx.approval(str, assignees=["eve"])


@workflow
async def failing(ctx: Context) -> int:
    return await ctx.step(broken)


FLOWS: Any = [sleeping, dozing, approving, failing]
# Arguments of `stepwell`, where the name of a workflow stands for its run; the kind of event that they leave.
COMMANDS = [
    (["runs", "hold", "sleeping"], "held"),
    (["runs", "release", "sleeping"], "released"),
    (["runs", "delay", "dozing", "0"], "delay_changed"),
    (["approvals", "remind", "approving"], "wait_reminded"),
    (["approvals", "reassign", "approving", "dan"], "wait_reassigned"),
    (["runs", "skip", "failing", "--output", "7"], "retried"),
    (["runs", "cancel", "approving"], "cancel_requested"),
    (["runs", "force", "sleeping", "--yes"], "cancelled"),
]


async def prepared(database: str) -> dict[str, str]:
    async with Engine(database, workflows=FLOWS) as engine:
        runs = {flow.definition.name: await engine.start(flow) for flow in FLOWS}
        for name in ("sleeping", "dozing", "approving"):
            await suspended(runs[name])
        with pytest.raises(Exception, match="no luck"):
            await runs["failing"].result()
        return {name: run.id for name, run in runs.items()}


async def recorded(database: str, ids: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Who and why, by the kind of event, once a worker has taken in what was asked for."""
    async with Engine(database, workflows=FLOWS) as engine:
        told = {}
        for name, id in ids.items():
            run: Any = engine.handle(id)
            if name in ("sleeping", "approving"):
                with pytest.raises(Exception, match="cancelled"):
                    await run.result(30)
            else:
                assert await run.result(30) == (7 if name == "failing" else None)
            async for event in run.events():
                if "by" in event.data:
                    told[event.kind] = (event.data["by"], event.data.get("reason", ""))
        return told


@pytest.mark.req("K39", "C1")
def test_operators_commands_say_who_ran_them_and_why(tmp_path: Path) -> None:
    database = str(tmp_path / "app.db")
    ids = asyncio.run(prepared(database))

    for words, kind in COMMANDS:
        command = [ids.get(word, word) for word in words]
        said = ["--by", "ann", "--reason", f"for {kind}", "--database", database]
        assert main([*command, *said]) == 0, command

    told = asyncio.run(recorded(database, ids))
    assert {kind: told.get(kind) for _, kind in COMMANDS} == {
        kind: ("ann", f"for {kind}") for _, kind in COMMANDS
    }


@pytest.mark.req("K39", "C1")
def test_commands_for_more_than_a_run_say_who_ran_them_and_why(tmp_path: Path) -> None:
    database = str(tmp_path / "app.db")
    said = ["--by", "ann", "--reason", "audit", "--database", database]

    async def created() -> None:
        async with Engine(database, workflows=FLOWS):
            pass

    asyncio.run(created())
    assert main(["holds", "set", "workflow", "failing", *said]) == 0
    assert main(["holds", "set", "queue", "default", *said]) == 0
    assert main(["workflows", "disable", "failing", *said]) == 0

    async def stored() -> list[tuple[str, str]]:
        async with Engine(database, worker=False) as engine:
            holds = [(hold.by, hold.reason) for hold in await engine.holds()]
            switches = [(info.switched_by, info.reason) for info in await engine.workflows()]
            return [*holds, *[switch for switch in switches if switch[0]]]

    assert asyncio.run(stored()) == [("ann", "audit")] * 3
