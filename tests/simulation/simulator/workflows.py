"""Workflows of every shape, and the result that each must return.

A step's result is `tag@execution`. Workflows pass it to the next step as its basis and return only
tags, so the result is known beforehand while a repeated execution still shows.
"""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell.authoring.functions.step import step
from stepwell.authoring.functions.workflow import workflow
from stepwell.domain.program import Context, StepContext
from stepwell.domain.retry import Retry
from stepwell.errors import ChildFailed, StepError, WaitTimedOut
from tests.simulation.simulator.ledger import ledger

FAR = "far"  # the queue of remote steps
_QUICK = Retry(5, delay=0.2, backoff="fixed")


@step
async def work(context: StepContext, tag: str, basis: str = "") -> str:
    return await ledger().perform(context, tag, basis, 0)


@step(retry=_QUICK)
async def shaky(context: StepContext, tag: str, fails: int, basis: str = "") -> str:
    return await ledger().perform(context, tag, basis, fails)


@step(retry=Retry(2, delay=0.1))
async def fragile(context: StepContext, tag: str, fails: int) -> str:
    return await ledger().perform(context, tag, "", fails)


@step
async def item(context: StepContext, number: int) -> str:
    return await ledger().perform(context, f"item{number}", "", 0)


@step(retry=_QUICK)
async def distant(context: StepContext, tag: str, fails: int, basis: str = "") -> str:
    return await ledger().perform(context, tag, basis, fails)


@step
async def cleanup(context: StepContext, tag: str) -> str:
    return await ledger().perform(context, tag, "", 0)


@step(transactional=True, retry=_QUICK)
async def book(connection: Any, tag: str) -> str:
    return tag


def tags(*tokens: str) -> list[str]:
    return [token.split("@")[0] for token in tokens]


@workflow
async def chain(ctx: Context, plan: dict[str, Any]) -> list[str]:
    tokens: list[str] = []
    for number in range(plan["n"]):
        basis = tokens[-1] if tokens else ""
        tokens.append(await ctx.step(shaky, f"c{number}", plan["fails"] if number == 1 else 0, basis))
    return tags(*tokens)


@workflow
async def branches(ctx: Context, plan: dict[str, Any]) -> list[list[str]]:
    async def branch(number: int) -> list[str]:
        first = await ctx.step(work, f"b{number}a")
        if number % 2:
            await ctx.sleep(plan["seconds"])
        return tags(first, await ctx.step(work, f"b{number}b", first))

    return list(await asyncio.gather(*(branch(number) for number in range(plan["n"]))))


@workflow
async def mapped(ctx: Context, plan: dict[str, Any]) -> list[str]:
    return tags(*await ctx.map(item, range(plan["n"]), limit=plan["limit"]))


@workflow
async def sleeper(ctx: Context, plan: dict[str, Any]) -> list[str]:
    before = await ctx.step(work, f"s{int(ctx.random() * 1000)}")
    for seconds in plan["sleeps"]:
        await ctx.sleep(seconds)
    after = await ctx.step(work, "rested", before)
    return tags(after)


