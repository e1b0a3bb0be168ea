"""Contests: workflows in which things coincide: answers due at once, time limits, interrupted ends.

If the order of answers matters, the code records what it saw in a step and compares it after a
pause: by then it may have been replayed, and must have seen the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell.authoring.functions.step import step
from stepwell.authoring.functions.workflow import workflow
from stepwell.domain.program import Context, StepContext
from stepwell.domain.retry import Retry
from stepwell.errors import StepError, StepTimedOut
from tests.simulation.simulator.ledger import ledger
from tests.simulation.simulator.workflows import cancelled, chain, fragile, tags, work

_STEP_LIMIT = 0.8  # seconds; the ledger's steps take at most 0.5
RUN_LIMIT = 2.0
_GENERATIONS_MAX = 80


@step
async def note(context: StepContext, text: str) -> str:
    return await ledger().perform(context, text, "", 0)


@step(transactional=True, retry=Retry(5, delay=0.2, backoff="fixed"))
async def book_slowly(connection: Any, tag: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return tag


@step(timeout=_STEP_LIMIT, retry=Retry(3, delay=0.1))
async def hangs(context: StepContext, tag: str, times: int) -> str:
    token = await ledger().perform(context, tag, "", 0)
    if context.attempt <= times:
        await asyncio.sleep(1000)
    return token


async def _rest(ctx: Context, seconds: float, name: str) -> str:
    await ctx.sleep(seconds)
    return name


async def _same_after_a_pause(ctx: Context, seen: list[str], seconds: float) -> bool:
    text = " ".join(seen)
    [live] = tags(await ctx.step(note, text))
    await ctx.sleep(seconds)
    return live == " ".join(seen) == text


@workflow
async def together(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    """Two signals and two timers, one winner; the messages of the losers are not lost."""
    seconds = plan["seconds"]
    seen = [
        await ctx.first(
            ctx.signal("a"), _rest(ctx, seconds, "one"), ctx.signal("b"), _rest(ctx, seconds, "two")
        )
    ]
    while not {"a", "b"} <= set(seen):
        seen.append(await ctx.first(ctx.signal("b"), ctx.signal("a")))
        await ctx.first(_rest(ctx, 0.2, "one"), _rest(ctx, 0.2, "two"))
    return [await _same_after_a_pause(ctx, seen, plan["pause"]), *seen]


@workflow
async def mixed(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    """Transactional steps beside plain ones and timers, in branches."""
    seen: list[str] = []

    async def branch(number: int) -> None:
        for turn in range(2):
            kind = (number + turn) % 3
            if kind == 0:
                await ctx.step(work, f"{number}.{turn}")
            elif kind == 1:
                await ctx.step(book_slowly, f"{number}.{turn}", plan["seconds"] * number)
            else:
                await ctx.sleep(plan["seconds"])
            seen.append(f"{number}.{turn}")

    await ctx.all(*(branch(number) for number in range(plan["n"])))
    return [await _same_after_a_pause(ctx, seen, plan["pause"]), *sorted(seen)]


@workflow
async def endless(ctx: Context, plan: dict[str, Any]) -> str:
    """Continues as new again and again until it is cancelled."""
    await ctx.first(ctx.signal("go"), _rest(ctx, plan["seconds"], "timer"))
    if plan["steps"]:
        await ctx.step(work, f"gen{plan['gone']}")
    if plan["gone"] < _GENERATIONS_MAX:
        ctx.continue_as_new({**plan, "gone": plan["gone"] + 1})
    return "nobody cancelled it"


@workflow
async def limited(ctx: Context, plan: dict[str, Any]) -> list[str]:
    """Steps that hang until they time out: retried, and finally given up."""
    beside, slow = await ctx.all(ctx.step(work, "beside"), ctx.step(hangs, "slow", plan["times"]))
    outcome = tags(beside, slow)
    try:
        await ctx.step(hangs, "never", 1000)
    except StepTimedOut:
        outcome.append("timed out")
    return outcome


@workflow(timeout=RUN_LIMIT)
async def overdue(ctx: Context, plan: dict[str, Any]) -> str:
    """Runs for longer than its timeout."""
    for number in range(400):
        await ctx.step(work, f"o{number}")
        if plan["sleeps"] and number % 3 == 2:
            await ctx.sleep(0.1)
    return "nobody stopped it"


@workflow
async def errand(ctx: Context, plan: dict[str, Any]) -> list[str]:
    """Started by a run that does not wait for it."""
    before = await ctx.step(work, "out")
    await ctx.sleep(plan["seconds"])
    return tags(before, await ctx.step(work, "back", before))


@workflow
async def sender(ctx: Context, plan: dict[str, Any]) -> list[str]:
    """Its detached children outlive it, however it ends."""
    first = await ctx.step(work, "first")
    await ctx.start(errand, {"seconds": plan["seconds"]}, detached=True)
    await ctx.all(
        ctx.step(work, "second", first), ctx.start(errand, {"seconds": plan["seconds"]}, detached=True)
    )
    if plan["stays"]:
        await ctx.signal("never")
    return tags(first)


@workflow
async def leaver(ctx: Context, plan: dict[str, Any]) -> str:
    """Its child loses the race and must end too, even if messages come at the last moment."""
    child = await ctx.start(cancelled, {"seconds": 900.0})
    won = await ctx.first(_child(child), ctx.step(work, "won"))
    if plan["fails"]:
        await ctx.all(ctx.run(cancelled, {"seconds": 900.0}), ctx.step(fragile, "fails", 1000))
    return tags(won)[0]


async def _child(child: Any) -> str:
    return str(await child.result())


@workflow
async def forgetful(ctx: Context, plan: dict[str, Any]) -> list[str]:
    """A child and a step fail while others run: the others are withdrawn."""
    try:
        await ctx.all(ctx.run(cancelled, {"seconds": 900.0}), ctx.step(fragile, "lost", 1000))
    except StepError as error:
        outcome = [error.error_type]
    return [*outcome, *await ctx.run(chain, {"n": 1, "fails": 0})]


CONTESTS = (together, mixed, endless, limited, overdue, errand, sender, leaver, forgetful)
