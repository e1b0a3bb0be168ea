"""Who may call the server, from where, and what every route declares."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

import stepwell
from stepwell.errors import SettingsInvalid
from stepwell.server.access import Access
from stepwell.server.app import TAGS
from stepwell.server.table import DeclaredRoute, DeclaredSocket
from tests.engines import Engines
from tests.server.served import BEARER, FLOWS, TOKEN, code, served

ANONYMOUS = {"/", "/healthz", "/readyz", "/docs/errors"}
# These take no key, and open a credential of their own: a key to sign in with, or an approval link.
OWN = {"/api/v1/session", "/api/v1/approval"}
RUN = "0" * 32


def paths(app: Any) -> list[tuple[str, str]]:
    return [(row.method, row.path) for row in app.table]


@pytest.mark.req("X4")
async def test_every_route_but_four_needs_a_token(memory_engines: Engines) -> None:
    async with served(memory_engines.client()) as client, httpx.AsyncClient(base_url=client.url) as stranger:
        for method, path in paths(client.app):
            if method == "WEBSOCKET":
                continue  # tests/server/test_rooms.py
            address = re.sub(r"{(\w+)}", lambda found: RUN if found[1].endswith("_id") else "1", path)
            answer = await stranger.request(method, address)
            if path in ANONYMOUS:
                assert answer.status_code == 200, path
            elif path == HOOK:
                assert (answer.status_code, code(answer)) == (404, "WEBHOOK_NOT_FOUND")
            elif path in OWN and method == "POST":  # without a link or a page of our own
                assert (answer.status_code, code(answer)) == (403, "CSRF")
            else:
                assert answer.status_code == 401, path
                assert code(answer) == "UNAUTHENTICATED"
                assert answer.headers["www-authenticate"] == "Bearer"


HOOK = "/hooks/{workspace}/{token}"  # its webhook checks the signature; no browser sends its requests

STRANGE: list[tuple[dict[str, str], str]] = [
    ({"Host": "evil.example"}, "HOST_NOT_ALLOWED"),
    ({"Host": "127.0.0.1.evil.example"}, "HOST_NOT_ALLOWED"),
    ({"Host": "localhost@evil.example"}, "HOST_NOT_ALLOWED"),
    ({"Host": ""}, "HOST_NOT_ALLOWED"),
    ({"Origin": "http://evil.example"}, "ORIGIN_NOT_ALLOWED"),
    ({"Origin": "null"}, "ORIGIN_NOT_ALLOWED"),
    ({"Origin": "file://"}, "ORIGIN_NOT_ALLOWED"),
    ({"Origin": "http://localhost:1"}, "ORIGIN_NOT_ALLOWED"),
    ({"Authorization": "Bearer wrong"}, "UNAUTHENTICATED"),
    ({"Authorization": "Basic " + TOKEN}, "UNAUTHENTICATED"),
    ({"Authorization": TOKEN}, "UNAUTHENTICATED"),
    ({"Authorization": "Bearer"}, "UNAUTHENTICATED"),
]


@pytest.mark.req("A5", "X7")
async def test_strange_callers_are_refused(memory_engines: Engines) -> None:
    """PT-18, PT-19: a foreign Host or Origin, whatever is asked for."""
    async with served(memory_engines.client()) as client:
        answers = [await client.get("/api/v1/runs", headers=headers) for headers, _ in STRANGE]

        assert [code(answer) for answer in answers] == [expected for _, expected in STRANGE]
        assert not [answer for answer in answers if "access-control-allow-origin" in answer.headers]
        assert (await client.get("/api/v1/runs")).status_code == 200


@pytest.mark.req("X7")
async def test_the_launch_address_gives_a_cookie_that_only_own_pages_can_use(memory_engines: Engines) -> None:
    async with (
        served(memory_engines.new(*FLOWS)) as client,
        httpx.AsyncClient(base_url=client.url) as browser,
    ):
        assert code(await browser.get("/?t=wrong")) == "UNAUTHENTICATED"
        answer = await browser.get(f"/?t={TOKEN}")
        cookie = answer.headers["set-cookie"].lower()
        body = {"workflow": "doubling", "input": 4}
        own = {"Origin": client.url}

        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie
        assert (await browser.get("/api/v1/runs")).status_code == 200
        assert code(await browser.post("/api/v1/runs", json=body)) == "CSRF"
        crossing = {**own, "Sec-Fetch-Site": "cross-site"}
        assert code(await browser.post("/api/v1/runs", json=body, headers=crossing)) == "CSRF"
        text = {**own, "Content-Type": "text/plain"}
        assert code(await browser.post("/api/v1/runs", content=b"{}", headers=text)) == "CONTENT_TYPE"
        assert (await browser.post("/api/v1/runs", json=body, headers=own)).status_code == 201


async def test_a_token_in_an_address_is_refused(memory_engines: Engines) -> None:
    async with served(memory_engines.client()) as client:
        assert code(await client.get(f"/api/v1/runs?token={TOKEN}")) == "KEY_IN_URL"


async def test_answers_carry_headers_that_browsers_obey(memory_engines: Engines) -> None:
    async with served(memory_engines.client()) as client:
        for path in ("/", "/api/v1/runs", "/nothing"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers


@pytest.mark.req("A5")
async def test_without_auth_local_programs_need_no_token_and_pages_are_still_refused(
    memory_engines: Engines,
) -> None:
    async with (
        served(memory_engines.new(*FLOWS), auth=False) as client,
        httpx.AsyncClient(base_url=client.url) as stranger,
    ):
        body = {"workflow": "doubling", "input": 4}

        assert (await stranger.post("/api/v1/runs", json=body)).status_code == 201
        elsewhere = {"Origin": "http://evil.example"}
        assert code(await stranger.post("/api/v1/runs", json=body, headers=elsewhere)) == "ORIGIN_NOT_ALLOWED"
        crossing = {"Sec-Fetch-Site": "cross-site"}
        assert code(await stranger.post("/api/v1/runs", json=body, headers=crossing)) == "CSRF"


@pytest.mark.parametrize(
    "options",
    [{"token": "short"}, {"hosts": ["a/b"]}, {"hosts": ["a:80"]}, {"hosts": ["app.example"], "auth": False}],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsInvalid):
        Access(**options)


async def test_the_server_does_not_start_with_a_route_outside_the_table(memory_engines: Engines) -> None:
    app = stepwell.asgi(memory_engines.client())

    @app.get("/secret")
    async def secret() -> str:
        return "all"

    with pytest.raises(SettingsInvalid, match="/secret"):
        async with app.opened():
            pass


def test_every_route_declares_itself(memory_engines: Engines) -> None:
    app = stepwell.asgi(memory_engines.client())

    assert all(isinstance(route, DeclaredRoute | DeclaredSocket) for route in app.routes)
    assert {row.path for row in app.table if row.scope is None} == ANONYMOUS | OWN | {HOOK}
    for row in app.table:
        assert row.csrf == (row.method != "GET" and row.path != HOOK), row.path
        assert row.handler.__doc__, row.path
        assert row.tag in {tag["name"] for tag in TAGS}, row.path  # else the reference leaves it out
    assert len({row.name for row in app.table}) == len(app.table)


@pytest.mark.req("A6")
@pytest.mark.parametrize("framework", [FastAPI, Starlette])
async def test_it_can_be_mounted_under_a_path(sqlite: Engines, framework: type[Starlette]) -> None:
    api = stepwell.asgi(sqlite.new(*FLOWS), token=TOKEN)
    app = framework(lifespan=api.opened)
    app.mount("/flows", api)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=BEARER) as client,
    ):
        answer = await client.post("/flows/api/v1/runs?wait=20s", json={"workflow": "doubling", "input": 4})
        launched = await client.get(f"/flows/?t={TOKEN}")

        assert answer.json()["run"]["output"] == 8
        assert answer.headers["location"] == answer.json()["url"]
        assert (await client.get(answer.json()["url"])).status_code == 200
        assert launched.headers["location"] == "/flows/"
        assert "path=/flows" in launched.headers["set-cookie"].lower()


@pytest.mark.req("A6", "X4")
async def test_an_app_that_leaves_out_the_lifespan_still_audits_every_change(sqlite: Engines) -> None:
    async with sqlite.new(*FLOWS) as engine:
        app = FastAPI()
        app.mount("/flows", stepwell.asgi(engine, token=TOKEN))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=BEARER
        ) as client:
            body = {"workflow": "doubling", "input": 4}
            starts = (client.post("/flows/api/v1/runs", json=body) for _ in range(20))
            answers = await asyncio.gather(*starts)
        listed = await engine.store.list_audit("default")

    assert {answer.status_code for answer in answers} == {201}
    assert [entry.action for entry in listed] == ["start_run"] * 20


@pytest.mark.parametrize("command", ["import stepwell", "import stepwell.cli"])
def test_the_package_loads_no_server(command: str) -> None:
    script = f"import sys; {command}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert not {"fastapi", "uvicorn", "starlette", "pydantic"} & set(done.stdout.split())


def test_the_version_is_printed_without_the_server() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "stepwell", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("stepwell ")
    assert "fastapi" not in done.stderr
    assert "uvicorn" not in done.stderr


def test_every_code_of_the_server_is_explained() -> None:
    root = Path(stepwell.__file__).parent
    sources = "".join(path.read_text() for path in (root / "server").glob("*.py"))
    page = (root.parents[1] / "docs" / "errors.md").read_text()
    codes = set(re.findall(r"""Refusal\(\s*\d+,\s*"([A-Z_]+)\"""", sources))

    assert len(codes) > 20
    assert sorted(code for code in codes if f"`{code}`" not in page) == []
