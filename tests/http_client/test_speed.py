"""What a server costs, compared with the engine behind it in the same run. The figures are printed."""

from __future__ import annotations

import asyncio
import http.client
import json
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse

from stepwell import Client, Engine, connect
from stepwell.server.app import asgi
from stepwell.server.listener import address, bind
from tests.engines import Engines, until
from tests.server.served import BEARER, FLOWS, TOKEN, listening, served

EVENTS = 60
ROUNDS, BATCH = 6, 100


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.req("A3", "A4")
async def test_an_event_reaches_one_subscriber_within_three_times_the_time_of_the_engine(
    sqlite: Engines,
) -> None:
    engine = sqlite.new(*FLOWS)
    async with served(engine) as server, connect(server.url, key=TOKEN) as client:
        delays: dict[str, list[float]] = {"engine": [], "http": []}
        for _ in range(5):  # in turn: the machine has better and worse moments
            delays["engine"] += await delays_of(engine, engine)
            delays["http"] += await delays_of(engine, client)

    medians = {name: statistics.median(times) for name, times in delays.items()}
    print(
        f"commit to reader, p50: {medians['engine'] * 1000:.1f} ms here, {medians['http'] * 1000:.1f} ms HTTP"
    )
    assert medians["http"] <= 3 * medians["engine"]


async def delays_of(engine: Engine, reader: Client) -> list[float]:
    """The time from an event's commit to its reader, one event at a time."""
    run = await engine.start(listening, EVENTS)
    delays: list[float] = []
    reached = asyncio.Event()

    async def read() -> None:
        async for event in reader.handle(run.id).events(follow=True):
            delays.append(time.time() - event.at.timestamp())
            if event.kind == "received":
                reached.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        for number in range(EVENTS):
            await run.signal("word", number)
            await reached.wait()
            reached.clear()
    return delays[3:]  # the first ones were there before the reader


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.req("A1", "A4")
async def test_starts_over_http_reach_half_the_rate_of_a_bare_route(sqlite: Engines) -> None:
    async with both(sqlite.new(*FLOWS)) as url:
        rates = await asyncio.to_thread(measured, url)

    ratio = statistics.median(runs / bare for bare, runs in rates)
    bare, runs = statistics.median(rate[0] for rate in rates), statistics.median(rate[1] for rate in rates)
    print(f"starts one by one: {bare:.0f}/s on a bare route, {runs:.0f}/s on POST /runs, ratio {ratio:.2f}")
    assert ratio >= 0.5


@asynccontextmanager
async def both(engine: Engine) -> AsyncIterator[str]:
    """An app with the API and, beside it, a route that only parses the body and starts the run."""
    api = asgi(engine, token=TOKEN)
    app = FastAPI(lifespan=api.opened)

    async def bare(request: Request) -> JSONResponse:
        body = json.loads(await request.body())
        run = await engine.start(body["workflow"], body["input"])
        return JSONResponse({"id": run.id})

    app.add_route("/bare", bare, methods=["POST"])
    app.mount("/", api)
    listener = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    async with asyncio.TaskGroup() as group:
        group.create_task(server._serve(sockets=[listener]))
        await until(lambda: server.started)
        yield address(listener)
        server.should_exit = True


def measured(url: str) -> list[tuple[float, float]]:
    """Starts a second on the bare route and on the API, in turns on one connection."""
    connection = http.client.HTTPConnection(url.partition("//")[2])
    headers = {"Content-Type": "application/json", **BEARER}
    body = json.dumps({"workflow": "listening", "input": 1})

    def rate(path: str) -> float:
        began = time.perf_counter()
        for _ in range(BATCH):
            connection.request("POST", path, body, headers)
            answer: Any = connection.getresponse()
            answer.read()
            assert answer.status in (200, 201)
        return BATCH / (time.perf_counter() - began)

    rate("/bare"), rate("/api/v1/runs")
    rates = [(rate("/bare"), rate("/api/v1/runs")) for _ in range(ROUNDS)]
    connection.close()
    return rates
