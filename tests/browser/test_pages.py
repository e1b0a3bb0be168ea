"""The pages around a run, as people use them: by the roles and labels of what is on the screen.

A server and its workers are processes of their own here, so that they can be stopped and killed.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.axe import violations
from tools.local_server import LocalServer, until

FLOWS = Path(__file__).with_name("page_flows.py")
PATIENCE = 20_000  # milliseconds: other tests may run beside
MAIN = (
    *("/runs", "/workflows", "/approvals", "/schedules", "/webhooks", "/triggers", "/workers", "/alerts"),
    *("/records", "/settings/keys"),
)
SETTINGS = ("general", "keys", "secrets", "limits", "appearance", "retention", "audit", "about")

pytestmark = pytest.mark.slow


class Place(LocalServer):
    """A server with approvals that wait for people."""

    def waiting(self, run: str) -> str:
        """Wait until a run has an open approval; return its path."""
        until(lambda: bool(self.get(f"/runs/{run}/waits")["waits"]), f"{run} waits")
        return str(self.get(f"/runs/{run}/waits")["waits"][0]["path"])

    def asking(self, workflow: str, input: object, **more: object) -> str:
        run = self.begin(workflow, input, **more)
        self.waiting(run)
        return run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("pages")
    shutil.copy(FLOWS, folder / "page_flows.py")
    with Place(folder, "page_flows.py", lease=2.0) as server:
        yield server


@pytest.fixture
def contexts(browser: Browser) -> Iterator[Any]:
    opened: list[BrowserContext] = []

    def context(**options: Any) -> BrowserContext:
        new = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        new.set_default_timeout(PATIENCE)
        opened.append(new)
        return new

    yield context
    for each in opened:
        each.close()


def signed_in(context: BrowserContext, place: Place, key: str = "") -> Page:
    """A tab of somebody who has a key, or of the one who started the server."""
    page = context.new_page()
    if not key:
        page.goto(place.open_url)
        return page
    page.goto(f"{place.url}/sign-in")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    return page


def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has that name has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => { const it = document.activeElement;
            return it.labels?.[0]?.textContent ?? it.getAttribute('aria-label') ?? it.textContent }"""
        )
        if name in focused:
            return
    raise AssertionError(f"Tab never came to {name}")


@pytest.mark.req("S4", "S5")
def test_an_approval_is_decided_by_keys_while_another_window_shows_its_run(
    contexts: Any, place: Place
) -> None:
    run = place.asking("refund", "7781")
    place.asking("refund", "7764")
    watching = signed_in(contexts(), place)
    watching.goto(f"{place.url}/runs/{run}")
    expect(watching.get_by_text("Waiting for approval")).to_be_visible()
    deciding = signed_in(contexts(), place, place.key("ana", "read", "approve"))

    deciding.locator("body").press("g")
    deciding.keyboard.press("a")
    expect(deciding.get_by_role("heading", name="Approvals")).to_be_visible()
    expect(deciding.get_by_role("article", name="Refund order 7764?")).to_be_visible()
    deciding.keyboard.press("j")
    detail = deciding.get_by_role("article", name="Refund order 7781?")
    expect(detail).to_be_visible()
    expect(detail.get_by_text("Above 50 euros finance decides.")).to_be_visible()
    expect(detail.get_by_text("the workflow receives a timeout")).to_be_visible()
    tab_to(deciding, "Amount")
    deciding.keyboard.type("much")
    deciding.keyboard.press("Control+Enter")
    expect(detail.get_by_text("Enter a whole number.")).to_be_visible()
    deciding.keyboard.press("Control+a")
    deciding.keyboard.type("48")
    tab_to(deciding, "Reason")
    deciding.keyboard.type("photos are clear")
    # What others do meanwhile is read, and what is typed stays.
    other = place.asking("ship", "7765")
    expect(deciding.get_by_role("button", name=re.compile("^Ship order 7765"))).to_be_visible()
    expect(detail.get_by_label("Amount")).to_have_value("48")
    deciding.keyboard.press("Control+Enter")

    lately = deciding.get_by_role("list", name="Recently decided")
    expect(lately.get_by_role("button", name=re.compile("Refund order 7781.*ana approved"))).to_be_visible()
    expect(watching.get_by_text("Completed in")).to_be_visible()
    [given] = place.get(f"/runs/{run}/decisions")["decisions"]
    assert (given["by"], given["reason"]) == ("ana", "photos are clear")
    assert place.run(run)["output"] == "paid 48"

    place.post(f"/runs/{other}/cancel", {})

    # A visitor who comes later reads it too.
    watching.goto(f"{place.url}/approvals?show=done")
    done = watching.get_by_role("list", name="Decided approvals")
    done.get_by_role("button", name=re.compile("Refund order 7781.*ana approved")).click()
    decided = watching.get_by_role("article", name="Refund order 7781?")
    expect(decided.get_by_text("Decided: ana approved this")).to_be_visible()
    expect(decided.get_by_role("row", name="Amount 48")).to_be_visible()


