"""API keys over HTTP: created, used, guessed and revoked."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from stepwell import Engine
from tests.engines import Engines, until
from tests.server.served import FLOWS, TOKEN, bearer, code, served


@pytest.mark.req("A5")
async def test_a_key_is_created_used_listed_and_revoked(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client, httpx.AsyncClient(base_url=client.url) as caller:
        body = {"name": "ann", "scopes": ["read"], "roles": ["finance"], "principal": "person"}
        made = await client.post("/api/v1/keys", json={**body, "expires": "90d"})
        key = made.json()
        caller.headers["Authorization"] = f"Bearer {key['secret']}"
        me = (await caller.get("/api/v1/me")).json()

        assert made.status_code == 201
        assert me == {
            "name": "ann",
            "workspace": "default",
            "principal": "person",
            "scopes": ["read"],
            "roles": ["finance"],
            "local": False,
            "expires_at": key["expires_at"],
        }
        assert (await caller.get("/api/v1/runs")).status_code == 200
        assert code(await caller.get("/api/v1/keys")) == "FORBIDDEN"
        listed = (await client.get("/api/v1/keys")).json()
        assert listed["keys"][0] | {"used_at": None} == {n: v for n, v in key.items() if n != "secret"}
        assert key["secret"] not in str(listed)

        revoked = await client.delete(f"/api/v1/keys/{key['id']}")
        refused = await caller.get("/api/v1/runs")
        assert revoked.json() == {"id": key["id"], "changed": True}
        assert code(refused) == "UNAUTHENTICATED"
        assert (await client.get("/api/v1/keys")).json()["keys"][0]["revoked_by"] == "local"
        assert code(await client.delete(f"/api/v1/keys/{'0' * 32}")) == "KEY_NOT_FOUND"
        assert code(await client.delete("/api/v1/keys/x")) == "ID_INVALID"


@pytest.mark.req("A5")
async def test_a_key_that_another_process_revokes_is_refused_within_a_second(sqlite: Engines) -> None:
    """PT-07."""
    engine = sqlite.new(*FLOWS)
    async with served(engine) as client, sqlite.client() as elsewhere:
        headers = await bearer(engine)
        assert (await client.get("/api/v1/runs", headers=headers)).status_code == 200
        await elsewhere.keys.revoke(headers["Authorization"].split("_")[2])

        async def refused() -> bool:
            return (await client.get("/api/v1/runs", headers=headers)).status_code == 401

        await until(refused, seconds=1.0)


@pytest.mark.req("A5")
async def test_the_last_use_is_written_once_and_not_for_every_request(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client:
        headers = await bearer(engine)
        writes = counted(engine)
        for _ in range(30):
            assert (await client.get("/api/v1/me", headers=headers)).status_code == 200

        async def noted() -> Any:
            return (await engine.keys.list())[0].used_at

        assert await until(noted) <= await engine.store.now()
        assert len(writes) == 1


def counted(engine: Engine) -> list[Any]:
    """Count the writes of uses; they are made nevertheless."""
    writes: list[Any] = []
    store: Any = engine._store
    original = store.mark_used

    async def mark_used(ids: Any, *, at: float) -> None:
        writes.append(ids)
        await original(ids, at=at)

    store.mark_used = mark_used
    return writes


@pytest.mark.req("A5")
async def test_guessing_is_stopped_and_does_not_lock_out_those_who_share_the_address(
    memory_engines: Engines,
) -> None:
    """PT-07 and PT-27: no header moves a guess to another address."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as stranger:
        used, unused = await bearer(engine), await bearer(engine, "bob")
        assert (await client.get("/api/v1/me", headers=used)).status_code == 200
        codes = []
        for number in range(25):
            guess = {
                "Authorization": f"Bearer sw_key_{number:032x}_{'x' * 43}",
                "X-Forwarded-For": f"10.0.0.{number}",
                "Forwarded": f"for=10.0.0.{number}",
                "X-Real-IP": f"10.0.0.{number}",
            }
            answer = await stranger.get("/api/v1/runs", headers=guess)
            codes.append(code(answer))

        assert codes == ["UNAUTHENTICATED"] * 20 + ["TOO_MANY_ATTEMPTS"] * 5
        assert answer.headers["retry-after"] == "60"
        assert (await stranger.get("/api/v1/me", headers=used)).status_code == 200
        assert code(await stranger.get("/api/v1/me", headers=unused)) == "TOO_MANY_ATTEMPTS"
        assert (await client.get("/api/v1/runs")).status_code == 200  # the launch token
        assert (await stranger.get("/healthz")).status_code == 200


@pytest.mark.req("A5")
async def test_wrong_credentials_of_every_kind_look_the_same(memory_engines: Engines) -> None:
    """PT-07: nothing in an answer says whether a key of that id exists."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as stranger:
        real = (await bearer(engine))["Authorization"].split("_")[2]
        answers = [
            await stranger.get("/api/v1/runs", headers={"Authorization": f"Bearer {text}"})
            for text in (
                f"sw_key_{real}_{'x' * 43}",
                f"sw_key_{'0' * 32}_{'x' * 43}",
                "sw_key_x_y",
                "nonsense",
            )
        ]
        bodies = [answer.json() | {"request_id": ""} for answer in answers]
        names = [sorted(answer.headers.keys()) for answer in answers]

        assert all(body == bodies[0] for body in bodies)
        assert all(name == names[0] for name in names)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "FIELD_REQUIRED"),
    ({"name": ""}, "INVALID_INPUT"),
    ({"name": "x" * 201}, "FIELD_INVALID"),
    ({"name": "a\u0000b"}, "INVALID_INPUT"),
    ({"name": "a", "scopes": []}, "INVALID_INPUT"),
    ({"name": "a", "scopes": ["any"]}, "INVALID_INPUT"),
    ({"name": "a", "scopes": "admin"}, "TYPE_MISMATCH"),
    ({"name": "a", "expires": "soon"}, "INVALID_DEFINITION"),
    ({"name": "a", "expires": -1}, "INVALID_DEFINITION"),
    ({"name": "a", "workspace": "other"}, "UNKNOWN_FIELD"),
    ({"name": "a", "digest": "x"}, "UNKNOWN_FIELD"),
    ({"name": "a", "principal": "root"}, "FIELD_INVALID"),
]


@pytest.mark.req("X9")
async def test_wrong_keys_are_refused(memory_engines: Engines) -> None:
    async with served(memory_engines.client()) as client:
        answers = [await client.post("/api/v1/keys", json=body) for body, _ in WRONG]

        assert [code(answer) for answer in answers] == [expected for _, expected in WRONG]
        assert (await client.get("/api/v1/keys")).json()["keys"] == []


@pytest.mark.parametrize("name", ["key", "api_key", "token", "access_token", "t"])
async def test_a_key_in_an_address_is_refused(memory_engines: Engines, name: str) -> None:
    """PT-07; `/` takes the launch token once."""
    async with served(memory_engines.client()) as client:
        answer = await client.get(f"/api/v1/me?{name}={TOKEN}")

        assert (answer.status_code, code(answer)) == (400, "KEY_IN_URL")
