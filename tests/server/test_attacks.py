"""Attacks on the door of the server. Each names its row of docs/internals/reliability.md (PT ids)."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

import stepwell
from stepwell.client.rates import StartRate
from tests.client.test_start_rates import spoil
from tests.engines import Engines
from tests.server.served import BEARER, FLOWS, TOKEN, Served, bearer, code, served

# Ways to spell an address that a check and a router might read differently.
TRICKS = [
    *("/healthz/../api/v1/runs", "/healthz%2f..%2fapi%2fv1%2fruns", "/healthz;/api/v1/runs", "//api/v1/runs"),
    *("/api/v1/runs/", "/api/v1/runs.", "/API/V1/RUNS", "/api/v1//runs", "/api/v1/./runs", "/api/v1/runs%00"),
    *("/api/v1/healthz", "/api/v1/readyz/..", "/healthz/runs", "/api/v1/runs%20", "/api/v1/%72uns/"),
    *("/api/v1/approval/", "/api/v1/session/../runs", "/assets/../api/v1/runs", "/assets/..%2fapp.db"),
    *("/.env", "/configs", "/debug", "/metrics", "/docs", "/redoc", "/openapi.json", "/server-status"),
]


async def raw(client: Served, request: bytes) -> bytes:
    """Send bytes as they are; return what comes until the connection ends or falls silent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(client.url.rpartition(":")[2]))
    writer.write(request)
    await writer.drain()
    answer = b""
    try:
        async with asyncio.timeout(3):
            while data := await reader.read(65536):
                answer += data
    except TimeoutError:
        pass
    writer.close()
    return answer


@pytest.mark.req("X4")
async def test_other_spellings_of_an_address_open_nothing(memory_engines: Engines) -> None:
    """PT-01, PT-02."""
    async with served(memory_engines.new(*FLOWS)) as client:
        port = client.url.rpartition(":")[2]
        for path in TRICKS:
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
            answer = await raw(client, head.encode())
            status = int(answer.split(b" ", 2)[1])
            assert status in (400, 401, 404), (path, answer[:200])


