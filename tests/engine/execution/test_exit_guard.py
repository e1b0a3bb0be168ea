"""sys.exit() in the code of a run fails what called it; the worker and its other runs go on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Machine, Retry, RunFailed, node, step, transition, workflow
from tests.authoring.graphs.graphs import START, a, chart
from tests.engine.execution.process_steps import leave
from tests.engines import Engines, all_events


def leave_in_thread() -> None:
    sys.exit(3)


async def leave_at_once() -> None:
    sys.exit(3)


async def leave_later() -> None:
    await asyncio.sleep(0)
    sys.exit(3)


@workflow
async def calls(ctx: Context, which: str) -> None:
    function: Any = {
        "thread": leave_in_thread,
        "at once": leave_at_once,
        "later": leave_later,
        "process": leave,
    }[which]
    await ctx.step(function)


@workflow
async def body(ctx: Context, which: str) -> None:
    await ctx.step(lambda: None)
    if which == "body":
        sys.exit(3)
    await ctx.all(ctx.step(lambda: None), leave_at_once())


@workflow
def plain_body(ctx: Any, which: str) -> None:
    sys.exit(3)


class Leaves(Machine[dict[str, str]]):
    @transition("start", "end")
    async def go(self, ctx: Context, which: str) -> None:
        if which == "branch":
            await ctx.all(ctx.step(lambda: None), leave_later())
        sys.exit(3)


class LeavesThread(Machine[dict[str, str]]):
    @transition("start", "end")
    def go(self, ctx: Any, which: str) -> None:
        sys.exit(3)


@node("leave")
async def leave_node(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> Any:
    sys.exit(3)


GRAPH = chart([START, a("A", "leave", retry={"maxAttempts": 1}), a("Z", "end")], "S>A A>Z")

KINDS: list[tuple[Any, Any]] = [
    *((calls, which) for which in ("thread", "at once", "later", "process")),
    *((body, which) for which in ("body", "branch")),
    (plain_body, "body"),
    *((Leaves, which) for which in ("body", "branch")),
    (LeavesThread, "body"),
    ("chart", {}),
]


@pytest.mark.req("K11")
@pytest.mark.parametrize(("what", "input"), KINDS)
async def test_sys_exit_is_a_failure_of_the_code_that_called_it(
    memory_engines: Engines, what: Any, input: Any
) -> None:
    flows: list[Any] = [calls, body, plain_body, Leaves, LeavesThread, GRAPH]
    async with memory_engines.new(*flows, fine, nodes=[leave_node]) as engine:
        run = await engine.start(what, input)

        with pytest.raises(RunFailed) as caught:
            await run.result(60)

        assert "sys.exit(3)" in caught.value.message
        errors = [event.data["error"]["code"] for event in await all_events(run) if event.data.get("error")]
        assert errors[0] == "EXITED"
        assert await engine.run(fine, 1) == 1


@workflow
async def fine(ctx: Context, n: int) -> int:
    return await ctx.step(lambda: n)


@pytest.mark.req("K14", "K10")
async def test_a_transactional_step_that_exits_is_tried_again(engines: Engines) -> None:
    tries = []

    def once(connection: Any) -> int:
        tries.append(1)
        if len(tries) == 1:
            sys.exit("no disk")
        return len(tries)

    @step(name="pay", transactional=True, retry=Retry(2, delay=0))
    def pay(connection: Any) -> int:
        return once(connection)

    @step(name="pay", transactional=True, retry=Retry(2, delay=0))
    async def pay_later(connection: Any) -> int:
        await asyncio.sleep(0)
        return once(connection)

    @workflow
    async def paying(ctx: Context) -> int:
        return await ctx.step(pay if engines.kind == "sqlite" else pay_later)

    async with engines.new(paying) as engine:
        run = await engine.start(paying)

        assert await run.result(60) == 2
        [failed] = [event for event in await all_events(run) if event.kind == "step_failed"]

    assert failed.data["error"]["message"] == "the code called sys.exit('no disk')"
    assert failed.data["error"]["code"] == "EXITED"
    assert "in once" in failed.data["error"]["traceback"]


@pytest.mark.slow
@pytest.mark.req("K4")
@pytest.mark.parametrize("where", ["loop", "later", "thread"])
@pytest.mark.parametrize(("end", "code"), [("exit", 7), ("raise", 1), ("return", 0)])
def test_a_child_that_a_step_forked_ends_where_its_code_ends(
    tmp_path: Path, where: str, end: str, code: int
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.engine.execution.forking_steps",
        str(tmp_path / "app.db"),
        where,
        end,
    ]

    ended = subprocess.run(
        command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=30, check=True
    )

    assert ended.stdout == f"{code}\n"
    assert ("in the child" in ended.stderr) == (end == "raise")
