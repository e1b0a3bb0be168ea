"""Workflows of the demo, in all three styles. Each step writes a line into a ledger when it is done."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepwell import Context, GraphBuilder, Machine, Retry, step, transition, workflow

FOLDER = "STEPWELL_DEMO_FOLDER"
PAGES = 60
WIDE_LANES, WIDE_LENGTH = 27, 11


def note(line: str) -> None:
    """Add a line to the ledger: what was really done, and by which process."""
    with (Path(os.environ.get(FOLDER, ".")) / "ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{os.getpid()} {line}\n")


# A function: the run that moves


@step
async def load_orders(day: str) -> int:
    await asyncio.sleep(0.6)
    note(f"load_orders {day}")
    return 1842


@step
async def totals(kind: str) -> int:
    await asyncio.sleep(0.5 + len(kind) / 12)
    note(f"totals {kind}")
    return len(kind) * 1000


@step
async def render_page(page: int) -> str:
    await asyncio.sleep(1.0)
    note(f"render_page {page}")
    return f"page-{page}.pdf"


@workflow
async def nightly_report(ctx: Context, day: str) -> str:
    """Renders a report, page by page. Kill its worker: the next one goes on with the same page."""
    orders = await ctx.step(load_orders, day)
    async with asyncio.TaskGroup() as group:
        for kind in ("sales", "refunds", "stock_levels"):
            group.create_task(ctx.step(totals, kind))
    for page in range(1, PAGES + 1):
        ctx.progress(page - 1, PAGES, f"Rendering page {page} of {PAGES}")
        await ctx.step(render_page, page)
    return f"{PAGES} pages for {orders} orders"


# A function: the run that failed


@step
async def load_order(order: str) -> dict[str, Any]:
    note(f"load_order {order}")
    return {"order": order, "cents": 1999}


@step(retry=Retry(2, delay="500ms"))
async def charge_card(order: str, cents: int) -> str:
    """Fails in the first two attempts, as a bank on a bad day; then it works."""
    tries = Path(os.environ.get(FOLDER, ".")) / f"tries-{order}.txt"
    with tries.open("a", encoding="utf-8") as counter:
        counter.write(".")
    if len(tries.read_text(encoding="utf-8")) <= 2:
        raise RuntimeError("card declined (HTTP 402)")
    note(f"charge_card {order}")
    return f"receipt-{order}"


@workflow
async def checkout(ctx: Context, order: str) -> str:
    """Charges a card. The bank declines twice; a retry goes on at the failed step."""
    known = await ctx.step(load_order, order)
    return await ctx.step(charge_card, order, known["cents"])


# A state machine: the run that waits for a person


@dataclass
class RefundAnswer:
    by: str
    note: str = ""


@dataclass
class RefundState:
    cents: int = 0
    log: list[str] = field(default_factory=list)


@step
async def pay_back(cents: int) -> str:
    note(f"pay_back {cents}")
    return f"paid {cents / 100:.2f}"


class RefundApproval(Machine[RefundState], name="refund_approval"):
    """A refund: drafted, reviewed by a person, paid or refused."""

    ends = frozenset({"paid", "refused", "by_hand"})

    @transition("start", "review")
    async def submit(self, ctx: Context, cents: int) -> None:
        self.state.cents = cents

    @transition("review", "paying", wait=RefundAnswer)
    async def approve(self, ctx: Context, answer: RefundAnswer) -> None:
        self.state.log.append(f"{answer.by} approved")

    @transition("review", "refused", wait=RefundAnswer)
    async def refuse(self, ctx: Context, answer: RefundAnswer) -> None:
        self.state.log.append(f"{answer.by} refused")

    @transition("review", "draft", wait=True)
    async def amend(self, ctx: Context) -> None: ...

    @transition("draft", "review", wait=int)
    async def resubmit(self, ctx: Context, cents: int) -> None:
        self.state.cents = cents

    @transition("paying", "paid", retry=Retry(3, delay="1s", then="by_hand"))
    async def settle(self, ctx: Context) -> None:
        self.state.log.append(await ctx.step(pay_back, self.state.cents))


# A graph: branches, a fork, an approval


@step
async def print_label(parcel: int) -> str:
    await asyncio.sleep(0.4)
    note(f"print_label {parcel}")
    return f"label-{parcel}"


def _fulfilment() -> GraphBuilder:
    graph = GraphBuilder("order_fulfilment")
    start, both, joined = graph.start(), graph.fork("both"), graph.merge("joined")
    load = graph.node("call", "load_order", step="load_order", args={"order": "{{ctx.input.order}}"})
    check = graph.condition("check_stock", in_stock="ctx.input.parcels < 5")
    start >> load >> check
    check.on("in_stock") >> both
    check.on("else") >> graph.end("backorder", output={"text": "sold out"})
    ask = graph.node("approval", "ship", title="Ship the order?")
    both >> ask
    ask.on("approved") >> joined
    ask.on("denied") >> graph.end("stopped", output={"text": "denied"})
    label = graph.node("call", "print_label", step="print_label", args={"parcel": 1})
    both >> label >> graph.node("call", "store_label", step="print_label", args={"parcel": 2}) >> joined
    joined >> graph.end("done", output={"text": "shipped"})
    return graph


order_fulfilment = _fulfilment()


def _wide() -> dict[str, Any]:
    """A graph of 301 nodes: many lanes beside each other."""
    graph = GraphBuilder("stock_count")
    both, joined = graph.fork("shelves"), graph.merge("counted")
    graph.start() >> both
    for lane in range(WIDE_LANES):
        before = both
        for place in range(WIDE_LENGTH):
            name = f"shelf_{lane + 1}_{place + 1}"
            now = graph.node("call", name, step="count_shelf", args={"shelf": lane * 100 + place})
            before >> now
            before = now
        before >> joined
    joined >> graph.end("done", output={"text": "counted"})
    body = graph.as_dict()
    body["settings"] = {**body.get("settings", {}), "maxNodes": 500}
    return body


STOCK_COUNT = _wide()


@step
async def count_shelf(shelf: int) -> int:
    return shelf % 7


# A long history


@step
async def import_row(row: int) -> int:
    return row


@workflow
async def catalogue_import(ctx: Context, rows: int) -> int:
    """Writes a long history: one event for every row."""
    for row in range(rows):
        await ctx.step(import_row, row)
    return rows
