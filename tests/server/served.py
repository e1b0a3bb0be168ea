"""Served: an engine's HTTP API on a loopback port, and a client that calls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from stepwell import Engine, Retry, step, workflow
from stepwell.domain.access import SCOPES
from stepwell.domain.program import Context
from stepwell.server.app import ServerApp, asgi
from stepwell.server.listener import Listener, address, bind
from tests.engines import until

TOKEN = "a-token-of-the-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@step
async def double(number: int) -> int:
    return number * 2


@workflow
async def doubling(ctx: Context, number: int) -> int:
    return await ctx.step(double, number)


@workflow
async def asking(ctx: Context, question: str) -> str:
    answer = await ctx.approval(str, title=question)
    return f"{question} {answer}"


@workflow
async def assigned(ctx: Context, question: str) -> str:
    answer = await ctx.approval(str, title=question, assignees=["bob", "role:finance"])
    return f"{question} {answer}"


@workflow
async def listening(ctx: Context, count: int) -> list[Any]:
    return [await ctx.signal("word") for _ in range(count)]


@step(retry=Retry(1))
async def breaking(text: str) -> str:
    raise ValueError(text)


@workflow
async def failing(ctx: Context, text: str) -> str:
    return await ctx.step(breaking, text)


FLOWS = (doubling, asking, listening, failing)


class Served(httpx.AsyncClient):
    """A client of one server."""

    def __init__(self, app: ServerApp, server: Listener, url: str, **options: Any) -> None:
        super().__init__(base_url=url, headers=BEARER, timeout=60, **options)
        self.app, self.server, self.url = app, server, url

    async def started(self, workflow: str, input: Any, **more: Any) -> str:
        answer = await self.post("/api/v1/runs", json={"workflow": workflow, "input": input}, **more)
        assert answer.status_code == 201, answer.text
        run: str = answer.json()["id"]
        return run

    async def ended(self, run: str) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            data: dict[str, Any] = (await self.get(f"/api/v1/runs/{run}")).json()
            return data if data["ended_at"] else None

        data: dict[str, Any] = await until(there)
        return data

    async def waiting(self, run: str) -> list[dict[str, Any]]:
        async def there() -> Any:
            return (await self.get(f"/api/v1/runs/{run}/waits")).json()["waits"]

        waits: list[dict[str, Any]] = await until(there)
        return waits


@asynccontextmanager
async def served(
    engine: Engine, *, auth: bool = True, proxies: str = "", **options: Any
) -> AsyncIterator[Served]:
    """Serve the engine's API in this loop; it is opened and closed with the server."""
    app = asgi(engine, token=TOKEN, auth=auth, **options)
    listener = bind("127.0.0.1", 0)
    server = Listener(app, proxies=proxies)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server._serve(sockets=[listener]))
        await until(lambda: server.started or serving.done())
        try:
            async with Served(app, server, address(listener)) as client:
                yield client
        finally:
            server.should_exit = True
            await serving


async def bearer(engine: Engine, name: str = "ann", **options: Any) -> dict[str, str]:
    """The header of a new key; it may do everything unless its scopes are given."""
    view = engine.within(options.pop("workspace", engine.workspace))
    new = await view.keys.create(name, **{"scopes": SCOPES, **options})
    return {"Authorization": f"Bearer {new.text}"}


def code(answer: httpx.Response) -> str:
    """The code of a problem, which must be complete."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body = answer.json()
    assert {"type", "title", "status", "code", "message", "hint", "field", "docs"} <= set(body)
    assert body["status"] == answer.status_code
    assert "Traceback" not in answer.text
    return str(body["code"])


async def messages(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The messages of a stream, without keep-alives: id, event and data of each."""
    fields: dict[str, Any] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            if name:
                fields[name] = msgspec.json.decode(value) if name == "data" else value
        elif fields:
            if "data" in fields:
                yield fields
            fields = {}
