"""Signing in with a key: the cookie, its rotation, its end, and pages that must not use it."""

from __future__ import annotations

import re

import httpx
import pytest

from stepwell.server import sessions
from tests.engines import Engines
from tests.server.served import FLOWS, Served, bearer, code, served

START = {"workflow": "doubling", "input": 4}


def browser(client: Served) -> httpx.AsyncClient:
    """A browser on a page of this server."""
    return httpx.AsyncClient(base_url=client.url, headers={"Origin": client.url}, timeout=60)


def text_of(header: dict[str, str]) -> str:
    return header["Authorization"].partition(" ")[2]


@pytest.mark.req("A5", "X7")
async def test_a_key_opens_a_session_and_is_not_in_it(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client, browser(client) as page:
        key = text_of(await bearer(engine, "ann", scopes=["read", "run"], person=True))
        assert code(await page.get("/api/v1/me")) == "UNAUTHENTICATED"
        answer = await page.post("/api/v1/session", json={"key": key})
        cookie = answer.headers["set-cookie"].lower()

        assert answer.status_code == 201
        assert answer.json()["name"] == "ann"
        assert answer.json()["expires_at"]
        for part in ("httponly", "samesite=strict", "path=/", f"max-age={sessions.SESSION_SECONDS}"):
            assert part in cookie
        assert key not in cookie
        assert "secure" not in cookie  # over plain HTTP a browser would drop it
        me = (await page.get("/api/v1/me")).json()
        assert (me["name"], me["scopes"]) == ("ann", ["read", "run"])
        started = await page.post("/api/v1/runs", json=START)
        assert started.status_code == 201
        assert (await client.get(f"/api/v1/runs/{started.json()['id']}")).json()["started_by"] == "ann"
        assert code(await page.get("/api/v1/keys")) == "FORBIDDEN"


@pytest.mark.req("A5", "X7")
async def test_a_session_is_renewed_and_ends(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client, browser(client) as page, browser(client) as thief:
        key = text_of(await bearer(engine, "ann"))
        first = (await page.post("/api/v1/session", json={"key": key})).cookies
        again = (await page.post("/api/v1/session", json={"key": key})).cookies
        assert dict(first) != dict(again)  # every sign-in makes its own session

        renewed = await page.put("/api/v1/session")
        assert renewed.status_code == 200
        assert dict(renewed.cookies) != dict(again)
        thief.cookies = httpx.Cookies(again)
        assert code(await thief.get("/api/v1/me")) == "UNAUTHENTICATED"
        assert (await page.get("/api/v1/me")).status_code == 200

        kept = dict(page.cookies)
        gone = await page.delete("/api/v1/session")
        assert gone.json() == {"signed_out": True}
        assert "max-age=0" in gone.headers["set-cookie"].lower()
        thief.cookies = httpx.Cookies(kept)
        assert code(await thief.get("/api/v1/me")) == "UNAUTHENTICATED"
        assert code(await client.put("/api/v1/session")) == "NO_SESSION"  # a token is not a session


@pytest.mark.req("A5")
async def test_a_session_ends_with_its_key(memory_engines: Engines) -> None:
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, browser(client) as page, browser(client) as short:
        new = await engine.keys.create("ann", scopes=["read"])
        await page.post("/api/v1/session", json={"key": new.text})
        assert (await client.delete(f"/api/v1/keys/{new.credential.id}")).status_code == 200
        assert code(await page.get("/api/v1/me")) == "UNAUTHENTICATED"
        assert code(await page.post("/api/v1/session", json={"key": new.text})) == "UNAUTHENTICATED"

        brief = await engine.keys.create("eve", scopes=["read"], expires="1h")
        me = (await short.post("/api/v1/session", json={"key": brief.text})).json()
        session = next(row for row in await engine.store.list_credentials("default", "session"))
        assert me["name"] == "eve"
        assert session.expires_at is not None
        assert brief.credential.expires_at is not None
        assert session.expires_at <= brief.credential.expires_at + 0.01


@pytest.mark.req("X7")
async def test_pages_of_others_cannot_use_or_make_a_session(memory_engines: Engines) -> None:
    """PT-18, PT-19, BI-X10: forms, fetches and probes of another site."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, browser(client) as page:
        key = text_of(await bearer(engine, "ann"))
        await page.post("/api/v1/session", json={"key": key})
        changes = [
            (row.method, row.path) for row in client.app.table if row.csrf and row.method != "WEBSOCKET"
        ]
        strange = [
            ({"Origin": "http://evil.example"}, "ORIGIN_NOT_ALLOWED"),
            ({"Origin": "null"}, "ORIGIN_NOT_ALLOWED"),
            ({"Sec-Fetch-Site": "cross-site"}, "CSRF"),
            ({"Sec-Fetch-Site": "same-site"}, "CSRF"),
        ]
        for method, path in changes:
            address = re.sub(r"{(\w+)}", lambda found: "0" * 32 if found[1].endswith("_id") else "1", path)
            for headers, expected in strange:
                answer = await page.request(method, address, headers=headers, json={})
                assert (answer.status_code, code(answer)) == (403, expected), (method, path)
                assert "access-control-allow-origin" not in answer.headers
            bare = httpx.AsyncClient(base_url=client.url, cookies=page.cookies)
            async with bare:
                answer = await bare.request(method, address, json={})
                assert (answer.status_code, code(answer)) == (403, "CSRF"), (method, path)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            answer = await page.post("/api/v1/runs", content=b"{}", headers={"Content-Type": kind})
            assert code(answer) == "CONTENT_TYPE"
        for origin in ("http://evil.example", "null", "https://127.0.0.1"):
            probe = await page.options("/api/v1/runs", headers={"Origin": origin})
            assert probe.status_code in (403, 405)
            assert not [name for name in probe.headers if name.startswith("access-control")]


@pytest.mark.req("A5")
async def test_guessing_keys_at_the_sign_in_is_slowed_down(memory_engines: Engines) -> None:
    """PT-07, PT-27: the address of the connection counts, whatever headers claim."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, browser(client) as page:
        texts = [f"sw_key_{number:032x}_{'x' * 43}" for number in range(30)]
        answers = [
            await page.post(
                "/api/v1/session", json={"key": text}, headers={"X-Forwarded-For": f"10.0.0.{number}"}
            )
            for number, text in enumerate(texts)
        ]
        shapes = {frozenset(answer.json()) for answer in answers}

        assert [code(answer) for answer in answers[:20]] == ["UNAUTHENTICATED"] * 20
        assert {code(answer) for answer in answers[20:]} == {"TOO_MANY_ATTEMPTS"}
        assert len(shapes) == 1


@pytest.mark.req("A5", "X7")
async def test_with_tls_the_cookie_is_secure_and_bound_to_the_host(memory_engines: Engines) -> None:
    engine = memory_engines.new(*FLOWS)
    async with served(engine, proxies="127.0.0.1", hosts=["flows.example"]) as client:
        key = text_of(await bearer(engine, "ann"))
        headers = {
            "X-Forwarded-Proto": "https",
            "Host": "flows.example",
            "Origin": "https://flows.example",
        }
        async with httpx.AsyncClient(base_url=client.url, headers=headers) as page:
            answer = await page.post("/api/v1/session", json={"key": key})

        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-stepwell_")
        assert "; Secure" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie
