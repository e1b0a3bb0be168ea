"""Dry replay: replays a run's log on given code, without a store or effects, to see whether it still fits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from stepwell.domain.commit import Claim, Commit, LogRow
from stepwell.domain.events import Problem
from stepwell.domain.ids import Ids, LeaseId, RunId, WorkerId
from stepwell.domain.program import Program, needs_of
from stepwell.engine.run.activation import Activation
from stepwell.engine.run.services import RunLimits, Services
from stepwell.engine.worker.styles import STYLES
from stepwell.errors import CodeChanged, InvalidInput
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock


class _NoCommitter:
    """Nothing is written."""

    def submit(self, commit: Commit, size: int, written: object) -> None:
        pass


class _NoRunner:
    """Nothing is executed, either."""

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        work.close()


async def check_replay(
    program: Program, run_id: RunId, log: Sequence[LogRow], *, clock: Clock, ids: Ids
) -> Problem | None:
    """The problem that the code would have if it took up this run now; None: the log fits it.

    Workflows that are plain functions cannot be replayed without a thread; they count as fitting.
    """
    if program.sync:
        return None
    nobody: Any = _NoRunner()
    nothing: Any = None
    services = Services(
        store=nothing,
        committer=_NoCommitter(),
        runner=nobody,
        notifier=Notifier(),
        clock=clock,
        ids=ids,
        loop=asyncio.get_running_loop(),
        programs={},
        steps={},
        worker=WorkerId("replay-check"),
        payload_bytes_max=1 << 62,
        keep_lease_seconds=0.0,
        child_depth_max=1 << 30,
        lost_leases_max=1 << 30,
        replay_always=False,
        lease_valid=lambda: False,
        stand_ins={},
        provided={},
        limits=RunLimits(),
        note_due=lambda seconds: None,
        styles=STYLES,
    )
    claim = Claim(
        run_id, "", needs_of(program.definition), LeaseId("replay-check"), log[-1].seq, 0, 0, "", log, ()
    )
    activation = Activation(services, claim, program, log[-1].at)
    activation.begin(draining=True)
    if activation.broken:
        raise RuntimeError(f"the engine failed while it checked the replay of run {run_id}; its log says why")
    problem = activation.problem
    activation.lose()
    return problem if problem is not None and problem.code in (CodeChanged.code, InvalidInput.code) else None