@pytest.mark.req("X5", "A5")
async def test_a_workspace_comes_from_the_key_and_from_nowhere_else(memory_engines: Engines) -> None:
    """PT-03, PT-04: in the body, the query, a header, a cursor or an id."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client:
        definitions = await engine.store.list_definitions("default")
        await engine.store.put_definitions([replace(d, workspace="other") for d in definitions])
        mine = await engine.start("doubling", 1, key="mine")
        await mine.result()
        olga = await bearer(engine, "olga", workspace="other")
        claims = {"X-Workspace": "default", "X-Tenant": "default", "Workspace": "default"}
        listed = await client.get("/api/v1/runs", headers={**olga, **claims})
        assert listed.json()["runs"] == []
        assert code(await client.get("/api/v1/runs?workspace=default", headers=olga)) == "PARAM_INVALID"
        body = {"workflow": "doubling", "input": 1, "workspace": "default"}
        assert code(await client.post("/api/v1/runs", json=body, headers=olga)) == "UNKNOWN_FIELD"
        theirs = await client.post(
            "/api/v1/runs", json={"workflow": "doubling", "input": 1, "key": "mine"}, headers=olga
        )
        assert theirs.json()["id"] != mine.id  # the same key in another workspace is another run
        known = await client.get(f"/api/v1/runs/{mine.id}", headers=olga)
        unknown = await client.get(f"/api/v1/runs/{'0' * 32}", headers=olga)
        assert known.status_code == unknown.status_code == 404
        texts = [answer.json() | {"request_id": ""} for answer in (known, unknown)]
        texts[0]["message"] = texts[0]["message"].replace(mine.id, "0" * 32)
        assert texts[0] == texts[1]


@pytest.mark.req("X7")
async def test_pages_cannot_be_framed_and_redirects_stay_here(memory_engines: Engines) -> None:
    """PT-20: clickjacking, and an open redirect after signing in."""
    async with served(memory_engines.new(*FLOWS)) as client, httpx.AsyncClient(base_url=client.url) as page:
        for path in ("/", "/runs", "/sign-in", "/api/v1/me", "/nothing"):
            answer = await page.get(path, headers={"Accept": "text/html"})
            policy = answer.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
        for more in ("next=//evil.example", "redirect=https://evil.example", "returnTo=/\\evil.example"):
            launched = await page.get(f"/?t={TOKEN}&{more}")
            assert launched.headers.get("location", "/") == "/"
        for host in ("evil.example", "127.0.0.1@evil.example"):
            launched = await page.get(f"/?t={TOKEN}", headers={"Host": host})
            assert code(launched) == "HOST_NOT_ALLOWED"
        signed = await page.post(
            "/api/v1/session?next=//evil.example", json={"key": "x"}, headers={"Origin": client.url}
        )
        assert code(signed) == "PARAM_INVALID"


SMUGGLED = b"GET /api/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n"
FRAMES = {
    "both lengths": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": b"Content-Length: 4\r\nContent-Length: 40\r\n\r\n" + SMUGGLED,
    "sign": b"Content-Length: +4\r\n\r\nabcd" + SMUGGLED,
    "obscured": b"Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\nabcd" + SMUGGLED,
    "space before colon": b"Content-Length : 4\r\n\r\nabcd" + SMUGGLED,
    "folded": b"X-A: 1\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "bad chunk": b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nabcd\r\n0\r\n\r\n" + SMUGGLED,
    "null in header": b"X-A: a\x00b\r\n\r\n" + SMUGGLED,
}


@pytest.mark.req("A1")
@pytest.mark.parametrize("frame", FRAMES)
async def test_a_smuggled_request_is_not_answered(memory_engines: Engines, frame: str) -> None:
    """PT-22: the second request has a Host that would be answered with 403."""
    async with served(memory_engines.new(*FLOWS)) as client:
        host = client.url.partition("//")[2].encode()
        head = b"POST /api/v1/runs HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n"
        answer = await raw(client, head + FRAMES[frame])

        assert b"HOST_NOT_ALLOWED" not in answer
        assert not re.search(rb"HTTP/1.1 (2|3|5)", answer)
        assert b"HTTP/1.1 400" in answer or answer.count(b"HTTP/1.1 ") <= 1
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.slow
@pytest.mark.req("A1")
async def test_idle_and_slow_connections_do_not_keep_others_out(memory_engines: Engines) -> None:
    """PT-26: half a request on each of 500 connections, and as many that say nothing."""
    async with served(memory_engines.new(*FLOWS)) as client:
        port = int(client.url.rpartition(":")[2])
        writers = []
        for number in range(1000):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            if number % 2:
                writer.write(b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
            writers.append(writer)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await client.started("doubling", 2)
        assert loop.time() - began < 5
        ranged = await client.get("/api/v1/runs", headers={"Range": "bytes=0-1," + "5-6," * 1000 + "7-8"})
        assert ranged.status_code == 200
        for writer in writers:
            writer.close()


@pytest.mark.req("K20", "T4")
async def test_no_header_key_or_field_gets_around_a_start_rate(memory_engines: Engines) -> None:
    """PT-27: a rate counts people, whatever they claim; if it cannot be read, those with a key may start."""
    engine = memory_engines.new(*FLOWS, start_rates=[StartRate("user", 2, seconds=3600)])
    body = {"workflow": "doubling", "input": 1}
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as caller:
        keys = [await bearer(engine, "eve") for _ in range(3)]
        started = [await caller.post("/api/v1/runs", json=body, headers=keys[0]) for _ in range(2)]
        claims: list[dict[str, str]] = [
            *({name: "203.0.113.7"} for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Client-IP")),
            *({name: "ann"} for name in ("X-Forwarded-User", "X-User", "Remote-User", "From")),
        ]
        refused = [
            await caller.post("/api/v1/runs", json=body, headers={**key, **claim})
            for key in keys  # another key of the same person is the same person
            for claim in [{}, *claims]
        ]
        named = await caller.post("/api/v1/runs", json=body | {"by": "ann"}, headers=keys[1])
        many = {"workflow": "doubling", "inputs": [1, 2]}
        refused.append(await caller.post("/api/v1/runs/batch", json=many, headers=keys[1]))
        ann = await caller.post("/api/v1/runs", json=body, headers=await bearer(engine, "ann"))
        rates = (await client.get("/api/v1/limits")).json()["rates"]
        await spoil(memory_engines)
        degraded = await caller.post("/api/v1/runs", json=body, headers=keys[0])
        stranger = await caller.post("/api/v1/runs", json=body)

    assert [answer.status_code for answer in started] == [201, 201]
    assert {(answer.status_code, code(answer)) for answer in refused} == {(429, "RATE_LIMITED")}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    assert (code(named), code(stranger)) == ("FORBIDDEN", "UNAUTHENTICATED")
    assert (ann.status_code, degraded.status_code) == (201, 201)
    assert [(rate["per"], rate["limit"], rate["seconds"]) for rate in rates] == [("user", 2, 3600.0)]


INSIDE = re.compile(
    r"Traceback|site-packages|\.py\b|uvicorn|starlette|fastapi|asyncpg|SELECT ", re.IGNORECASE
)


@pytest.mark.req("A1")
async def test_refusals_say_nothing_about_the_inside(sqlite: Engines) -> None:
    """PT-33: stack traces, SQL, versions and paths of files."""
    bodies: list[Any] = [None, [], {"workflow": 1}, {"workflow": "x'; --"}]
    bodies.append({"workflow": "doubling", "input": {}})
    async with served(sqlite.new(*FLOWS)) as client:
        answers = [await client.post("/api/v1/runs", json=body) for body in bodies]
        for path in ("runs/x", "runs?cursor=x", "runs?limit=0", "graphs/x/diff", "workflows/%00", "nothing"):
            answers.append(await client.get(f"/api/v1/{path}"))
        answers.append(await client.get("/api/v1/me", headers={"Authorization": "Bearer x"}))
        for answer in answers:
            assert answer.status_code < 500
            assert not INSIDE.search(f"{answer.headers} {answer.text}"), answer.text
            assert "sqlite" not in answer.text
            assert "server" not in answer.headers
            assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.req("A7")
async def test_only_health_and_the_page_of_errors_answer_a_stranger(memory_engines: Engines) -> None:
    """PT-34: metrics, debug pages and the API's description are not there for everybody."""
    async with served(memory_engines.new(*FLOWS)) as client, httpx.AsyncClient(base_url=client.url) as page:
        assert (await page.get("/metrics")).status_code == 404  # a port of its own
        assert code(await page.get("/api/v1/openapi.json")) == "UNAUTHENTICATED"
        for path in ("/healthz", "/readyz"):
            answer = await page.get(path)
            assert set(answer.json()) == {"status"}
            assert stepwell.__version__ not in answer.text
        explained = (await page.get("/docs/errors")).text
        assert stepwell.__version__ not in explained
        described = (await client.get("/api/v1/openapi.json", headers=BEARER)).text
        assert not INSIDE.search(described)
