"""Bulk jobs: one action on all runs that match, with progress, once, and after a restart."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from stepwell.server import bulk
from tests.engines import Engines, until
from tests.server.served import FLOWS, Served, bearer, code, served


async def finished(client: Served, job: str) -> dict[str, Any]:
    async def there() -> dict[str, Any] | None:
        data: dict[str, Any] = (await client.get(f"/api/v1/bulk/{job}")).json()
        return data if data["status"] in ("completed", "failed", "cancelled") else None

    data: dict[str, Any] = await until(there)
    return data


async def statuses(client: Served, workflow: str) -> list[str]:
    rows = (await client.get(f"/api/v1/runs?workflow={workflow}&limit=1000")).json()["runs"]
    return [row["status"] for row in rows]


@pytest.mark.req("A2", "K39")
async def test_all_matching_runs_are_cancelled_and_then_deleted(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PAGE", 4)
    async with served(engines.new(*FLOWS)) as client:
        for _ in range(10):
            await client.started("listening", 1)
        other = await client.started("asking", "x")
        answer = await client.post(
            "/api/v1/bulk/cancel", json={"workflow": "listening"}, headers={"Idempotency-Key": "all"}
        )
        again = await client.post(
            "/api/v1/bulk/cancel", json={"workflow": "listening"}, headers={"Idempotency-Key": "all"}
        )
        job = await finished(client, answer.json()["id"])

        async def all_cancelled() -> bool:
            return set(await statuses(client, "listening")) == {"cancelled"}

        await until(all_cancelled)
        removal = (await client.post("/api/v1/bulk/delete", json={"status": ["cancelled"]})).json()
        removed = await finished(client, removal["id"])
        left = await statuses(client, "listening")
        untouched = (await client.get(f"/api/v1/runs/{other}")).json()["status"]

    assert answer.status_code == 202
    assert again.json()["id"] == answer.json()["id"]
    assert (job["status"], job["done"], job["failed"]) == ("completed", 10, 0)
    assert (removed["done"], left) == (10, [])
    assert untouched in ("suspended", "running")


@pytest.mark.req("A2")
async def test_named_runs_are_retried_held_and_released(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        failed = [await client.started("failing", "x") for _ in range(3)]
        for run in failed:
            await client.ended(run)
        waiting = await client.started("listening", 1)
        await client.waiting(waiting)
        retried = await finished(
            client, (await client.post("/api/v1/bulk/retry", json={"runs": [*failed, waiting]})).json()["id"]
        )
        held = await finished(
            client, (await client.post("/api/v1/bulk/hold", json={"workflow": "listening"})).json()["id"]
        )
        why = (await client.get(f"/api/v1/runs/{waiting}/why")).json()["text"]
        body = {"workflow": "listening"}
        released = await finished(client, (await client.post("/api/v1/bulk/release", json=body)).json()["id"])

    assert (retried["done"], retried["unchanged"], retried["total"]) == (3, 1, 4)
    assert (held["done"], released["done"]) == (1, 1)
    assert "held" in why


@pytest.mark.req("A2")
async def test_a_job_goes_on_after_a_restart_of_the_server(
    durable_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PAGE", 2)
    async with durable_engines.new(*FLOWS) as worker:
        runs = [await worker.start("listening", 1) for _ in range(6)]
        async with served(durable_engines.client()) as client:
            monkeypatch.setattr(bulk.BulkJobs, "want", lambda jobs: None)  # the server stops before it begins
            job = (await client.post("/api/v1/bulk/cancel", json={"workflow": "listening"})).json()["id"]
            assert (await client.get(f"/api/v1/bulk/{job}")).json()["status"] == "pending"
        async with served(durable_engines.client()) as client:
            done = await finished(client, job)

    assert done["done"] == len(runs)


@pytest.mark.req("X4", "X5")
async def test_a_job_is_bound_to_its_workspace_and_action(memory_engines: Engines) -> None:
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url, timeout=60) as caller:
        caller.headers.update(await bearer(engine, "olga", workspace="other"))
        run = await client.started("failing", "x")
        await client.ended(run)
        job = (await caller.post("/api/v1/bulk/delete", json={"runs": [run]})).json()["id"]

        async def over() -> bool:
            return bool((await caller.get(f"/api/v1/bulk/{job}")).json()["status"] == "completed")

        await until(over)
        untouched = (await client.get(f"/api/v1/runs/{run}")).status_code
        hidden = await client.get(f"/api/v1/bulk/{job}")
        own = (await client.post("/api/v1/bulk/cancel", json={"runs": [run]})).json()["id"]
        await finished(client, own)
        forged = {"input": {"action": "delete", "ids": [run]}}
        again = (await client.post(f"/api/v1/runs/{own}/rerun", json=forged)).json()["id"]
        ended = await client.ended(again)
        named = await client.post(
            "/api/v1/runs",
            json={"workflow": bulk.NAME, "input": {"action": "delete", "ids": [run]}, "queue": bulk.QUEUE},
        )

    assert untouched == 200
    assert code(hidden) == "RUN_NOT_FOUND"
    assert ended["status"] == "failed"
    assert code(named) == "UNKNOWN_WORKFLOW"


@pytest.mark.parametrize("body", [{}, {"runs": [], "status": []}, {"runs": ["0" * 32], "workflow": "x"}])
async def test_an_empty_or_double_filter_is_refused(memory_engines: Engines, body: dict[str, Any]) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        answer = await client.post("/api/v1/bulk/delete", json=body)
        other = await client.get(f"/api/v1/bulk/{await client.started('doubling', 1)}")

    assert answer.status_code == 422
    assert code(other) == "NOT_A_BULK_JOB"