@workflow
async def signalled(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    got: list[Any] = []
    for number in range(plan["n"]):
        got.append(await ctx.signal("go"))
        if number % 2 == 0:
            await ctx.step(work, f"g{number}")
    return got


@workflow
async def impatient(ctx: Context, plan: dict[str, Any]) -> str:
    """A signal races its timeout, beside a signal of another name."""

    async def other() -> str:
        return str(await ctx.signal("other"))

    async def limited() -> str:
        try:
            return str(await ctx.signal("go", timeout=plan["timeout"]))
        except WaitTimedOut:
            return "too late"

    first, second = await ctx.all(limited(), other())
    return f"{first}+{second}"


@workflow
async def raced(ctx: Context, plan: dict[str, Any]) -> list[str]:
    winner = await ctx.first(ctx.step(work, "left"), ctx.step(work, "right"), _rest(ctx, plan["seconds"]))
    after = await ctx.step(work, "after", winner if "@" in winner else "")
    return tags(winner, after)


async def _rest(ctx: Context, seconds: float) -> str:
    await ctx.sleep(seconds)
    return "timer"


@workflow
async def informed(ctx: Context, plan: dict[str, Any]) -> Any:
    await ctx.step(work, "before")
    news = await ctx.event("news", key=plan["key"])
    await ctx.step(work, "informed")
    return news


@workflow
async def approved(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    answers: list[Any] = []
    for number in range(plan["n"]):
        answers.append(await ctx.approval(Any, name="ok"))
        await ctx.step(work, f"a{number}")
    return answers


@workflow
async def generations(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    got = [*plan["got"], await ctx.signal("go")]
    await ctx.step(work, f"gen{len(got)}")
    if len(got) < plan["n"]:
        ctx.continue_as_new({"n": plan["n"], "got": got})
    return got


@workflow
async def remote(ctx: Context, plan: dict[str, Any]) -> list[str]:
    near = await ctx.step(work, "near")
    there = ctx.step.on(queue=FAR)
    far, further = await ctx.all(there(distant, "far", plan["fails"], near), there(distant, "further", 0))
    last = await ctx.step(work, "last", far)
    return tags(near, far, further, last)


@workflow
async def booked(ctx: Context, plan: dict[str, Any]) -> list[str]:
    before = await ctx.step(work, "before")
    own = await ctx.step(book, "own")
    pair = await ctx.all(ctx.step(book, "one"), ctx.step(work, "beside", before), ctx.step(book, "two"))
    return [*tags(before), own, *tags(*pair)]


@workflow
async def parent(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    early = await ctx.start(chain, {"n": 2, "fails": 0})
    others = await ctx.all(ctx.run(mapped, {"n": 3, "limit": 2}), ctx.run(chain, {"n": 1, "fails": 0}))
    own = await ctx.step(work, "own")
    return [*others, await early.result(), *tags(own)]


@workflow
async def hopeless(ctx: Context, plan: dict[str, Any]) -> str:
    await ctx.step(fragile, "hopeless", 1000)
    return "never"


@workflow
async def forgiving(ctx: Context, plan: dict[str, Any]) -> list[str]:
    """Errors of steps and children are answers too."""
    outcomes: list[str] = []
    try:
        await ctx.step(fragile, "lost", 1000)
    except StepError as error:
        outcomes.append(error.error_type)
    try:
        await ctx.run(hopeless, {})
    except ChildFailed:
        outcomes.append("child failed")
    outcomes += tags(await ctx.step(work, "forgiven"))
    return outcomes


@workflow
async def retried(ctx: Context, plan: dict[str, Any]) -> list[str]:
    """Fails permanently, until a person retries it."""
    before, failing = await ctx.all(ctx.step(work, "kept"), ctx.step(fragile, "mended", plan["fails"]))
    return tags(before, failing)


@step(retry=_QUICK)
async def undo(context: StepContext, token: str, tag: str, fails: int) -> str:
    return await ledger().perform(context, f"un{tag}", token, fails)


@step(compensate=undo)
async def do(context: StepContext, tag: str, fails: int) -> str:
    return await ledger().perform(context, tag, "", 0)


@workflow
async def saga(ctx: Context, plan: dict[str, Any]) -> str:
    """All its steps are undone, whether it fails or is cancelled."""
    for number in range(plan["n"]):
        await ctx.step(do, f"d{number}", plan["fails"] if number == 0 else 0)
    await ctx.all(ctx.step(do, "left", 0), ctx.step(do, "right", 1))
    if plan["waits"]:
        await ctx.sleep(plan["seconds"])
        await ctx.signal("never")
    await ctx.step(fragile, "broken", 1000)
    return "never"


@workflow
async def cancelled(ctx: Context, plan: dict[str, Any]) -> str:
    try:
        await ctx.step(work, "enter")
        await ctx.sleep(plan["seconds"])
        await ctx.signal("never")
    finally:
        await ctx.step(cleanup, "tidy")
    return "never"


@workflow
async def abandoned(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    """Its children wait forever; cancelling it must end them too."""
    await ctx.step(work, "enter")
    return await ctx.all(ctx.run(cancelled, {"seconds": 900.0}), ctx.run(cancelled, {"seconds": 0.1}))


WORKFLOWS = (
    chain,
    branches,
    mapped,
    sleeper,
    signalled,
    impatient,
    raced,
    informed,
    approved,
    generations,
    remote,
    booked,
    parent,
    hopeless,
    forgiving,
    retried,
    saga,
    cancelled,
    abandoned,
)
REMOTE_STEPS = (distant,)
