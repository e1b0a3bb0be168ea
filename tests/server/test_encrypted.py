"""A server of an encrypted database: with the codec it shows everything, without it all but payloads."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from stepwell import Context, Machine, Retry, StepContext, node, step, transition, workflow
from stepwell.domain.status import Status
from stepwell.server import routes
from stepwell.store.payloads import Encryption
from tests.engines import Engines, reaches, suspended
from tests.server.served import BEARER, code, messages
from tests.server.test_serve import running

CANARY = "canary-5f0e"
KEY = b"k" * 32
CODEC = Encryption({"a": KEY}, current="a")
HIDDEN = {"encrypted": True}


@step
async def seal(ctx: StepContext, text: str) -> str:
    print(CANARY)
    ctx.save("letter", CANARY)
    return f"{CANARY} {text}"


@step(retry=Retry(1))
async def break_seal(text: str) -> str:
    raise ValueError(f"{CANARY} {text}")


@workflow
async def sealing(ctx: Context, text: str) -> str:
    first = await ctx.step(seal, text)
    ctx.progress(1, 2, CANARY)
    answer = await ctx.approval(str, title=CANARY, assignees=["ann"])
    return f"{first} {answer}"


@workflow
async def breaking(ctx: Context, text: str) -> str:
    return await ctx.step(break_seal, text)


@dataclass
class LetterState:
    text: str = ""


class Letter(Machine[LetterState], name="letter"):
    ends: ClassVar = {"sent"}

    @transition("start", "draft")
    async def write(self, ctx: Context, text: str) -> None:
        self.state.text = await ctx.step(seal, text)

    @transition("draft", "sent", wait=True)
    async def send(self, ctx: Context) -> None: ...


@node("post:seal")
async def seal_node(config: Any, ctx: Any, helpers: Any) -> Any:
    return {"text": CANARY}


CHART: dict[str, Any] = {
    "name": "chart",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "seal", "type": "post:seal", "data": {"outputVariable": "sealed"}},
        {"id": "end", "type": "end"},
    ],
    "edges": [{"source": "start", "target": "seal"}, {"source": "seal", "target": "end"}],
}
GETS = [route.path for route in routes.RUNS if route.method == "GET" and "{run_id}" in route.path]
STREAMS = ("/stream", "/export")


@asynccontextmanager
async def runs_of(engines: Engines) -> AsyncIterator[dict[str, str]]:
    """An encrypted database with a run of every style, by workflow: waiting, failed and completed ones."""
    flows: list[Any] = [sealing, breaking, Letter, CHART]
    async with engines.new(*flows, nodes=[seal_node], codec=CODEC) as engine:
        tags = {"guest": CANARY}
        waiting = await engine.start(sealing, CANARY, tags=tags)
        failed = await engine.start(breaking, CANARY)
        letter = await engine.start("letter", CANARY)
        chart = await engine.start("chart", {"text": CANARY})
        await suspended(waiting)
        await suspended(letter)
        await reaches(failed, Status.FAILED)
        await chart.result(30)
        yield {"sealing": waiting.id, "breaking": failed.id, "letter": letter.id, "chart": chart.id}


@asynccontextmanager
async def server(engines: Engines, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    command = ("serve", "--database", str(engines.database), "--port", "0")
    with running(*command, folder=folder) as (_, url):
        async with httpx.AsyncClient(base_url=url, headers=BEARER, timeout=60) as client:
            yield client


@pytest.mark.slow
@pytest.mark.req("K42", "A2")
async def test_without_the_codec_everything_but_payloads_is_shown(
    durable_engines: Engines, tmp_path: Path
) -> None:
    async with runs_of(durable_engines) as runs, server(durable_engines, tmp_path) as client:
        listed = (await client.get("/api/v1/runs")).json()["runs"]
        details = {name: (await client.get(f"/api/v1/runs/{run}")).json() for name, run in runs.items()}
        events = {
            name: (await client.get(f"/api/v1/runs/{run}/events")).json()["events"]
            for name, run in runs.items()
        }
        steps = {
            name: (await client.get(f"/api/v1/runs/{run}/steps")).json()["steps"]
            for name, run in runs.items()
        }
        waits = (await client.get("/api/v1/waits")).json()["waits"]
        lines = (await client.get(f"/api/v1/runs/{runs['sealing']}/logs")).json()["lines"]
        ended = await streamed(client, f"/api/v1/runs/{runs['chart']}/stream")

    assert {(row["id"], row["status"]) for row in listed} == {
        (runs["sealing"], "suspended"),
        (runs["letter"], "suspended"),
        (runs["breaking"], "failed"),
        (runs["chart"], "completed"),
    }
    for detail in details.values():
        assert detail["input"] == HIDDEN
    assert details["chart"]["output"] == HIDDEN
    assert details["breaking"]["error"]["code"] == "ENCRYPTED"
    assert details["sealing"]["tags"] == {"encrypted": "true"}
    assert events["sealing"][0]["type"] == "workflow_started"
    assert events["breaking"][-1]["type"] == "workflow_failed"
    assert all(event["data"] == HIDDEN for event in events["sealing"] if event["kind"] == "step_completed")
    first = steps["sealing"][0]
    assert (first["name"], first["status"], first["output"]) == ("seal", "completed", HIDDEN)
    assert [(step["name"], step["status"]) for step in steps["breaking"]] == [("break_seal", "failed")]
    assert ("write", "completed") in [(step["name"], step["status"]) for step in steps["letter"]]
    assert ("seal", "completed") in [(step["name"], step["status"]) for step in steps["chart"]]
    assert {(wait["run"], wait["what"]) for wait in waits} == {
        (runs["sealing"], "approval"),
        (runs["letter"], "trigger"),
    }
    assert {line["text"] for line in lines} == {"encrypted"}
    assert [message["data"] for message in ended if "event" not in message] == events["chart"]


async def streamed(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    async with client.stream("GET", path) as response:
        return [message async for message in messages(response)]


@pytest.mark.slow
@pytest.mark.req("K42", "X9")
async def test_without_the_codec_no_route_of_a_run_fails_or_shows_a_payload(
    sqlite: Engines, tmp_path: Path
) -> None:
    async with runs_of(sqlite) as runs, server(sqlite, tmp_path) as client:
        for run in runs.values():
            for path in GETS:
                if path.endswith(STREAMS):
                    continue
                answer = await client.get(path.format(run_id=run, seq=1, name="letter", path="0", step="0"))
                assert answer.status_code in (200, 204, 400, 404, 409), (path, answer.text)
                assert CANARY not in answer.text, path


WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/api/v1/runs", {"workflow": "sealing", "input": "x"}),
    ("POST", "/api/v1/runs/{run}/signal", {"name": "more", "payload": 1}),
    ("POST", "/api/v1/runs/{run}/cancel", {"reason": "why"}),
    ("POST", "/api/v1/runs/{run}/hold", {"reason": "why"}),
    ("POST", "/api/v1/runs/{run}/rerun", {}),
    ("POST", "/api/v1/runs/{run}/fork", {"at": 1}),
    ("GET", "/api/v1/runs/{run}/export", None),
    ("POST", "/api/v1/events", {"name": "news", "payload": 1}),
    ("POST", "/api/v1/bulk/cancel", {"workflow": "sealing"}),
]


@pytest.mark.slow
@pytest.mark.req("K42")
async def test_without_the_codec_what_writes_or_exports_payloads_is_refused(
    sqlite: Engines, tmp_path: Path
) -> None:
    async with runs_of(sqlite) as runs, server(sqlite, tmp_path) as client:
        refused = {
            (method, path): await client.request(method, path.format(run=runs["sealing"]), json=body)
            for method, path, body in WRITES
        }
        tagged = await client.get("/api/v1/runs?tag=guest%3Danybody")
        after = (await client.get(f"/api/v1/runs/{runs['sealing']}")).json()
        listed = (await client.get("/api/v1/runs")).json()["runs"]

    for asked, answer in refused.items():
        assert (answer.status_code, code(answer)) == (409, "CODEC_MISSING"), (asked, answer.text)
    assert code(tagged) == "SEARCH_REFUSED"
    assert (after["status"], len(listed)) == ("suspended", 4)


@pytest.mark.slow
@pytest.mark.req("K42")
async def test_with_the_codec_everything_is_shown(
    sqlite: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWELL_ENCRYPTION_KEY", f"a:{base64.b64encode(KEY).decode()}")
    async with runs_of(sqlite) as runs, server(sqlite, tmp_path) as client:
        detail = (await client.get(f"/api/v1/runs/{runs['sealing']}")).json()
        steps = (await client.get(f"/api/v1/runs/{runs['sealing']}/steps")).json()["steps"]
        (wait,) = (await client.get(f"/api/v1/runs/{runs['sealing']}/waits")).json()["waits"]
        body = {"path": wait["path"], "answer": "yes", "by": "ann"}
        decided = await client.post(f"/api/v1/runs/{runs['sealing']}/decide", json=body)

    assert (detail["input"], detail["tags"]) == (CANARY, {"guest": CANARY})
    assert steps[0]["output"] == f"{CANARY} {CANARY}"
    assert wait["title"] == CANARY
    assert decided.status_code == 200, decided.text