@pytest.mark.req("S4", "K25")
def test_of_two_people_who_decide_one_wins_and_the_other_is_told_who_did(contexts: Any, place: Place) -> None:
    run = place.asking("ship", "17")
    ana = signed_in(contexts(), place, place.key("ana", "read", "approve"))
    ben = signed_in(contexts(), place, place.key("ben", "read", "approve"))
    for page in (ana, ben):
        page.goto(f"{place.url}/approvals")
        expect(page.get_by_role("article", name="Ship order 17?")).to_be_visible()
        expect(page.get_by_text("one from").first).to_be_visible()
    # Ben's page hears nothing of what Ana does: he presses a button that should no longer be there.
    ben.route("**/api/v1/approvals?*", lambda route: None)
    ben.route("**/api/v1/stream?*", lambda route: route.abort())
    ana.get_by_role("article", name="Ship order 17?").get_by_role("button", name="Deny").click()
    expect(ana.get_by_role("button", name=re.compile("Ship order 17.*ana denied"))).to_be_visible()
    ben.get_by_role("article", name="Ship order 17?").get_by_role("button", name="Approve").click()

    expect(ben.get_by_text(re.compile("Already decided: ana denied this at .* was not sent"))).to_be_visible()
    place.until_status(run, "completed")
    assert place.run(run)["output"] == "kept"
    ben.unroute_all()
    ben.reload()
    expect(ben.get_by_role("article", name="Ship order 17?")).to_have_count(0)


@pytest.mark.req("S4", "K25")
def test_two_must_approve_and_others_are_asked_and_reminded(contexts: Any, place: Place) -> None:
    run = place.asking("publish", "prices")
    page = signed_in(contexts(), place)
    page.goto(f"{place.url}/approvals")
    page.get_by_role("button", name=re.compile("Publish prices.*needs 2")).click()
    detail = page.get_by_role("article", name="Publish prices?")
    expect(detail.get_by_text("0 of 2 approved")).to_be_visible()
    page.get_by_role("button", name="Remind").click()
    expect(detail.get_by_text("Reminder recorded in the log")).to_be_visible()
    page.get_by_role("button", name="Reassign…").click()
    page.get_by_label("Assignees").fill("ana, ben")
    page.get_by_role("button", name="Reassign", exact=True).click()
    expect(detail.get_by_text("ana, ben")).to_be_visible()
    ana = signed_in(contexts(), place, place.key("ana", "read", "approve"))
    ana.goto(f"{place.url}/approvals")
    ana.get_by_role("article", name="Publish prices?").get_by_role("button", name="Approve").click()
    expect(detail.get_by_text("1 of 2 approved")).to_be_visible()
    expect(detail.get_by_text(re.compile("ana (now|.* ago)"))).to_be_visible()
    ben = signed_in(contexts(), place, place.key("ben", "read", "approve"))
    ben.goto(f"{place.url}/approvals")
    ben.get_by_role("article", name="Publish prices?").get_by_role("button", name="Approve").click()

    place.until_status(run, "completed")
    expect(page.get_by_role("button", name=re.compile("Publish prices.*ben approved"))).to_be_visible()


@pytest.mark.req("S4", "X6")
def test_a_link_decides_once_and_says_what_became_of_it(contexts: Any, place: Place) -> None:
    run, late = place.asking("ship", "18"), place.asking("ship", "19")
    used, expired = place.link(run, "dora"), place.link(run, "dora", expires=0.001)
    beaten = place.link(late, "dora")
    page = contexts().new_page()
    page.goto(used)
    expect(page.get_by_role("heading", name="Ship order 18?")).to_be_visible()
    expect(page.get_by_text(re.compile("You decide as.*dora"))).to_be_visible()
    assert place.run(run)["status"] == "suspended"  # opening changed nothing
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Your answer is recorded")).to_be_visible()
    place.until_status(run, "completed")
    page.reload()
    expect(page.get_by_role("heading", name="This link was already used")).to_be_visible()
    expect(page.get_by_text(re.compile(r"dora answered with it at \d\d:\d\d"))).to_be_visible()
    page.goto("about:blank")
    page.goto(expired)
    expect(page.get_by_role("heading", name="This link has expired")).to_be_visible()
    page.goto("about:blank")
    page.goto(beaten)
    expect(page.get_by_role("heading", name="Ship order 19?")).to_be_visible()
    place.post(f"/runs/{late}/decide", {"answer": True, "by": "ben"})
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("heading", name="Already decided")).to_be_visible()
    expect(page.get_by_text(re.compile("ben approved this at .* was not sent"))).to_be_visible()
    page.goto("about:blank")
    page.goto(f"{used[:-1]}!")

    expect(page.get_by_role("heading", name="This link does not work")).to_be_visible()


@pytest.mark.req("S4", "X4")
def test_a_key_is_made_shown_once_signs_in_and_out_and_is_revoked(contexts: Any, place: Place) -> None:
    page = signed_in(contexts(), place)
    page.goto(f"{place.url}/settings/keys")
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog", name="New key")
    dialog.get_by_role("button", name="Create key").click()
    expect(dialog.get_by_text("Enter a name.")).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("warehouse")
    dialog.get_by_role("button", name="Create key").click()
    made = page.get_by_role("region", name="New key")
    line = made.get_by_text(re.compile("^export STEPWELL_API_KEY=sw_key_")).inner_text()
    made.get_by_role("button", name="Done").click()
    expect(made).to_have_count(0)
    expect(page.get_by_role("row", name=re.compile("warehouse.*read.*run"))).to_be_visible()
    other = contexts().new_page()
    other.goto(f"{place.url}/runs")
    expect(other.get_by_role("heading", name="This browser is not signed in")).to_be_visible()
    other.get_by_label("API key").fill("sw_key_wrong")
    other.get_by_role("button", name="Sign in").click()
    expect(other.get_by_role("alert")).to_be_visible()
    other.get_by_label("API key").fill(line.partition("=")[2].strip())
    other.get_by_role("button", name="Sign in").click()
    expect(other.get_by_role("navigation", name="Main")).to_be_visible()
    other.goto(f"{place.url}/settings/keys")
    expect(other.get_by_role("alert")).to_be_visible()  # its scopes do not reach this far
    other.goto(f"{place.url}/settings")
    expect(other.get_by_text("warehouse").first).to_be_visible()
    other.get_by_role("button", name="Sign out").click()
    expect(other.get_by_role("heading", name="You are signed out")).to_be_visible()
    other.goto(f"{place.url}/runs")
    expect(other.get_by_role("heading", name="This browser is not signed in")).to_be_visible()
    page.get_by_role("button", name="Revoke warehouse…").click()
    page.get_by_role("button", name="Revoke key").click()

    expect(page.get_by_role("row", name=re.compile("warehouse.*revoked"))).to_be_visible()


