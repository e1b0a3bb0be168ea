"""A refund waits for a person while no process runs; a failing bank is retried, then handled by hand.

Run it: the first process accepts the refunds and exits while they wait. The second one approves them.
It leaves the file `refund_approval.db`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from stepwell import Context, Engine, Machine, Retry, StepContext, step, transition
from stepwell.errors import AlreadyDecided, StepwellError, WrongPlace

DATABASE = "refund_approval.db"
SMALL = 50_00  # cents: refunds up to this need no approval


@dataclass
class Request:
    order: str
    cents: int


@dataclass
class Approval:
    by: str
    note: str = ""


@dataclass
class RefundState:
    order: str = ""
    cents: int = 0
    approved_by: str = ""
    transfer: str = ""
    history: list[str] = field(default_factory=list)


@step
async def transfer(ctx: StepContext, order: str, cents: int) -> str:
    """The bank deduplicates by our idempotency key, so a repeat is the same transfer."""
    print(f"    bank: {cents / 100:.2f} for {order} (key {ctx.key[-22:]})", flush=True)
    if order == "closed-account":
        raise ConnectionError("the account is closed")
    return f"transfer-{order}"


class Refund(Machine[RefundState]):
    """Pay small refunds at once, and large ones after somebody approves."""

    ends = frozenset({"paid", "denied", "by_hand"})

    @transition("start", "review")
    async def open(self, ctx: Context, request: Request) -> None:
        self.state.order, self.state.cents = request.order, request.cents

    @transition("review", "paying", when=lambda state: state.cents <= SMALL)
    async def wave_through(self, ctx: Context) -> None:
        self.state.approved_by = "nobody, it is small"

    @transition("review", "paying", wait=Approval)
    async def approve(self, ctx: Context, approval: Approval) -> None:
        self.state.approved_by = approval.by
        self.state.history.append(f"{approval.by}: {approval.note or 'approved'}")

    @transition("review", "denied", wait=Approval)
    async def deny(self, ctx: Context, approval: Approval) -> None:
        self.state.history.append(f"{approval.by}: {approval.note or 'denied'}")

    @transition("paying", "paid", retry=Retry(3, delay="50ms", then="trouble"), timeout="1m")
    async def pay(self, ctx: Context) -> None:
        self.state.history.append("paid")  # dropped if this attempt fails
        self.state.transfer = await ctx.step(transfer, self.state.order, self.state.cents)

    @transition("trouble", "by_hand")
    async def inform_accounting(self, ctx: Context) -> None:
        assert self.error is not None
        self.state.history.append(f"accounting: {self.error.message}")


async def accept() -> None:
    async with Engine(DATABASE, workflows=[Refund]) as engine:
        small = await engine.start(Refund, Request("book", 12_00), key="book")
        print(f"book: {(await small.result()).history} -> {(await small.state()).checkpoint.place}")  # type: ignore[union-attr]  # the run ended
        for order in ("sofa", "closed-account"):
            run = await engine.start(Refund, Request(order, 900_00), key=order)
            await run.waiting_for("approve")
            print(f"{order}: {(await run.why()).text}")


async def decide() -> None:
    async with Engine(DATABASE, workflows=[Refund]) as engine:
        for order in ("sofa", "closed-account"):
            run = engine.handle((await engine.find(order)).id, Refund)  # type: ignore[union-attr]  # the first process started it
            await run.trigger("approve", {"by": "ana"}, by="ana")
            try:
                await run.trigger("deny", {"by": "bo"}, by="bo")
            except (AlreadyDecided, WrongPlace) as late:
                print(f"    bo is late: {late.message}")
            except StepwellError as ended:
                print(f"    bo is very late: {ended.message}")
            result = await run.result()
            print(f"{order}: {result.history} -> {(await run.state()).checkpoint.place}")  # type: ignore[union-attr]  # the run ended


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run({"accept": accept, "decide": decide}[sys.argv[1]]())
        return
    Path(DATABASE).unlink(missing_ok=True)
    print(Refund.drawing())
    for act in ("accept", "decide"):
        print(f"-- {act}")
        subprocess.run([sys.executable, __file__, act], check=True)


if __name__ == "__main__":
    main()
