"""Services: what an activation gets from the worker it lives in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stepwell.domain.ids import Ids, WorkerId
from stepwell.domain.program import Program
from stepwell.domain.steps import StepSpec
from stepwell.domain.workflow_code import DirectCalls
from stepwell.store.base import Store
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock

if TYPE_CHECKING:
    from stepwell.domain.commit import Commit
    from stepwell.engine.execution.step_runner import StepRunner
    from stepwell.engine.run.timers import RunLimits
    from stepwell.engine.worker.committer import OnCommitted


class Submits(Protocol):
    """What an activation asks of a committer."""

    def submit(self, commit: Commit, size: int, written: OnCommitted) -> None: ...


@dataclass(slots=True)
class Services:
    store: Store
    committer: Submits
    runner: StepRunner
    notifier: Notifier
    clock: Clock
    ids: Ids
    loop: asyncio.AbstractEventLoop
    programs: Mapping[str, Program]  # by needs: workflow@version
    steps: Mapping[str, StepSpec]  # by name, for remote steps
    worker: WorkerId
    payload_bytes_max: int
    keep_lease_seconds: float  # waits shorter than this do not park
    child_depth_max: int
    lost_leases_max: int  # then a run that lost so many workers is set aside
    replay_always: bool  # for tests: forget the code's state after every commit
    lease_valid: Callable[[], bool]  # by our own clock the lease still holds
    stand_ins: Mapping[str, StepSpec]  # for tests: other functions in steps' places
    limits: RunLimits
    note_due: Callable[[float], None]  # a ticket becomes due in so many seconds
    direct_calls: DirectCalls = "warn"  # steps that workflow code calls without ctx.step