@pytest.mark.req("S4", "K28")
def test_workers_say_why_something_waits_and_one_is_drained(contexts: Any, place: Place) -> None:
    page = signed_in(contexts(), place)
    stuck = place.begin("ticking", 1, queue="gpu")
    page.goto(f"{place.url}/workers")
    expect(page.get_by_role("status").get_by_text("No worker of queue 'gpu' is running")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("gpu.*no worker of queue"))).to_be_visible()
    more = place.start_worker("--queue", "gpu")
    name = re.compile(f":{more.pid}$")
    card = page.get_by_role("article", name=name)
    expect(card).to_be_visible()
    place.until_status(stuck, "completed")
    expect(page.get_by_text("No worker of queue 'gpu' is running")).to_have_count(0)
    long = place.begin("ticking", 400, queue="gpu", key="a-long-one")
    expect(
        card.get_by_role("list", name="Active runs").get_by_role("link", name="a-long-one")
    ).to_be_visible()
    place.post(f"/runs/{long}/cancel", {})
    card.get_by_role("button", name=re.compile("Drain")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Other workers take over the rest of its runs")).to_be_visible()
    dialog.get_by_label("Reason").fill("old host")
    dialog.get_by_role("button", name="Drain worker").click()
    expect(card).to_have_count(0)
    assert more.wait(30) == 0

    page.get_by_role("link", name="Limits").click()
    page.get_by_label("Name").fill("ticking")
    page.get_by_label("Active runs").fill("many")
    page.get_by_role("button", name="Set limit").click()
    expect(page.get_by_text("a whole number")).to_be_visible()
    page.get_by_label("Active runs").fill("1")
    page.get_by_role("button", name="Set limit").click()
    expect(page.get_by_role("row", name=re.compile("Workflow ticking 1"))).to_be_visible()
    page.get_by_role("button", name="Remove the limit of workflow ticking").click()
    expect(page.get_by_text("No limits are set")).to_be_visible()
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("row", name=re.compile("Drain worker")).first).to_be_visible()


def graph(**timeouts: int) -> dict[str, Any]:
    """A graph of delays in a row."""
    names = ["start", *timeouts, "end"]
    nodes = [{"id": "start", "type": "start", "position": {"x": 0, "y": 0}}]
    nodes += [{"id": name, "type": "delay", "data": {"ms": ms}} for name, ms in timeouts.items()]
    nodes += [{"id": "end", "type": "end"}]
    edges = [{"source": a, "target": b} for a, b in itertools.pairwise(names)]
    return {"nodes": nodes, "edges": edges}


@pytest.mark.req("S4", "F12")
def test_versions_of_a_graph_are_compared_and_it_is_disabled_and_run(contexts: Any, place: Place) -> None:
    form = {"type": "object", "properties": {"parcel": {"type": "integer"}}, "required": ["parcel"]}
    triggers = {"triggers": [{"id": "form", "type": "manual", "form": form}]}
    place.post("/graphs", {"name": "parcels", "graph": graph(wait=10, mail=10) | triggers})
    place.post("/graphs/parcels/publish", {})
    moved = graph(wait=20, ticket=10) | triggers
    moved["nodes"][0]["position"] = {"x": 40, "y": 0}
    place.put("/graphs/parcels", {"graph": moved})
    place.post("/graphs/parcels/publish", {})
    page = signed_in(contexts(), place)
    page.goto(f"{place.url}/workflows")
    page.get_by_role("link", name="parcels").click()
    expect(page.get_by_text("It has not run yet").first).to_be_visible()
    page.get_by_role("tab", name="Versions 2").click()
    for name in ("wait, changed", "ticket, added", "mail, removed", "end, unchanged"):
        expect(page.get_by_role("group", name=name)).to_be_visible()
    for chip in ("1 added", "1 changed", "1 removed", "1 moved"):
        expect(page.get_by_text(chip, exact=True)).to_be_visible()
    expect(page.get_by_text('- "ms": 10')).to_be_visible()
    expect(page.get_by_text('+ "ms": 20')).to_be_visible()

    page.get_by_role("button", name="Disable…").click()
    page.get_by_label("Reason").fill("the carrier is on strike")
    page.get_by_role("button", name="Disable workflow").click()
    expect(page.get_by_role("button", name="Run…")).to_be_disabled()
    expect(page.get_by_text("the carrier is on strike")).to_be_visible()
    page.get_by_role("button", name="Enable…").click()
    page.get_by_role("button", name="Enable workflow").click()
    page.get_by_role("button", name="Run…").click()
    dialog = page.get_by_role("dialog", name="Start parcels")
    dialog.get_by_label("parcel").fill("many")
    dialog.get_by_role("button", name="Start run").click()
    expect(dialog.get_by_text("Enter a whole number.")).to_be_visible()
    dialog.get_by_role("button", name="JSON").click()
    dialog.get_by_label("JSON").fill("{")
    dialog.get_by_role("button", name="Start run").click()
    expect(dialog.get_by_text("This is not valid JSON.")).to_be_visible()
    dialog.get_by_label("JSON").fill('{"parcel": "seven"}')
    dialog.get_by_role("button", name="Start run").click()
    expect(dialog.get_by_text('"seven" is not of type "integer"')).to_be_visible()
    dialog.get_by_label("JSON").fill('{"parcel": 7}')
    dialog.get_by_label("Key").fill("parcel-7")
    dialog.get_by_role("button", name="Start run").click()
    expect(page.get_by_text("Completed in")).to_be_visible()
    expect(page.get_by_text("by hand")).to_be_visible()

    page.goto(f"{place.url}/workflows/parcels?view=runs")
    expect(page.get_by_role("link", name="parcel-7")).to_be_visible()


