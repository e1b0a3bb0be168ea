"""A reverse proxy that signs people in: its header counts only from its own address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from stepwell import asgi
from stepwell.errors import InvalidInput, SettingsInvalid
from stepwell.server.proxy import TrustedProxy, peer_of
from tests.engines import Engines, suspended
from tests.server.served import FLOWS, assigned, bearer, code, served

USER = {"X-Forwarded-User": "ann"}


@asynccontextmanager
async def called_from(api: Any, address: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(api, client=(address, 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def proxied(engines: Engines, **options: Any) -> Any:
    proxy = TrustedProxy(["10.0.0.5", "10.1.0.0/24"], user_header="X-Forwarded-User", **options)
    return asgi(engines.new(*FLOWS, assigned), proxy=proxy)


@pytest.mark.req("A5")
async def test_a_person_whom_the_proxy_names_is_signed_in(memory_engines: Engines) -> None:
    api = proxied(memory_engines, groups_header="X-Forwarded-Groups", admins=["root"])
    async with api.opened(), called_from(api, "10.1.0.77") as client:
        groups = {**USER, "X-Forwarded-Groups": "finance, ,clerks"}
        me = (await client.get("/api/v1/me", headers=groups)).json()
        admin = (await client.get("/api/v1/me", headers={"X-Forwarded-User": "root"})).json()

        assert (me["name"], me["scopes"], me["roles"]) == (
            "ann",
            ["approve", "read", "run"],
            ["finance", "clerks"],
        )
        assert not me["local"]
        assert "admin" in admin["scopes"]
        assert code(await client.get("/api/v1/keys", headers=USER)) == "FORBIDDEN"


@pytest.mark.req("A5", "X7")
@pytest.mark.parametrize("address", ["10.0.0.6", "127.0.0.1", "::1", "10.1.1.1", "", "nonsense"])
async def test_the_header_of_anybody_else_is_ignored(memory_engines: Engines, address: str) -> None:
    api = proxied(memory_engines)
    claims = {**USER, "X-Forwarded-For": "10.0.0.5", "Forwarded": "for=10.0.0.5", "X-Real-IP": "10.0.0.5"}
    async with api.opened(), called_from(api, address) as client:
        assert code(await client.get("/api/v1/me", headers=claims)) == "UNAUTHENTICATED"


@pytest.mark.req("A5")
async def test_a_header_that_names_nobody_signs_nobody_in(memory_engines: Engines) -> None:
    api = proxied(memory_engines)
    names: list[Any] = [
        [],
        [("X-Forwarded-User", "")],
        [("X-Forwarded-User", " ")],
        [("X-Forwarded-User", "ann"), ("X-Forwarded-User", "root")],
        [("X-Forwarded-User", "x" * 201)],
        [("X-Forwarded-User", "a\tb")],
        [("X-User", "ann")],
    ]
    async with api.opened(), called_from(api, "10.0.0.5") as client:
        for headers in names:
            assert code(await client.get("/api/v1/me", headers=headers)) == "UNAUTHENTICATED", headers


@pytest.mark.req("A5", "X7")
async def test_behind_the_proxy_forged_changes_are_refused_and_keys_work(
    memory_engines: Engines,
) -> None:
    api = proxied(memory_engines)
    body = {"workflow": "doubling", "input": 4}
    async with api.opened(), called_from(api, "10.0.0.5") as client:
        own = {**USER, "Origin": "http://localhost"}
        key = await bearer(api.state.engine, "service")

        assert code(await client.post("/api/v1/runs", json=body, headers=USER)) == "CSRF"
        crossing = {**own, "Sec-Fetch-Site": "cross-site"}
        assert code(await client.post("/api/v1/runs", json=body, headers=crossing)) == "CSRF"
        assert (await client.post("/api/v1/runs", json=body, headers=own)).status_code == 201
        assert (await client.get("/api/v1/me", headers={**USER, **key})).json()["name"] == "service"
        wrong = {**USER, "Authorization": "Bearer wrong"}
        assert code(await client.get("/api/v1/me", headers=wrong)) == "UNAUTHENTICATED"


@pytest.mark.req("A5")
async def test_a_role_of_the_proxy_is_an_assignee(memory_engines: Engines) -> None:
    api = proxied(memory_engines, groups_header="X-Groups")
    own = {**USER, "Origin": "http://localhost"}
    async with api.opened(), called_from(api, "10.0.0.5") as client:
        engine = api.state.engine
        run = await engine.start("assigned", "?")
        await suspended(run)
        refused = await client.post(f"/api/v1/runs/{run.id}/decide", json={"answer": "yes"}, headers=own)
        done = await client.post(
            f"/api/v1/runs/{run.id}/decide", json={"answer": "yes"}, headers={**own, "X-Groups": "finance"}
        )

        assert code(refused) == "NOT_ASSIGNED"
        assert done.status_code == 200, done.text
        assert await run.result(30) == "? yes"


async def test_the_address_of_the_connection_counts_and_not_a_forwarded_one(memory_engines: Engines) -> None:
    """PT-27: the listener lets 127.0.0.1 forward addresses, but a forwarded one signs nobody in."""
    proxy = TrustedProxy(["10.0.0.5"], user_header="X-Forwarded-User")
    async with served(memory_engines.client(), proxy=proxy, proxies="127.0.0.1") as client:
        claims = {**USER, "X-Forwarded-For": "10.0.0.5"}
        async with httpx.AsyncClient(base_url=client.url) as stranger:
            assert code(await stranger.get("/api/v1/me", headers=claims)) == "UNAUTHENTICATED"
    proxy = TrustedProxy(["127.0.0.1"], user_header="X-Forwarded-User")
    async with served(memory_engines.client(), proxy=proxy, proxies="127.0.0.1") as client:
        claims = {**USER, "X-Forwarded-For": "203.0.113.9"}
        async with httpx.AsyncClient(base_url=client.url) as behind:
            assert (await behind.get("/api/v1/me", headers=claims)).json()["name"] == "ann"


def test_the_peer_is_that_of_the_connection() -> None:
    assert peer_of({"client": ("1.2.3.4", 5)}) == "1.2.3.4"
    assert peer_of({"client": ("9.9.9.9", 5), "stepwell.peer": ("1.2.3.4", 5)}) == "1.2.3.4"
    assert peer_of({"client": ("9.9.9.9", 5), "stepwell.peer": None}) == ""


@pytest.mark.parametrize(
    ("addresses", "options", "error"),
    [
        ([], {}, SettingsInvalid),
        (["*"], {}, SettingsInvalid),
        (["proxy.example"], {}, SettingsInvalid),
        (["10.0.0.5/24"], {}, SettingsInvalid),
        (["10.0.0.5"], {"user_header": ""}, SettingsInvalid),
        (["10.0.0.5"], {"scopes": ["root"]}, InvalidInput),
    ],
)
def test_wrong_options_are_refused(addresses: list[str], options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        TrustedProxy(addresses, **{"user_header": "X-Forwarded-User", **options})
