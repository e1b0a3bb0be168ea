"""Studio: pages and files beside the API, under any path, and a help page where they are not built."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

import stepwell
from stepwell.server import studio
from tests.engines import Engines
from tests.server.served import served

ROUTES = Path(__file__).parents[2] / "studio" / "src" / "routes.tsx"
HTML = {"accept": "text/html,application/xhtml+xml"}
INDEX = '<!doctype html><html><head><base href="/" /></head><body>Studio</body></html>'


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build as Vite leaves it."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "assets" / "index-1a2b.js").write_text("let a = 1;\n" * 100)
    (tmp_path / "assets" / "index-3c4d.css").write_text("a{}")
    (tmp_path / "secret.txt").write_text("not a page")
    monkeypatch.setattr(studio, "FOLDER", tmp_path)
    studio._read.cache_clear()
    return tmp_path


@pytest.mark.req("S1")
async def test_every_address_of_studio_is_the_page(memory_engines: Engines, built: Path) -> None:
    async with served(memory_engines.client()) as client, httpx.AsyncClient(base_url=client.url) as browser:
        drawn = re.findall(r'(?:page\(|path: )"(/[^"]*)"', ROUTES.read_text(encoding="utf-8"))
        assert {"/", "/runs/$id", "/schedules", "/approve"} <= set(drawn)
        for path in (re.sub(r"\$\w+", "0192f0c1", path) for path in drawn):
            answer = await browser.get(path, headers=HTML)

            assert answer.status_code == 200, path
            assert "Studio" in answer.text
            assert answer.headers["cache-control"] == "no-cache"
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
        assert (await browser.get("/")).json()["name"] == "stepwell"
        mistyped = await browser.get("/no/such/page", headers=HTML)
        assert (mistyped.status_code, "Studio</body>" in mistyped.text) == (404, True)
        assert mistyped.headers["content-security-policy"] == studio.POLICY
        assert (await browser.get("/no/such/page")).json()["code"] == "NOT_FOUND"
        assert (await browser.get("/api/v1/nothing", headers=HTML)).json()["code"] == "NOT_FOUND"
        assert (await browser.get("/api/v1/nothing", headers=HTML)).json()["code"] == "NOT_FOUND"


async def test_files_never_change_and_nothing_else_is_read(memory_engines: Engines, built: Path) -> None:
    async with served(memory_engines.client()) as client, httpx.AsyncClient(base_url=client.url) as browser:
        script = await browser.get("/assets/index-1a2b.js")
        style = await browser.get("/assets/index-3c4d.css", headers={"accept-encoding": "identity"})

        assert script.text.startswith("let a = 1;")
        assert script.headers["content-type"].startswith("text/javascript")
        assert script.headers["content-encoding"] == "gzip"
        assert "immutable" in script.headers["cache-control"]
        assert style.headers["content-type"].startswith("text/css")
        for path in ("/assets/../secret.txt", "/assets/%2e%2e/secret.txt", "/assets/other.js", "/assets/"):
            assert (await browser.get(path)).status_code == 404, path


async def test_studio_works_under_a_path(memory_engines: Engines, built: Path) -> None:
    api = stepwell.asgi(memory_engines.client(), hosts=["app.example"])
    app = FastAPI(lifespan=api.opened)
    app.mount("/flows", api)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app.example") as browser:
        page = await browser.get("/flows/runs/0192f0c1", headers=HTML)
        script = await browser.get("/flows/assets/index-1a2b.js")

    assert '<base href="/flows/" />' in page.text
    assert script.status_code == 200


async def test_without_a_build_the_server_says_how_to_make_one(
    memory_engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studio, "FOLDER", tmp_path / "none")
    async with served(memory_engines.client()) as client, httpx.AsyncClient(base_url=client.url) as browser:
        page = await browser.get("/runs", headers=HTML)

    assert page.status_code == 200
    assert "make studio" in page.text
