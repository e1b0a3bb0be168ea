"""A server without any workflow code, and workers in other processes: everything is there."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell import Context, step, workflow
from tests.engines import Engines, until
from tests.server.served import BEARER, messages, served
from tests.server.test_serve import running
from tests.server.worker_processes import workers

SOURCE = """
from dataclasses import dataclass
from stepwell import Context, GraphBuilder, Machine, node, step, transition, workflow

@step
async def double(number: int) -> int:
    return number * 2

@workflow
async def doubling(ctx: Context, number: int) -> int:
    await ctx.signal("go")
    return await ctx.step(double, number)

@dataclass
class DoorState:
    seen: int = 0

class Door(Machine[DoorState], name="door"):
    ends = {"open"}

    @transition("start", "shut")
    async def knock(self, ctx: Context, number: int) -> None:
        self.state.seen = await ctx.step(double, number)

    @transition("shut", "open", wait=True)
    async def push(self, ctx: Context) -> None: ...

@node("mill:grind")
async def grind(config, ctx, helpers):
    return {"flour": config["grain"]}

mill = GraphBuilder("mill")
ground = mill.start() >> mill.node("mill:grind", "grind", grain="{{ctx.input.grain}}")
ground >> mill.node("wait", "ask", event="miller") >> mill.end("end")
"""
INPUTS: dict[str, Any] = {"doubling": 4, "door": 3, "mill": {"grain": "rye"}}


@step
async def count(number: int) -> int:
    return number


@workflow
async def counting(ctx: Context, rounds: int) -> int:
    for start in range(rounds):
        await asyncio.gather(*(ctx.step(count, start * 200 + number) for number in range(200)))
    return rounds


@pytest.mark.slow
@pytest.mark.req("A2", "A3", "K8", "K16")
async def test_a_server_without_code_shows_everything_that_two_workers_do(
    server_engines: Engines, tmp_path: Path
) -> None:
    """A function, a machine and a graph with a node type of its own, none of which the server has."""
    (tmp_path / "flows.py").write_text(SOURCE)
    database = str(server_engines.database)
    async with server_engines.client():
        pass  # creates the tables
    with (
        workers(tmp_path, database, 2),
        running("serve", "--database", database, "--port", "0", folder=tmp_path) as (_, url),
    ):
        async with httpx.AsyncClient(base_url=f"{url}/api/v1", headers=BEARER, timeout=60) as client:
            await until(partial(both_work, client))
            runs = {name: await started(client, name, 5) for name in INPUTS}
            async with asyncio.TaskGroup() as group:
                readers = {
                    run: group.create_task(followed(client, run)) for each in runs.values() for run in each
                }
                listing = group.create_task(listed_changes(client, set(readers)))
                for name, each in runs.items():
                    for run in each:
                        await let_go(client, name, run)
            listed = (await client.get("/runs?limit=100")).json()["runs"]
            stored = {run: (await client.get(f"/runs/{run}/events")).json()["events"] for run in readers}
            details = {run: (await client.get(f"/runs/{run}")).json() for run in readers}
            steps = {
                name: (await client.get(f"/runs/{each[0]}/steps")).json()["steps"]
                for name, each in runs.items()
            }
            shown = {name: (await client.get(f"/workflows/{name}")).json() for name in INPUTS}
            charts = {
                name: (await client.get(f"/workflows/{name}/drawing")).text for name in ("door", "mill")
            }
            place = (await client.get(f"/runs/{runs['door'][0]}/state")).json()

    assert {run: reader.result() for run, reader in readers.items()} == stored
    assert all(events[-1]["type"] == "workflow_finished" for events in stored.values())
    assert {row["id"] for row in listed} == set(readers) == listing.result()
    assert {details[run]["output"] for run in runs["doubling"]} == {8}
    assert {details[run]["status"] for run in readers} == {"completed"}
    assert ("double", "completed", 8) in [
        (step["name"], step["status"], step["output"]) for step in steps["doubling"]
    ]
    assert {"knock", "push"} <= {step["name"] for step in steps["door"] if step["status"] == "completed"}
    ground = next(step for step in steps["mill"] if step["name"] == "grind")
    assert (ground["type"], ground["status"], ground["output"]) == (
        "mill:grind",
        "completed",
        {"flour": "rye"},
    )
    assert {step["name"] for step in steps["mill"]} >= {"start", "grind", "ask", "end"}
    assert (place["place"], place["state"]) == ("open", {"seen": 6})
    assert [shown[name]["kind"] for name in INPUTS] == ["function", "machine", "graph"]
    assert [node["id"] for node in shown["mill"]["definition"]["nodes"]] == ["start", "grind", "ask", "end"]
    assert "shut" in json.dumps(shown["door"]["definition"])
    assert "shut" in charts["door"]
    assert "grind" in charts["mill"]


async def both_work(client: httpx.AsyncClient) -> bool:
    """Both workers have said what they can run."""
    listed = (await client.get("/workers")).json()["workers"]
    return len([worker for worker in listed if {"doubling@1", "door@1"} <= set(worker["workflows"])]) == 2


async def started(client: httpx.AsyncClient, name: str, count: int) -> list[str]:
    body = {"workflow": name, "input": INPUTS[name]}
    answers = [await client.post("/runs", json=body) for _ in range(count)]
    assert {answer.status_code for answer in answers} == {201}, answers[0].text
    return [str(answer.json()["id"]) for answer in answers]


async def let_go(client: httpx.AsyncClient, name: str, run: str) -> None:
    if name == "doubling":
        answer = await client.post(f"/runs/{run}/signal", json={"name": "go"})
        assert answer.status_code < 300, answer.text
        return
    if name == "mill":
        answer = await client.post("/events", json={"name": "miller", "payload": 1})
        assert answer.status_code < 300, answer.text
        return
    answer = await client.get(f"/runs/{run}/waits?name=push&wait=30s")
    assert answer.json()["waits"], answer.text
    answer = await client.post(f"/runs/{run}/trigger", json={"transition": "push"})
    assert answer.status_code < 300, answer.text


async def listed_changes(client: httpx.AsyncClient, runs: set[str]) -> set[str]:
    """The runs that the list topic reported as completed."""
    seen: set[str] = set()
    async with client.stream("GET", "/stream?topics=runs") as response:
        async for message in messages(response):
            if message["event"] == "runs":
                seen |= {row["id"] for row in message["data"] if row["status"] == "completed"}
            else:
                rows = (await client.get("/runs?limit=100")).json()["runs"]
                seen |= {row["id"] for row in rows if row["status"] == "completed"}
            if seen >= runs:
                break
    return seen


async def followed(client: httpx.AsyncClient, run: str) -> list[dict[str, Any]]:
    """The events of a run as they came, until its end."""
    listed: list[dict[str, Any]] = []
    async with client.stream("GET", f"/runs/{run}/stream") as response:
        async for message in messages(response):
            if message.get("event") == "end":
                break
            listed.append(message["data"])
    return listed


@pytest.mark.slow
@pytest.mark.req("A2")
async def test_a_run_of_ten_thousand_events_opens_in_three_small_requests(sqlite: Engines) -> None:
    async with served(sqlite.new(counting)) as client:
        run = await client.started("counting", 50)
        await client.ended(run)
        requests = [
            await client.get(f"/api/v1/runs/{run}"),
            await client.get(f"/api/v1/runs/{run}/events"),
            await client.get(f"/api/v1/runs/{run}/steps"),
        ]

    assert requests[0].json()["seq"] >= 10_000
    assert all(answer.status_code == 200 for answer in requests)
    assert sum(len(answer.content) for answer in requests) <= 2 * 1024 * 1024
