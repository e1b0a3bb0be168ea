"""Group commit on several lanes: Python and the database work at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

import pytest

from stepwell.domain.commit import Commit, Committed, Outcome
from stepwell.domain.ids import LeaseId, RunId
from stepwell.engine.worker.committer import Committer
from stepwell.store.base import Store
from stepwell.telemetry.measures import WorkerMeasures

ROUNDS = 3
RUNS = 32


class AnswersTogether:
    """What PostgreSQL does when it has flushed its log once for both: two batches are answered at once."""

    commits_at_once = 2

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self._both = asyncio.Barrier(2)

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        self._log.append("sent")
        await self._both.wait()
        return [Committed(Outcome.OK, 0, 0.0)] * len(batch)


@pytest.mark.req("W1")
async def test_runs_of_one_batch_are_sent_before_those_of_the_other_go_on() -> None:
    """Else all runs would wait for the database together, and it for them."""
    log: list[str] = []
    committer = Committer(cast(Store, AnswersTogether(log)), WorkerMeasures())
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    told = 0

    def submit(number: int) -> None:
        commit = Commit(run_id=RunId(f"run-{number}"), lease=LeaseId("l"), head=1)
        committer.submit(commit, 100, lambda *_: hear(number))

    def hear(number: int) -> None:
        nonlocal told
        told += 1
        if told <= RUNS * (ROUNDS - 1):
            loop.call_soon(go_on, number)  # as a run does: in the next pass of the loop
        elif told == RUNS * ROUNDS:
            done.set()

    def go_on(number: int) -> None:
        log.append("went on")
        submit(number)

    for number in range(RUNS):
        submit(number)
    async with asyncio.TaskGroup() as group:
        running: asyncio.Task[Any] = group.create_task(committer.run())
        await done.wait()
        running.cancel()

    turn = [("went on", RUNS // 2), ("sent", 1)]
    assert [(what, len(list(same))) for what, same in groupby(log)] == [
        ("sent", 2),
        *turn,
        *turn,
        *turn,
        *turn,
    ]
