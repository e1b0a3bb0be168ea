"""The screens that the contact sheet shows, and how a person comes to each of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from playwright.sync_api import Page, expect

from tools.contact_scene import Scene


class Visitor(Enum):
    OWNER = "who started the server"
    STRANGER = "somebody without a session"
    NEWCOMER = "somebody with a key of a workspace where nothing is"


@dataclass(frozen=True)
class Screen:
    """One picture, and how to come to it."""

    name: str
    address: Callable[[Scene], str]
    act: Callable[[Page], object] | None = None  # what a person does before the picture is taken
    visitor: Visitor = Visitor.OWNER


def _run(key: str, query: str = "") -> Callable[[Scene], str]:
    return lambda scene: f"/runs/{scene.runs[key]}{query}"


def _at(path: str) -> Callable[[Scene], str]:
    return lambda _: path


def _choose_rows(page: Page) -> None:
    if page.viewport_size and page.viewport_size["width"] < 900:
        return  # a phone has no room for boxes
    for row in (0, 2, 4):
        page.get_by_role("checkbox").nth(row + 1).check()


def _past(page: Page) -> None:
    page.get_by_role("slider", name="Cursor").press("Home")
    for _ in range(13):
        page.get_by_role("slider", name="Cursor").press("ArrowRight")


def _rerun_from(page: Page) -> None:
    page.get_by_role("button", name="Rerun from").first.click()


def _open_event(page: Page) -> None:
    page.get_by_role("button", name="step_failed").first.click()


def _choose_refund(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Refund")).first.click()


def _new_key(page: Page) -> None:
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog", name="New key")
    dialog.get_by_label("Name", exact=True).fill("warehouse")
    dialog.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("region", name="New key")).to_be_visible()


def _new_schedule(page: Page) -> None:
    page.get_by_role("button", name="New schedule").click()
    form = page.get_by_role("region", name="New schedule")
    form.get_by_label("Workflow").select_option("nightly_report")
    form.get_by_label("When").fill("0 2 * * *")
    form.get_by_label("Time zone").fill("Europe/Berlin")
    expect(form.get_by_role("listitem")).to_have_count(5)


def _search(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search or jump").fill("8841")
    expect(page.get_by_role("option", name=re.compile("order-8841")).first).to_be_visible()


def _lose_the_server(page: Page) -> None:
    """The rows of the page stay, and grow old."""
    page.route("**/api/v1/*", lambda route: route.abort())
    for hidden in ("true", "false"):  # a tab that comes back asks for the stream again
        page.evaluate(f"Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_text("The server does not answer.")).to_be_visible(timeout=60_000)
    page.wait_for_timeout(3_000)


def _never_reach_the_server(page: Page) -> None:
    page.route("**/api/v1/*", lambda route: route.abort())
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Workflows").click()
    expect(page.get_by_role("heading", name="The server does not answer")).to_be_visible(timeout=60_000)


def _kill(page: Page) -> None:
    page.get_by_label("Log of the run").get_by_text(re.compile("box [2-9]")).first.wait_for()
    page.get_by_role("button", name="Kill the worker").click()
    expect(page.get_by_text(re.compile(r"^Worker \d+ is dead"))).to_be_visible()


def _press(name: str | re.Pattern[str]) -> Callable[[Page], object]:
    return lambda page: page.get_by_role("button", name=name).first.click()


def _more(name: str) -> Callable[[Page], object]:
    def act(page: Page) -> None:
        page.get_by_role("button", name="More actions").click()
        page.get_by_role("menuitem", name=name).click()

    return act


def _fork(page: Page) -> None:
    _past(page)
    page.get_by_role("button", name="Fork from here…").click()
    expect(page.get_by_role("dialog").get_by_role("textbox").first).to_be_visible()


def _bulk(page: Page) -> None:
    page.get_by_role("button", name="Bulk").click()
    page.get_by_role("button", name=re.compile("^Select all")).click()
    page.get_by_role("button", name=re.compile("^Retry")).click()


def _move(page: Page) -> None:
    page.get_by_label("Log of the run").get_by_text(re.compile("box [2-9]")).first.wait_for()


SCREENS = (
    # The report's run moves on: it comes first.
    Screen("run-function", _run("report-1117")),
    Screen("runs", _at("/runs"), _choose_rows),
    Screen("run-graph", _run("order-8841")),
    Screen("run-graph-past", _run("order-8841"), _past),
    Screen("run-graph-large", _run("import-0930")),
    Screen("run-machine", _run("refund-7781")),
    Screen("run-events", _run("order-8841", "?view=events"), _open_event),
    Screen("dialog-rerun", _run("order-8841", "?node=0/load_order"), _rerun_from),
    Screen("approvals", _at("/approvals"), _choose_refund),
    Screen("workflows", _at("/workflows")),
    Screen("workflow", _at("/workflows/order_fulfilment")),
    Screen("workers", _at("/workers")),
    Screen("schedules", _at("/schedules"), _new_schedule),
    Screen("settings-keys", _at("/settings/keys"), _new_key),
    Screen("approval-public", lambda scene: scene.link(), visitor=Visitor.STRANGER),
    Screen("approval-decided", lambda scene: scene.decided_link, visitor=Visitor.STRANGER),
    Screen("login", _at("/sign-in"), visitor=Visitor.STRANGER),
    Screen("empty-workflows", _at("/workflows"), visitor=Visitor.NEWCOMER),
    Screen("error-stale", _at("/runs"), _lose_the_server),
    Screen("error-unreachable", _at("/settings"), _never_reach_the_server),
    Screen("palette", _at("/runs"), _search),
    Screen("keyboard", _at("/runs"), lambda page: page.keyboard.press("?")),
    Screen("empty-runs", _at("/runs?status=failed&workflow=refund_request")),
)
# The reference has no picture of these.
OTHER_SCREENS = (
    Screen("run-timeline", _run("order-8841", "?view=steps")),
    Screen("run-state", _run("refund-7781", "?view=state")),
    Screen("run-io", _run("order-8841", "?view=io")),
    Screen("run-documents", _run("order-8841", "?view=documents")),
    Screen("run-none", _at(f"/runs/{'0' * 32}")),
    Screen("dialog-fork", _run("order-8841"), _fork),
    Screen("dialog-cancel", _run("refund-7781"), _press("Cancel…")),
    Screen("dialog-hold", _run("refund-7781"), _more("Hold…")),
    Screen("dialog-signal", _run("refund-7781"), _more("Signal…")),
    Screen("dialog-skip", _run("order-8841"), _more("Skip the failed step…")),
    Screen("dialog-trigger", _run("refund-7781"), _press(re.compile("^approve"))),
    Screen("dialog-start", _at("/workflows/order_fulfilment?start=1")),
    Screen("dialog-bulk", _at("/runs?status=failed"), _bulk),
    Screen("approvals-done", _at("/approvals?show=done")),
    Screen("workflow-versions", _at("/workflows/order_fulfilment?view=versions")),
    Screen("workflow-code", _at("/workflows/order_fulfilment?view=code")),
    Screen("webhooks", _at("/webhooks")),
    Screen("webhooks-new", _at("/webhooks"), _press("New webhook")),
    Screen("triggers", _at("/triggers")),
    Screen("triggers-new", _at("/triggers"), _press("New trigger")),
    Screen("alerts", _at("/alerts")),
    Screen("alerts-new", _at("/alerts"), _press("New alert")),
    Screen("records", _at("/records")),
    Screen("records-new", _at("/records"), _press("New collection")),
    Screen("collection", _at("/records/customers?record=ann")),
    *(
        Screen(f"settings-{name}", _at(f"/settings/{name}"))
        for name in ("general", "secrets", "limits", "appearance", "retention", "audit", "about")
    ),
    *(
        Screen(f"empty-{name}", _at(f"/{name}"), visitor=Visitor.NEWCOMER)
        for name in ("approvals", "schedules", "webhooks", "triggers", "workers", "alerts", "records")
    ),
    Screen("no-page", _at("/no/such/page")),
)
DEMO_SCREENS = (Screen("demo", _at("/demo"), _move), Screen("demo-killed", _at("/demo"), _kill))