@pytest.mark.req("S4", "T1")
def test_a_schedule_is_previewed_created_run_and_paused(contexts: Any, place: Place) -> None:
    page = signed_in(contexts(), place)
    page.get_by_role("link", name="Schedules").click()
    page.get_by_role("button", name="New schedule").first.click()
    form = page.get_by_role("region", name="New schedule")
    form.get_by_label("When").fill("61 2 * * *")
    expect(form.get_by_text("'61' is not a minute (0 to 59)")).to_be_visible()
    form.get_by_label("When").fill("30 2 * * 1-5")
    form.get_by_label("Time zone").fill("Europe/Berlin")
    expect(form.get_by_text("At 02:30 on Monday through Friday, Europe/Berlin")).to_be_visible()
    expect(form.get_by_role("listitem")).to_have_count(5)
    form.get_by_label("Workflow").select_option("ticking")
    form.get_by_label("Name").fill("nightly")
    form.get_by_label("Input").fill("1")
    form.get_by_role("button", name="Create").click()
    row = page.get_by_role("row", name=re.compile("nightly"))
    expect(row.get_by_text("30 2 * * 1-5")).to_be_visible()
    page.get_by_role("link", name="Workflows").click()
    next_start = page.get_by_role("row", name=re.compile("ticking")).get_by_role(
        "link", name=re.compile("^in ")
    )
    expect(next_start).to_be_visible()
    next_start.click()
    row.get_by_role("button", name="Run nightly now").click()
    expect(page.get_by_text("nightly started")).to_be_visible()
    row.get_by_role("switch", name="nightly is on").click()
    expect(row.get_by_text(re.compile("paused"))).to_be_visible()
    # More than the window takes, and the wheel comes to the last one.
    for number in range(30):
        rare = {"name": f"rare-{number:02}", "workflow": "ticking", "input": 1, "cron": "0 0 29 2 *"}
        place.post("/schedules", rare)
    last = page.get_by_role("row", name=re.compile("rare-29"))
    expect(last).to_be_visible()
    row.hover()
    page.mouse.wheel(0, 5000)
    expect(last).to_be_in_viewport()
    last.get_by_role("button", name="Delete rare-29…").click()
    page.get_by_role("dialog", name="Delete rare-29?").get_by_role("button", name="Delete schedule").click()
    expect(last).to_have_count(0)
    page.get_by_role("button", name="Pause all…").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause 29 schedules").click()

    expect(page.get_by_text("30, 30 paused")).to_be_visible()


@pytest.mark.req("S4", "X1", "X6")
def test_a_secret_is_set_and_a_webhook_with_it_starts_a_run(contexts: Any, place: Place) -> None:
    page = signed_in(contexts(), place)
    page.goto(f"{place.url}/settings/secrets")
    page.get_by_role("button", name="New secret").click()
    dialog = page.get_by_role("dialog", name="New secret")
    dialog.get_by_label("Name", exact=True).fill("shop")
    dialog.get_by_label("Value").fill("short")
    dialog.get_by_role("button", name="Set secret").click()
    expect(dialog.get_by_role("alert")).to_contain_text("8")
    dialog.get_by_label("Value").fill("correct-horse-battery")
    dialog.get_by_label("Hosts").fill("api.example.com, pay.example.com")
    dialog.get_by_role("button", name="Set secret").click()
    expect(page.get_by_role("row", name=re.compile("shop.*api.example.com, pay.example.com"))).to_be_visible()
    assert "correct-horse" not in page.content()
    page.get_by_role("link", name="Webhooks").click()
    page.get_by_role("button", name="New webhook").click()
    form = page.get_by_role("region", name="New webhook")
    form.get_by_label("Name", exact=True).fill("orders")
    form.get_by_label("Workflow").select_option("ticking")
    form.get_by_label("Authentication").select_option("bearer")
    form.get_by_role("button", name="Create").click()
    expect(form.get_by_role("alert")).to_contain_text("secret")
    form.get_by_label("Secret").fill("shop")
    form.get_by_role("button", name="Create").click()
    row = page.get_by_role("row", name=re.compile("orders"))
    address = row.get_by_text(re.compile("^/hooks/default/")).inner_text()

    def deliver(token: str) -> int:
        head = {"Authorization": f"Bearer {token}", "Idempotency-Key": "delivery-1"}
        return httpx.post(f"{place.url}{address}", json=1, headers=head).status_code

    assert deliver("wrong-horse-battery") == 401
    assert deliver("correct-horse-battery") == 202
    assert deliver("correct-horse-battery") == 200  # the same delivery again
    row.get_by_role("link", name="ticking").click()
    expect(page.get_by_role("heading", name="ticking")).to_be_visible()
    page.go_back()
    row.get_by_role("switch", name="orders is on").click()
    expect(row.get_by_role("switch", name="orders is on")).not_to_be_checked()
    until(lambda: deliver("correct-horse-battery") == 404, "a paused webhook is not there")
    row.get_by_role("button", name="Delete orders…").click()
    page.get_by_role("button", name="Delete webhook").click()

    expect(page.get_by_role("heading", name="No webhooks yet")).to_be_visible()


