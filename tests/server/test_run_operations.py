"""What operators do to one run over HTTP, and what editors of graphs ask for."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import jsonschema_rs
import pytest

from stepwell import Context, Machine, StepContext, step, transition, workflow
from tests.authoring.graphs.graphs import START, a, chart
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


@workflow
async def sleeping(ctx: Context, text: str) -> str:
    await ctx.sleep("30d")
    return text


@pytest.mark.req("A2")
async def test_a_sleeping_run_is_woken(engines: Engines) -> None:
    async with served(engines.new(sleeping, *FLOWS)) as client:
        run = await client.started("sleeping", "awake")
        await client.waiting(run)
        path = f"/api/v1/runs/{run}/delay"
        wrong = await client.post(path, json={"to": "soon"})
        other = await client.post(path, json={"to": 0, "path": "0/sleep#7"})
        done = await client.post(path, json={"to": 0, "reason": "it is morning"})
        ended = await client.ended(run)
        late = await client.post(path, json={"to": 0})

    assert (code(wrong), code(other)) == ("INVALID_DEFINITION", "NOT_SLEEPING")
    assert done.status_code == 200
    assert ended["output"] == "awake"
    assert code(late) in ("RUN_ENDED", "NOT_SLEEPING")


@pytest.mark.req("A2")
async def test_a_test_run_is_stopped_and_deleted_and_another_is_not(engines: Engines) -> None:
    waiting = {
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "wait", "type": "delay", "data": {"ms": 1_000_000}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "wait"}, {"source": "wait", "target": "end"}],
    }
    async with served(engines.new(*FLOWS)) as client:
        body = {"graph": waiting, "input": {}}
        keyed = {"Idempotency-Key": "try-1"}
        run, same = [
            (await client.post("/api/v1/graphs/test", json=body, headers=keyed)).json()["id"] for _ in "12"
        ]
        await client.waiting(run)
        stopped = await client.post(f"/api/v1/runs/{run}/discard", json={"reason": "closed"})
        gone = await client.get(f"/api/v1/runs/{run}")
        other = await client.started("listening", 1)
        refused = await client.post(f"/api/v1/runs/{other}/discard")
        there = await client.get(f"/api/v1/runs/{other}")

    assert run == same
    assert (stopped.status_code, stopped.content) == (204, b"")
    assert code(gone) == "RUN_NOT_FOUND"
    assert code(refused) == "NOT_REMOVABLE"
    assert there.json()["ended_at"] is None


@pytest.mark.req("A1")
async def test_a_run_that_has_moved_on_is_not_changed(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 2)
        await client.waiting(run)
        path = f"/api/v1/runs/{run}"
        seen = (await client.get(path)).headers["etag"]
        await client.post(f"{path}/signal", json={"name": "word", "payload": 1}, headers={"If-Match": seen})

        async def moved() -> bool:
            return (await client.get(path)).headers["etag"] != seen

        await until(moved)
        stale = await client.post(f"{path}/cancel", headers={"If-Match": seen})
        deleted = await client.delete(path, headers={"If-Match": seen})
        now = (await client.get(path)).headers["etag"]
        fresh = await client.post(f"{path}/cancel", headers={"If-Match": f'"other", {now}'})
        ended = await client.ended(run)

    assert [(answer.status_code, code(answer)) for answer in (stale, deleted)] == [(409, "RUN_CHANGED")] * 2
    assert fresh.json()["done"]
    assert ended["status"] == "cancelled"


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


@pytest.mark.req("K39", "A2")
async def test_a_variable_of_a_graph_run_is_set(engines: Engines) -> None:
    waiting = chart(
        [
            START,
            a("A", "set", values={"amount": 1}),
            a("W", "wait", mode="event", event="go"),
            a("Z", "end", output={"amount": "{{ctx.amount}}"}),
        ],
        "S>A A>W W>Z",
    )
    async with served(engines.new(waiting)) as client:
        run = await client.started("chart", {})
        await client.waiting(run)
        path = f"/api/v1/runs/{run}"

        async def suspended() -> bool:
            return bool((await client.get(path)).json()["status"] == "suspended")

        await until(suspended)
        unknown = await client.post(f"{path}/variable", json={"name": "amuont", "value": 1})
        input = await client.post(f"{path}/variable", json={"name": "input", "value": 1})
        without = await client.post(f"{path}/variable", json={"name": "amount"})
        done = await client.post(f"{path}/variable", json={"name": "amount", "value": 2, "reason": "wrong"})
        await client.post(f"{path}/event", json={"name": "go", "payload": None})
        ended = await client.ended(run)
        late = await client.post(f"{path}/variable", json={"name": "amount", "value": 3})
        events = (await client.get(f"{path}/events")).json()["events"]
        state = (await client.get(f"{path}/state")).json()

    assert (state["input"], state["variables"]) == ({}, {"amount": 2})
    assert state["nodes"]["A"] == {"amount": 1}
    assert (code(unknown), input.status_code, without.status_code) == ("NOT_SETTABLE", 422, 422)
    assert done.json()["done"]
    assert ended["output"] == {"amount": 2}
    assert code(late) == "RUN_ENDED"
    [event] = [event for event in events if event["kind"] == "variable_set"]
    assert (event["data"]["by"], event["data"]["reason"]) == ("local", "wrong")


@step
async def ask_model(ctx: StepContext, prompt: str) -> str:
    ctx.usage(input_tokens=5, output_tokens=2, cost=0.5)
    return prompt


@workflow
async def conversation(ctx: Context, prompt: str) -> str:
    ctx.progress(1, 2)
    return await ctx.step(ask_model, prompt)


@pytest.mark.req("K38", "A2")
async def test_a_run_shows_its_tokens_and_how_far_it_is(engines: Engines) -> None:
    async with served(engines.new(conversation)) as client:
        run = await client.started("conversation", "hello")
        shown = await client.ended(run)
        listed = (await client.get("/api/v1/runs")).json()["runs"][0]
        overview = (await client.get(f"/api/v1/runs/{run}/overview")).json()
        [step] = [
            step
            for step in (await client.get(f"/api/v1/runs/{run}/steps")).json()["steps"]
            if step["usage"] is not None
        ]

    expected = {"done": 1, "total": 2, "input_tokens": 5, "output_tokens": 2, "cost": 0.5}
    for answer in (shown, listed, overview):
        assert {name: answer[name] for name in expected} == expected
    assert step["usage"] == {"input_tokens": 5, "output_tokens": 2, "cost": 0.5}
    assert listed["held"] is False


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
async def test_events_are_found_by_type_and_by_path(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("doubling", 1)
        await client.ended(run)
        path = f"/api/v1/runs/{run}/events"
        whole = (await client.get(path)).json()["events"]
        done = (await client.get(path, params={"type": ["node_completed", "workflow_finished"]})).json()
        first = (await client.get(path, params={"type": "workflow_finished", "limit": 1})).json()
        step = next(event["path"] for event in whole if event["type"] == "node_completed")
        about = (await client.get(path, params={"path": step})).json()["events"]
        typo = await client.get(path, params={"type": "node_complete"})

    assert [event["type"] for event in done["events"]] == ["node_completed", "workflow_finished"]
    assert [event["seq"] for event in first["events"]] == [whole[-1]["seq"]]
    assert about == [event for event in whole if event["path"] == step]
    assert (typo.status_code, code(typo)) == (400, "PARAM_INVALID")
    assert "node_completed" in typo.json()["message"]


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
    assert code(code_flow) == "NOT_DRAWN"
    assert listed[0]["graph"]["nodes"][0]["id"] == "start"


class Review(Machine[dict[str, str]]):
    ends: ClassVar = {"<b>done"}

    @transition("start", "asked")
    async def ask(self, ctx: Context, text: str) -> None:
        self.state["text"] = text

    @transition("asked", "<b>done", wait=str)
    async def accept(self, ctx: Context, note: str) -> None:
        self.state["note"] = note


@pytest.mark.req("A2", "M8")
async def test_a_machine_is_drawn_by_a_server_that_does_not_have_its_code(durable_engines: Engines) -> None:
    async with durable_engines.new(Review):
        pass
    async with served(durable_engines.client()) as client:
        picture = await client.get("/api/v1/workflows/Review/drawing")
        text = await client.get("/api/v1/workflows/Review/drawing?format=mermaid")
        unknown = await client.get("/api/v1/workflows/Review/drawing?version=7")

    assert text.text == Review.drawing()
    assert picture.text == Review.drawing("svg")
    assert "<b>" not in picture.text
    assert "sandbox" in picture.headers["content-security-policy"]
    assert code(unknown) == "UNKNOWN_WORKFLOW"


@pytest.mark.req("A2", "G18")
async def test_the_difference_of_two_versions_has_moved_nodes_apart(memory_engines: Engines) -> None:
    def graph(x: int, said: str) -> dict[str, Any]:
        end = {"id": "end", "type": "end", "data": {"output": {"said": said}}, "position": {"x": x, "y": 0}}
        return {"nodes": [{"id": "start", "type": "start"}, end], "edges": GRAPH["edges"]}

    async with served(memory_engines.new(*FLOWS)) as client:
        await client.post("/api/v1/graphs", json={"graph": graph(1, "hello"), "name": "hello"})
        await client.post("/api/v1/graphs/hello/publish")
        await client.put("/api/v1/graphs/hello", json={"graph": graph(2, "hello")})
        moved = (await client.get("/api/v1/graphs/hello/diff")).json()["diff"]
        await client.put("/api/v1/graphs/hello", json={"graph": graph(1, "bye")})
        changed = (await client.get("/api/v1/graphs/hello/diff?old=1&new=draft")).json()["diff"]

    assert moved["moved"] == {"end": [{"x": 1, "y": 0}, {"x": 2, "y": 0}]}
    assert moved["nodes"] == {"added": [], "removed": [], "changed": {}}
    assert changed["nodes"]["changed"] == {"end": {"data.output.said": ["hello", "bye"]}}
    assert changed["moved"] == {}


@pytest.mark.req("A2")
async def test_versions_of_a_workflow_are_listed(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        for text in ("one", "two"):
            graph = {
                **GRAPH,
                "nodes": [
                    GRAPH["nodes"][0],
                    {"id": "end", "type": "end", "data": {"output": {"said": text}}},
                ],
            }
            method = client.post if text == "one" else client.put
            address = "/api/v1/graphs" + ("" if text == "one" else "/hello")
            body = {"graph": graph} | ({"name": "hello"} if text == "one" else {})
            assert (await method(address, json=body)).is_success
            await client.post("/api/v1/graphs/hello/publish", json={"by": "ann"})
        versions = (await client.get("/api/v1/workflows/hello/versions")).json()["versions"]
        detail = (await client.get("/api/v1/workflows/hello?version=1")).json()
        draft = await client.get("/api/v1/workflows/draft:hello/versions")
        nothing = await client.get("/api/v1/workflows/nothing/versions")

    assert [(row["version"], row["kind"], row["created_by"]) for row in versions] == [
        ("1", "graph", "ann"),
        ("2", "graph", "ann"),
    ]
    assert detail["hash"] == versions[0]["hash"] != versions[1]["hash"]
    assert detail["versions"] == ["1", "2"]
    assert (code(draft), code(nothing)) == ("UNKNOWN_WORKFLOW", "UNKNOWN_WORKFLOW")


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
