"""Every route with every kind of caller, from the route table; and what a workspace sees of another."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest
from msgspec.structs import replace

from stepwell import Context, Engine, Retry, step, workflow
from stepwell.domain.access import SCOPES
from stepwell.domain.status import Status
from stepwell.server.app import asgi
from stepwell.server.table import Route
from tests.engines import Engines, reaches, suspended
from tests.server.served import HANDSHAKE, Served, bearer, code, messages, served
from tests.server.test_rooms import socket_of

OTHER = "other"
CANARY = "canary-7d1f"
NOBODY = "0" * 32
OWN = {"sign_in", "get_approval", "decide_approval"}  # no key opens these
GRAPH: dict[str, Any] = {
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "end", "type": "end", "data": {"output": {"said": CANARY}}},
    ],
    "edges": [{"source": "start", "target": "end"}],
}


@step(retry=Retry(1))
async def breaking(text: str) -> str:
    raise ValueError(f"cannot take {text}")


@workflow
async def ledger(ctx: Context, text: str) -> str:
    """Keeps canary-7d1f."""
    ctx.save("note", text)
    return f"{text} {await ctx.approval(str, title=text, assignees=[text])}"


@workflow
async def broken(ctx: Context, text: str) -> str:
    return await ctx.step(breaking, text)


class Callers(NamedTuple):
    """Headers by the kind of caller."""

    refused: dict[str, dict[str, str]]
    scoped: dict[str, dict[str, str]]
    other: dict[str, str]


async def callers_of(engine: Engine) -> Callers:
    lively = await bearer(engine, "carl")
    expired, revoked = await bearer(engine, "eve", expires=0.001), await bearer(engine, "ray")
    await engine.keys.revoke(revoked["Authorization"].split("_")[2])
    await asyncio.sleep(0.01)  # the first has expired
    changed = lively["Authorization"][:-1] + ("A" if lively["Authorization"][-1] != "A" else "B")
    return Callers(
        refused={
            "none": {},
            "bad": {"Authorization": changed},
            "made up": {"Authorization": f"Bearer sw_key_{NOBODY}_{'x' * 43}"},
            "wrong kind": {"Authorization": lively["Authorization"].replace("sw_key", "sw_link")},
            "expired": expired,
            "revoked": revoked,
        },
        scoped={scope: await bearer(engine, f"only-{scope}", scopes=[scope]) for scope in SCOPES},
        other=await bearer(engine, "olga", workspace=OTHER),
    )


@asynccontextmanager
async def both(engines: Engines) -> AsyncIterator[tuple[Served, Engine]]:
    """A server whose default workspace is full of canaries; the other one has the same workflows."""
    engine = engines.new(ledger, broken)
    async with served(engine) as client:
        client.app.access.credentials.failures._most = 10_000  # many wrong keys on purpose
        definitions = await engine.store.list_definitions("default")
        await engine.store.put_definitions(
            [replace(d, workspace=OTHER, title="", description="") for d in definitions]
        )
        yield client, engine


async def fill(engine: Engine, text: str) -> tuple[str, str]:
    """Put the text into everything that holds text; return a waiting run and a failed one."""
    waiting = await engine.start("ledger", text, key=f"key {text}", tags={text: text}, by=text)
    failed = await engine.start("broken", text)
    await suspended(waiting)
    await waiting.signal("later", text, by=text)
    await reaches(failed, Status.FAILED)
    await engine.library.create(GRAPH, name="draft-of-them", by=text)
    await engine.library.publish("draft-of-them", by=text)
    await engine.set_limit("workflow", text, 3, by=text)
    await engine.hold("workflow", text, by=text, reason=text)
    await engine.disable("broken", by=text, reason=text)
    await engine.keys.create(text, roles=[text])
    await engine.alerts.set("ledger", "overdue", workflow=text, by=text)
    await engine.records.define("ledger", find=["text"], by=text)
    await engine.records.create("ledger", {"text": text}, id="one")
    return waiting.id, failed.id


def test_every_parameter_of_a_path_has_a_value_that_a_caller_would_try(memory_engines: Engines) -> None:
    """A new route must not slip through the tests below with an address that names nothing."""
    table = asgi(memory_engines.client()).table
    names = {name for row in table for name in re.findall(r"{(\w+)}", row.path)}

    own = {"secret_name", "alert_name", "webhook", "trigger", "workspace", "token", "collection"}
    own |= {"record_id"}
    assert names == {"run_id", "key_id", "job_id", "worker_id", "name", "seq"} | own
    assert {row.workspace for row in table} == {"principal", "none"}
    shared = {row.name for row in table if row.workspace == "none"}
    assert shared == {
        "launch",
        "healthz",
        "readyz",
        "explain_errors",
        "sign_in",
        "receive_delivery",
        "validate_graph",
        "openapi",
    }


def request_of(client: httpx.AsyncClient, row: Route, run: str, **options: Any) -> httpx.Request:
    path = row.path.format(
        run_id=run,
        key_id=run,
        job_id=run,
        worker_id=run,
        secret_name="ledger",
        alert_name="ledger",
        collection="ledger",
        record_id="one",
        name="ledger",
        seq=1,
        webhook="x",
        trigger="x",
        workspace="x",
        token="x",
    )
    if row.method in ("POST", "PUT", "PATCH") and row.example is not None:
        options["json"] = row.example
    if row.method == "WEBSOCKET":
        options["headers"] = {**options["headers"], **HANDSHAKE}
        return client.build_request("GET", path, **options)
    return client.build_request(row.method, path, **options)


async def answer_of(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send it; of a live stream only the head is read."""
    answer = await client.send(request, stream=True)
    if answer.status_code == 101:
        await answer.aclose()
        return answer
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        await answer.aread()
    await answer.aclose()
    return answer


