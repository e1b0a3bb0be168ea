"""Connected: a client over HTTP and the engine behind its server, for tests that compare the two."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, NamedTuple

from stepwell import Context, Engine, HttpClient, Machine, connect, step, transition, workflow
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines
from tests.server.served import FLOWS, TOKEN, served


@step
async def undone(receipt: str) -> None:
    pass


@step(compensate=undone)
async def charge(amount: int) -> str:
    return f"receipt-{amount}"


@workflow(on_failure="hold")
async def order(ctx: Context, amount: int) -> str:
    receipt = await ctx.step(charge, amount)
    ctx.save("receipt", receipt)
    if await ctx.approval(bool, title="Ship it?"):
        return receipt
    raise ValueError("not shipped")


@workflow
async def hearing(ctx: Context, key: str) -> int:
    return await ctx.event("paid", int, key=key)


class Review(Machine[dict[str, int]]):
    ends: ClassVar = {"done"}

    @transition("start", "asked")
    async def ask(self, ctx: Context, size: int) -> None:
        self.state["size"] = size

    @transition("asked", "done", wait=str)
    async def accept(self, ctx: Context, note: str) -> None:
        self.state["note"] = len(note)


class Connected(NamedTuple):
    client: HttpClient
    engine: Engine


# Waits for `go` between two uses of a variable.
PAYING = chart(
    [
        START,
        a("A", "set", values={"amount": 1}),
        a("W", "wait", mode="event", event="go"),
        a("Z", "end", output={"amount": "{{ctx.amount}}"}),
    ],
    "S>A A>W W>Z",
)


@asynccontextmanager
async def connected(engines: Engines, *more: Any, key: str = TOKEN) -> AsyncIterator[Connected]:
    """A server of an engine with workflows of several kinds, and a client that has opened it."""
    engine = engines.new(*FLOWS, order, hearing, Review, PAYING, *more)
    async with served(engine) as server, connect(server.url, key=key) as client:
        yield Connected(client, engine)
