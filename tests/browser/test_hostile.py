"""Hostile words everywhere, on every screen: shown as text, and never obeyed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.browser.hostile_flows import HOSTILE, MARKUP, SCRIPT
from tests.demo_process import until

TOKEN = "token-of-the-hostile-tests"
VIEWS = ("graph", "steps", "events", "state", "documents", "logs", "io")
PAGES = (
    *("/runs", "/runs?status=failed", "/workflows", "/approvals", "/workers", "/settings"),
    *(f"/settings/{name}" for name in ("keys", "limits", "retention", "audit", "about", "appearance")),
    *("/demo", "/sign-in", "/runs/nothing-here", "/settings/secrets"),
    *("/schedules", "/webhooks", "/triggers", "/alerts"),
    *("/records", "/records/boxes", "/records/boxes?record=one"),
)
# What a script that got through would have left behind.
TRACES = """() => [
  document.title === 'owned' && 'a script ran',
  ...[...document.querySelectorAll('img, script:not([src]), iframe, object, embed, svg[onload]')]
    .map((each) => 'element ' + each.outerHTML.slice(0, 80)),
  ...[...document.querySelectorAll('a[href]')].map((each) => each.getAttribute('href'))
    .filter((address) => /^\\s*(javascript|data|x):/i.test(address)),
].filter(Boolean)"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copy(Path(__file__).with_name("hostile_flows.py"), folder / "flows.py")
    said = folder / "said.txt"
    with said.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "stepwell", "dev", "flows.py", "--port", "0"],
            cwd=folder,
            env={**os.environ, "STEPWELL_LAUNCH_TOKEN": TOKEN},
            stderr=output,
        )
    try:
        address = until(lambda: re.search(r"API +(http://\S+)/api/v1", said.read_text()))[1]
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}) as found:
            yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(f"/api/v1{path}", json=body)
    assert answer.status_code < 300, f"{path}: {answer.text}"
    data: dict[str, Any] = answer.json()
    return data


def _fill(client: httpx.Client) -> list[str]:
    """Start runs, and leave hostile words in all that people can write; return the ids of the runs."""
    words = HOSTILE.replace("\0", "")
    runs = []
    for name in ("speaks", "fails", "asks", "talks", "draws"):
        body = {
            "workflow": name,
            "input": words,
            "key": f"{SCRIPT} {name}",
            "tags": {SCRIPT[:60]: words[:200]},
        }
        runs.append(str(_post(client, "/runs", body)["id"]))
    held = _post(client, "/runs", {"workflow": "talks", "input": words})["id"]
    _post(client, f"/runs/{held}/hold", {"reason": words})
    gone = _post(client, "/runs", {"workflow": "asks", "input": words})["id"]
    _post(client, f"/runs/{gone}/cancel", {"reason": words})
    _post(client, "/keys", {"name": SCRIPT[:190], "scopes": ["read"], "roles": ["<b>finance</b>"]})
    runs += [held, gone]
    _fill_lists(client, words)
    until(lambda: {_status(client, run) for run in runs} <= {"completed", "failed", "suspended", "cancelled"})
    return runs


def _fill_lists(client: httpx.Client, words: str) -> None:
    """Leave hostile words in triggers, alerts with an incident, and records."""
    name = quote(MARKUP, safe="")
    schedule = {"name": MARKUP, "workflow": "speaks", "cron": "0 0 1 1 *", "input": words}
    _post(client, "/schedules", schedule)
    _post(client, f"/schedules/{name}/pause", {"reason": words})
    _post(client, "/webhooks", {"name": MARKUP, "workflow": "speaks", "scheme": "none"})
    trigger = {
        "name": MARKUP,
        "workflow": "speaks",
        "event": SCRIPT,
        "key": SCRIPT,
        "condition": f"{MARKUP!r} == ''",
    }
    _post(client, "/triggers", trigger)
    _post(client, f"/triggers/{name}/pause", {"reason": words})
    _post(client, "/runs", {"workflow": "speaks", "input": "", "queue": MARKUP})
    alert = {"what": "no_worker", "queue": MARKUP, "after": 1}
    collection = {"schema": {"type": "object", "title": words, "properties": {SCRIPT: {"title": words}}}}
    for path, body in ((f"/alerts/{name}", alert), ("/records/boxes", collection)):
        assert client.put(f"/api/v1{path}", json=body).status_code < 300, path
    _post(client, "/records/boxes/items", {"id": "one", "data": {SCRIPT: words}})
    until(lambda: any(each["incidents"] for each in client.get("/api/v1/alerts").json()["alerts"]))


