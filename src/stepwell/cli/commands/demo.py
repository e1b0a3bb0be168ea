"""`stepwell demo`: a worker is killed with kill -9 in the middle of a run, and the next one continues it."""

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
_KILL_AFTER = 2  # completed steps


@commands.add("demo", "stepwell demo", "stepwell demo --keep", needs="nothing")
async def demo(
    session: CliSession,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep the folder with the flow and its database.", show_default=False),
    ] = False,
) -> int:
    """Watch a run survive kill -9: its worker dies in the middle, and the next one continues."""
    folder = Path(tempfile.mkdtemp(prefix="stepwell-demo-"))
    try:
        return await _Demo(session, folder).play()
    finally:
        if keep:
            session.out.say(f"kept {folder}: cd {folder} && stepwell runs list --database demo.db")
        else:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


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
