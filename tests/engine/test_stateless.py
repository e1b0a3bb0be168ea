"""Stateless: the same program, no store, one pass in memory."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Machine, Retry, run_stateless, step, transition, workflow
from stepwell.errors import (
    InvalidDefinition,
    InvalidInput,
    InvalidRequest,
    RunFailed,
    StatelessWait,
    UnknownWorkflow,
)
from tests.authoring.machines.approvals import Review


@step(retry=Retry(3, delay=0.01))
async def flaky(seen: list[int]) -> int:
    seen.append(1)
    if len(seen) < 3:
        raise OSError("not yet")
    return len(seen)


@workflow
async def double(ctx: Context, n: int) -> int:
    await ctx.sleep(0.01)
    return n * 2


@workflow
async def outer(ctx: Context, n: int) -> list[Any]:
    tries: list[int] = []
    both = await asyncio.gather(ctx.run(double, n), ctx.run(double, n + 1))
    return [*both, await ctx.step(flaky, tries), await ctx.map(len, ["a", "bb"])]


@pytest.mark.req("K23")
async def test_a_function_runs_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    result = await run_stateless(outer, 1, workflows=[double])

    assert result == [2, 4, 3, [1, 2]]
    assert os.listdir(tmp_path) == []


@pytest.mark.req("K23")
async def test_a_plain_function_runs_too() -> None:
    @workflow
    def plain(ctx: Any, n: int) -> int:
        return int(ctx.step(abs, n))

    assert await run_stateless(plain, -3) == 3


@pytest.mark.req("K23", "M2")
async def test_a_machine_runs_all_its_transitions_in_one_pass() -> None:
    signals = [("submit", None), ("approve", {"by": "ana"}), ("publish", None)]

    result = await run_stateless(Review, None, signals=signals)

    assert result == {"reworks": 0, "approved_by": "ana"}


@pytest.mark.req("K23")
async def test_a_wait_that_nobody_can_end_is_told() -> None:
    with pytest.raises(StatelessWait, match="at draft: waiting for submit") as caught:
        await run_stateless(Review, None)

    assert "signals=" in caught.value.hint


@pytest.mark.req("K23")
async def test_a_parent_that_waits_for_a_waiting_child_is_told() -> None:
    @workflow
    async def child(ctx: Context) -> None:
        await ctx.signal("never")

    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.run(child, None)

    with pytest.raises(StatelessWait):
        await run_stateless(parent, None, workflows=[child])
    with pytest.raises(UnknownWorkflow, match="'child'"):
        await run_stateless(parent, None)


@pytest.mark.req("K23", "M5")
async def test_failures_retries_and_timeouts_are_the_same() -> None:
    attempts: list[int] = []

    class Flaky(Machine[dict[str, int]]):
        ends = frozenset({"good", "bad"})

        @transition("start", "middle", retry=Retry(3, delay=0.01))
        async def call(self, ctx: Context) -> None:
            attempts.append(1)
            self.state["n"] = len(attempts)
            if len(attempts) < 3:
                raise ValueError("again")

        @transition("middle", "good", timeout=0.05, on_timeout="bad")
        async def hang(self, ctx: Context) -> None:
            self.state["n"] = 99
            await asyncio.sleep(60)

    assert await run_stateless(Flaky) == {"n": 3}

    @workflow
    async def broken(ctx: Context) -> None:
        raise ValueError("boom")

    with pytest.raises(RunFailed, match="boom"):
        await run_stateless(broken)


@pytest.mark.req("K23")
async def test_what_needs_a_database_or_a_queue_is_refused() -> None:
    @step(transactional=True)
    async def book(tx: Any) -> None: ...

    @workflow
    async def books(ctx: Context) -> None:
        await ctx.step(book)

    @workflow
    async def far(ctx: Context) -> None:
        await ctx.step.on(queue="gpu")(flaky, [])

    with pytest.raises(RunFailed, match="needs a database"):
        await run_stateless(books)
    with pytest.raises(InvalidRequest, match="queue 'gpu'"):
        await run_stateless(far)


@pytest.mark.req("K23", "M4")
@pytest.mark.parametrize(
    ("signals", "told"),
    [
        ({"submit": None, "approve": {"buy": 1}}, "'approve' was given, but does not fit"),
        ({"submit": None, "aprove": {"by": "ana"}}, "'aprove' was given, but nothing waits for it"),
        ({"submit": None}, "pass the message"),
    ],
)
async def test_what_was_given_in_vain_is_told(signals: dict[str, Any], told: str) -> None:
    with pytest.raises(StatelessWait) as caught:
        await run_stateless(Review, None, signals=signals)

    assert told in caught.value.hint


@pytest.mark.parametrize("signals", [5, "approve", ["approve"], [("approve", 1, 2)], {5: 1}, None])
async def test_signals_that_are_none_are_told(signals: Any) -> None:
    with pytest.raises(InvalidInput, match=r"run_stateless\(signals=...\): .* is not a signal"):
        await run_stateless(Review, "text", signals=signals)


@pytest.mark.parametrize("workflows", [5, [5]])
async def test_workflows_that_are_none_are_told(workflows: Any) -> None:
    with pytest.raises(InvalidDefinition, match="5 is not a workflow"):
        await run_stateless(Review, "text", workflows=workflows)
