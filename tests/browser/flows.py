"""Workflows that the browser tests start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stepwell import Context, GraphBuilder, Machine, Retry, step, transition, workflow

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@dataclass
class Refund:
    amount: int
    note: str = ""


@step
async def pay(amount: int) -> str:
    return f"paid {amount}"


@workflow
async def refund(ctx: Context, order: str) -> str:
    answer = await ctx.approval(Refund, name="finance", title=f"Refund order {order}?")
    return await ctx.step(pay, answer.amount)


@step(retry=Retry(2, delay="10ms"))
def charge(order: str) -> str:
    if not Path("card-works").exists():
        raise RuntimeError(f"card declined {HOSTILE}")
    return f"receipt {order}"


@workflow
async def checkout(ctx: Context, order: str) -> str:
    await ctx.step(pay, 1)
    ctx.save("note", HOSTILE)
    return await ctx.step(charge, order)


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


order = GraphBuilder("order")
_start, _both, _joined = order.start(), order.fork("both"), order.merge("joined")
_ask = order.node("approval", "ask", title="Ship it?")
_start >> order.node("call", "invoice", step="pay", args={"amount": 7}) >> _both
_both >> order.node("call", "label", step="pay", args={"amount": 1}) >> _joined
_both >> _ask
_ask.on("approved") >> _joined
_ask.on("denied") >> order.end("stopped")
_joined >> order.end("done")
