"""A webhook starts a refund, and a person approves it. The shop signs each delivery, and each counts once.

Run it: it serves the engine on this machine and sends the shop's deliveries itself, over HTTP: a signed one,
the same again, and one that somebody forged. Then it approves the refund. It leaves no file.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import socket
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import uvicorn

from stepwell import Context, Engine, asgi, step, workflow
from stepwell.secrets.keyring import Keyring

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SHARED = os.urandom(24)  # what the shop and we know
SECRET = "whsec_" + base64.b64encode(SHARED).decode()


@step
async def transfer(order: str, euros: int) -> str:
    return f"{euros} euros for {order}"


@workflow
async def refund(ctx: Context, input: dict[str, Any]) -> str:
    order, euros = input["order"], input["euros"]
    answer = await ctx.approval(str, title=f"Refund {euros} euros for {order}?", timeout="3d")
    if answer != "yes":
        return f"refused: {order}"
    return "paid " + await ctx.step(transfer, order, euros)


def signed(body: bytes, id: str, key: bytes = SHARED) -> dict[str, str]:
    """The headers of Standard Webhooks, as the shop makes them."""
    at = str(int(time.time()))
    digest = hmac.digest(key, b".".join([id.encode(), at.encode(), body]), hashlib.sha256)
    return {
        "Content-Type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": at,
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


def told(answer: dict[str, Any]) -> str:
    return "known already" if answer["duplicate"] else "starts a run"


async def deliver(hook: str) -> None:
    """Stand in for the shop, which repeats itself, and for somebody who does not know the secret."""
    body = json.dumps({"type": "refund.asked", "data": {"id": "sofa-7", "amount": 900}}).encode()
    async with httpx2.AsyncClient() as shop:
        for who, headers in (
            ("the shop", signed(body, "msg_1")),
            ("the shop again", signed(body, "msg_1")),
            ("somebody else", signed(body, "msg_2", b"a guess")),
        ):
            answer = await shop.post(hook, content=body, headers=headers)
            said = answer.json()
            print(f"{who}: {answer.status_code}", said["code"] if answer.is_error else told(said))


@asynccontextmanager
async def served(engine: Engine) -> AsyncIterator[str]:
    """Serve the engine on a free port of this machine; `stepwell serve` does it for a database."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(asgi(engine), log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


async def main() -> None:
    keyring = Keyring({"2026": os.urandom(32)}, current="2026")  # from a vault, in real life
    engine = Engine(":memory:", workflows=[refund], keyring=keyring)
    async with engine, served(engine) as url:
        await engine.secrets.set("shop", SECRET)
        chosen = {"order": "{{trigger.body.data.id}}", "euros": "{{trigger.body.data.amount}}"}
        hook = await engine.webhooks.create("refunds", refund, chosen, secret="shop")
        await deliver(url + hook.path)

        runs = await engine.runs(trigger="webhook")
        print(f"{len(runs)} run, started by {runs[0].started_by}")
        run = engine.handle(runs[0].id)
        wait = await run.waiting_for("approval")
        print(f"waits: {wait.title}")
        await run.decide("yes", by="ana")
        print(await run.result(30))


if __name__ == "__main__":
    asyncio.run(main())
