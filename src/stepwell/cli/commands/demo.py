"""`stepwell demo`: Studio with seeded runs and a worker to kill, or the same story in the terminal.

In the terminal, a worker is killed with kill -9 in the middle of a run, and the next one continues it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.session import CliSession
from stepwell.errors import StoreError

if TYPE_CHECKING:
    from stepwell.client import RunHandle
    from stepwell.server.app import ServerApp

commands = Commands()

FLOWS = '''"""An order in five steps. Each writes a line to ledger.txt when it really happens."""

import asyncio
from pathlib import Path

from stepwell import Context, step, workflow


@step
async def happen(what: str) -> str:
    await asyncio.sleep(0.4)
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{what}\\n")
    return what


@workflow
async def order(ctx: Context, customer: str) -> str:
    for what in ("reserve", "charge", "pack", "ship", "thank"):
        await ctx.step(happen, f"{what} for {customer}")
    return f"order of {customer} is done"
'''
_STEPS = 5
_KILL_AFTER = 2  # number of completed steps at which the worker is killed
_SCREENS = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "WSL_DISTRO_NAME",
    "BROWSER",
)  # set where windows can open


_STORY = """
Two workers run orders. In the page, press Kill the worker: a real SIGKILL.
After at most {lease:g} s the other one takes the order over at the same step; what is done is not done again.
{ledger} has one line for everything that was really done.
Stop with Ctrl-C; start it again with --folder {folder}: its runs continue.
"""
_NO_BROWSER = """
No browser was found here. Open the address in one, or watch the story in this terminal:
kill -9 the worker that has the order, and see which worker continues."""


@commands.add(
    "demo",
    "stepwell demo",
    "stepwell demo --folder /tmp/demo --port 9000 --no-open",
    "stepwell demo --terminal",
    needs="nothing",
)
async def demo(
    session: CliSession,
    folder: Annotated[
        str, typer.Option("--folder", metavar="PATH", help="Where it keeps its files; else a new folder.")
    ] = "",
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", help="Port; else 8710, or the next free one.")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser.", show_default=False)] = False,
    history: Annotated[
        int, typer.Option("--history", metavar="N", help="Events of the long run.", min=0)
    ] = 10_000,
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Tell the story here, without Studio.", show_default=False)
    ] = False,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="With --terminal: keep the folder.", show_default=False),
    ] = False,
) -> int:
    """Show Studio with runs of all kinds, and let you kill a worker: its run continues.

    Needs no network and no account. Everything is in one folder.
    """
    place = _place(folder)
    if not terminal:
        return await _studio(session, place, port, history, opens=not no_open)
    try:
        return await _Demo(session, place).play()
    finally:
        if keep or folder:
            session.out.say(f"kept {place}: cd {place} && stepwell runs list --database demo.db")
        else:
            import shutil

            shutil.rmtree(place, ignore_errors=True)


def _place(folder: str) -> Path:
    place = Path(folder or tempfile.mkdtemp(prefix="stepwell-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    return place


async def _studio(session: CliSession, folder: Path, port: int | None, history: int, *, opens: bool) -> int:
    from stepwell.demo.show import show
    from stepwell.demo.workers import LEASE_SECONDS
    from stepwell.server.listener import address, bind

    out = session.out
    with bind("127.0.0.1", port) as listener:

        def ready(app: ServerApp) -> None:
            url = f"{address(listener)}/?t={app.access.token}"
            out.say(f"demo in {folder}\n  open   {url}")
            out.say(_STORY.format(lease=LEASE_SECONDS, ledger=folder / "ledger.txt", folder=folder))
            if out.as_json:
                out.json({"folder": str(folder), "open": url})
            if opens and not _open(url):
                out.say(_NO_BROWSER)

        await show(folder, listener, ready, out.say, history=history)
    out.say("stopped; nothing was left half done")
    return 0


def _open(url: str) -> bool:
    """Open a graphical browser in the background. A terminal browser would hide the story."""
    import threading
    import webbrowser

    windows = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in _SCREENS)
    if not windows:
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    return True


class _Demo:
    def __init__(self, session: CliSession, folder: Path) -> None:
        self._session, self._folder = session, folder
        (folder / "flows.py").write_text(FLOWS)
        session.use(str(folder / "demo.db"))

    async def play(self) -> int:
        out, ledger = self._session.out, self._folder / "ledger.txt"
        first = self._worker()
        try:
            await self._until_known()
            async with self._session.client() as client:
                run = await client.start("order", "Ada")
                out.say(
                    f"1. a worker (process {first.pid}) runs order {run.id[:16]}, which has {_STEPS} steps"
                )
                await self._steps_done(run, _KILL_AFTER)
                os.kill(first.pid, signal.SIGKILL)
                first.wait()
                done = ledger.read_text().splitlines()
                out.say(f"2. kill -9 {first.pid}: the worker is dead; {len(done)} steps had happened:")
                out.say("".join(f"     {line}\n" for line in done).rstrip())
                second = self._worker()
                try:
                    out.say(f"3. another worker (process {second.pid}) starts, and takes the run over")
                    result = await run.result("60s")
                finally:
                    second.send_signal(signal.SIGTERM)
                    second.wait()
        finally:
            if first.poll() is None:
                first.kill()
                first.wait()
        lines = ledger.read_text().splitlines()
        out.say("4. the run is completed; what happened, in order:")
        out.say("".join(f"     {line}\n" for line in lines).rstrip())
        twice = len(lines) - len(set(lines))
        out.say(
            "   no step that was recorded happened again"
            + (f"; {twice} that was under way at the kill did" if twice else "")
        )
        data = {"run": run.id, "result": result, "happened": lines, "killed_after": done}
        if out.as_json:
            out.json(data)
        else:
            out.line(str(result))
        return 0

    def _worker(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "STEPWELL_LEASE_SECONDS": "2", "STEPWELL_HEARTBEAT_SECONDS": "0.5"}
        environment |= {"STEPWELL_REAP_SECONDS": "0.5"}
        return subprocess.Popen(
            [sys.executable, "-m", "stepwell", "worker", "flows.py", "--database", "demo.db"],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    async def _until_known(self) -> None:
        """Wait until the worker has stored the workflow."""
        for _ in range(300):
            try:
                async with self._session.client() as client:
                    if await client.workflows():
                        return
            except StoreError:  # the worker has not created it yet
                pass
            await asyncio.sleep(0.1)
        raise RuntimeError("the worker of the demo did not start")

    async def _steps_done(self, run: RunHandle[Any], count: int) -> None:
        async for event in run.events(follow=True):
            count -= event.kind == "step_completed"
            if count <= 0:
                return
