"""What a person does in Studio, by the roles and labels of what is on the screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import TOKEN, Server

AXE = Path(__file__).parents[2] / "studio" / "node_modules" / "axe-core" / "axe.min.js"
SCREENS = ("/runs", "/workflows", "/approvals", "/workers", "/settings/keys", "/settings/about")


@pytest.mark.slow
@pytest.mark.req("S1", "S2", "S4")
def test_a_run_is_started_seen_approved_and_finished(page: Page, server: Server) -> None:
    page.get_by_role("link", name="Workflows").click()
    page.get_by_role("button", name="Start refund", exact=True).click()
    dialog = page.get_by_role("dialog", name="Start refund")
    dialog.get_by_role("button", name="Start run").click()
    expect(dialog.get_by_text("This is needed.")).to_be_visible()
    dialog.get_by_label("Value").fill("7781")
    dialog.get_by_role("button", name="Start run").click()
    expect(page.get_by_text("Waiting for approval")).to_be_visible()
    expect(page.get_by_text("Refund order 7781?").first).to_be_visible()

    page.get_by_role("link", name=re.compile("Approvals")).click()
    detail = page.get_by_role("article", name="Refund order 7781?")
    detail.get_by_label("Amount").fill("not a number")
    detail.get_by_role("button", name="Approve").click()
    expect(detail.get_by_text("This must be a whole number.")).to_be_visible()
    detail.get_by_label("Amount").fill("48")
    detail.get_by_role("button", name="Approve").click()
    page.get_by_role("list", name="Decided lately").get_by_role("link").first.click()

    expect(page.get_by_text("Completed in")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("pay, Completed"))).to_be_visible()


@pytest.mark.slow
@pytest.mark.req("S2")
def test_a_failed_run_says_why_and_is_retried_in_place(page: Page, server: Server) -> None:
    run = server.start("checkout", "8841", key="order-8841")
    page.goto(f"{server.url}/runs?status=failed")
    page.get_by_role("link", name="order-8841").click()

    expect(page.get_by_text(re.compile("Failed at.*charge.*after 2 attempts.*card declined"))).to_be_visible()
    expect(page.get_by_text(re.compile("Retry will run.*charge"))).to_be_visible()
    assert "owned" not in page.title()
    for tab in ("Events", "State", "Documents", "Input / output"):
        page.get_by_role("tab", name=tab).click()
    assert "owned" not in page.title()
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("tab", name=re.compile(r"Events\s*1\d"))).to_be_visible()
    assert server.run(run)["id"] == run


@pytest.mark.slow
@pytest.mark.req("S2")
def test_a_state_chart_moves_when_a_person_acts(page: Page, server: Server) -> None:
    run = server.start("review", None)
    page.goto(f"{server.url}/runs/{run}")
    expect(page.get_by_role("group", name="draft, here")).to_be_visible()
    page.get_by_role("button", name="publish").first.click()
    page.get_by_label("Value").fill("ana")
    page.get_by_role("button", name="publish").last.click()

    expect(page.get_by_role("group", name="published, here")).to_be_visible()


@pytest.mark.slow
@pytest.mark.req("S2")
def test_the_cursor_goes_back_and_forth(page: Page, server: Server) -> None:
    run = server.start("order", {})
    page.goto(f"{server.url}/runs/{run}")
    expect(page.get_by_role("group", name=re.compile("ask, Waiting"))).to_be_visible()
    expect(page.get_by_role("group", name=re.compile("label, Completed"))).to_be_visible()
    slider = page.get_by_role("slider", name="Cursor")
    slider.press("Home")

    expect(page.get_by_text(re.compile("Viewing the past, seq 1 of"))).to_be_visible()
    expect(page.get_by_role("group", name=re.compile("invoice, Not reached"))).to_be_visible()
    expect(page.get_by_role("button", name="Fork from here…")).to_be_visible()
    page.get_by_role("button", name="Back to live").click()
    expect(page.get_by_role("group", name=re.compile("ask, Waiting"))).to_be_visible()


@pytest.mark.slow
@pytest.mark.req("S5")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_passes_axe(browser: Browser, server: Server, scheme: str) -> None:
    run = server.start("order", {})
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 800})  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto(f"{server.url}/?t={TOKEN}")
    run_views = [f"/runs/{run}?view={view}" for view in ("graph", "steps", "events", "state", "io")]
    found = {}
    for path in (*SCREENS, *run_views):
        tab.goto(f"{server.url}{path}")
        expect(tab.get_by_role("main")).to_be_visible()
        expect(tab.get_by_role("main").get_by_role("heading").first).to_be_visible()
        tab.evaluate(AXE.read_text(encoding="utf-8"))
        answer = tab.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']})")
        if answer["violations"]:
            found[path] = [(each["id"], each["nodes"][0]["target"]) for each in answer["violations"]]
    context.close()

    assert found == {}


@pytest.mark.slow
@pytest.mark.req("S5")
def test_a_phone_has_no_sideways_scroll(browser: Browser, server: Server) -> None:
    run = server.start("order", {})
    context = browser.new_context(viewport={"width": 375, "height": 812})
    tab = context.new_page()
    tab.goto(f"{server.url}/?t={TOKEN}")
    wide = []
    for path in (*SCREENS, f"/runs/{run}", f"/runs/{run}?view=steps"):
        tab.goto(f"{server.url}{path}")
        expect(tab.get_by_role("main")).to_be_visible()
        if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path)
    context.close()

    assert wide == []
