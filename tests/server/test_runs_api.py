"""Runs over HTTP: start, read, steer, and make new ones from old ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, workflow
from stepwell.server import history, runs
from tests.engines import Engines
from tests.server.served import FLOWS, code, double, served


@pytest.mark.req("A1", "A2")
async def test_a_run_is_started_waited_for_and_read(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        answer = await client.post("/api/v1/runs?wait=30s", json={"workflow": "doubling", "input": 4})
        run = answer.json()["run"]
        url = answer.json()["url"]

        assert answer.status_code == 201
        assert (run["status"], run["input"], run["output"], run["error"]) == ("completed", 4, 8, None)
        read = await client.get(url)
        assert read.json() == run
        events = (await client.get(f"{url}/events?limit=3")).json()
        assert [event["seq"] for event in events["events"]] == [1, 2, 3]
        assert (events["after"], events["more"]) == (3, True)
        rest = (await client.get(f"{url}/events?after=3")).json()
        assert [event["kind"] for event in rest["events"]] == ["completed"]
        assert rest["more"] is False
        assert (await client.get(f"{url}/state")).json()["outputs"] == {"0/double#1": 8}
        assert (await client.get(f"{url}/state?seq=1")).json()["status"] == "pending"
        assert code(await client.get(f"{url}/state?seq=99")) == "INVALID_INPUT"
        assert (await client.get(f"{url}/why")).json()["code"] == "ended"
        assert len((await client.get(f"{url}/checkpoints")).json()["checkpoints"]) == 1


@pytest.mark.req("A1")
async def test_an_unchanged_run_is_not_sent_again(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 1)
        await client.waiting(run)
        tag = (await client.get(f"/api/v1/runs/{run}")).headers["etag"]
        same = await client.get(f"/api/v1/runs/{run}", headers={"If-None-Match": tag})
        await client.post(f"/api/v1/runs/{run}/signal", json={"name": "word", "payload": 1})
        await client.ended(run)
        changed = await client.get(f"/api/v1/runs/{run}", headers={"If-None-Match": tag})

        assert (same.status_code, same.content) == (304, b"")
        assert changed.status_code == 200
        assert changed.headers["etag"] != tag


@pytest.mark.req("A1")
async def test_the_same_key_gives_the_same_run(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        key = {"Idempotency-Key": "order-42"}
        first = await client.started("doubling", 4, headers=key)
        again = await client.started("doubling", 4, headers=key)
        other = await client.post("/api/v1/runs", json={"workflow": "doubling", "input": 5}, headers=key)
        listed = (await client.get("/api/v1/runs?key=order-42")).json()["runs"]

        assert first == again
        assert (other.status_code, code(other)) == (409, "KEY_CONFLICT")
        assert [run["id"] for run in listed] == [first]


async def test_a_wait_that_is_too_short_answers_with_the_run_as_it_is(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        answer = await client.post("/api/v1/runs?wait=10ms", json={"workflow": "listening", "input": 1})
        failed = await client.post("/api/v1/runs?wait=30s", json={"workflow": "failing", "input": "no"})

        assert answer.json()["run"]["status"] in ("pending", "running", "suspended")
        assert failed.json()["run"]["status"] == "failed"
        assert "no" in failed.json()["run"]["error"]["message"]
        assert code(await client.post("/api/v1/runs?wait=soon", json={"workflow": "x"})) == "PARAM_INVALID"


@pytest.mark.req("A2")
async def test_lists_are_filtered_and_paged(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        body = {"workflow": "doubling", "inputs": [1, 2, 3, 4, 5], "keys": [f"k{n}" for n in range(5)]}
        started = await client.post("/api/v1/runs/batch", json=body)
        ids = [run["id"] for run in started.json()["runs"]]
        for run in ids:
            await client.ended(run)
        failed = await client.started("failing", "no")
        await client.ended(failed)
        pages: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            more = {"cursor": cursor} if cursor else {}
            page = (
                await client.get("/api/v1/runs", params={"workflow": "doubling", "limit": 2, **more})
            ).json()
            pages += [run["id"] for run in page["runs"]]
            cursor = page["cursor"]
            if cursor is not None:
                other = await client.get("/api/v1/runs", params={"workflow": "asking", "cursor": cursor})
                assert code(other) == "CURSOR_INVALID"

        assert pages == sorted(ids, reverse=True)
        by_status = (await client.get("/api/v1/runs?status=failed&status=cancelled")).json()["runs"]
        assert [run["id"] for run in by_status] == [failed]
        executions = (await client.get("/api/v1/workflows/doubling/executions?limit=3")).json()
        assert [run["id"] for run in executions["runs"]] == pages[:3]


async def test_long_payloads_are_cut_in_lists_with_a_link_to_the_whole(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        text = "x" * 70_000
        run = await client.started("asking", text)
        row = (await client.get("/api/v1/runs")).json()["runs"][0]["input"]
        event = (await client.get(f"/api/v1/runs/{run}/events")).json()["events"][0]["data"]

        assert row == {"truncated": True, "bytes": 70_002, "url": f"/api/v1/runs/{run}"}
        assert (await client.get(row["url"])).json()["input"] == text
        assert event["truncated"] is True
        assert (await client.get(event["url"])).json()["data"]["input"] == text


@pytest.mark.parametrize("filter", [{}, {"path": "0/signal:word#1"}, {"type": "node_completed"}], ids=str)
async def test_pages_of_large_events_are_short_and_leave_nothing_out(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, filter: dict[str, str]
) -> None:
    monkeypatch.setattr(history, "_PAGE_BYTES", 3000)
    monkeypatch.setattr(history, "_FILTERED", 2)
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("listening", 8)
        for number in range(8):
            word = {"name": "word", "payload": f"{number}" * 900}
            await client.post(f"/api/v1/runs/{run}/signal", json=word)
        seq = (await client.ended(run))["seq"]
        address = f"/api/v1/runs/{run}/events"
        events = [(await client.get(f"{address}/{number}")).json() for number in range(1, seq + 1)]
        listed: list[dict[str, Any]] = []
        pages, after, more = 0, 0, True
        while more:
            page = (await client.get(address, params={"after": after, "limit": 100, **filter})).json()
            listed += page["events"]
            pages, after, more = pages + 1, page["after"], page["more"]

    assert listed == [event for event in events if filter.items() <= event.items()]
    assert filter or pages > 2


async def test_a_page_of_large_runs_is_read_in_parts(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_FIRST_ROWS", 2)
    monkeypatch.setattr(runs, "_LEAST_ROWS", 1)
    monkeypatch.setattr(runs, "_ROWS_BYTES", 1000)
    async with served(engines.new(*FLOWS)) as client:
        started = [await client.started("asking", f"{number}" * 900) for number in range(7)]
        first = (await client.get("/api/v1/runs?limit=5")).json()
        rest = (await client.get(f"/api/v1/runs?limit=5&cursor={first['cursor']}")).json()
        whole = (await client.get("/api/v1/runs?limit=7")).json()

    assert [run["id"] for run in first["runs"] + rest["runs"]] == started[::-1]
    assert (len(first["runs"]), rest["cursor"]) == (5, None)
    assert [run["id"] for run in whole["runs"]] == started[::-1]


@workflow
async def writing(ctx: Context, length: int) -> None:
    ctx.save("long note", "x" * length)
    await ctx.step(double, 1)


async def test_long_documents_are_cut_in_lists_with_a_link_to_the_whole(memory_engines: Engines) -> None:
    async with served(memory_engines.new(writing)) as client:
        run = await client.started("writing", 70_000)
        await client.ended(run)
        listed = (await client.get(f"/api/v1/runs/{run}/documents")).json()["documents"][0]["value"]
        whole = await client.get(listed["url"])

    assert listed == {
        "truncated": True,
        "bytes": 70_002,
        "url": f"/api/v1/runs/{run}/documents/long%20note?version=1",
    }
    assert whole.json() == "x" * 70_000


async def test_signals_and_decisions_reach_the_run(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        listening = await client.started("listening", 2)
        for number in (1, 1, 2):
            body = {"name": "word", "payload": number, "id": f"message-{number}"}
            answer = await client.post(f"/api/v1/runs/{listening}/signal", json=body)
            assert answer.json()["done"] is True
        asking = await client.started("asking", "ship it?")
        assert [wait["what"] for wait in await client.waiting(asking)] == ["approval"]
        decided = await client.post(f"/api/v1/runs/{asking}/decide", json={"answer": "yes", "by": "ann"})

        assert decided.status_code == 200
        assert (await client.ended(listening))["output"] == [1, 2]
        assert (await client.ended(asking))["output"] == "ship it? yes"
        late = await client.post(f"/api/v1/runs/{asking}/decide", json={"answer": "no"})
        assert (late.status_code, code(late)) == (409, "RUN_ENDED")
        late = await client.post(f"/api/v1/runs/{asking}/signal", json={"name": "word"})
        assert code(late) == "RUN_ENDED"
        trigger = await client.post(f"/api/v1/runs/{asking}/trigger", json={"transition": "x"})
        assert code(trigger) == "WRONG_PLACE"


@pytest.mark.req("A1")
async def test_a_message_with_the_same_key_counts_once(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("listening", 2)
        path, first = f"/api/v1/runs/{run}/signal", {"Idempotency-Key": "first"}
        for _ in range(2):
            sent = await client.post(path, json={"name": "word", "payload": 1}, headers=first)
            assert sent.status_code == 200, sent.text
        other = await client.post(path, json={"name": "word", "payload": 9}, headers=first)
        two = await client.post(path, json={"name": "word", "payload": 9, "id": "second"}, headers=first)
        empty = await client.post(path, json={"name": "word"}, headers={"Idempotency-Key": ""})
        await client.post(path, json={"name": "word", "payload": 2})
        ended = await client.ended(run)
        news = [await client.post("/api/v1/events", json={"name": "news"}, headers=first) for _ in range(2)]
        asking = await client.started("asking", "ship it?")
        await client.waiting(asking)
        path = f"/api/v1/runs/{asking}/decide"
        decided = [await client.post(path, json={"answer": "yes"}, headers=first) for _ in range(2)]
        contrary = await client.post(path, json={"answer": "yes", "id": "second"}, headers=first)

    assert (other.status_code, code(other)) == (409, "MESSAGE_CONFLICT")
    assert [(answer.status_code, code(answer)) for answer in (two, empty)] == [(400, "IDEMPOTENCY_KEY")] * 2
    assert two.json()["field"] == "id"
    assert ended["output"] == [1, 2]
    assert [answer.json()["published"] for answer in news] == [True, False]
    assert decided[0].status_code == 200
    assert code(contrary) == "IDEMPOTENCY_KEY"


async def test_runs_are_cancelled_retried_and_deleted(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        waiting = await client.started("listening", 1)
        await client.waiting(waiting)
        url = f"/api/v1/runs/{waiting}"
        assert code(await client.delete(url)) == "NOT_REMOVABLE"
        first = await client.post(f"{url}/cancel", json={"reason": "not needed"})
        assert (await client.ended(waiting))["status"] == "cancelled"
        again = await client.post(f"{url}/cancel")
        failed = await client.started("failing", "no")
        await client.ended(failed)
        retried = await client.post(f"/api/v1/runs/{failed}/retry")
        undone = await client.post(f"{url}/compensate")

        assert (first.json()["done"], again.json()["done"]) == (True, False)
        assert retried.status_code == 200
        assert code(undone) == "NOT_COMPENSABLE"
        assert code(await client.post(f"{url}/retry")) == "NOT_RETRYABLE"
        assert (await client.delete(url)).status_code == 204
        assert code(await client.get(url)) == "RUN_NOT_FOUND"


async def test_new_runs_are_made_from_old_ones(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        old = await client.started("doubling", 4)
        await client.ended(old)
        url = f"/api/v1/runs/{old}"

        async def output(path: str, body: Any = None) -> Any:
            answer = await client.post(f"{url}/{path}", **({} if body is None else {"json": body}))
            assert answer.status_code == 201, answer.text
            return (await client.ended(answer.json()["id"]))["output"]

        assert await output("rerun") == 8
        assert await output("rerun", {"input": 5}) == 10
        assert await output("rerun-from", {"step": "double"}) == 8
        assert await output("fork", {"at": 3, "outputs": {"0/double#1": 99}}) == 99
        assert code(await client.post(f"{url}/rerun-from", json={"step": "nothing"})) == "STEP_NOT_FOUND"
        key = {"Idempotency-Key": "once"}
        twice = [(await client.post(f"{url}/rerun", headers=key)).json()["id"] for _ in range(2)]
        assert twice[0] == twice[1]


async def test_a_run_is_exported_and_imported(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("doubling", 4)
        before = await client.ended(run)
        file = await client.get(f"/api/v1/runs/{run}/export")
        refused = await client.post("/api/v1/runs/import", content=file.content)
        await client.delete(f"/api/v1/runs/{run}")
        restored = await client.post("/api/v1/runs/import", content=file.content)

        assert f"run-{run}.json" in file.headers["content-disposition"]
        assert code(refused) == "RUN_EXISTS"
        assert restored.json()["id"] == run
        after = (await client.get(f"/api/v1/runs/{run}")).json()
        assert after["number"] > before["number"]  # a refused import may leave a gap
        assert after == {**before, "trigger": "import", "number": after["number"]}
        assert code(await client.post("/api/v1/runs/import", content=b"{}")) == "INVALID_FILE"


async def test_limits_are_set_and_removed(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        body = {"kind": "workflow", "name": "doubling", "limit": 3}
        put = await client.put("/api/v1/limits", json=body)

        assert put.json() == {**body, "hold": "active", "by": "local"}
        assert (await client.get("/api/v1/limits")).json()["limits"] == [put.json()]
        assert (await client.delete("/api/v1/limits?kind=workflow&name=doubling")).status_code == 200
        assert (await client.get("/api/v1/limits")).json()["limits"] == []
        assert code(await client.delete("/api/v1/limits?kind=workflow&name=doubling")) == "LIMIT_NOT_FOUND"
        wrong = await client.put("/api/v1/limits", json={**body, "limit": -1})
        assert code(wrong) == "INVALID_INPUT"


GRAPH = {
    "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
    "edges": [{"id": "e", "source": "start", "target": "end"}],
}


@pytest.mark.req("A1")
async def test_graphs_are_saved_published_and_run(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        checked = (await client.post("/api/v1/graphs/validate", json={"graph": GRAPH})).json()
        assert checked["problems"] == []
        broken = {**GRAPH, "edges": [{"id": "e", "source": "start", "target": "nowhere"}]}
        assert not (await client.post("/api/v1/graphs/validate", json={"graph": broken})).json()["valid"]
        refused = await client.post("/api/v1/graphs", json={"name": "hello", "graph": broken})
        assert code(refused) == "INVALID_GRAPH"
        assert refused.json()["fields"]
        created = await client.post("/api/v1/graphs", json={"name": "hello", "graph": GRAPH})
        assert created.status_code == 201, created.text
        tag = created.headers["etag"]
        moved = {**GRAPH, "nodes": [{**GRAPH["nodes"][0], "position": {"x": 1, "y": 2}}, GRAPH["nodes"][1]]}
        url = "/api/v1/graphs/hello"
        saved = await client.put(url, json={"graph": moved}, headers={"If-Match": tag})
        late = await client.put(url, json={"graph": GRAPH}, headers={"If-Match": tag})
        assert saved.status_code == 200
        assert (late.status_code, code(late)) == (409, "CONFLICT")
        assert (
            code(await client.put(url, json={"graph": GRAPH}, headers={"If-Match": "x"})) == "PARAM_INVALID"
        )
        assert (await client.post(f"{url}/publish")).json() == {"version": "1"}
        assert (await client.get(url)).json()["versions"] == ["1"]
        assert (await client.get(f"{url}/diff?old=1")).status_code == 200
        answer = await client.post("/api/v1/runs?wait=30s", json={"workflow": "hello", "input": {}})
        assert answer.json()["run"]["status"] == "completed", answer.text
        assert [graph["name"] for graph in (await client.get("/api/v1/graphs")).json()["graphs"]] == ["hello"]
        assert (await client.delete(url)).status_code == 204
        assert code(await client.get(url)) == "UNKNOWN_WORKFLOW"


@pytest.mark.req("A1", "N2")
async def test_a_run_by_hand_is_checked_against_the_form_of_its_graph(engines: Engines) -> None:
    form = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    drawn = {**GRAPH, "triggers": [{"id": "by_hand", "type": "manual", "form": form}]}
    async with served(engines.new(*FLOWS)) as client:
        await client.post("/api/v1/graphs", json={"name": "hello", "graph": drawn})
        await client.post("/api/v1/graphs/hello/publish")
        shown = {
            name: (await client.get(f"/api/v1/workflows/{name}")).json()["form"]
            for name in ("hello", "doubling")
        }
        body = {"workflow": "hello", "trigger": "manual"}
        wrong = await client.post("/api/v1/runs", json={**body, "input": {"amount": "ten"}})
        batch = await client.post("/api/v1/runs/batch", json={**body, "inputs": [{"amount": 1}, {}]})
        other = await client.post("/api/v1/runs", json={**body, "trigger": "schedule"})
        none = (await client.get("/api/v1/runs")).json()["runs"]
        fits = await client.post("/api/v1/runs?wait=30s", json={**body, "input": {"amount": 10}})
        program = await client.post("/api/v1/runs?wait=30s", json={"workflow": "hello", "input": {}})

    assert shown == {"hello": form, "doubling": None}
    assert (wrong.status_code, code(wrong), wrong.json()["field"]) == (422, "INVALID_INPUT", "amount")
    assert 'is not of type "integer"' in wrong.json()["message"]
    assert (batch.status_code, code(batch)) == (422, "INVALID_INPUT")
    assert other.status_code == 422
    assert none == []
    assert [answer.json()["run"]["trigger"] for answer in (fits, program)] == ["manual", "api"]


async def test_the_server_needs_no_workflow_code(durable_engines: Engines) -> None:
    async with durable_engines.new(*FLOWS) as worker, served(durable_engines.client()) as client:
        assert worker.worker is not None
        names = {row["name"] for row in (await client.get("/api/v1/workflows")).json()["workflows"]}
        run = await client.started("doubling", 21)

        assert names == {"doubling", "asking", "listening", "failing"}
        assert (await client.ended(run))["output"] == 42
        schema = (await client.get("/api/v1/workflows/doubling")).json()["input_schema"]
        assert schema == {"type": "integer"}


@pytest.mark.req("A1")
async def test_the_description_names_every_operation_with_its_types(memory_engines: Engines) -> None:
    async with served(memory_engines.client()) as client:
        document = (await client.get("/api/v1/openapi.json")).json()
        operations = [
            (path, method, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]

        assert document["openapi"].startswith("3.1")
        assert len(operations) == len([row for row in client.app.table if row.method != "WEBSOCKET"])
        for path, method, operation in operations:
            assert operation["operationId"], path
            assert operation["tags"], path
            assert operation["description"], path
            assert "ProblemDetails" in str(operation["responses"]["400"]), path
            if "requestBody" in operation and "import" not in path:
                assert "schema" in operation["requestBody"]["content"]["application/json"], (path, method)
        untyped = [
            path
            for path, method, operation in operations
            if method == "get"
            and operation["responses"]["200"]["content"].get("application/json", {}).get("schema") == {}
        ]
        one = "/api/v1/runs/{run_id}"
        drawing = "/api/v1/workflows/{name}/drawing"
        files = {"/", "/docs/errors", f"{one}/export", f"{one}/stream", "/api/v1/stream", drawing}
        assert set(untyped) == files
        assert {"RunView", "EventView", "ProblemDetails"} <= set(document["components"]["schemas"])


async def test_many_starts_at_once_all_arrive(durable_engines: Engines) -> None:
    async with served(durable_engines.new(*FLOWS)) as client:

        async def one(number: int) -> str:
            return await client.started("doubling", number, headers={"Idempotency-Key": f"n{number % 25}"})

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number % 25)) for number in range(50)]

        assert len({task.result() for task in tasks}) == 25
