"""The demo: the first five minutes as a person walks through them, and what its large runs cost a browser."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.browser.conftest import PATIENCE
from tests.demo_process import DemoProcess, alive, running_demo, until
from tools import budgets

TITLE_SECONDS = 20.0


@pytest.fixture(scope="module")
def demo(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    """The whole demo, with its long history. The browser comes first: Studio must be built."""
    with running_demo(tmp_path_factory.mktemp("demo") / "demo", "--no-open") as running:
        yield running


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))

    def heard(said: ConsoleMessage) -> None:
        if "Content Security" in said.text:
            problems.append(f"{page.url}: {said.text}")

    page.on("console", heard)
    yield page
    expect.set_options(timeout=PATIENCE)
    context.close()
    assert not problems, problems


@pytest.mark.slow
@pytest.mark.req("D5", "S1", "S2", "S4", "K39")
def test_the_first_five_minutes(
    tab: Page, demo: DemoProcess, record_property: Callable[[str, object], None]
) -> None:
    times: dict[str, float] = {}

    def at(what: str) -> None:
        times[what] = round(time.monotonic() - demo.began, 1)

    tab.goto(f"{demo.url}/?t={demo.token}")
    expect(tab).to_have_title("Demo · Stepwell Studio")
    expect(tab.get_by_role("button", name="Kill the worker")).to_be_enabled()
    at("demo page")

    # A run moves: its nodes turn from running to completed.
    expect(tab.get_by_role("group", name=re.compile("^charge_card, Completed"))).to_be_visible()
    expect(tab.get_by_role("group", name=re.compile("^pack_box, Running"))).to_be_visible()
    at("nodes move")

    # The list shows every status.
    tab.get_by_role("link", name="All runs").click()
    table = tab.get_by_role("table").first
    for word in ("Running", "Completed", "Failed", "Waiting", "Queued", "Cancelled", "Timed out"):
        expect(table.get_by_text(word, exact=True).first).to_be_visible()
    at("runs of every status")

    # The failed run says why, and is retried where it failed.
    tab.get_by_role("link", name="order-8841").first.click()
    expect(
        tab.get_by_text(re.compile("Failed at.*charge_card.*after 2 attempts.*card declined"))
    ).to_be_visible()
    address = tab.url
    tab.get_by_role("button", name="Retry", exact=True).click()
    expect(tab.get_by_text(re.compile("Completed in"))).to_be_visible()
    expect(tab.get_by_role("group", name=re.compile("^charge_card, Completed"))).to_be_visible()
    assert tab.url.split("?")[0] == address.split("?")[0]
    at("retried")

    # A person approves, and the state chart moves on.
    tab.get_by_role("link", name=re.compile("Approvals")).click()
    tab.get_by_role("button", name=re.compile("Refund 48 euros")).click()
    detail = tab.get_by_role("article", name="Refund 48 euros?")
    detail.get_by_label("Euros").fill("48")
    detail.get_by_label("Note").fill("as promised")
    detail.get_by_role("button", name="Approve").click()
    lately = tab.get_by_role("list", name="Recently decided")
    expect(lately.get_by_role("button", name=re.compile("Refund 48 euros"))).to_be_visible()
    tab.goto(f"{demo.url}/runs/{_demo(demo)['seeded']['refund-7781']}")
    expect(tab.get_by_role("group", name="paid, here")).to_be_visible()
    at("approved")

    killed = _kill_the_worker(tab, demo, at)
    _go_back_and_fork(tab, demo, killed)
    at("forked")
    record_property("first five minutes, seconds", times)
    assert times["demo page"] < TITLE_SECONDS


def _demo(demo: DemoProcess) -> dict[str, dict[str, str]]:
    with demo.client() as client:
        shown: dict[str, dict[str, str]] = client.get("/api/v1/demo").json()
        return shown


def _claims(client: httpx.Client, run: str) -> list[str]:
    events = client.get(f"/api/v1/runs/{run}/events?limit=1000").json()["events"]
    return [event["data"]["worker"] for event in events if event["kind"] == "claimed"]


def _kill_the_worker(tab: Page, demo: DemoProcess, at: Callable[[str], None]) -> str:
    """Kill it in the middle of an order; return the run, which another worker went on with."""
    tab.get_by_role("link", name="Demo", exact=True).click()
    # An order that has just begun, so that it does not end before it is killed.
    expect(tab.get_by_role("group", name=re.compile(r"^pack_box, Running"))).to_be_visible()
    expect(tab.get_by_label("Log of the run").get_by_text(re.compile("box [2-5]")).first).to_be_visible()
    with demo.client() as client:
        shown = client.get("/api/v1/demo").json()
        run, owner = str(shown["run"]), _claims(client, str(shown["run"]))[-1]
        pid, order = int(shown["pids"][owner]), client.get(f"/api/v1/runs/{shown['run']}").json()["key"]
        finished = [what for _, what in demo.ledger if what.startswith(order)]
        assert finished
        assert alive(pid)
        tab.get_by_role("button", name="Kill the worker").click()
        expect(tab.get_by_text(f"Worker {pid} is dead.")).to_be_visible()
        assert not alive(pid)
        left = int(re.sub(r"\D", "", tab.get_by_role("timer").inner_text()))
        assert 0 <= left <= 8
        expect(tab.get_by_role("button", name=re.compile("^Killed"))).to_be_disabled()
        at("killed")

        expect(tab.get_by_text(f"Worker {pid} is dead.")).to_be_hidden()
        expect(tab.get_by_text(re.compile(r"worker \d+ holds it"))).to_be_visible()
        expect(tab.get_by_text("from history").first).to_be_visible()
        at("taken over")
        heir = _claims(client, run)[-1]
        assert heir != owner
        assert client.get("/api/v1/demo").json()["pids"][heir] != pid
        next_pid = str(client.get("/api/v1/demo").json()["pids"][heir])
        until(lambda: [line for line in demo.ledger if line[0] == next_pid and line[1].startswith(order)])
        counted = Counter(what for _, what in demo.ledger)
        assert {what: counted[what] for what in finished} == dict.fromkeys(finished, 1)
    tab.goto(f"{demo.url}/runs/{run}?view=steps")
    expect(
        tab.get_by_role("row", name=re.compile("charge_card, Completed.*from history")).first
    ).to_be_visible()
    return run


def _go_back_and_fork(tab: Page, demo: DemoProcess, run: str) -> None:
    tab.goto(f"{demo.url}/runs/{run}")
    expect(tab.get_by_role("group", name=re.compile("^charge_card, Completed"))).to_be_visible()
    slider = tab.get_by_role("slider", name="Cursor")
    place = slider.bounding_box()
    assert place is not None
    tab.mouse.move(place["x"] + place["width"] - 4, place["y"] + place["height"] / 2)
    tab.mouse.down()
    tab.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2, steps=8)
    tab.mouse.up()
    expect(tab.get_by_text(re.compile("Viewing the past, seq"))).to_be_visible()
    expect(tab.get_by_role("group", name=re.compile("^send_mail, Not reached"))).to_be_visible()
    tab.get_by_role("button", name="Fork from here…").click()
    dialog = tab.get_by_role("dialog", name=re.compile("Fork at seq"))
    field = dialog.get_by_role("textbox").first
    # A plain field or an editor: both say what they hold, and in both a person types over all of it.
    text = str(field.evaluate("(each) => each.value ?? each.innerText"))
    field.click()
    tab.keyboard.press("Control+a")
    tab.keyboard.insert_text(text.replace("receipt-", "edited-"))
    dialog.get_by_role("button", name="Fork", exact=True).click()
    expect(tab).to_have_url(re.compile(f"/runs/(?!{run})"))
    forked = re.sub(r".*/runs/([0-9a-f]+).*", r"\1", tab.url)
    with demo.client() as client:
        new = client.get(f"/api/v1/runs/{forked}/state").json()
        old = client.get(f"/api/v1/runs/{run}/state").json()
    assert new["outputs"]["0/charge_card"].startswith("edited-")
    assert old["outputs"]["0/charge_card"].startswith("receipt-")


@pytest.mark.slow
@pytest.mark.req("S5")
def test_large_runs_stay_within_their_budgets(
    tab: Page, demo: DemoProcess, record_property: Callable[[str, object], None]
) -> None:
    assert budgets.shell_bytes() <= budgets.SHELL_BYTES
    assert [name for name in budgets.layout_scripts() if "worker" not in name] == []
    workers: list[str] = []
    tab.on("worker", lambda worker: workers.append(worker.url))
    tab.goto(f"{demo.url}/?t={demo.token}")
    tab.wait_for_url("**/demo")
    tab.goto(f"{demo.url}/runs/{budgets.run_of(tab, demo.url, 'stock-1117')}")
    tab.locator(".react-flow__node").nth(budgets.NODES - 1).wait_for()
    elements = budgets.elements(tab)
    long = budgets.run_of(tab, demo.url, "import-1117")
    tab.goto(f"{demo.url}/runs/{long}?view=events")
    tab.get_by_role("tab", name=re.compile(r"Events\s*1\d{4}")).wait_for(timeout=60_000)
    rows = budgets.event_rows(tab)
    tab.get_by_role("region", name="Events").evaluate("element => element.scrollTo(0, element.scrollHeight)")
    expect(tab.get_by_role("button", name="completed", exact=True)).to_be_visible()
    rows = max(rows, tab.get_by_role("region", name="Events").get_by_role("row").count())
    tab.goto(f"{demo.url}/runs/{long}")
    expect(tab.get_by_role("row", name=re.compile(r"^import_row, Completed, × \d{4}"))).to_be_visible()
    record_property("elements of 301 nodes, rows of 10,000 events", f"{elements}, {rows}")

    assert any("elk" in worker for worker in workers), "the layout has a thread of its own"
    assert elements <= budgets.ELEMENTS
    assert 10 < rows <= budgets.EVENT_ROWS
