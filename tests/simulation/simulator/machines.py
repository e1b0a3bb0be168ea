"""Machines for the simulator, and sagas in both styles.

A failing transition has already changed the state, saved documents and done inner steps. `trail` is
written by the transitions that count; anything else in the state is a trace of a failed attempt.
"""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell.authoring.functions.step import step
from stepwell.authoring.machines.machine import Machine
from stepwell.authoring.machines.transition import transition
from stepwell.domain.program import Context, StepContext
from stepwell.domain.retry import Retry
from tests.simulation.simulator.ledger import Broken, ledger
from tests.simulation.simulator.workflows import FAR, book, distant, do, fragile, shaky, tags, work

_LIMIT = 4.0  # seconds for one attempt; a slow commit uses part of them, as on any machine
_QUICK = Retry(4, delay=0.2, backoff="fixed")


@step
async def filed(context: StepContext, tag: str) -> str:
    """Saves a document; it counts with the transition, not with the step."""
    token = await ledger().perform(context, tag, "", 0)
    context.save("filed", tag)
    return token


class Case(Machine[dict[str, Any]]):
    """Everything that can happen to a machine, as its input says."""

    def _note(self, what: str) -> None:
        self.state["trail"] = [*self.state.get("trail", ()), what]

    @transition("start", "opened")
    async def open(self, ctx: Context) -> None:
        await ctx.step(work, "opened")
        ctx.save("note", "opened")
        self._note("open")

    @transition("opened", "review", retry=_QUICK)
    async def check(self, ctx: Context, plan: dict[str, Any]) -> None:
        self.state["half"] = ctx.attempt
        ctx.save("note", f"attempt {ctx.attempt}")
        ctx.save(f"scrap{ctx.attempt}", "of this attempt only")
        first = await ctx.step(filed, "filed")
        await ctx.step(shaky, "shaky", plan["fails"] % 2, first)
        if ctx.attempt <= plan["fails"]:
            raise Broken(f"attempt {ctx.attempt} of check")
        del self.state["half"]
        self._note("check")

    @transition("review", "decided", wait=str)
    async def approve(self, ctx: Context, by: str) -> None:
        near = await ctx.step(work, "near")
        if self.state["trail"][-1] != "check":
            raise AssertionError("this place was left before")
        far = ctx.step.on(queue=FAR)
        self.state["far"] = tags(*await ctx.all(far(distant, "far", 1, near), far(distant, "further", 0)))
        await ctx.sleep(0.7)
        await ctx.step(book, "own")
        self._note(by)

    @transition("review", "decided", wait=True)
    async def refuse(self, ctx: Context) -> None:
        self._note("refuse")

    @transition("decided", "packed", timeout=_LIMIT, retry=Retry(2, delay=0.1), on_timeout="late")
    async def pack(self, ctx: Context, plan: dict[str, Any]) -> None:
        self.state["half"] = "packed"
        ctx.save("note", "packing")
        await ctx.sleep(4.5)  # a durable wait does not count
        if ctx.attempt <= plan["hangs"]:
            await asyncio.sleep(1000)
        del self.state["half"]
        self._note("pack")

    @transition("late", "packed")
    async def excuse(self, ctx: Context) -> None:
        self._note(f"excuse {self.error.code}" if self.error else "excuse")

    @transition("packed", "end", on_error="by_hand")
    async def send(self, ctx: Context, plan: dict[str, Any]) -> None:
        self.state["half"] = "sent"
        await ctx.step(filed, "sending")
        if plan["breaks"]:
            await ctx.step(fragile, "broken", 1000)
        del self.state["half"]
        self._note("send")

    @transition("by_hand", "end")
    async def help(self, ctx: Context) -> None:
        ctx.save("note", "helped")
        self._note("help")


def case_trail(plan: dict[str, Any]) -> list[str]:
    packed = "pack" if plan["hangs"] < 2 else "excuse TRANSITION_TIMED_OUT"
    return ["open", "check", "ana", packed, "help" if plan["breaks"] else "send"]


def case_state(plan: dict[str, Any]) -> dict[str, Any]:
    return {"trail": case_trail(plan), "far": ["far", "further"]}


class Held(Machine[list[str]]):
    """Fails permanently at its second transition, until a person retries it."""

    @transition("start", "half")
    async def begin(self, ctx: Context) -> None:
        await ctx.step(work, "begun")
        self.state.append("begin")

    @transition("half", "end")
    async def go(self, ctx: Context, plan: dict[str, Any]) -> None:
        self.state.append("half")
        ctx.save("scrap", ctx.attempt)
        await ctx.step(filed, "kept")
        await ctx.step(fragile, "mended", plan["fails"])
        self.state[-1] = "go"


class SagaMachine(Machine[list[str]]):
    """All steps of its transitions are undone, whether it fails or is cancelled."""

    @transition("start", "one")
    async def first(self, ctx: Context, plan: dict[str, Any]) -> None:
        for number in range(plan["n"]):
            await ctx.step(do, f"d{number}", plan["fails"] if number == 0 else 0)

    @transition("one", "two", retry=Retry(2, delay=0.2))
    async def second(self, ctx: Context) -> None:
        await ctx.all(ctx.step(do, "left", 0), ctx.step(do, "right", 1))
        if ctx.attempt == 1:
            raise Broken("after its steps")

    @transition("two", "end")
    async def third(self, ctx: Context, plan: dict[str, Any]) -> None:
        await ctx.step(do, "last", 0)
        if plan["waits"]:
            await ctx.sleep(plan["seconds"])
            await ctx.signal("never")
        await ctx.step(fragile, "broken", 1000)


MACHINES = (Case, Held, SagaMachine)
