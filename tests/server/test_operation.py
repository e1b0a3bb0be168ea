"""What operators read: workers, queues, the audit list, and what the server is."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from stepwell import __version__
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


@pytest.mark.req("A5", "X4")
async def test_changes_and_refused_changes_are_audited(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as caller:
        caller.headers.update(await bearer(engine, "carl", scopes=["read"]))
        run = await client.started("listening", 1)
        await client.post(f"/api/v1/runs/{run}/cancel")
        refused = await caller.post(f"/api/v1/runs/{run}/cancel")
        await client.get("/api/v1/runs")

        async def entries() -> list[dict[str, Any]]:
            listed: list[dict[str, Any]] = (await client.get("/api/v1/audit")).json()["entries"]
            return listed if len(listed) == 3 else []

        listed = await until(entries)
        first = (await client.get("/api/v1/audit?limit=1")).json()
        rest = (await client.get(f"/api/v1/audit?limit=2&cursor={first['cursor']}")).json()

    assert code(refused) == "FORBIDDEN"
    assert [(entry["by"], entry["action"], entry["status"]) for entry in listed] == [
        ("carl", "cancel_run", 403),
        ("local", "cancel_run", 200),
        ("local", "start_run", 201),
    ]
    assert listed[0]["credential"]
    assert [*first["entries"], *rest["entries"]] == listed


async def test_the_last_entries_are_written_when_the_server_stops(durable_engines: Engines) -> None:
    async with served(durable_engines.new(*FLOWS)) as client:
        for _ in range(5):
            await client.started("doubling", 1)
    async with durable_engines.client() as engine:
        listed = await engine.store.list_audit("default")

    assert [entry.action for entry in listed] == ["start_run"] * 5


async def test_the_server_says_what_it_is(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        about = (await client.get("/api/v1/about")).json()

    assert (about["version"], about["works"], about["database"]) == (__version__, True, engines.kind)
