"""The page of errors: where the `docs` of a problem lead, without another site."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

import stepwell
from tests.engines import Engines
from tests.server.served import BEARER, FLOWS, TOKEN, served

TEXT = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.mark.req("A1", "D4")
async def test_the_docs_of_a_problem_explain_its_code(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client, httpx.AsyncClient(base_url=client.url) as person:
        problem = (await client.get("/api/v1/runs/abc")).json()
        address, _, anchor = problem["docs"].partition("#")
        page = await person.get(address, headers=BROWSER)
        text = await person.get(address)

    assert anchor == problem["code"] == "ID_INVALID"
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "'unsafe-inline'" not in page.headers["content-security-policy"]
    assert f'id="{anchor}"' in page.text
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text == TEXT


async def test_every_code_of_the_text_is_one_anchor_of_the_page(memory_engines: Engines) -> None:
    async with served(memory_engines.client()) as client:
        page = (await client.get("/docs/errors", headers=BROWSER)).text
    codes = {code for code in re.findall(r"`([A-Z][A-Z0-9_]+)`", TEXT)}
    anchors = re.findall(r'id="([^"]+)"', page)

    assert len(codes) > 150
    assert sorted(anchors) == sorted(codes)
    assert "](" not in page
    assert "`" not in page
    assert page.count("<tr>") == len(re.findall(r"^\|", TEXT, re.M)) - len(re.findall(r"^\|-", TEXT, re.M))
    assert {len(re.findall("<t[hd]>", row)) for row in page.split("<tr>")[1:]} <= {2, 3, 4}


@pytest.mark.req("A6")
async def test_the_docs_of_a_problem_lead_below_the_path_of_the_mount(sqlite: Engines) -> None:
    api = stepwell.asgi(sqlite.new(*FLOWS), token=TOKEN)
    app = FastAPI(lifespan=api.opened)
    app.mount("/flows", api)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        problems = [
            (await client.get("/flows/api/v1/runs/abc", headers=BEARER)).json(),
            (await client.get("/flows/api/v1/runs")).json(),
            (
                await client.get("/flows/api/v1/runs", headers={**BEARER, "Origin": "http://evil.example"})
            ).json(),
        ]
        pages = [await client.get(problem["docs"], headers=BROWSER) for problem in problems]

    assert [problem["docs"] for problem in problems] == [
        "/flows/docs/errors#ID_INVALID",
        "/flows/docs/errors#UNAUTHENTICATED",
        "/flows/docs/errors#ORIGIN_NOT_ALLOWED",
    ]
    assert [page.status_code for page in pages] == [200, 200, 200]