@pytest.mark.req("X4", "A5")
async def test_every_route_admits_exactly_the_callers_that_its_row_names(memory_engines: Engines) -> None:
    """PT-01, PT-05, PT-06."""
    wrong: list[object] = []
    async with both(memory_engines) as (client, engine), httpx.AsyncClient(base_url=client.url) as caller:
        run, _ = await fill(engine, "text")
        callers = await callers_of(engine)
        for row in client.app.table:
            if row.name in OWN:
                for headers in ({}, *callers.refused.values(), *callers.scoped.values(), callers.other):
                    answer = await answer_of(caller, request_of(caller, row, NOBODY, headers=headers))
                    if code(answer) not in ("UNAUTHENTICATED", "CSRF"):
                        wrong.append((row.name, headers, answer.status_code, answer.text))
                continue
            for kind, headers in callers.refused.items():
                answer = await answer_of(caller, request_of(caller, row, NOBODY, headers=headers))
                cell = "in" if answer.status_code != 401 else code(answer)
                if cell != ("in" if row.scope is None else "UNAUTHENTICATED"):
                    wrong.append((row.name, kind, answer.status_code, answer.text))
            for scope, headers in callers.scoped.items():
                answer = await answer_of(caller, request_of(caller, row, NOBODY, headers=headers))
                admitted = row.scope in (None, "any", scope) or scope == "admin"
                cell = "in" if answer.status_code not in (401, 403) else code(answer)
                if cell != ("in" if admitted else "FORBIDDEN") or answer.status_code >= 500:
                    wrong.append((row.name, scope, answer.status_code, answer.text))
            if "{run_id}" in row.path:
                answer = await answer_of(caller, request_of(caller, row, run, headers=callers.other))
                if code(answer) != "RUN_NOT_FOUND":
                    wrong.append((row.name, "other workspace", answer.status_code, answer.text))

    assert wrong == []


