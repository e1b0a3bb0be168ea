"""Workflows of the tests of pages: approvals of several kinds, and a run that takes its time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from stepwell import Context, GraphBuilder, Machine, SourceEvent, source, step, transition, workflow


@dataclass
class Refund:
    """Above 50 euros finance decides."""

    amount: int
    note: str = ""


@step
async def pay(amount: int) -> str:
    return f"paid {amount}"


@workflow
async def refund(ctx: Context, order: str) -> str:
    answer = await ctx.approval(Refund, name="finance", title=f"Refund order {order}?", timeout="2h")
    return await ctx.step(pay, answer.amount)


@workflow
async def ship(ctx: Context, order: str) -> str:
    said = await ctx.approval(
        bool, name="release", title=f"Ship order {order}?", assignees=["ana", "ben", "dora"]
    )
    return "shipped" if said else "kept"


@workflow
async def publish(ctx: Context, list: str) -> str:
    await ctx.approval(bool, name="both", title=f"Publish {list}?", assignees=["role:finance"], required=2)
    return "published"


@step
async def tick(number: int) -> int:
    await asyncio.sleep(0.15)
    return number


@workflow
async def ticking(ctx: Context, ticks: int) -> int:
    for number in range(ticks):
        await ctx.step(tick, number)
    return ticks


@workflow
async def broken(ctx: Context, order: str) -> None:
    raise ValueError(f"order {order} is broken")


@source(every="1s")
async def mailbox(config: dict[str, str], cursor: int | None) -> list[SourceEvent]:
    if "folder" not in config:
        raise ValueError("no folder is configured")
    return [SourceEvent("m1", 1, cursor=1)] if cursor is None else []


@dataclass
class Draft:
    by: str = ""


class Article(Machine[Draft], name="article"):
    ends = frozenset({"published"})

    @transition("start", "draft")
    async def open(self, ctx: Context) -> None: ...

    @transition("draft", "published", wait=str)
    async def publish(self, ctx: Context, by: str) -> None:
        self.state.by = by


parcel = GraphBuilder("parcel")
_check = parcel.condition("check", small="ctx.input.weight < 5")
_ask = parcel.node("approval", "ask", message="Ship it?")
parcel.start() >> parcel.node("call", "weigh", step="tick", args={"number": 1}) >> _check
_check.on("small") >> _ask
_check.on("else") >> parcel.end("too_heavy")
_ask.on("approved") >> parcel.end("shipped")
_ask.on("denied") >> parcel.end("kept")
