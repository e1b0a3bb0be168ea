"""What operators do to one run over HTTP, and what editors of graphs ask for."""

from __future__ import annotations

import logging
from typing import Any

import jsonschema_rs
import pytest

from stepwell import Context, step, workflow
from tests.engines import Engines, until
from tests.server.served import FLOWS, assigned, code, served

GRAPH: dict[str, Any] = {
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "end", "type": "end", "data": {"output": {"said": "<script>alert(1)</script>"}}},
    ],
    "edges": [{"source": "start", "target": "end"}],
}


@step
async def speak(text: str) -> str:
    logging.getLogger("speaker").warning("said %s", text)
    print("printed", text)
    return text


@workflow
async def speaking(ctx: Context, text: str) -> str:
    return await ctx.step(speak, text)


@pytest.mark.req("K39", "A2")
async def test_a_run_is_held_released_and_ended_by_force(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("listening", 1)
        await client.waiting(run)
        path = f"/api/v1/runs/{run}"
        held = (await client.post(f"{path}/hold", json={"reason": "look first"})).json()
        again = (await client.post(f"{path}/hold")).json()
        await client.post(f"{path}/signal", json={"name": "word", "payload": 1})
        why = (await client.get(f"{path}/why")).json()
        released = (await client.post(f"{path}/release")).json()
        done = await client.ended(run)
        late = await client.post(f"{path}/hold")
        other = await client.started("listening", 1)
        forced = (await client.post(f"/api/v1/runs/{other}/force", json={"reason": "stuck"})).json()

    assert (held["done"], again["done"], released["done"]) == (True, False, True)
    assert "held" in why["text"]
    assert done["output"] == [1]
    assert code(late) == "RUN_ENDED"
    assert forced == {"done": True, "status": "cancelled"}


@pytest.mark.req("A2")
async def test_an_approval_is_reassigned_and_reminded_of(memory_engines: Engines) -> None:
    async with served(memory_engines.new(assigned)) as client:
        run = await client.started("assigned", "pay?")
        await client.waiting(run)
        path = f"/api/v1/runs/{run}"
        await client.post(f"{path}/reassign", json={"assignees": ["ann"]})

        async def reassigned() -> bool:
            return [wait["assignees"] for wait in await client.waiting(run)] == [["ann"]]

        await until(reassigned)
        await client.post(f"{path}/remind", json={"reason": "due today"})

        async def reminded() -> bool:
            return all(wait["reminded_at"] for wait in await client.waiting(run))

        await until(reminded)
        nobody = await client.post(f"{path}/reassign", json={"assignees": []})
        decided = await client.post(f"{path}/decide", json={"answer": "yes", "by": "ann"})

    assert nobody.status_code == 422
    assert decided.status_code == 200


@pytest.mark.req("K39", "A2")
async def test_a_failed_step_is_skipped(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.started("failing", "x")
        await client.ended(run)
        path = f"/api/v1/runs/{run}/skip"
        wrong = await client.post(path, json={"output": "y", "path": "0/other#1"})
        skipped = await client.post(path, json={"output": "y"})

        async def done() -> bool:
            return bool((await client.get(f"/api/v1/runs/{run}")).json()["output"] == "y")

        await until(done)

    assert (wrong.status_code, skipped.status_code) == (409, 200)


@pytest.mark.req("A3")
async def test_events_have_a_type_of_one_vocabulary_and_a_schema(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("doubling", 1)
        await client.ended(run)
        events = (await client.get(f"/api/v1/runs/{run}/events")).json()["events"]
        schema = (await client.get("/api/v1/event-schema")).json()
        checker = jsonschema_rs.validator_for(schema)

        assert [event["type"] for event in events][:1] == ["workflow_started"]
        assert [event["type"] for event in events][-2:] == ["node_completed", "workflow_finished"]
        assert all(checker.is_valid(event) for event in events)


@pytest.mark.req("A2")
async def test_log_lines_of_a_step_are_paged(engines: Engines) -> None:
    async with served(engines.new(speaking)) as client:
        run = await client.started("speaking", "hello")
        await client.ended(run)
        first = (await client.get(f"/api/v1/runs/{run}/logs?limit=1")).json()
        rest = (await client.get(f"/api/v1/runs/{run}/logs?after={first['after']}")).json()
        none = (await client.get(f"/api/v1/runs/{run}/logs?path=0/other")).json()

    lines = [*first["lines"], *rest["lines"]]
    assert first["more"]
    assert [(line["stream"], line["text"]) for line in lines] == [
        ("log", "said hello"),
        ("stdout", "printed hello"),
    ]
    assert none == {"lines": [], "after": 0, "more": False}


@pytest.mark.req("A2")
async def test_a_glance_is_small_and_says_how_far_a_run_is(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("doubling", 21)
        await client.ended(run)
        answer = await client.get(f"/api/v1/runs/{run}/glance")

    assert {"status": "completed", "output": 42, "seq": 4}.items() <= answer.json().items()
    assert len(answer.content) < 300


@pytest.mark.req("A2")
async def test_an_editor_gets_node_types_drawings_and_test_runs(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        types = {kind["name"]: kind for kind in (await client.get("/api/v1/node-types")).json()["types"]}
        body = {"graph": GRAPH, "input": {}}
        run = (await client.post("/api/v1/graphs/test", json=body)).json()["id"]
        ended = await client.ended(run)
        await client.post("/api/v1/graphs", json={"graph": GRAPH, "name": "hello"})
        await client.post("/api/v1/graphs/hello/publish")
        picture = await client.get("/api/v1/workflows/hello/drawing")
        text = await client.get("/api/v1/workflows/hello/drawing?format=mermaid")
        code_flow = await client.get("/api/v1/workflows/doubling/drawing")
        listed = (await client.get("/api/v1/graphs?nodes=true")).json()["graphs"]

    assert types["start"]["data"]["type"] == "object"
    assert ended["test"]
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "sandbox" in picture.headers["content-security-policy"]
    assert "start" in text.text
    assert code(code_flow) == "NOT_A_GRAPH"
    assert listed[0]["graph"]["nodes"][0]["id"] == "start"


@pytest.mark.req("A2")
async def test_the_steps_of_a_run_have_one_shape(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("doubling", 4)
        await client.ended(run)
        body = {"graph": GRAPH, "input": {}}
        graph = (await client.post("/api/v1/graphs/test", json=body)).json()["id"]
        await client.ended(graph)
        page = (await client.get(f"/api/v1/runs/{run}/steps")).json()
        first = (await client.get(f"/api/v1/runs/{graph}/steps?limit=1")).json()
        rest = (await client.get(f"/api/v1/runs/{graph}/steps?after={first['after']}")).json()

    [entry] = page["steps"]
    assert (entry["name"], entry["kind"], entry["status"], entry["output"]) == (
        "double",
        "step",
        "completed",
        8,
    )
    assert entry["started_at"]
    assert first["more"]
    assert [step["name"] for step in [*first["steps"], *rest["steps"]]] == ["start", "end"]
    assert set(entry) == set(first["steps"][0])
