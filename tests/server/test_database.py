"""What the server says of itself and of its database."""

from __future__ import annotations

import httpx
import pytest

from stepwell import __version__
from tests.engines import Engines
from tests.server.served import FLOWS, bearer, code, served


async def test_the_server_says_what_it_is(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        about = (await client.get("/api/v1/about")).json()

    assert (about["version"], about["works"], about["database"]) == (__version__, True, engines.kind)


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
