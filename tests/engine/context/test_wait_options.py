"""Waits that cannot be kept: refused where they are asked for; before, the log could not be read again."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, RunFailed, workflow
from stepwell.testing import VirtualEngine

Ask = Callable[[Any], Awaitable[Any]]


@pytest.mark.req("K8", "F2")
@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda ctx: ctx.event("paid", key=5), "key of ctx.event is 5"),
        (lambda ctx: ctx.event("paid", key="\ud800"), "key of ctx.event"),
        (lambda ctx: ctx.approval(title=5), "title of ctx.approval is 5"),
        (lambda ctx: ctx.approval(assignees=5), "assignees of ctx.approval is 5"),
        (lambda ctx: ctx.approval(assignees="ana"), "assignees of ctx.approval is 'ana'"),
        (lambda ctx: ctx.approval(assignees=["ana", 5]), "assignee is 5"),
        (lambda ctx: ctx.approval("text"), "values of type text"),
        (lambda ctx: ctx.signal("paid", "text"), "values of type text"),
    ],
)
async def test_a_wait_that_cannot_be_kept_fails_the_run_and_not_its_log(ask: Ask, words: str) -> None:
    @workflow
    async def asks(ctx: Context) -> None:
        await ask(ctx)

    async with VirtualEngine(asks, replay_always=True) as engine:
        run = await engine.start(asks)

        with pytest.raises(RunFailed, match=re.escape(words)) as caught:
            await engine.outcome(run)

        assert caught.value.cause_code in ("INVALID_INPUT", "INVALID_DEFINITION")
        assert (await run.state()).status == "failed"


@pytest.mark.req("K8")
async def test_half_a_character_in_a_title_is_shown_as_it_is() -> None:
    @workflow
    async def asks(ctx: Context) -> Any:
        return await ctx.approval(str, title="Refund \ud800?", assignees=["ana"])

    async with VirtualEngine(asks, replay_always=True) as engine:
        run = await engine.start(asks)
        await engine.settle()
        [wait] = await run.waits()
        await run.decide("yes", by="ana")

        assert await engine.outcome(run) == "yes"
        assert wait.title == "Refund \\ud800?"