@pytest.mark.req("S4", "T3", "N2")
def test_events_and_a_source_start_runs_and_say_what_fails(contexts: Any, place: Place) -> None:
    page = signed_in(contexts(), place)
    page.get_by_role("link", name="Triggers").click()
    page.get_by_role("button", name="New trigger").click()
    form = page.get_by_role("region", name="New trigger")
    form.get_by_label("Name", exact=True).fill("paid")
    form.get_by_label("Workflow").select_option("ticking")
    form.get_by_label("Event", exact=True).fill("order.paid")
    form.get_by_label("Condition").fill("trigger.payload >")
    form.get_by_role("button", name="Create").click()
    expect(form.get_by_role("alert")).to_be_visible()
    form.get_by_label("Condition").fill("trigger.payload > 0")
    form.get_by_role("button", name="Create").click()
    row = page.get_by_role("row", name=re.compile("paid.*order.paid"))
    expect(row.get_by_role("cell", name="OK", exact=True)).to_be_visible()
    row.get_by_role("button", name="Publish the event of paid…").click()
    dialog = page.get_by_role("dialog", name="Publish order.paid")
    dialog.get_by_role("textbox", name="Payload").fill("2")
    dialog.get_by_role("button", name="Publish").click()
    expect(dialog).to_have_count(0)
    until(
        lambda: any(run["trigger"] == "event" for run in place.get("/runs?workflow=ticking")["runs"]),
        "the event starts a run",
    )
    row.get_by_role("switch", name="paid is on").click()
    expect(row.get_by_role("cell", name=re.compile("^paused"))).to_be_visible()
    row.get_by_role("button", name="Delete paid…").click()
    page.get_by_role("button", name="Delete trigger").click()
    expect(row).to_have_count(0)
    for name, config in (("letters", {"folder": "in"}), ("nowhere", {})):
        given = {"name": name, "workflow": "ticking", "source": "mailbox", "config": config}
        place.post("/triggers", given)

    letters = page.get_by_role("row", name=re.compile("letters.*mailbox"))
    expect(letters.get_by_text("started 1")).to_be_visible()
    nowhere = page.get_by_role("row", name=re.compile("nowhere.*mailbox"))
    expect(nowhere.get_by_role("cell", name=re.compile("failing.*no folder is configured"))).to_be_visible()


@pytest.mark.req("S4", "T5")
def test_an_alert_is_set_finds_what_failed_and_is_paused(contexts: Any, place: Place) -> None:
    page = signed_in(contexts(), place)
    page.get_by_role("link", name="Alerts").click()
    page.get_by_role("button", name="New alert").click()
    form = page.get_by_role("region", name="New alert")
    form.get_by_role("button", name="Create").click()
    expect(form.get_by_role("alert")).to_have_text("Name the alert.")
    form.get_by_label("Name", exact=True).fill("idle")
    form.get_by_label("Condition").select_option("no_worker")
    form.get_by_label("Queue").fill("gpu")
    form.get_by_role("button", name="Create").click()
    idle = page.get_by_role("row", name=re.compile("idle.*no worker on queue gpu for 1 m"))
    expect(idle.get_by_text("metrics only")).to_be_visible()
    place.put("/alerts/failures", {"what": "failed", "workflow": "broken", "after": "1h", "every": 1})
    run = place.begin("broken", "7")
    place.until_status(run, "failed")
    incident = page.get_by_role("row", name=re.compile("1 run of broken failed"))
    expect(incident).to_be_visible()
    expect(incident.get_by_text("alert failures")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("failures.*1 open"))).to_be_visible()
    idle.get_by_role("switch", name="idle is on").click()
    expect(idle.get_by_text("paused")).to_be_visible()
    paused = {each["name"]: each["paused"] for each in place.get("/alerts")["alerts"]}
    assert (paused["failures"], paused["idle"]) == (False, True)
    incident.get_by_role("link", name=run[-8:]).click()
    expect(page.get_by_text("order 7 is broken").first).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Delete failures…").click()
    page.get_by_role("button", name="Delete alert").click()

    expect(incident).to_have_count(0)


