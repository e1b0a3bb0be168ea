"""Workers and queues over the API."""

from __future__ import annotations

import httpx
import pytest

from tests.engines import Engines, until
from tests.server.served import FLOWS, bearer, code, served


@pytest.mark.req("A2", "K28")
async def test_workers_and_queues_are_listed(engines: Engines) -> None:
    async with served(engines.new(*FLOWS, queues=["default", "gpu"])) as client:
        run = await client.started("listening", 1)
        await client.waiting(run)
        await client.post("/api/v1/runs", json={"workflow": "listening", "input": 1, "queue": "nobody"})
        workers = (await client.get("/api/v1/workers")).json()["workers"]
        queues = {queue["name"]: queue for queue in (await client.get("/api/v1/queues")).json()["queues"]}

    [worker] = workers
    assert worker["alive"]
    assert worker["queues"] == ["default", "gpu"]
    assert "doubling@1" in worker["workflows"]
    assert set(queues) == {"default", "gpu", "nobody"}
    assert (queues["default"]["waiting"] + queues["default"]["active"], queues["default"]["workers"]) == (
        1,
        1,
    )
    assert (queues["nobody"]["ready"], queues["nobody"]["workers"]) == (1, 0)
    assert queues["nobody"]["reason"] == "no_worker"
    assert "no worker of queue 'nobody' is running" in queues["nobody"]["why"]
    assert queues["default"]["why"] == ""


@pytest.mark.req("K39")
async def test_a_worker_is_drained(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as caller:
        run = await client.started("listening", 1)
        await client.waiting(run)
        caller.headers.update(await bearer(engine, "olga", workspace="other"))
        [worker] = (await client.get("/api/v1/workers")).json()["workers"]
        path = f"/api/v1/workers/{worker['id']}/drain"
        theirs = await caller.post(path)
        asked = [(await client.post(path, json={"reason": "new release"})).json() for _ in "12"]
        [during] = (await client.get("/api/v1/workers")).json()["workers"] or [None]

        async def gone() -> bool:
            return not (await client.get("/api/v1/workers")).json()["workers"]

        await until(gone)
        nobody = await client.post(path)
        alive = await client.get(f"/api/v1/runs/{run}")

    assert (theirs.status_code, code(theirs)) == (403, "FORBIDDEN")
    assert [answer["changed"] for answer in asked] == [True, False]
    assert during is None or during["draining"]["reason"] == "new release"
    assert code(nobody) == "WORKER_NOT_FOUND"
    assert alive.json()["ended_at"] is None


@pytest.mark.req("X5")
async def test_a_workspace_sees_only_its_own_part_of_workers_and_queues(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as caller:
        await client.post("/api/v1/runs", json={"workflow": "listening", "input": 1, "queue": "canary"})
        caller.headers.update(await bearer(engine, "olga", workspace="other"))
        workers = await caller.get("/api/v1/workers")
        queues = await caller.get("/api/v1/queues")

    assert "doubling" not in workers.text
    assert "canary" not in queues.text
