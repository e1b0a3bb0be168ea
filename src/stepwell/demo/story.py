"""The story of the demo in words: who has the current order, which worker died, and which continued."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from stepwell.app import Engine
from stepwell.client import RunHandle
from stepwell.demo.workers import DemoWorkers
from stepwell.demo.workflows import BOXES
from stepwell.domain.commit import WorkerRow

FIRST_ORDER = 8842
_LOOK_SECONDS = 0.25
_PAUSE_SECONDS = 2.0  # seconds between orders, to see that one is done


class DemoStory:
    """Keeps one order moving, and reports what happens to it."""

    def __init__(self, engine: Engine, workers: DemoWorkers, say: Callable[[str], None]) -> None:
        self._engine, self._workers, self._say = engine, workers, say
        self.pids: dict[str, int] = {}  # process ids of all workers so far, by worker id
        self.run = ""  # id of the order that moves
        self.seeded: dict[str, str] = {}  # ids of the other runs, by key

    async def supervise(self) -> None:
        """Replace each worker that dies, and report it."""
        reported = 0
        while True:
            self._workers.replace_dead()
            for killed in self._workers.killed[reported:]:
                self._say(f"worker {killed.pid} is dead; the other one carries on, and a new one starts soon")
            reported = len(self._workers.killed)
            await asyncio.sleep(_LOOK_SECONDS)

    async def play(self) -> None:
        """Start an order, wait for its end, start the next, so that one is always moving."""
        number = FIRST_ORDER
        while True:
            order = str(number)
            run = await self._engine.start(
                "order_fulfilment", {"order": order, "boxes": list(BOXES)}, key=f"order-{order}"
            )
            if not (await run.status()).terminal:
                self.run = run.id
                await self._tell(run, f"order-{order}", first=number == FIRST_ORDER)
                await asyncio.sleep(_PAUSE_SECONDS)
            number += 1

    async def _tell(self, run: RunHandle[Any], key: str, *, first: bool) -> None:
        owner, completed, taken_over = "", 0, False
        last: datetime | None = None  # when its worker last wrote something
        async for event in run.events(follow=True):
            if event.kind == "step_completed":
                completed += 1
            elif event.kind == "claimed":
                before, owner = owner, str(event.data["worker"])
                pid = await self._pid(owner)
                if before and before != owner:
                    taken_over = True
                    dead = await self._pid(before)
                    silent = (event.at - last).total_seconds() if last else 0
                    self._say(
                        f"worker {pid} took {key} over, {silent:.1f} s after the last word of {dead}:"
                        f" it continues at the same step, and {completed} completed steps are not run again"
                    )
                elif first and not before:
                    self._say(f"worker {pid} has {key}; kill -9 {pid} is what Kill the worker does")
            if event.kind not in ("claimed", "lease_lost"):
                last = event.at
        if taken_over:
            self._say(f"{key} is completed; the ledger has one line for each of its steps")

    async def _pid(self, worker: str) -> int | str:
        if worker not in self.pids:
            self.meet(await self._engine.workers())
        return self.pids.get(worker, worker)

    def meet(self, rows: Sequence[WorkerRow]) -> None:
        """Remember the processes of workers, because the rows of dead ones disappear."""
        self.pids |= {row.id: pid_of(row) for row in rows}


def pid_of(row: WorkerRow) -> int:
    """Return the process id of a worker, whose name is "host:pid"."""
    pid = row.name.rpartition(":")[2]
    return int(pid) if pid.isdigit() else 0
