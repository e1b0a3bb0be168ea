"""Workflows for the tests of the runs list and the run page. Files in their folder let them go on."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwell import Context, GraphBuilder, Machine, Retry, StepContext, step, transition, workflow

LANES, LENGTH = 27, 11


def note(line: str) -> None:
    """Add a line to the ledger: what was really done, and by which process."""
    with Path("ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{os.getpid()} {line}\n")


def there(name: str) -> bool:
    return Path(name).exists()


async def gate(name: str) -> None:
    while not there(name):  # noqa: ASYNC110  # another process makes the file
        await asyncio.sleep(0.02)


@dataclass
class Order:
    number: str
    cents: int


@step
async def load(number: str) -> str:
    note(f"load {number}")
    return number


@step
async def charge(number: str, cents: int) -> str:
    await gate(f"charge-{number}")
    note(f"charge {number}")
    return f"receipt {number} {cents}"


@workflow
async def fulfil(ctx: Context, order: Order) -> str:
    """Charges an order, once somebody lets it."""
    await ctx.step(load, order.number)
    return await ctx.step(charge, order.number, order.cents)


@step
async def add(total: int, amount: int) -> int:
    note(f"add {amount}")
    return total + amount


@workflow
async def sum_up(ctx: Context, amounts: list[int]) -> int:
    """Adds numbers, then waits for somebody to say that they are right."""
    total = 0
    for amount in amounts:
        total = await ctx.step(add, total, amount)
    await ctx.signal("right")
    return await ctx.step(add, total, 0)


@step(retry=Retry(2, delay="10ms"))
async def pay(order: str) -> str:
    print(f"POST /payments {order}")
    if not there(f"card-{order}"):
        raise RuntimeError("card declined (HTTP 402)")
    return f"receipt {order}"


@workflow
async def checkout(ctx: Context, order: str) -> str:
    await ctx.step(load, order)
    return await ctx.step(pay, order)


@workflow
async def tick(ctx: Context, beats: int) -> int:
    """Adds an event whenever somebody lets it."""
    for beat in range(beats):
        await ctx.signal("beat")
        await ctx.step(add, beat, 1)
    return beats


@step
async def count_shelf(shelf: int) -> int:
    if shelf == 1905:
        raise KeyError("sku")
    return shelf


def _wide() -> GraphBuilder:
    """A graph of 301 nodes: many lanes beside each other."""
    graph = GraphBuilder("stock_count", maxNodes=500)
    both, joined = graph.fork("shelves"), graph.merge("counted")
    graph.start() >> both
    for lane in range(LANES):
        before: Any = both
        for place in range(LENGTH):
            args = {"shelf": lane * 100 + place}
            now = graph.node("call", f"shelf_{lane + 1}_{place + 1}", step="count_shelf", args=args)
            before >> now
            before = now
        before >> joined
    joined >> graph.end("done", output={"text": "counted"})
    return graph


stock_count = _wide()


@dataclass
class ReviewState:
    by: str = ""


class Review(Machine[ReviewState], name="review"):
    ends = frozenset({"published"})

    @transition("start", "draft")
    async def open(self, ctx: Context) -> None: ...

    @transition("draft", "published", wait=str)
    async def publish(self, ctx: Context, by: str) -> None:
        self.state.by = by


@step
async def ask_model(ctx: StepContext, prompt: str) -> str:
    ctx.usage(input_tokens=500, output_tokens=92, cost=0.004)
    ctx.details(model="small")
    return prompt


shipping = GraphBuilder("shipping")
_start, _both, _joined = shipping.start(), shipping.fork("both"), shipping.merge("joined")
_ask = shipping.node("approval", "ask", message="Ship it?")
_start >> shipping.node("call", "summary", step="ask_model", args={"prompt": "tea"}) >> _both
_both >> shipping.node("call", "label", step="load", args={"number": "7"}) >> _joined
_both >> _ask
_ask.on("approved") >> _joined
_ask.on("denied") >> shipping.end("stopped")
_joined >> shipping.end("done")

faulty = GraphBuilder("faulty")
_pick = faulty.node("set", "pick", values={"sku": "{{ctx.input.sku}}"})
faulty.start() >> _pick >> faulty.end("done")
