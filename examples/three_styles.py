"""A graph, a machine and a function call one another; failures and cancels travel both ways.

The graph `order` calls the function `charge` and the machine `Shipping`; the function `shop` runs the
graph. An order that cannot be charged takes the graph's error edge. Cancelling the shop cancels the
order and the shipping that waits for a person.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from stepwell import Context, Engine, GraphBuilder, Machine, Status, graph, transition, workflow
from stepwell.errors import RunCancelled


@workflow
async def charge(ctx: Context, cents: int) -> str:
    if cents > 100_00:
        raise ValueError("the card limit is 100.00")
    return f"charged {cents}"


@dataclass
class Parcel:
    order: str = ""
    sent: bool = False


class Shipping(Machine[Parcel]):
    ends = frozenset({"sent"})

    @transition("start", "packed")
    async def pack(self, ctx: Context, order: str) -> None:
        self.state.order = order

    @transition("packed", "sent", wait=True)
    async def send(self, ctx: Context) -> None:
        self.state.sent = True


g = GraphBuilder("order")
paid = g.node("workflow", "charge", workflow="charge", input="{{ctx.input.cents}}", outputVariable="paid")
shipped = g.node("workflow", "ship", workflow="Shipping", input="{{ctx.input.id}}", outputVariable="parcel")
g.start() >> paid >> shipped >> g.end("done", output={"text": "{{ctx.paid}}, sent {{ctx.parcel.order}}"})
paid.on("error") >> g.end("declined", output={"text": "declined: {{ctx.error.message}}"})
order = graph(g)


@workflow
async def shop(ctx: Context, wanted: dict[str, Any]) -> str:
    result = await ctx.run(order, wanted)
    return str(result["text"])


async def shipping_of(engine: Engine) -> str:
    """Return the run id of the newest parcel that waits to be sent."""
    while True:
        for row in await engine.runs(workflow="Shipping", status=Status.SUSPENDED):
            return row.id
        await asyncio.sleep(0.01)


async def main() -> None:
    async with Engine(":memory:", workflows=[shop, order, charge, Shipping]) as engine:
        run = await engine.start(shop, {"id": "tea", "cents": 5_00})
        await engine.handle(await shipping_of(engine)).trigger("send")
        print(await run.result())

        run = await engine.start(shop, {"id": "sofa", "cents": 900_00})
        print(await run.result())

        run = await engine.start(shop, {"id": "lamp", "cents": 7_00})
        parcel = engine.handle(await shipping_of(engine))
        await run.cancel()
        try:
            await parcel.result()
        except RunCancelled:
            pass
        print("the shop is", await run.status(), "and the parcel is", await parcel.status())


if __name__ == "__main__":
    asyncio.run(main())
