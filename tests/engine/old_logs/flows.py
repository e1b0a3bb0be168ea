"""Workflows in all three styles whose runs at c757b29 are kept beside this module.

Their code must not change: the kept logs are replayed against it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from stepwell import Context, Machine, Retry, StepContext, node, step, transition, workflow


class Switch:
    """Makes the steps of a failing run fail; off when a kept run is continued."""

    broken = False


@dataclass
class Order:
    id: str
    items: list[str]


@dataclass
class Approval:
    by: str


async def refund(receipt: str, order: Order) -> None: ...


@step(compensate=refund)
async def charge(ctx: StepContext, order: Order) -> str:
    ctx.save("receipt", {"order": order.id, "attempt": ctx.attempt})
    return f"receipt-{order.id}"


@step
async def label(item: str) -> str:
    return f"label:{item}"


@step(retry=Retry(2, delay="10ms"))
async def ship(order: Order) -> str:
    if Switch.broken:
        raise ValueError("no van")
    return f"shipped {order.id}"


@workflow
async def gift(ctx: Context, name: str) -> str:
    await ctx.sleep("1ms")
    return await ctx.step(label, name)


@workflow
async def order_flow(ctx: Context, order: Order) -> str:
    receipt = await ctx.step(charge, order)
    ctx.progress(1, 3)
    stamp = f"{ctx.now()} {ctx.random()} {ctx.uuid()}"
    labels = await ctx.map(label, order.items, limit=2)
    both = await asyncio.gather(ctx.step(label, "left"), ctx.run(gift, "right"))
    winner = await ctx.first(ctx.sleep("5ms"), ctx.signal("never"))
    extra = await ctx.step(label, "extra") if ctx.patched("extra") else "none"
    approval = await ctx.signal("approve", Approval, timeout="3d")
    verdict = await ctx.approval(dict[str, Any], title="Ship it?", assignees=["ana"])
    paid = await ctx.event("paid", key=order.id)
    shipped = await ctx.step(ship, order)
    assert stamp
    return f"{receipt} {labels} {both} {winner} {extra} {approval.by} {verdict} {paid} {shipped}"


@workflow
async def counting(ctx: Context, n: int) -> int:
    await ctx.step(label, str(n))
    if n < 3:
        ctx.continue_as_new(n + 1)
    await ctx.signal("finish")
    return n


@workflow(on_failure="hold")
async def failing(ctx: Context, order: Order) -> str:
    receipt = await ctx.step(charge, order)
    try:
        return receipt + await ctx.step(ship, order)
    finally:
        await ctx.step(label, "cleanup")


@dataclass
class RefundState:
    amount: int = 0
    log: list[str] = field(default_factory=list)


class Refund(Machine[RefundState]):
    ends = frozenset({"paid", "refused"})

    @transition("start", "review")
    async def open(self, ctx: Context, amount: int) -> None:
        self.state.amount = amount
        self.state.log.append(await ctx.step(label, "opened"))
        ctx.save("amount", amount)

    @transition("review", "checked", wait=Approval)
    async def approve(self, ctx: Context, approval: Approval) -> None:
        both = await ctx.all(ctx.step(label, "a"), ctx.step(label, "b"))
        self.state.log += [approval.by, *both]

    @transition("review", "refused", wait=True)
    async def refuse(self, ctx: Context) -> None: ...

    @transition("checked", "paid", retry=Retry(2, delay="10ms"))
    async def pay(self, ctx: Context) -> None:
        said = await ctx.signal("go")
        self.state.log.append(f"{said} {await ctx.step(ship, Order(str(self.state.amount), []))}")


@node("old:stock")
async def stock(config: Any, ctx: Any, helpers: Any) -> Any:
    if Switch.broken:
        raise ValueError("no stock")
    return {"sku": config["sku"], "left": 3}


GRAPH: dict[str, Any] = {
    "name": "order_graph",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "fork", "type": "fork"},
        {
            "id": "look",
            "type": "old:stock",
            "data": {"sku": "{{ctx.input.sku}}", "outputVariable": "stock"},
        },
        {
            "id": "price",
            "type": "call",
            "data": {"step": "label", "args": {"item": "{{ctx.input.sku}}"}, "outputVariable": "price"},
        },
        {"id": "both", "type": "merge"},
        {
            "id": "check",
            "type": "condition",
            "data": {"branches": [{"id": "enough", "when": "ctx.stock.left >= ctx.input.count"}]},
        },
        {
            "id": "each",
            "type": "loop",
            "data": {"items": "ctx.input.words", "collect": "ctx.word", "outputVariable": "words"},
        },
        {
            "id": "word",
            "type": "call",
            "parentId": "each",
            "data": {"step": "label", "args": {"item": "{{loop.item}}"}, "outputVariable": "word"},
        },
        {"id": "pause", "type": "delay", "data": {"duration": "5ms"}},
        {"id": "ask", "type": "approval", "data": {"title": "Order it?", "outputVariable": "verdict"}},
        {
            "id": "paid",
            "type": "wait",
            "data": {"mode": "event", "event": "paid", "outputVariable": "payment"},
        },
        {
            "id": "hello",
            "type": "workflow",
            "data": {"workflow": "gift", "input": "{{ctx.input.sku}}", "outputVariable": "hello"},
        },
        {
            "id": "done",
            "type": "end",
            "data": {"output": {"text": "{{ctx.hello}} {{ctx.price}} {{ctx.words.results}}"}},
        },
        {"id": "none", "type": "end", "data": {"output": {"text": "sold out"}}},
    ],
    "edges": [
        {"id": f"e{number}", "source": source, "sourceHandle": handle, "target": target}
        for number, (source, handle, target) in enumerate(
            [
                ("start", "out", "fork"),
                ("fork", "out", "look"),
                ("fork", "out", "price"),
                ("look", "out", "both"),
                ("price", "out", "both"),
                ("both", "out", "check"),
                ("check", "enough", "each"),
                ("check", "else", "none"),
                ("each", "out", "pause"),
                ("pause", "out", "ask"),
                ("ask", "approved", "paid"),
                ("ask", "denied", "none"),
                ("paid", "out", "hello"),
                ("hello", "out", "done"),
            ]
        )
    ],
}

WORKFLOWS: list[Any] = [gift, order_flow, counting, failing, Refund, GRAPH]