@pytest.mark.req("S4", "N24")
def test_records_are_found_changed_and_guarded_by_their_version(contexts: Any, place: Place) -> None:
    page = signed_in(contexts(), place)
    page.get_by_role("link", name="Records").click()
    page.get_by_role("button", name="New collection").click()
    form = page.get_by_role("region", name="New collection")
    form.get_by_label("Name", exact=True).fill("customers")
    form.get_by_label("Key").fill("email")
    form.get_by_label("Indexed fields").fill("city")
    form.get_by_role("textbox", name="JSON Schema").fill('{"type": "object", "required": ["email"]}')
    form.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="customers").click()
    expect(page.get_by_role("heading", name="customers")).to_be_visible()
    page.get_by_role("button", name="New record").click()
    panel = page.get_by_role("region", name="New record")
    panel.get_by_role("button", name="Create").click()
    expect(panel.get_by_role("alert")).to_contain_text("email")
    for email, city in (("ann@example.com", "Rome"), ("ben@example.com", "Oslo")):
        place.post("/records/customers/items", {"data": {"email": email, "city": city}})
    panel.get_by_role("button", name="Close").click()
    page.reload()
    page.get_by_label("Find by").select_option("city")
    page.get_by_label("Value").fill("Rome")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.get_by_role("row", name=re.compile("ben@example.com"))).to_have_count(0)
    page.get_by_role("row", name=re.compile("ann@example.com")).get_by_role("button").click()
    [ann] = place.get('/records/customers/items?where={"city":"Rome"}')["records"]
    panel = page.get_by_role("region", name=f"Record {ann['id'][-8:]}")
    data = panel.get_by_role("textbox", name="Data")
    expect(data).to_contain_text("ann@example.com")
    place.put(
        f"/records/customers/items/{ann['id']}", {"data": {"email": "ann@example.com", "city": "Paris"}}
    )
    data.fill('{"email": "ann@example.com", "city": "Pisa"}')
    panel.get_by_role("button", name="Save").click()
    expect(panel.get_by_role("alert")).to_contain_text("version")
    panel.get_by_role("button", name="Show the change").click()
    expect(data).to_contain_text("Paris")
    data.fill('{"email": "ann@example.com", "city": "Pisa"}')
    panel.get_by_role("button", name="Save").click()
    expect(panel.get_by_role("definition").filter(has_text=re.compile("^3$"))).to_be_visible()
    panel.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete record").click()
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_role("row", name=re.compile("ann@example.com"))).to_have_count(0)

    expect(page.get_by_role("row", name=re.compile("ben@example.com"))).to_be_visible()


@pytest.mark.req("S4", "T4")
def test_a_start_rate_is_set_and_removed(contexts: Any, place: Place) -> None:
    page = signed_in(contexts(), place)
    page.goto(f"{place.url}/settings/limits")
    form = page.get_by_role("form", name="Start rate")
    form.get_by_role("button", name="Set rate").click()
    expect(form.get_by_role("alert")).to_have_text("Starts must be a whole number, 1 or more.")
    form.get_by_label("Starts").fill("5000")
    form.get_by_role("button", name="Set rate").click()
    row = page.get_by_role("row", name=re.compile("Workflow 5,000 1 m"))
    expect(row).to_be_visible()
    rates = place.get("/limits")["rates"]
    assert [rate["limit"] for rate in rates if rate["per"] == "workflow"] == [5000]
    row.get_by_role("button", name="Remove the start rate of each workflow in 1 m").click()

    expect(row).to_have_count(0)


