"""The list of runs: filters, views, the histogram, bulk jobs, and the way back to it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.local import allow, local, tab
from tools.local_server import TOKEN, LocalServer, until

__all__ = ["local", "tab"]  # fixtures


def cells(page: Page) -> list[str]:
    return page.get_by_role("table", name="Runs").get_by_role("link").all_inner_texts()


@pytest.mark.slow
@pytest.mark.req("S1")
def test_filters_are_an_address_and_the_way_back_is_where_it_was(
    tab: Page, browser: Browser, local: LocalServer
) -> None:
    keys = [f"order-{number}" for number in range(60)]
    for key in keys:
        allow(local, f"card-{key}")
    local.post("/runs/batch", {"workflow": "checkout", "inputs": keys, "keys": keys})
    failed = local.begin("checkout", "x", key="order-x", tags={"shop": "berlin"})
    local.until_status(failed, "failed")
    until(lambda: local.get("/counts?workflow=checkout")["statuses"].get("completed") == 60, "60 orders")

    tab.goto(f"{local.url}/runs")
    box = tab.get_by_role("combobox", name="Filter runs")
    expect(box).to_be_visible()
    tab.keyboard.press("/")
    expect(box).to_be_focused()
    tab.keyboard.type("wrkflow:checkout")
    expect(tab.get_by_role("alert")).to_contain_text("There is no filter wrkflow")
    box.fill("status:completed workflow:checkout")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("button", name="Remove filter status completed")).to_be_visible()
    expect(tab).to_have_url(re.compile(r"status=completed&workflow=checkout"))
    expect(tab.get_by_role("table", name="Runs")).to_have_attribute("aria-rowcount", "61")
    shown = cells(tab)

    other = browser.new_context(viewport={"width": 1280, "height": 800})
    copy = other.new_page()
    copy.goto(f"{local.url}/?t={TOKEN}")
    copy.goto(tab.url)
    expect(copy.get_by_role("table", name="Runs")).to_have_attribute("aria-rowcount", "61")
    assert cells(copy) == shown
    other.close()

    tab.get_by_role("heading", name="Runs").click()
    for _ in range(45):
        tab.keyboard.press("j")
    current = tab.locator("tr[data-cursor]")
    here = current.get_by_role("link").inner_text()
    wrap = tab.get_by_role("table", name="Runs").locator("..")
    top = wrap.evaluate("element => element.scrollTop")
    assert top > 0
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="checkout")).to_be_visible()
    tab.go_back()
    expect(current.get_by_role("link")).to_have_text(here)
    assert abs(wrap.evaluate("element => element.scrollTop") - top) < 40

    tab.get_by_role("button", name="Save view…").click()
    dialog = tab.get_by_role("dialog", name="Save this view")
    dialog.get_by_label("Name").fill("Good orders")
    dialog.get_by_role("button", name="Save view").click()
    tab.get_by_role("button", name=re.compile("^All")).click()
    expect(tab).to_have_url(re.compile(r"/runs$"))
    tab.get_by_role("button", name="Good orders", exact=True).click()
    expect(tab.get_by_role("button", name="Remove filter workflow checkout")).to_be_visible()


@pytest.mark.slow
@pytest.mark.req("S1", "S5")
def test_the_histogram_counts_and_sets_the_time_range(tab: Page, local: LocalServer) -> None:
    run = local.begin("sum_up", [1], key="waiting-for-histogram")
    local.until_status(run, "suspended")
    tab.goto(f"{local.url}/runs?status=suspended")
    figure = tab.get_by_role("figure", name=re.compile(r"\d+ runs since .* of them failed"))
    expect(figure).to_be_visible()
    figure.get_by_role("button", name="Show as a table").click()
    expect(figure.get_by_role("table").get_by_role("row").last).to_contain_text("waiting")
    slider = figure.get_by_role("slider", name=re.compile("Time range"))
    slider.focus()
    tab.keyboard.press("ArrowRight")
    for _ in range(3):
        tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("Shift+ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"\d\d:\d\d( yesterday)? to"))
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("button", name=re.compile("Remove filter since"))).to_be_visible()
    expect(tab.get_by_role("button", name=re.compile("Remove filter until"))).to_be_visible()
    expect(tab.get_by_role("heading", name=re.compile("^No waiting run"))).to_be_visible()
    tab.get_by_role("button", name="Clear the filters").click()

    tab.goto(f"{local.url}/runs")
    tab.get_by_role("table", name="Runs").hover()
    local.begin("sum_up", [1], key="arrived-meanwhile")
    new = tab.get_by_role("button", name=re.compile(r"^\d+ new runs?$"))
    expect(new).to_be_visible()
    expect(tab.get_by_role("link", name="arrived-meanwhile")).to_have_count(0)
    tab.keyboard.press(".")
    expect(tab.get_by_role("link", name="arrived-meanwhile")).to_be_visible()


@pytest.mark.slow
@pytest.mark.req("S1")
def test_many_runs_are_retried_cancelled_and_deleted_with_the_consequence(
    tab: Page, local: LocalServer
) -> None:
    failed = [local.begin("checkout", f"bulk-{number}", key=f"bulk-{number}") for number in range(3)]
    for run in failed:
        local.until_status(run, "failed")
    for number in range(3):
        allow(local, f"card-bulk-{number}")
    tab.goto(f"{local.url}/runs?key=bulk-&status=failed")
    tab.get_by_role("checkbox", name="Select bulk-0").check()
    tab.get_by_role("checkbox", name="Select bulk-1").check()
    bar = tab.get_by_role("toolbar", name="Bulk actions")
    expect(bar.get_by_text("2 selected")).to_be_visible()
    tab.keyboard.press("r")
    dialog = tab.get_by_role("dialog", name="Retry 2 runs?")
    expect(dialog.get_by_text("Completed steps do not run again.")).to_be_visible()
    dialog.get_by_role("button", name="Retry 2 runs").click()
    expect(bar.get_by_role("status")).to_have_text("Retry: 2 done")
    for run in failed[:2]:
        local.until_status(run, "completed")
    assert local.run(failed[2])["status"] == "failed"

    waiting = [local.begin("tick", 1, key=f"many-{number}") for number in range(4)]
    for run in waiting:
        local.until_status(run, "suspended")
    tab.goto(f"{local.url}/runs?workflow=tick&status=suspended")
    expect(tab.get_by_role("link", name="many-3")).to_be_visible()
    count = len(local.get("/runs?workflow=tick&status=suspended")["runs"])
    tab.get_by_role("heading", name="Runs").click()
    tab.keyboard.press("b")
    bar.get_by_role("button", name=f"Select all {count} matching").click()
    bar.get_by_role("button", name=f"Cancel {count}").click()
    dialog = tab.get_by_role("dialog", name=f"Cancel {count} runs?")
    expect(dialog.get_by_text("nothing after them starts")).to_be_visible()
    dialog.get_by_role("button", name=f"Cancel {count} runs").click()
    expect(bar.get_by_role("status")).to_have_text(f"Cancel: {count} done")
    assert {local.run(run)["status"] for run in waiting} == {"cancelled"}

    tab.goto(f"{local.url}/runs?workflow=tick&status=cancelled")
    tab.get_by_role("checkbox", name="Select many-3").check()
    bar.get_by_role("button", name="Delete 1").click()
    tab.get_by_role("dialog", name="Delete 1 run?").get_by_role("button", name="Delete 1 run").click()
    expect(bar.get_by_role("status")).to_have_text("Delete: 1 done")
    expect(tab.get_by_role("link", name="many-3")).to_have_count(0)
