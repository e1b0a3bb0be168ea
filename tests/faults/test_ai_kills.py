"""kill -9 in the middle of a tool loop: no recorded request to a model, and no recorded tool, is repeated."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from stepwell.testing.local_provider import LocalProvider, LocalReply, LocalRequest
from tests.effort import rotating
from tests.engines import Engines, until
from tests.faults.ai_work import LEDGER_VARIABLE
from tests.faults.fleet import ROOT
from tests.faults.victims import LEASE
from tests.faults.worker_main import IDENTITIES_VARIABLE

STYLES = ("in_function", "in_plain_function", "InMachine", "in_graph")


class Scene:
    """A provider that can keep a request waiting, and workers that are killed."""

    def __init__(self, engines: Engines, folder: Path, held: str) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.held = held  # "model": the second request hangs; "tool": the third tool does
        if held == "tool":
            (folder / "hold").touch()
        self._database = str(engines.database)
        self.workers: list[asyncio.subprocess.Process] = []

    def script(self, request: LocalRequest) -> LocalReply:
        if request.turn == 0:
            return LocalReply("I write two.", calls=[("note", {"number": 0}), ("note", {"number": 1})])
        if request.turn == 1:
            pause = 3600.0 if self.held == "model" else 0.0
            return LocalReply(calls=[("note", {"number": 2})], pause=pause)
        return LocalReply(f"wrote {', '.join(request.results)}")

    async def start_worker(self, local: LocalProvider) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STEPWELL_")}
        env = {
            **kept,
            **LEASE,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "STEPWELL_PROVIDER_LOCAL": json.dumps(local.config("anthropic")),
            "STEPWELL_OUTBOUND_ALLOW": "127.0.0.1",
            "STEPWELL_OUTBOUND_PORTS": str(local.port),
            LEDGER_VARIABLE: str(self.ledger),
            IDENTITIES_VARIABLE: str(self.folder / "identities"),
        }
        with open(self.folder / "workers.log", "ab") as log:  # noqa: ASYNC230
            self.workers.append(
                await asyncio.create_subprocess_exec(
                    *(
                        sys.executable,
                        "-m",
                        "tests.faults.worker_main",
                        self._database,
                        "tests.faults.ai_work",
                    ),
                    env=env,
                    cwd=ROOT,
                    stdout=log,
                    stderr=log,
                )
            )

    async def kill_worker(self) -> None:
        worker = self.workers[-1]
        worker.send_signal(signal.SIGKILL)
        await worker.wait()

    async def end(self) -> None:
        for worker in self.workers:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()

    def tools_called(self) -> list[str]:
        return self.ledger.read_text().split()

    def release(self) -> None:
        self.held = ""
        (self.folder / "hold").unlink(missing_ok=True)


async def recorded(run: Any) -> set[str]:
    return {f"{run.id}/{event.path}" async for event in run.events() if event.kind == "step_completed"}


@pytest.mark.req("N25")
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("style", "held"), rotating(list(product(STYLES, ("model", "tool")))))
async def test_a_kill_in_a_tool_loop_repeats_nothing_that_is_recorded(
    durable_engines: Engines, tmp_path: Path, style: str, held: str
) -> None:
    scene = Scene(durable_engines, tmp_path, held)
    prompt = "write it down"
    input = {"prompt": prompt} if style == "in_graph" else prompt
    async with LocalProvider(scene.script) as local, Engine(durable_engines.database, worker=False) as client:
        try:
            await scene.start_worker(local)
            await until(lambda: _known(client, style))
            run = await client.start(style, input)
            waits = (
                (lambda: len(local.requests) == 2)
                if held == "model"
                else (lambda: len(scene.tools_called()) == 3)
            )
            await until(waits)
            await scene.kill_worker()
            done = await recorded(run)
            scene.release()

            await scene.start_worker(local)
            await run.result(60)
        finally:
            await scene.end()
        calls = Counter([*(request.idempotency_key for request in local.requests), *scene.tools_called()])

    in_flight = [key for key in calls if key not in done]
    assert len(done) == (3 if held == "model" else 4), (done, (tmp_path / "workers.log").read_text()[-3000:])
    assert all(calls[key] == 1 for key in done), calls
    assert sorted(calls[key] for key in in_flight) == ([1, 1, 2] if held == "model" else [1, 2]), calls


async def _known(client: Engine, style: str) -> bool:
    return any(one.name == style for one in await client.workflows())
