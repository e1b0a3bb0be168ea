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
    assert queues["nobody"]["reason"] == "no_worker"
    assert "no worker of queue 'nobody' is running" in queues["nobody"]["why"]
    assert queues["default"]["why"] == ""


@pytest.mark.req("A2", "D5")
async def test_the_database_and_its_file_are_shown_to_those_who_manage_it(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as caller:
        await client.ended(await client.started("doubling", 1))
        about, database = await client.get("/api/v1/about"), await client.get("/api/v1/database")
        caller.headers.update(await bearer(engine, "carl", scopes=["read"]))
        plain, refused = await caller.get("/api/v1/about"), await caller.get("/api/v1/database")
        caller.headers.update(await bearer(engine, "olga", workspace="other", scopes=["admin"]))
        foreign = await caller.get("/api/v1/database")

    assert (about.json()["slots"] > 0, about.json()["keep_ended_seconds"]) == (True, None)
    assert about.json()["file"].endswith(".db") == (about.json()["database"] == "sqlite")
    assert plain.json()["file"] == ""
    assert database.json()["counts"]["runs"] == 1
    assert [code(refused), code(foreign)] == ["FORBIDDEN", "FORBIDDEN"]


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


@pytest.mark.req("A2")
async def test_an_admin_reads_what_the_database_holds_and_whether_it_is_sound(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as caller:
        await client.ended(await client.started("doubling", 1))
        caller.headers.update(await bearer(engine, "olga", workspace="other"))
        about = (await client.get("/api/v1/database")).json()
        checked = (await client.get("/api/v1/database/faults")).json()
        refused = [await caller.get(f"/api/v1/database{path}") for path in ("", "/faults")]

    assert about["counts"]["runs"] == 1
    assert about["schema"] == about["newest"]
    assert checked == {"sound": True, "faults": []}
    assert [code(answer) for answer in refused] == ["FORBIDDEN", "FORBIDDEN"]


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
