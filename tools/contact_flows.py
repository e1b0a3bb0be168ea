"""Workflows of the contact sheet: runs in the states that the reference draws."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from stepwell import (
    Context,
    GraphBuilder,
    Machine,
    Retry,
    SourceEvent,
    source,
    step,
    transition,
    workflow,
)

LANES, LENGTH = 27, 11


class PaymentError(Exception):
    """The bank said no."""


# A graph that fails at a card


@step
async def load_order(order: str) -> dict[str, Any]:
    await asyncio.sleep(0.2)
    return {"order": order, "cents": 1999}


@step(retry=Retry(3, delay="150ms"))
async def charge_card(order: str, cents: int) -> str:
    """Charges a card."""
    print("POST pay.example/charges")
    await asyncio.sleep(0.1)
    if order.endswith("1"):
        raise PaymentError("card declined (HTTP 402)")
    return f"receipt-{order}"


@step
async def print_label(parcel: int) -> str:
    await asyncio.sleep(0.05)
    return f"label-{parcel}.pdf"


@step
async def store_label(parcel: int) -> int:
    return parcel


@step
async def book_carrier(order: str) -> str:
    """Books a pick-up."""
    return f"pick-up of {order}"


def _fulfilment() -> GraphBuilder:
    graph = GraphBuilder("order_fulfilment")
    start, both, joined = graph.start(), graph.fork("both"), graph.merge("join")
    order = {"order": "{{ctx.input.order}}"}
    load = graph.node("call", "load_order", step="load_order", args=order)
    check = graph.condition("check_stock", in_stock="size(ctx.input.parcels) < 500")
    start >> load >> check
    check.on("in_stock") >> both
    check.on("else") >> graph.end("backorder", output={"text": "sold out"})
    charge = graph.node("call", "charge_card", step="charge_card", args={**order, "cents": 1999})
    book = graph.node("call", "book_carrier", step="book_carrier", args=order)
    ticket = graph.node("call", "open_ticket", step="load_order", args=order)
    both >> charge >> book >> joined
    book.on("error") >> ticket >> joined
    with graph.inside("loop", "each_parcel", items="ctx.input.parcels") as each:
        one = graph.node("call", "print", step="print_label", args={"parcel": "{{loop.index}}"})
        one >> graph.node("call", "store", step="store_label", args={"parcel": "{{loop.index}}"})
    both >> each >> joined
    joined >> graph.end("end", output={"text": "receipt-{{ctx.input.order}}"})
    return graph


order_fulfilment = _fulfilment()


# A machine that waits for people


@dataclass
class Decision:
    cents: int
    by: str
    note: str = ""


@dataclass
class RefundState:
    cents: int = 0
    log: list[str] = field(default_factory=list)


class RefundApproval(Machine[RefundState], name="refund_approval"):
    """A refund: drafted, reviewed by a person, paid or refused."""

    ends = frozenset({"paid", "refused", "by_hand"})

    @transition("start", "draft")
    async def open(self, ctx: Context, cents: int) -> None:
        self.state.cents = cents

    @transition("draft", "review", wait=True)
    async def submit(self, ctx: Context) -> None: ...

    @transition("review", "paying", wait=Decision)
    async def approve(self, ctx: Context, answer: Decision) -> None:
        self.state.log.append(f"{answer.by} approved")

    @transition("review", "refused", wait=Decision)
    async def refuse(self, ctx: Context, answer: Decision) -> None:
        self.state.log.append(f"{answer.by} refused")

    @transition("review", "draft", wait=True)
    async def amend(self, ctx: Context) -> None: ...

    @transition("paying", "paid", retry=Retry(3, delay="1s", then="trouble"))
    async def pay(self, ctx: Context) -> None: ...

    @transition("trouble", "by_hand", wait=True)
    async def settle(self, ctx: Context) -> None: ...


# A function that loses its worker


@step
async def load_orders(day: str) -> dict[str, Any]:
    await asyncio.sleep(0.3)
    return {
        "day": day,
        "count": 1842,
        "orders": [{"id": "8601", "total": 4150}, {"id": "8602", "total": 1299}],
    }


@step(retry=Retry(3, delay="300ms"))
async def fetch_rates(run: str) -> float:
    await asyncio.sleep(0.2)
    seen = Path(os.environ.get("CONTACT_FOLDER", ".")) / f"rates-{run}"
    if not seen.exists():
        seen.touch()
        raise ConnectionError("rates.example did not answer")
    return 1.08


@step
async def totals(kind: str) -> int:
    await asyncio.sleep(0.2 + len(kind) / 25)
    return len(kind) * 1000


@step
async def render_page(page: int) -> str:
    await asyncio.sleep(0.25)
    return f"page-{page}.pdf"


@workflow
async def nightly_report(ctx: Context, day: str) -> str:
    """Renders a report, page by page."""
    await ctx.step(load_orders, day)
    await ctx.step(fetch_rates, day)
    async with asyncio.TaskGroup() as group:
        for kind in ("sales", "refunds", "stock_levels"):
            group.create_task(ctx.step(totals, kind))
    await ctx.approval(bool, name="approve_numbers", title="Are the numbers right?")
    for page in range(1, 313):
        ctx.progress(page - 1, 312, f"Rendering page {page} of 312")
        await ctx.step(render_page, page)
    return "312 pages"


# A large graph: most is done, some runs, one waits, one failed and was set aside


@step
async def import_shard(shard: int) -> int:
    if shard == 2008:
        raise KeyError("sku")
    if shard % 100 == LENGTH - 3 and shard // 100 in {3, 9, 15}:
        await asyncio.sleep(600)
    return shard


def _import() -> GraphBuilder:
    graph = GraphBuilder("catalogue_import", maxNodes=500)
    split, joined = graph.fork("split"), graph.merge("merge", errorStrategy="collect-all")
    graph.start() >> graph.node("call", "read_catalogue", step="import_shard", args={"shard": 0}) >> split
    for lane in range(LANES):
        before = split
        for place in range(LENGTH):
            name = f"shard_{lane + 1}_{place + 1}"
            if (lane, place) == (12, 8):
                now = graph.node("approval", "ask_owner", title="Import the rest of the shelf?")
                before >> now
                before = now.on("approved")
                continue
            now = graph.node("call", name, step="import_shard", args={"shard": lane * 100 + place})
            before >> now
            before = now
        before >> joined
    joined >> graph.end("publish", output={"text": "imported"})
    return graph


catalogue_import = _import()


# Short ones, for the list


@workflow
async def carrier_pickup(ctx: Context, parcel: str) -> str:
    await ctx.event("parcel.scanned", key=parcel, timeout=timedelta(seconds=1))
    return parcel


@step
async def parse_rows(rows: int) -> int:
    raise KeyError(f"sku, row {rows}")


@workflow
async def price_list(ctx: Context, rows: int) -> int:
    return await ctx.step(parse_rows, rows)


@dataclass
class Claim:
    order: str
    paid: str
    reason: str
    customer_since: str


@dataclass
class Repayment:
    """The customer asks for the full amount. Above 50 euros finance decides, with two people."""

    amount_in_cents: int = 199_900
    pay_back_to: Literal["the card", "a voucher"] = "the card"


@workflow
async def refund_request(ctx: Context, claim: Claim) -> str:
    """Asks people before money goes back."""
    await ctx.approval(
        Repayment,
        name="finance",
        title=f"Refund {claim.paid} for order {claim.order}",
        assignees=["ana", "ben", "role:finance"],
        required=2,
        timeout="3h",
    )
    return f"refunded {claim.order}"


@workflow
async def price_update(ctx: Context, month: str) -> str:
    await ctx.approval(bool, name="publish", title=f"Publish the {month} price list", timeout="1d")
    return f"prices of {month}"


# What starts runs


@source(every="1s")
async def inbox(config: dict[str, str], cursor: int | None) -> list[SourceEvent]:
    """Finds one letter, in folders that there are."""
    if config.get("folder") != "orders":
        raise FileNotFoundError(f"no folder {config.get('folder', '')!r} on imap.example.com")
    return [SourceEvent("letter-1", "5521", cursor=1)] if cursor is None else []
