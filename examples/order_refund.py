"""A refund as a graph: a large one waits for a person; then money and stock go back at the same time.

Run it: it starts a small bank on this machine, which is down at first, and approves the large refund itself.
Nothing leaves this machine. It leaves no file.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from stepwell import Engine, Permanent, step
from stepwell.outbound.request import OutboundRules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ORDERS: dict[str, dict[str, Any]] = {
    "tea": {"total": 12, "lines": [{"sku": "tea", "count": 2}]},
    "sofa": {"total": 900, "lines": [{"sku": "sofa", "count": 1}, {"sku": "cushion", "count": 4}]},
    "broken": {"total": 30, "lines": [{"sku": "vase", "count": 1}, {"sku": "nothing", "count": 1}]},
}


def graph(bank: str) -> dict[str, Any]:
    """Read the order, ask a person if the refund is large, then do two things at the same time."""
    return {
        "name": "order-refund",
        "nodes": [
            {
                "id": "start",
                "type": "start",
                "data": {"inputSchema": {"type": "object", "required": ["order"]}},
            },
            {
                "id": "read",
                "type": "call",
                "data": {"step": "read_order", "args": ["{{ctx.input.order}}"], "outputVariable": "order"},
            },
            {
                "id": "large",
                "type": "condition",
                "data": {"branches": [{"id": "large", "when": "ctx.order.total > 100"}]},
            },
            {
                "id": "ask",
                "type": "approval",
                "data": {"message": "Refund {{ctx.order.total}} euros?", "assignees": ["role:finance"]},
            },
            {"id": "pay", "type": "fork"},
            {
                "id": "refund",
                "type": "http",
                "data": {
                    "method": "POST",
                    "url": f"{bank}/refunds",
                    "body": {"order": "{{ctx.input.order}}", "euros": "{{ctx.order.total}}"},
                    "retry": {"maxAttempts": 5, "delayMs": 20},
                    "outputVariable": "transfer",
                },
            },
            {
                "id": "restock",
                "type": "loop",
                "data": {
                    "items": "ctx.order.lines",
                    "mode": "parallel",
                    "onItemError": "continue",
                    "collect": "ctx.stock",
                    "outputVariable": "stock",
                },
            },
            {
                "id": "shelve",
                "type": "call",
                "parentId": "restock",
                "data": {"step": "shelve", "args": ["{{loop.item}}"], "outputVariable": "stock"},
            },
            {"id": "both", "type": "merge", "data": {"mode": "all"}},
            {
                "id": "refunded",
                "type": "end",
                "data": {
                    "output": {"transfer": "{{ctx.transfer.body.id}}", "stock": "{{ctx.stock.results}}"}
                },
            },
            {"id": "refused", "type": "end", "data": {"output": {"refused": "{{ctx.input.order}}"}}},
        ],
        "edges": [
            {"source": "start", "target": "read"},
            {"source": "read", "target": "large"},
            {"source": "large", "sourceHandle": "large", "target": "ask"},
            {"source": "large", "sourceHandle": "else", "target": "pay"},
            {"source": "ask", "sourceHandle": "approved", "target": "pay"},
            {"source": "ask", "sourceHandle": "denied", "target": "refused"},
            {"source": "pay", "target": "refund"},
            {"source": "pay", "target": "restock"},
            {"source": "refund", "target": "both"},
            {"source": "restock", "target": "both"},
            {"source": "both", "target": "refunded"},
        ],
    }


@step
async def read_order(order: str) -> dict[str, Any]:
    return ORDERS[order]


@step
async def shelve(line: dict[str, Any]) -> str:
    if line["sku"] == "nothing":
        raise Permanent("there is no such shelf")
    return f"{line['count']} x {line['sku']}"


@asynccontextmanager
async def small_bank() -> AsyncIterator[tuple[str, int, list[str]]]:
    """A bank that is down at first, and pays once for each Idempotency-Key."""
    paid: dict[str, str] = {}
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        order = json.loads(await reader.readexactly(int(fields["content-length"])))["order"]
        asked.append(order)
        status, body = "503 Service Unavailable", {"error": "come back later"}
        if asked.count(order) > 1:
            transfer = paid.setdefault(fields["idempotency-key"], f"transfer-{len(paid) + 1}")
            status, body = "200 OK", {"id": transfer}
        data = json.dumps(body)
        lines = ["Content-Type: application/json", f"Content-Length: {len(data)}", "Connection: close"]
        writer.write("\r\n".join([f"HTTP/1.1 {status}", *lines, "", data]).encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", port, asked
    finally:
        server.close()


async def main() -> None:
    async with small_bank() as (bank, port, asked):
        # Private addresses are closed to graphs; only an operator opens one.
        rules = OutboundRules.of(["127.0.0.1"], [port])
        async with Engine(":memory:", steps=[read_order, shelve], outbound=rules) as engine:
            for order in ORDERS:
                run = await engine.start_graph(graph(bank), {"order": order}, key=order)
                if ORDERS[order]["total"] > 100:
                    await run.waiting_for("ask")
                    print(f"{order}: waits for finance, and the bank was asked {asked.count(order)} times")
                    await run.decide("approved", by="ana", roles=["finance"])
                output = await run.result()
                print(f"{order}: {output['transfer']}, asked {asked.count(order)} times; {output['stock']}")
            denied = await engine.start_graph(graph(bank), {"order": "sofa"})
            await denied.waiting_for("ask")
            await denied.decide("denied", by="ana", roles=["finance"], reason="already refunded")
            print("sofa again:", await denied.result())


if __name__ == "__main__":
    asyncio.run(main())
