"""What Studio costs a browser, beside its budgets: `python -m tools.budgets [--history N]`.

Starts the demo, opens its large runs in Chromium, and compares the graph of 301 nodes with a page that has
the graph library and the same nodes alone, in turn in one browser. Exit code 1: something is over its budget.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import http.server
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from stepwell.demo.workflows import STOCK_COUNT
from tools import chromium, studio

SHELL_BYTES = 170_000  # compressed scripts before the first page shows
ELEMENTS = 5_000
EVENT_ROWS = 60
TIMES = 2.0  # of a bare page
REPEAT = 3
NODES = len(STOCK_COUNT["nodes"])
LONG_HISTORY = 100_000  # events
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]

_PAINTED = f"""() => {{
  const nodes = document.querySelectorAll('.react-flow__node');
  return nodes.length >= {NODES} && getComputedStyle(nodes[0]).visibility === 'visible' && performance.now();
}}"""
_LISTED = """(events) => {
  const table = document.querySelector('table[aria-rowcount]');
  return table !== null && Number(table.getAttribute('aria-rowcount')) > events;
}"""
_FRAMES = """() => {
  window.frames_seen = [];
  let last = performance.now();
  const look = (now) => { window.frames_seen.push(now - last); last = now; requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    value: float
    budget: float
    unit: str

    @property
    def kept(self) -> bool:
        return self.value <= self.budget

    def __str__(self) -> str:
        verdict = "ok" if self.kept else "OVER"
        return f"{self.what:52} {self.value:10,.1f} {self.unit:9} budget {self.budget:10,.1f}  {verdict}"


# Of the files


def shell_bytes(folder: Path = studio.BUILT) -> int:
    """Return the compressed size of the scripts that the page names: what loads before anything shows."""
    index = (folder / "index.html").read_text(encoding="utf-8")
    names = re.findall(r'(?:src|href)="\./(assets/[^"]+\.js)"', index)
    return sum(len(gzip.compress((folder / name).read_bytes(), 6)) for name in names)


def layout_scripts(folder: Path = studio.BUILT) -> list[str]:
    """Return the scripts that have the layout's algorithms inside; only the worker's file should."""
    return sorted(
        path.name
        for path in (folder / "assets").glob("*.js")
        if "org.eclipse.elk.layered" in (text := path.read_text(encoding="utf-8")) and len(text) > 400_000
    )


# Of pages


def elements(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def event_rows(page: Page, *, times: int = 6) -> int:
    """Return the most rows that the list of events had while it was scrolled through."""
    events = page.get_by_role("region", name="Events")
    most = 0
    for _ in range(times):
        most = max(most, events.get_by_role("row").count())
        events.hover()
        page.mouse.wheel(0, 40_000)
        page.wait_for_timeout(100)
    return most


@dataclass(frozen=True, slots=True)
class Drawn:
    paint: float  # ms since the page was asked for
    paint_again: float  # the same in the next tab: files and the layout are known
    pan_p50: float  # ms between two frames
    pan_p95: float


def drawn(browser: Browser, address: str, token: str = "") -> Drawn:
    """Open a page with a graph in a browser that knows nothing yet, and drag the graph about."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        if token:
            page.goto(f"{address.partition('/runs/')[0]}/?t={token}")
            page.wait_for_url("**/demo")
        page.goto(address)
        paint = float(page.wait_for_function(_PAINTED, timeout=60_000).json_value())
        page.reload()
        again = float(page.wait_for_function(_PAINTED, timeout=60_000).json_value())
        pane = page.locator(".react-flow__pane").bounding_box()
        assert pane is not None
        x, y = pane["x"] + 6, pane["y"] + 6
        page.mouse.move(x, y)
        page.mouse.down()
        page.evaluate(_FRAMES)
        for step in range(60):
            page.mouse.move(x + step * 4, y + step * 2)
        page.mouse.up()
        frames = sorted(page.evaluate("window.frames_seen.slice(1)"))
        return Drawn(paint, again, statistics.median(frames), frames[int(len(frames) * 0.95)])
    finally:
        context.close()


@contextlib.contextmanager
def demo(history: int) -> Iterator[tuple[str, str]]:
    """Run the demo; yield its address and token."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["demo", "--folder", "demo", "--port", "0", "--no-open", "--history", str(history)]
        process = subprocess.Popen(
            [sys.executable, "-m", "stepwell", *command], cwd=folder, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"open +(http://\S+)/\?t=(\S+)", said)):
            line = process.stderr.readline()
            if not line:
                raise RuntimeError(f"the demo did not start: {said}")
            said += line
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield found[1], found[2]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@contextlib.contextmanager
def bare_page() -> Iterator[str]:
    """Build and serve the page with the graph library alone; yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BARE_FOLDER"] = folder
        studio.install()
        studio.run("npx", "vite", "build", "--config", "bare.config.ts", "--logLevel", "error")
        body = {
            "nodes": [
                {**node, "type": "default", "data": {"label": node["id"]}} for node in STOCK_COUNT["nodes"]
            ],
            "edges": [
                {key: edge[key] for key in ("id", "source", "target")} for edge in STOCK_COUNT["edges"]
            ],
        }
        (Path(folder) / "graph.json").write_text(json.dumps(body))
        handler = functools.partial(_Quiet, directory=folder)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
            server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def run_of(page: Page, address: str, key: str, seconds: float = 600) -> str:
    """Return the id of the run with that key, once it has completed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = page.request.get(f"{address}/api/v1/runs?key={key}").json()["runs"]
        if answer and answer[0]["status"] == "completed":
            return str(answer[0]["id"])
        page.wait_for_timeout(500)
    raise TimeoutError(f"{key} did not complete within {seconds:g} s")


def longer(address: str, token: str) -> str:
    """Start a run with a much longer history, and return its key."""
    body: dict[str, Any] = {
        "workflow": "catalogue_import",
        "input": LONG_HISTORY,
        "key": "import-whole-catalogue",
    }
    head = {"Authorization": f"Bearer {token}"}
    httpx.post(f"{address}/api/v1/runs", json=body, headers=head).raise_for_status()
    return str(body["key"])


def measured(browser: Browser, history: int) -> Iterator[Figure]:
    yield Figure("scripts of the shell, compressed", shell_bytes() / 1000, SHELL_BYTES / 1000, "kB")
    with demo(history) as (address, token), bare_page() as bare:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{address}/?t={token}")
        page.wait_for_url("**/demo")
        workers: list[str] = []
        page.on("worker", lambda worker: workers.append(worker.url))
        graph = f"{address}/runs/{run_of(page, address, 'stock-1117')}"
        page.goto(graph)
        page.wait_for_function(_PAINTED, timeout=60_000)
        yield Figure(f"elements of the page of {NODES} nodes", elements(page), ELEMENTS, "elements")
        on_main = [name for name in layout_scripts() if "worker" not in name]
        yield Figure("scripts outside the worker that lay out", len(on_main), 0, "files")
        yield Figure("layouts without a worker", 0 if any("elk" in url for url in workers) else 1, 0, "pages")
        for key, events in (("import-1117", history), (longer(address, token), LONG_HISTORY)):
            page.goto(f"{address}/runs/{run_of(page, address, key)}?view=events")
            page.wait_for_function(_LISTED, arg=events, timeout=300_000)
            yield Figure(
                f"rows of a list of {events:,} events and more", event_rows(page), EVENT_ROWS, "rows"
            )
        page.close()
        ours, theirs = [], []
        for _ in range(REPEAT):  # in turn: a shared machine changes its speed by half within minutes
            theirs.append(drawn(browser, bare))
            ours.append(drawn(browser, graph, token))
        for field in ("paint", "paint_again", "pan_p50", "pan_p95"):
            own = statistics.median(getattr(each, field) for each in ours)
            least = statistics.median(getattr(each, field) for each in theirs)
            name = f"{field}: {own:.0f} ms, bare page {least:.0f} ms"
            yield Figure(name, own / least, TIMES, "times")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--history", type=int, default=10_000, help="events of the long run")
    history = parser.parse_args().history
    studio.build()
    program = chromium.find()
    if program is None:
        print("no Chromium; install it, or name it in CHROMIUM", file=sys.stderr)
        return 2
    kept = True
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        for figure in measured(browser, history):
            print(figure, flush=True)
            kept = kept and figure.kept
        browser.close()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
