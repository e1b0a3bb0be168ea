"""Workflows of the demo, in all three styles. Each step writes a line into a ledger when it is done."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepwell import Context, GraphBuilder, Machine, Retry, step, transition, workflow

FOLDER = "STEPWELL_DEMO_FOLDER"
BOXES = (
    "books",
    "lamp",
    "chair",
    "desk",
    "rug",
    "clock",
    "plates",
    "pans",
    "kettle",
    "toaster",
    "vase",
    "mirror",
)
BOX_SECONDS = 2.0
PAGES = 24
WIDE_LANES, WIDE_LENGTH = 27, 11
UNREACHED = "parcel 311"  # the carrier does not answer the call about this one
DECLINED = "8841"  # the order whose card is declined twice


def note(line: str) -> None:
    """Add a line to the ledger: what was really done, and by which process."""
    with (_folder() / "ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{os.getpid()} {line}\n")


def _folder() -> Path:
    return Path(os.environ.get(FOLDER, "."))


# A graph: the run that moves, and the run whose card is declined


@step
async def load_order(order: str) -> dict[str, Any]:
    await asyncio.sleep(0.4)
    note(f"order-{order} load_order")
    return {"order": order, "customer": "Ada", "cents": 1999}


@step(retry=Retry(2, delay="500ms"))
async def charge_card(order: str, cents: int) -> str:
    """Fails twice for one order, like a bank on a bad day, and then works."""
    await asyncio.sleep(0.6)
    if order == DECLINED:
        tries = _folder() / f"tries-{order}.txt"
        with tries.open("a", encoding="utf-8") as counter:
            counter.write(".")
        if len(tries.read_text(encoding="utf-8")) <= 2:
            raise RuntimeError("card declined (HTTP 402)")
    note(f"order-{order} charge_card")
    return f"receipt-{order}"


@step
async def pack_box(order: str, box: str) -> str:
    await asyncio.sleep(0.2 if order == DECLINED else BOX_SECONDS)
    note(f"order-{order} pack_box {box}")
    return f"box of {box}"


@step
async def send_mail(order: str, receipt: str) -> str:
    await asyncio.sleep(0.4)
    note(f"order-{order} send_mail")
    return f"{receipt} sent"


def _fulfilment() -> GraphBuilder:
    graph = GraphBuilder("order_fulfilment")
    order = "{{ctx.input.order}}"
    load = graph.node("call", "load_order", step="load_order", args={"order": order}, outputVariable="loaded")
    charge = graph.node(
        "call",
        "charge_card",
        step="charge_card",
        args={"order": order, "cents": "{{ctx.loaded.cents}}"},
        outputVariable="receipt",
    )
    with graph.inside("loop", "pack_parcel", items="ctx.input.boxes") as pack:
        graph.node("call", "pack_box", step="pack_box", args={"order": order, "box": "{{loop.item}}"})
    mail = graph.node(
        "call",
        "send_mail",
        step="send_mail",
        args={"order": order, "receipt": "{{ctx.receipt}}"},
        outputVariable="mail",
    )
    graph.start() >> load >> charge >> pack
    pack.on("done") >> mail >> graph.end("done", output={"text": "{{ctx.mail}}"})
    return graph


order_fulfilment = _fulfilment()


# A function: loads, counts in parallel, and renders page by page


@step
async def load_orders(day: str) -> int:
    await asyncio.sleep(0.1)
    note(f"report {day} load_orders")
    return 1842


@step
async def totals(kind: str) -> int:
    await asyncio.sleep(0.05 + len(kind) / 60)
    note(f"report totals {kind}")
    return len(kind) * 1000


@step
async def render_page(page: int) -> str:
    await asyncio.sleep(0.02)
    note(f"report render_page {page}")
    return f"page-{page}.pdf"


@workflow
async def nightly_report(ctx: Context, day: str) -> str:
    """Renders the report of a day, page by page."""
    orders = await ctx.step(load_orders, day)
    async with asyncio.TaskGroup() as group:
        for kind in ("sales", "refunds", "stock_levels"):
            group.create_task(ctx.step(totals, kind))
    for page in range(1, PAGES + 1):
        ctx.progress(page - 1, PAGES, f"Rendering page {page} of {PAGES}")
        await ctx.step(render_page, page)
    ctx.progress(PAGES, PAGES, "")
    return f"{PAGES} pages for {orders} orders"


@step
async def call_carrier(parcel: str) -> str:
    await asyncio.sleep(600 if parcel == UNREACHED else 0.2)
    return f"{parcel} is announced"


@workflow
async def carrier_pickup(ctx: Context, parcel: str) -> str:
    """Calls the carrier and waits for it. One carrier does not answer, one pickup is cancelled."""
    await ctx.step(call_carrier, parcel)
    name = await ctx.signal("picked_up", str)
    return f"{parcel} is with {name}"


# A state machine: the run that waits for a person


@dataclass
class RefundAnswer:
    euros: int
    note: str = ""


@dataclass
class RefundState:
    asked: int = 0
    granted: int = 0
    log: list[str] = field(default_factory=list)


@step
async def pay_back(euros: int) -> str:
    await asyncio.sleep(0.4)
    note(f"refund pay_back {euros}")
    return f"paid {euros}"


class RefundApproval(Machine[RefundState], name="refund_approval"):
    """A refund: reviewed by a person, then paid or refused."""

    ends = frozenset({"paid", "refused", "by_hand"})

    @transition("start", "review")
    async def submit(self, ctx: Context, euros: int) -> None:
        self.state.asked = euros

    @transition("review", "decided")
    async def decide(self, ctx: Context) -> None:
        answer = await ctx.approval(RefundAnswer, name="finance", title=f"Refund {self.state.asked} euros?")
        self.state.granted = answer.euros
        self.state.log.append(f"{answer.euros} granted: {answer.note}")

    @transition("decided", "paying", when=lambda state: state.granted > 0)
    async def grant(self, ctx: Context) -> None: ...

    @transition("decided", "refused")
    async def refuse(self, ctx: Context) -> None: ...

    @transition("paying", "paid", retry=Retry(3, delay="1s", then="by_hand"))
    async def settle(self, ctx: Context) -> None:
        self.state.log.append(await ctx.step(pay_back, self.state.granted))


# A graph with branches, a fork and an approval


@step
async def print_label(parcel: int) -> str:
    await asyncio.sleep(0.4)
    note(f"print_label {parcel}")
    return f"label-{parcel}"


def _release() -> GraphBuilder:
    graph = GraphBuilder("parcel_release")
    start, both, joined = graph.start(), graph.fork("both"), graph.merge("joined")
    load = graph.node("call", "load_order", step="load_order", args={"order": "{{ctx.input.order}}"})
    check = graph.condition("check_stock", in_stock="ctx.input.parcels < 5")
    start >> load >> check
    check.on("in_stock") >> both
    check.on("else") >> graph.end("backorder", output={"text": "sold out"})
    ask = graph.node(
        "approval", "ship", message="Ship order {{ctx.input.order}} in {{ctx.input.parcels}} parcels?"
    )
    both >> ask
    ask.on("approved") >> joined
    ask.on("denied") >> graph.end("stopped", output={"text": "denied"})
    label = graph.node("call", "print_label", step="print_label", args={"parcel": 1})
    both >> label >> graph.node("call", "store_label", step="print_label", args={"parcel": 2}) >> joined
    joined >> graph.end("done", output={"text": "shipped"})
    return graph


parcel_release = _release()


def _wide() -> dict[str, Any]:
    """Return a graph of 301 nodes: many parallel lanes."""
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


WORKFLOWS: list[Any] = [
    order_fulfilment,
    nightly_report,
    RefundApproval,
    parcel_release,
    carrier_pickup,
    catalogue_import,
]
STEPS: list[Any] = [load_order, charge_card, pack_box, send_mail, print_label, count_shelf]