@pytest.mark.req("X5", "A5")
async def test_nothing_of_a_workspace_is_in_a_byte_sent_to_another(engines: Engines) -> None:
    """PT-03: ids in paths, bodies, filters, cursors, streams and files; errors and metrics."""
    seen: list[object] = []
    async with both(engines) as (client, engine), httpx.AsyncClient(base_url=client.url) as caller:
        waiting, failed = await fill(engine, CANARY)
        headers = await bearer(engine, "olga", workspace=OTHER)
        cursor = (await client.get("/api/v1/runs?limit=1")).json()["cursor"]
        their_key = (await engine.keys.list())[0].id
        file = (await client.get(f"/api/v1/runs/{failed}/export")).content
        requests = [
            request_of(caller, row, run, headers=headers)
            for row in client.app.table
            for run in (waiting, failed, their_key)
        ]
        more = [
            *("runs?limit=100", "runs?workflow=ledger", "runs?status=suspended", f"runs?cursor={cursor}"),
            *("workflows/ledger/executions", "graphs/draft-of-them", "graphs/draft-of-them/diff", "limits"),
            *(f"stream?topics=run:{waiting}", "keys", "me", f"runs/{waiting}/documents/note"),
            *(f"workflows/draft-of-them{path}" for path in ("", "/versions", "/drawing", "/executions")),
            *(f"runs?parent={waiting}", f"runs?before={waiting}", f"runs?id_prefix={waiting[:20]}"),
            *("graphs?nodes=true", "runs?key_prefix=key", "approvals?assignee=olga", "runs?error=cannot"),
        ]
        requests += [caller.build_request("GET", f"/api/v1/{path}", headers=headers) for path in more]
        requests.append(caller.build_request("POST", "/api/v1/runs/import", headers=headers, content=file))
        for action in ("cancel", "delete", "hold"):
            body = {"runs": [waiting, failed]}
            path = f"/api/v1/bulk/{action}"
            requests.append(caller.build_request("POST", path, headers=headers, json=body))
        child = {"id": "call", "type": "workflow", "data": {"workflow": "draft-of-them"}}
        graph = {
            "nodes": [GRAPH["nodes"][0], child, {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "call"}, {"source": "call", "target": "end"}],
        }
        tried = await caller.post("/api/v1/graphs/test", json={"graph": graph}, headers=headers)
        their_child = f"/api/v1/runs/{tried.json()['id']}?wait=20s"
        requests.append(caller.build_request("GET", their_child, headers=headers))
        for request in requests:
            answer = await answer_of(caller, request)
            if (
                answer.is_closed
                and answer.is_stream_consumed
                and not answer.headers.get("content-type", "").startswith("text/event-stream")
            ):
                text = f"{answer.headers} {answer.text}"
                if CANARY in text or answer.status_code >= 500:
                    seen.append((request.method, str(request.url), text))
        assert seen == []
        assert CANARY in (await client.get("/api/v1/runs")).text  # it is there for its own workspace
        assert CANARY not in await client.app.state.metrics.text()
        async with socket_of(client, headers) as socket:
            for run in (waiting, failed):
                await socket.send(json.dumps({"action": "join", "run": run, "after": 0}))
                said = await socket.recv()
                assert "RUN_NOT_FOUND" in said
                assert CANARY not in said
        mine = {run: (await client.get(f"/api/v1/runs/{run}")).json()["status"] for run in (waiting, failed)}
        assert mine == {waiting: "suspended", failed: "failed"}


@pytest.mark.req("X5")
async def test_the_stream_of_a_list_has_only_runs_of_the_callers_workspace(engines: Engines) -> None:
    async with (
        both(engines) as (client, engine),
        httpx.AsyncClient(base_url=client.url, timeout=60) as caller,
    ):
        headers = await bearer(engine, "olga", workspace=OTHER)
        got: list[Any] = []
        async with caller.stream("GET", "/api/v1/stream?topics=runs", headers=headers) as stream:
            feed = messages(stream)
            assert (await anext(feed))["event"] == "reset"
            await fill(engine, CANARY)
            body = {"workflow": "ledger", "input": "ours"}
            own = (await caller.post("/api/v1/runs", json=body, headers=headers)).json()["id"]
            async for message in feed:
                got.append(message)
                if own in str(message):
                    break

        assert CANARY not in str(got)


