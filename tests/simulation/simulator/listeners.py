"""Listeners: workflows that loop over broadcast events; each must take every event once, in order.

Each run has its own event name, so a wait for any key takes only events of this run.
"""

from __future__ import annotations

from typing import Any

from stepwell.authoring.functions.workflow import workflow
from stepwell.authoring.machines.machine import Machine
from stepwell.authoring.machines.transition import transition
from stepwell.domain.program import Context
from stepwell.errors import WaitTimedOut
from tests.simulation.simulator.workflows import work


@workflow
async def follower(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    """A plain loop, in one or several generations; `first`: it does something else before it waits."""
    got: list[Any] = plan["got"]
    if not got and plan["first"]:
        await ctx.step(work, "first")
    for number in range(plan["n"]):
        got = [*got, await ctx.event(plan["name"], key="a")]
        if number % 2:
            await ctx.step(work, f"f{len(got)}")
    if len(got) < plan["n"] * plan["generations"]:
        ctx.continue_as_new({**plan, "got": got})
    return got


@workflow
async def crowd(ctx: Context, plan: dict[str, Any]) -> list[list[Any]]:
    """Several concurrent tasks wait for the same key, or for one key and for any key."""

    async def take(key: str) -> list[Any]:
        got = []
        for number in range(plan["n"]):
            got.append(await ctx.event(plan["name"], key=key))
            if number % 2:
                await ctx.step(work, f"w{len(got)}")
        return got

    return await ctx.all(*(take(key) for key in plan["keys"]))


@workflow
async def doubter(ctx: Context, plan: dict[str, Any]) -> list[Any]:
    """Times out repeatedly and loses no event by that."""
    got: list[Any] = []
    while len(got) < plan["n"]:
        try:
            got.append(await ctx.event(plan["name"], key="a", timeout=plan["timeout"]))
        except WaitTimedOut:
            await ctx.sleep(0.02)
    return got


class TrackedTask(Machine[dict[str, Any]]):
    """Takes one event in each round."""

    ends = frozenset({"done"})

    @transition("start", "listening")
    async def open(self, ctx: Context, plan: dict[str, Any]) -> None:
        self.state.update(name=plan["name"], n=plan["n"], got=[])

    @transition("listening", "done", when=lambda state: len(state["got"]) >= state["n"])
    async def close(self, ctx: Context) -> None:
        pass

    @transition("listening", "listening")
    async def listen(self, ctx: Context) -> None:
        self.state["got"].append(await ctx.event(self.state["name"], key="a"))
        await ctx.step(work, "heard")


LISTENERS = (follower, crowd, doubter, TrackedTask)
