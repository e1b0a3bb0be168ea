"""The run page: what a person sees of a run, does to it, and finds when things break."""

from __future__ import annotations

import os
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.local import allow, ledger, local, tab, tab_to
from tools.local_server import LocalServer, until

__all__ = ["local", "tab"]  # fixtures


@pytest.mark.slow
@pytest.mark.req("S1", "S2", "S5")
def test_a_run_is_started_from_its_form_and_watched_by_keyboard_alone(tab: Page, local: LocalServer) -> None:
    tab.goto(f"{local.url}/runs")
    expect(tab.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    tab.keyboard.press("g")
    tab.keyboard.press("w")
    expect(tab.get_by_role("heading", name="Workflows")).to_be_visible()
    begin = tab.get_by_role("button", name="Start fulfil", exact=True)
    expect(begin).to_be_visible()
    tab_to(tab, begin)
    tab.keyboard.press("Enter")
    dialog = tab.get_by_role("dialog", name="Start fulfil")
    tab_to(tab, dialog.get_by_role("button", name="Start run"))
    tab.keyboard.press("Enter")
    expect(dialog.get_by_text("This field is required.").first).to_be_visible()
    tab_to(tab, dialog.get_by_label("Number"))
    tab.keyboard.type("7781")
    tab_to(tab, dialog.get_by_label("Cents"))
    tab.keyboard.type("many")
    tab_to(tab, dialog.get_by_role("button", name="Start run"))
    tab.keyboard.press("Enter")
    expect(dialog.get_by_text("Enter a whole number.")).to_be_visible()
    tab_to(tab, dialog.get_by_label("Cents"))
    tab.keyboard.press("Control+a")
    tab.keyboard.type("1999")
    tab_to(tab, dialog.get_by_role("button", name="Start run"))
    tab.keyboard.press("Enter")

    expect(tab.get_by_role("row", name=re.compile("^charge, Running"))).to_be_visible()
    expect(tab.get_by_role("row", name=re.compile("^load, Completed"))).to_be_visible()
    allow(local, "charge-7781")
    expect(tab.get_by_role("row", name=re.compile("^charge, Completed"))).to_be_visible()
    expect(tab.get_by_text(re.compile("Completed in .*receipt 7781 1999"))).to_be_visible()
    tab.keyboard.press("2")
    expect(tab.get_by_role("tab", name=re.compile("Events"))).to_have_attribute("aria-selected", "true")


@pytest.mark.slow
@pytest.mark.req("S2")
def test_a_failed_run_is_read_and_retried_in_place(tab: Page, local: LocalServer) -> None:
    run = local.begin("checkout", "8841", key="order-8841")
    local.until_status(run, "failed")
    tab.goto(f"{local.url}/runs/{run}")
    address = tab.url
    why = re.compile(r"Failed at.*pay.*after 2 attempts.*card declined \(HTTP 402\)")
    expect(tab.get_by_text(why)).to_be_visible()
    expect(tab.get_by_text(re.compile("Retry will run.*pay"))).to_be_visible()
    inspector = tab.get_by_role("region", name="pay, Failed")
    expect(inspector.get_by_text("Something went wrong")).to_be_visible()
    inspector.get_by_role("button", name="Attempt 1, Failed").click()
    inspector.get_by_role("button", name=re.compile("Logs 1")).click()
    expect(inspector.get_by_text("POST /payments 8841")).to_be_visible()
    allow(local, "card-8841")
    tab.get_by_role("button", name="Retry", exact=True).click()

    expect(tab.get_by_text(re.compile("Completed in .*receipt 8841"))).to_be_visible()
    expect(tab.get_by_text("retried once")).to_be_visible()
    assert tab.url == address
    configured = local.begin("faulty", {})
    local.until_status(configured, "failed")
    tab.goto(f"{local.url}/runs/{configured}")
    inspector = tab.get_by_role("region", name="pick, Failed")
    expect(inspector.get_by_text("Fix your node")).to_be_visible()
    expect(inspector.get_by_text("EXPRESSION_ERROR")).to_be_visible()
    expect(inspector.get_by_role("link", name=re.compile("Open pick"))).to_be_visible()
    assert [line.split(" ", 1)[1] for line in ledger(local)].count("load 8841") == 1


@pytest.mark.slow
@pytest.mark.req("S2")
def test_a_killed_worker_is_seen_and_its_run_goes_on(tab: Page, local: LocalServer) -> None:
    run = local.begin("fulfil", {"number": "9001", "cents": 1})
    tab.goto(f"{local.url}/runs/{run}")
    expect(tab.get_by_role("row", name=re.compile("^charge, Running"))).to_be_visible()
    lost, pid = local.kill_worker_of(run)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    local.start_worker()

    expect(tab.get_by_text(re.compile("was lost"))).to_be_visible(timeout=30_000)
    until(lambda: local.owner_of(run) != lost, "another worker has the run")
    allow(local, "charge-9001")
    expect(tab.get_by_text(re.compile("Completed in .*receipt 9001"))).to_be_visible()
    expect(tab.get_by_role("row", name=re.compile("^load, Completed, from history"))).to_be_visible()
    charged = tab.get_by_role("row", name=re.compile("^charge, Completed"))
    charged.click()
    inspector = tab.get_by_role("region", name="charge, Completed")
    expect(inspector.get_by_text(local.owner_of(run))).to_be_visible()
    expect(inspector.get_by_text(lost)).to_have_count(0)
    done = [line.split(" ", 1) for line in ledger(local) if line.endswith(" 9001")]
    assert [what for _, what in done] == ["load 9001", "charge 9001"]
    assert done[0][0] == str(pid) != done[1][0]


@pytest.mark.slow
@pytest.mark.req("S2")
def test_time_travel_shows_the_past_and_forks_it_with_another_state(tab: Page, local: LocalServer) -> None:
    run = local.begin("sum_up", [10, 20, 30, 40], key="sum")
    local.until_status(run, "suspended")
    before = local.events(run)
    third = [event["seq"] for event in before if event["kind"] == "step_completed"][2]
    tab.goto(f"{local.url}/runs/{run}?view=state")
    slider = tab.get_by_role("slider", name="Cursor")
    expect(slider).to_have_attribute("aria-valuetext", f"seq {len(before)} of {len(before)}")
    slider.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", f"seq 1 of {len(before)}")
    for seq in [event["seq"] for event in before if event["kind"] == "step_completed"][:3]:
        tab.keyboard.press("}")
        expect(slider).to_have_attribute("aria-valuetext", f"seq {seq} of {len(before)}")
    expect(tab.get_by_text(re.compile(f"Viewing the past, seq {third} of"))).to_be_visible()
    outputs = local.get(f"/runs/{run}/state?seq={third}")["outputs"]
    state = tab.get_by_role("region", name="State")
    for path, value in outputs.items():
        expect(state.get_by_text(f'"{path}"')).to_be_visible()
        expect(state.get_by_text(str(value), exact=True)).to_be_visible()
    assert list(outputs.values()) == [10, 30, 60]

    tab.get_by_role("button", name="Fork from here…").click()
    dialog = tab.get_by_role("dialog", name=f"Fork at seq {third}")
    editor = dialog.get_by_role("textbox", name="Results of the steps so far")
    editor.click()
    tab.keyboard.press("Control+a")
    tab.keyboard.type("nonsense")
    expect(dialog.get_by_text(re.compile("This is not valid JSON"))).to_be_visible()
    expect(dialog.get_by_role("button", name="Fork", exact=True)).to_be_disabled()
    tab.keyboard.press("Control+a")
    text = str({**outputs, "0/add#3": 1000}).replace("'", '"')
    tab.keyboard.insert_text(text)
    expect(dialog.get_by_role("list", name="Your changes")).to_contain_text("601000")
    dialog.get_by_role("button", name="Fork", exact=True).click()

    expect(tab.get_by_text("Waiting at right for a signal")).to_be_visible()
    forked = tab.url.rpartition("/")[2].partition("?")[0]
    assert forked != run
    assert local.get(f"/runs/{forked}/state")["outputs"]["0/add#4"] == 1040
    assert local.events(run) == before
    tab.get_by_role("button", name="Send signal").click()
    expect(tab.get_by_text(re.compile("Completed in .*1040"))).to_be_visible()
    assert local.run(run)["status"] == "suspended"


@pytest.mark.slow
@pytest.mark.req("S2")
def test_the_next_failure_of_a_large_graph_is_one_key_away(tab: Page, local: LocalServer) -> None:
    wide = local.begin("stock_count", {})
    local.until_status(wide, "failed")
    tab.goto(f"{local.url}/runs/{wide}")
    canvas = tab.get_by_role("application", name="Graph of stock_count")
    expect(canvas.get_by_role("group", name=re.compile("shelf_20_6, Failed"))).to_be_visible(timeout=60_000)
    assert canvas.locator(".react-flow__node").count() >= 300
    tab.keyboard.press("f")

    expect(tab.get_by_role("treeitem", name=re.compile("shelf_20_6"))).to_have_attribute(
        "aria-selected", "true"
    )
    expect(canvas.get_by_text("shelf_20_6")).to_be_visible()


@pytest.mark.slow
@pytest.mark.req("S2")
def test_a_state_chart_moves_when_a_person_acts(tab: Page, local: LocalServer) -> None:
    run = local.begin("review", None)
    tab.goto(f"{local.url}/runs/{run}")
    expect(tab.get_by_role("group", name="draft, here")).to_be_visible()
    tab.get_by_role("button", name="publish").first.click()
    tab.get_by_label("Value").fill("ana")
    tab.get_by_role("button", name="publish").last.click()

    expect(tab.get_by_role("group", name="published, here")).to_be_visible()


@pytest.mark.slow
@pytest.mark.req("S2", "K38")
def test_a_graph_is_shown_at_any_seq_with_what_its_models_used(tab: Page, local: LocalServer) -> None:
    run = local.begin("shipping", {})
    local.until_status(run, "suspended")
    tab.goto(f"{local.url}/runs/{run}")
    expect(tab.get_by_role("group", name=re.compile("ask, Waiting"))).to_be_visible()
    expect(tab.get_by_role("group", name=re.compile("label, Completed"))).to_be_visible()
    expect(tab.get_by_text("592 tokens (500 in, 92 out), cost 0.004").first).to_be_visible()
    tab.get_by_role("treeitem", name=re.compile("summary")).click()
    summary = tab.get_by_role("region", name="summary, Completed")
    expect(summary.get_by_text("592 tokens (500 in, 92 out), cost 0.004")).to_be_visible()
    expect(summary.get_by_text("small")).to_be_visible()
    slider = tab.get_by_role("slider", name="Cursor")
    slider.press("Home")

    expect(tab.get_by_text(re.compile("Viewing the past, seq 1 of"))).to_be_visible()
    expect(tab.get_by_role("group", name=re.compile("summary, Not reached"))).to_be_visible()
    expect(tab.get_by_role("button", name="Fork from here…")).to_be_visible()
    expect(tab.get_by_text("592 tokens")).to_have_count(0)
    tab.get_by_role("button", name="Back to live").click()
    expect(tab.get_by_role("group", name=re.compile("ask, Waiting"))).to_be_visible()


@pytest.mark.slow
@pytest.mark.req("S2", "K39")
def test_operators_hold_skip_force_and_cancel_runs(tab: Page, local: LocalServer) -> None:
    def chosen(verb: str) -> None:
        tab.get_by_role("button", name="More actions").click()
        tab.get_by_role("menuitem", name=verb).click()

    run = local.begin("sum_up", [1])
    local.until_status(run, "suspended")
    tab.goto(f"{local.url}/runs/{run}")
    chosen("Hold…")
    dialog = tab.get_by_role("dialog", name="Hold this run?")
    dialog.get_by_label("Reason").fill("the bank is down")
    dialog.get_by_role("button", name="Hold the run").click()
    expect(tab.get_by_role("status").get_by_text("the bank is down")).to_be_visible()
    local.post(f"/runs/{run}/signal", {"name": "right"})
    tab.get_by_role("button", name="Release").click()
    expect(tab.get_by_text("Completed in")).to_be_visible()

    failed = local.begin("checkout", "77")
    local.until_status(failed, "failed")
    tab.goto(f"{local.url}/runs/{failed}")
    expect(tab.get_by_text(re.compile("Failed at"))).to_be_visible()
    chosen("Skip the failed step…")
    dialog = tab.get_by_role("dialog", name="Skip pay")
    dialog.get_by_role("textbox", name="Output").click()
    tab.keyboard.press("Control+a")
    tab.keyboard.insert_text('"paid by hand"')
    dialog.get_by_role("button", name="Skip pay").click()
    expect(tab.get_by_text(re.compile("Completed in .*paid by hand"))).to_be_visible()

    for verb, title, button, status in (
        ("End by force…", "End this run by force?", "End the run by force", "failed|cancelled"),
        ("", "Cancel this run?", "Cancel the run", "cancelled"),
    ):
        run = local.begin("sum_up", [1])
        local.until_status(run, "suspended")
        tab.goto(f"{local.url}/runs/{run}")
        if verb:
            chosen(verb)
        else:
            tab.get_by_role("button", name="Cancel…").click()
        dialog = tab.get_by_role("dialog", name=title)
        dialog.get_by_label("Reason").fill("ordered twice")
        dialog.get_by_role("button", name=button).click()
        expect(tab.get_by_text(re.compile("ordered twice")).first).to_be_visible()
        assert re.fullmatch(status, str(local.run(run)["status"]))
