"""The audit list: who changed what through a server."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.engines import Engines, until
from tests.server.served import FLOWS, bearer, code, served


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