@pytest.mark.req("S5")
def test_the_palette_and_the_keys_lead_everywhere(contexts: Any, place: Place) -> None:
    run = place.begin("ticking", 1, key="jump-to-me")
    place.until_status(run, "completed")
    page = signed_in(contexts(), place)
    page.goto(f"{place.url}/workflows")
    expect(page.get_by_role("link", name="ticking")).to_be_visible()
    page.keyboard.press("Control+k")
    search = page.get_by_role("combobox", name="Search or jump")
    search.fill("jump-to")
    expect(page.get_by_role("option", name=re.compile("jump-to-me")).first).to_be_visible()
    expect(page.get_by_role("option", name=re.compile("Copy id"))).to_be_visible()
    search.press("Enter")
    expect(page.get_by_role("heading", name="ticking")).to_be_visible()
    assert page.url.endswith(run)
    page.keyboard.press("Control+k")
    search.fill("approv")
    search.press("ArrowDown")
    search.press("ArrowUp")
    search.press("Enter")
    expect(page.get_by_role("heading", name="Approvals")).to_be_visible()
    page.keyboard.press("Control+k")
    search.fill("nothing has this name")
    expect(page.get_by_text("No results for")).to_be_visible()
    page.keyboard.press("Escape")
    expect(search).to_have_count(0)
    for key, heading in (
        ("w", "Workflows"),
        ("h", "Webhooks"),
        ("k", "Workers and queues"),
        ("t", "Triggers"),
        ("l", "Alerts"),
        ("e", "Records"),
        (",", "Settings"),
        ("r", "Runs"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("t")
    page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keyboard shortcuts")
    sheet.get_by_label("Single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.keyboard.press("?")
    expect(sheet).to_have_count(0)
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.goto(f"{place.url}/settings/appearance")
    page.get_by_label("Compact").check()
    expect(page.locator("html")).to_have_attribute("data-density", "compact")
    page.get_by_label("Single-key shortcuts").check()
    page.keyboard.press("?")
    expect(sheet).to_have_count(0)  # a switch has the focus: typing there is not a shortcut
    page.locator("body").click(position={"x": 640, "y": 700})
    page.keyboard.press("?")

    expect(sheet).to_be_visible()


@pytest.mark.req("S5")
def test_eight_tabs_all_load_and_all_hear_the_end(contexts: Any, place: Place) -> None:
    context = contexts()
    signed_in(context, place)
    run = place.asking("ship", "20")
    tabs = [context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.goto(f"{place.url}/runs/{run}")
    for tab in tabs:
        expect(tab.get_by_text("Waiting for approval")).to_be_visible()
    place.post(f"/runs/{run}/decide", {"answer": True, "by": "ana"})

    for tab in tabs:
        expect(tab.get_by_text("Completed in")).to_be_visible()


# Whether the rows that belong to the visible part of a table are drawn.
DRAWN = """it => {
    const rows = [...it.querySelectorAll('tbody tr[aria-rowindex]')];
    const [first, last] = [rows[0], rows.at(-1)];
    const seen = it.getBoundingClientRect();
    const begins = first && (first.getAttribute('aria-rowindex') === '2'
        || first.getBoundingClientRect().top <= seen.top + 60);
    const count = it.querySelector('table').getAttribute('aria-rowcount');
    const ends = last && (last.getAttribute('aria-rowindex') === count
        || last.getBoundingClientRect().bottom >= seen.bottom - 1);
    return Boolean(begins && ends);
}"""


def seqs_on(page: Page) -> list[int]:
    """Every seq of the events table, read as a person would: from the top, a screen at a time."""
    table = page.get_by_role("region", name="Events")
    table.evaluate("it => it.scrollTo(0, 0)")
    seen: dict[int, int] = {}  # row -> seq
    while True:
        page.wait_for_function(DRAWN, arg=table.element_handle())
        rows = table.evaluate(
            """it => [...it.querySelectorAll('tbody tr[aria-rowindex]')].map(
            row => [Number(row.getAttribute('aria-rowindex')), Number(row.cells[0].textContent)])"""
        )
        seen.update({row: seq for row, seq in rows})
        if table.evaluate("it => it.scrollTop + it.clientHeight >= it.scrollHeight - 1"):
            return [seen[row] for row in sorted(seen)]
        table.evaluate("it => it.scrollBy(0, it.clientHeight / 2)")


def _until_another_owns(place: Place, run: str, lost: str) -> None:
    until(lambda: place.owner_of(run) != lost, f"another worker than {lost} has the run")


@pytest.mark.req("S1", "S2")
def test_no_event_is_lost_or_doubled_when_the_server_stops_and_workers_die(
    contexts: Any, place: Place
) -> None:
    place.start_worker()
    context = contexts()
    events, steps, runs = signed_in(context, place), context.new_page(), context.new_page()
    run = place.begin("ticking", 60, key="through-thick-and-thin")
    until(lambda: place.run(run)["status"] == "running", "the run has begun")
    events.goto(f"{place.url}/runs/{run}?view=events")
    steps.goto(f"{place.url}/runs/{run}?view=steps")
    runs.goto(f"{place.url}/runs")
    for page in (events, steps, runs):
        expect(page.get_by_role("button", name="Live")).to_be_visible()
    for _ in range(2):
        lost, _ = place.kill_worker_of(run)
        place.stop()
        for page in (events, steps, runs):
            expect(page.get_by_role("status").get_by_text("The server does not answer.")).to_be_visible()
            expect(page.get_by_role("button", name=re.compile("Reconnecting|Not connected"))).to_be_visible()
        place.start_worker()
        place.start()
        for page in (events, steps, runs):
            expect(page.get_by_text("The server does not answer.")).to_have_count(0)
        _until_another_owns(place, run, lost)
    place.until_status(run, "completed")

    told = [event["seq"] for event in place.events(run)]
    assert told == list(range(1, len(told) + 1))
    expect(events.get_by_role("tab", name=f"Events {len(told)}")).to_be_visible()
    counted = ("aria-rowcount", str(len(told) + 1))
    expect(events.get_by_role("region", name="Events").get_by_role("table")).to_have_attribute(*counted)
    assert seqs_on(events) == told
    expect(steps.get_by_text("Completed in")).to_be_visible()
    steps.get_by_role("tab", name="Events").click()
    expect(steps.get_by_role("region", name="Events").get_by_role("table")).to_have_attribute(*counted)
    assert seqs_on(steps) == told
    expect(runs.get_by_role("link", name="through-thick-and-thin")).to_have_count(1)
    expect(runs.get_by_role("row", name=re.compile("Completed.*through-thick-and-thin"))).to_be_visible()
    ids = {each["id"] for each in place.get("/runs?limit=100")["runs"]}
    links = (
        runs.get_by_role("table")
        .get_by_role("link")
        .evaluate_all("its => its.map(it => it.pathname.slice(6))")
    )
    assert sorted(link for link in links if link in ids) == sorted(ids)


# Narrow is a phone; half as wide is what a window of 1280 px has at 200 % zoom.
NARROW = ((375, 812), (640, 400))


def looked_at(page: Page) -> list[Any]:
    """What is wrong with a page, however it is looked at."""
    wrong: list[Any] = [*violations(page)]
    for width, height in NARROW:
        page.set_viewport_size({"width": width, "height": height})
        wrong += _too_wide(page, f"{width} px")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(reduced_motion="reduce", forced_colors="active")
    wrong += _too_wide(page, "reduced motion and forced colours")
    page.emulate_media(reduced_motion="null", forced_colors="null")
    return wrong


def _too_wide(page: Page, how: str) -> list[Any]:
    return [how] if page.evaluate("document.documentElement.scrollWidth > innerWidth") else []


def fill_lists(place: Place) -> None:
    """Let triggers, alerts with an open incident, records and a start rate be there."""
    event = {
        "name": "shipping",
        "workflow": "ship",
        "event": "order.shipped",
        "key": "eu",
        "condition": "true",
    }
    place.post("/triggers", event)
    place.post("/triggers", {"name": "lost", "workflow": "ticking", "source": "mailbox", "config": {}})
    place.put("/alerts/unserved", {"what": "no_worker", "queue": "gpu", "after": 1, "every": 1})
    place.put("/alerts/late", {"what": "overdue", "after": "1h", "paused": True})
    place.begin("ticking", 1, queue="gpu")
    place.put("/records/places", {"schema": {"type": "object"}, "key": "name", "find": ["country"]})
    data = {"name": "Rome", "country": "IT"}
    place.post("/records/places/items", {"id": "rome", "data": data})
    place.put("/start-rates", {"per": "user", "limit": 9000, "seconds": 3600})
    until(lambda: any(alert["incidents"] for alert in place.get("/alerts")["alerts"]), "an incident is open")
    until(lambda: any(each["failures"] for each in place.get("/triggers")["triggers"]), "a source fails")


@pytest.mark.req("S5")
def test_every_page_passes_axe_and_never_scrolls_sideways_empty_filled_and_failed(
    contexts: Any, place: Place
) -> None:
    run, drawn = place.asking("refund", "7800"), place.asking("parcel", {"weight": 1})
    chart = place.begin("article", None)
    place.until_status(chart, "suspended")
    link = place.link(run, "dora")
    fill_lists(place)
    filled = signed_in(contexts(), place)
    found: dict[str, Any] = {}

    def look(page: Page, name: str) -> None:
        expect(page.get_by_role("heading").first).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        if wrong := looked_at(page):
            found[name] = wrong

    for path in (
        *MAIN,
        *(f"/settings/{name}" for name in SETTINGS),
        *(f"/workflows/refund?view={view}" for view in ("overview", "versions", "runs", "code")),
        "/workflows/parcel",
        "/workflows/refund?start=1",
        "/workflows/none",
        *("/demo", "/records/none", "/records/places", "/records/places?record=rome"),
        f"/runs/{'0' * 32}",
        *(f"/runs/{run}?view={view}" for view in ("steps", "events", "state", "io", "documents")),
        *(f"/runs/{each}" for each in (drawn, chart)),
        f"/runs/{drawn}?seq=3",
    ):
        filled.goto(f"{place.url}{path}")
        look(filled, path)
    filled.goto(f"{place.url}/runs")
    expect(filled.get_by_role("heading").first).to_be_visible()  # before that, nobody listens to keys
    for key, name in (("Control+k", "Search or jump"), ("?", "Keyboard shortcuts")):
        filled.locator("body").press(key)
        expect(filled.get_by_role("dialog", name=name)).to_be_visible()
        look(filled, name)
        filled.keyboard.press("Escape")
    for path, button in (
        ("/settings/keys", "New key"),
        ("/schedules", "New schedule"),
        ("/triggers", "New trigger"),
        ("/alerts", "New alert"),
        ("/records", "New collection"),
        ("/records/places", "New record"),
    ):
        filled.goto(f"{place.url}{path}")
        filled.get_by_role("button", name=button).first.click()
        look(filled, button)
    for path, *buttons in (
        ("/runs", "Bulk", "Select all .* matching", "Cancel \\d+"),
        (f"/runs/{run}", "Cancel…"),
        (f"/runs/{run}", "Rerun…"),
        ("/workers", "Drain .*…"),
        (f"/approvals?open={run}", "Refund order 7800.*", "Link…"),
    ):
        filled.goto(f"{place.url}{path}")
        for button in buttons:
            filled.get_by_role("button", name=re.compile(f"^{button}")).first.click()
        expect(filled.get_by_role("dialog")).to_be_visible()
        look(filled, f"{path}, {button}")
    filled.goto(f"{place.url}/approvals?open={run}")
    filled.get_by_role("button", name=re.compile("^Refund order 7800")).click()
    filled.get_by_role("button", name="Approve").first.click()
    look(filled, "an approval with wrong fields")
    filled.goto(link)
    look(filled, "a link")
    filled.goto(f"{link}!")
    filled.reload()
    look(filled, "a link that does not work")

    empty = contexts().new_page()
    empty.goto(f"{place.url}/sign-in")
    look(empty, "sign-in")
    empty = signed_in(contexts(), place, place.key("eve", "read", "admin", workspace="empty"))
    for path in (*MAIN, "/settings/audit"):
        empty.goto(f"{place.url}{path}")
        look(empty, f"{path}, empty")
    empty.goto(f"{place.url}/workflows")
    expect(empty.get_by_role("heading", name="No workflows yet. Three ways to get one.")).to_be_visible()
    for path in ("/workflows", "/approvals"):
        empty.goto(f"{place.url}/settings")
        empty.route("**/api/v1/*", lambda route: route.abort())
        name = path.strip("/").capitalize()
        empty.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()
        expect(empty.get_by_role("heading", name="The server does not answer")).to_be_visible()
        look(empty, f"{path}, unreachable")
        empty.unroute_all()

    assert found == {}