@pytest.mark.req("A5", "X5")
async def test_a_key_of_a_workspace_works_in_its_workspace(engines: Engines) -> None:
    async with (
        both(engines) as (client, engine),
        httpx.AsyncClient(base_url=client.url, timeout=60) as caller,
    ):
        caller.headers.update(await bearer(engine, "olga", workspace=OTHER, roles=["clerk"]))
        body = {"workflow": "ledger", "input": "olga"}
        run = (await caller.post("/api/v1/runs", json=body, headers={"Idempotency-Key": "1"})).json()["id"]
        same = (await client.post("/api/v1/runs", json=body, headers={"Idempotency-Key": "1"})).json()["id"]
        await suspended(engine.within(OTHER).handle(run))
        decided = await caller.post(f"/api/v1/runs/{run}/decide", json={"answer": "yes"})
        listed = (await caller.get("/api/v1/runs")).json()["runs"]
        row = await engine.within(OTHER).handle(run).info()

        assert run != same
        assert decided.status_code == 200, decided.text
        assert [entry["id"] for entry in listed] == [run]
        assert (row.workspace, row.started_by, row.trigger) == (OTHER, "olga", "api")
        assert await engine.within(OTHER).handle(run).result(30) == "olga yes"


@pytest.mark.req("X5", "T4")
async def test_queues_and_starts_are_limited_only_by_the_servers_own_workspace(
    memory_engines: Engines,
) -> None:
    async with both(memory_engines) as (client, engine), httpx.AsyncClient(base_url=client.url) as caller:
        caller.headers.update(await bearer(engine, "olga", workspace=OTHER))
        body = {"kind": "queue", "name": "default", "limit": 1}

        assert code(await caller.put("/api/v1/limits", json=body)) == "FORBIDDEN"
        assert (await client.put("/api/v1/limits", json=body)).status_code == 200
        assert code(await caller.delete("/api/v1/limits?kind=queue&name=default")) == "FORBIDDEN"
        assert (await caller.get("/api/v1/limits")).json()["limits"] == []
        rate = {"per": "workflow", "limit": 5}
        assert code(await caller.put("/api/v1/start-rates", json=rate)) == "FORBIDDEN"
        assert (await client.put("/api/v1/start-rates", json=rate)).status_code == 200
        assert code(await caller.delete("/api/v1/start-rates?per=workflow")) == "FORBIDDEN"


@pytest.mark.req("A5")
@pytest.mark.parametrize("place", ["body", "header", "query"])
async def test_the_workspace_comes_from_the_key_only(memory_engines: Engines, place: str) -> None:
    """PT-04."""
    async with both(memory_engines) as (client, engine), httpx.AsyncClient(base_url=client.url) as caller:
        headers = await bearer(engine, "olga", workspace=OTHER)
        run, _ = await fill(engine, CANARY)
        if place == "body":
            body = {"workflow": "ledger", "input": "x", "workspace": "default"}
            answer = await caller.post("/api/v1/runs", json=body, headers=headers)
            assert code(answer) == "UNKNOWN_FIELD"
        elif place == "header":
            headers |= {"X-Workspace": "default", "X-Stepwell-Workspace": "default"}
            answer = await caller.get(f"/api/v1/runs/{run}", headers=headers)
            assert code(answer) == "RUN_NOT_FOUND"
        else:
            answer = await caller.get("/api/v1/runs?workspace=default", headers=headers)
            assert code(answer) == "PARAM_INVALID"
        assert CANARY not in answer.text
