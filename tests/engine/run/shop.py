"""Shop: steps that do and undo, and note both; and a workflow of them that fails while it is broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepwell import (
    Context,
    RunHandle,
    StepContext,
    step,
    workflow,
)
from stepwell.domain.program import Program
from tests.engines import log


@dataclass
class Order:
    id: str
    amount: int


@dataclass
class Receipt:
    number: str


class Shop:
    """Steps that do and undo, and note both."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: list[str] = []
        self.broken = True

        async def refund(me: StepContext, receipt: Receipt, order: Order) -> None:
            self.done.append(f"refund {receipt.number} {order.amount}")
            self.keys.append(me.key)

        @step(compensate=refund)
        async def charge(order: Order) -> Receipt:
            self.done.append(f"charge {order.id}")
            return Receipt(f"r-{order.id}")

        def release(name: str) -> None:
            self.done.append(f"release {name}")

        @step(compensate=release)
        def reserve(item: str, count: int = 1) -> str:
            self.done.append(f"reserve {item} {count}")
            return item.upper()

        @step
        async def ship() -> str:
            self.done.append("ship")
            if self.broken:
                raise ValueError("no van")
            return "shipped"

        self.refund, self.release = refund, release  # as a module would keep them
        self.charge, self.reserve, self.ship = charge, reserve, ship

    def workflow(self, **options: Any) -> Program:
        shop = self

        @workflow(**options)
        async def order(ctx: Context, order: Order) -> str:
            await ctx.step(shop.charge, order)
            await ctx.step(shop.reserve, item="book", count=2)
            return await ctx.step(shop.ship)

        return order


ORDER = Order("7", 30)


UNDONE = ["release BOOK", "refund r-7 30"]


async def start(engine: Any, program: Program, input: Any = ORDER) -> RunHandle[Any]:
    run: RunHandle[Any] = await engine.start(program, input)
    return run


async def tail(run: RunHandle[Any], kind: str = "compensation_started") -> list[str]:
    events = await log(run)
    return [e for e in events[events.index(kind) :] if not e.startswith(("claimed", "lease_lost"))]