def _status(client: httpx.Client, run: str) -> str:
    status: str = client.get(f"/api/v1/runs/{run}").json()["status"]
    return status


@pytest.mark.slow
@pytest.mark.req("S1", "S2", "S4")
def test_hostile_words_are_text_on_every_screen(browser: Browser, client: httpx.Client) -> None:
    runs = _fill(client)
    address = str(client.base_url).rstrip("/")
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    tab.set_default_timeout(20_000)
    problems: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if "Content Security" in message.text:
            problems.append(f"{tab.url}: {message.text}")

    tab.on("console", heard)
    tab.on("pageerror", lambda error: problems.append(f"{tab.url}: {error}"))
    tab.on("dialog", lambda dialog: problems.append(f"{tab.url}: {dialog.message}"))
    tab.goto(f"{address}/?t={TOKEN}")
    expect(tab.get_by_role("main")).to_be_visible()

    def check() -> None:
        problems.extend(f"{tab.url}: {trace}" for trace in tab.evaluate(TRACES))

    for path in (*PAGES, *(f"/workflows/{name}" for name in ("speaks", "fails", "asks", "talks", "draws"))):
        tab.goto(f"{address}{path}")
        expect(tab.get_by_role("main").or_(tab.get_by_role("heading")).first).to_be_visible()
        _settle(tab)
        check()
    for run, views in zip(runs, [VIEWS] * 5 + [VIEWS[:1]] * 2, strict=True):
        for view in views:
            tab.goto(f"{address}/runs/{run}?view={view}")
            expect(tab.get_by_role("main").get_by_role("heading").first).to_be_visible()
            _settle(tab)
            _open_everything(tab)
            check()
    _say_it_all(tab, address, runs, check)
    _public_page(tab, client, runs[2], check)
    context.close()

    assert problems == []


def _settle(tab: Page) -> None:
    """Wait until nothing is loading; then give a script that got through the time to run."""
    expect(tab.locator("[aria-busy=true]")).to_have_count(0)
    tab.wait_for_timeout(200)


def _open_everything(tab: Page) -> None:
    """Open a few of the folded rows: each has words of its own."""
    folded = tab.get_by_role("main").locator("button[aria-expanded=false]:visible:not([aria-haspopup])")
    for _ in range(min(folded.count(), 4)):
        folded.first.click()


def _say_it_all(tab: Page, address: str, runs: list[str], check: Any) -> None:
    """The words are there, letter by letter: nothing was swallowed either."""
    tab.goto(f"{address}/runs/{runs[1]}")
    expect(tab.get_by_text(SCRIPT).first).to_be_visible()
    tab.goto(f"{address}/approvals")
    expect(tab.get_by_text(SCRIPT).first).to_be_visible()
    check()
    for page in ("schedules", "webhooks", "triggers", "alerts"):
        tab.goto(f"{address}/{page}")
        expect(tab.get_by_role("main").get_by_text(MARKUP).first).to_be_visible()
    tab.goto(f"{address}/records/boxes?record=one")
    expect(tab.get_by_role("main").get_by_text("document.title='owned'").first).to_be_visible()
    tab.goto(f"{address}/runs")
    expect(tab.get_by_role("link", name=SCRIPT).first).to_be_visible()
    tab.keyboard.press("Control+k")
    tab.get_by_role("combobox").fill(SCRIPT)
    _settle(tab)
    check()


def _public_page(tab: Page, client: httpx.Client, run: str, check: Any) -> None:
    """An approval by its link, as somebody without a key sees it."""
    link = _post(client, f"/runs/{run}/links", {"assignee": "ana"})
    tab.goto(f"{str(client.base_url).rstrip('/')}{link['url']}")
    expect(tab.get_by_text(SCRIPT).first).to_be_visible()
    check()
