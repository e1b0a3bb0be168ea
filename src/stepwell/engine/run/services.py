"""Services: what a worker provides to its activations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stepwell.domain.commit import Commit, Committed, Finish, Park
from stepwell.domain.ids import Ids, WorkerId
from stepwell.domain.program import Program
from stepwell.domain.steps import STEP_TIMEOUT, StepSpec
from stepwell.domain.workflow_code import DirectCalls
from stepwell.engine.execution.attempt import OpenSecrets
from stepwell.engine.execution.step_log import LineSink
from stepwell.engine.execution.step_runner import StepRunner
from stepwell.shared_timeout import SharedTimeout
from stepwell.store.base import Store
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock
from stepwell.telemetry.spans import Spans

OnCommitted = Callable[[Committed, Park | Finish | None], None]

_SHARED_MAX = 100  # a caller may give every run a timeout of its own


class Submits(Protocol):
    """What an activation asks of a committer."""

    def submit(self, commit: Commit, size: int, written: OnCommitted) -> None: ...


class Expires(Hashable, Protocol):
    def ran_out(self) -> None: ...


class RunLimits:
    """Timeouts of runs; runs with equal timeouts share one timer."""

    def __init__(self) -> None:
        self._shared: dict[float, SharedTimeout[Expires]] = {}

    def of(self, seconds: float, *, shared: bool) -> SharedTimeout[Expires]:
        timeout = self._shared.get(seconds) if shared else None
        if timeout is None:
            timeout = SharedTimeout(seconds, lambda timers: timers.ran_out())
            if shared and len(self._shared) < _SHARED_MAX:
                self._shared[seconds] = timeout
        return timeout


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
    lost_leases_max: int  # a run that lost this many workers is set aside
    replay_always: bool  # for tests: forget the code's state after every commit
    lease_valid: Callable[[], bool]  # by our own clock the lease still holds
    stand_ins: Mapping[str, StepSpec]  # for tests: other functions in steps' places
    limits: RunLimits
    note_due: Callable[[float], None]  # a ticket becomes due in that many seconds
    provided: Mapping[str, StepSpec]  # by name: the worker's functions for built-in steps and nodes
    styles: Mapping[str, Any]  # by kind: the `StyleRules` of functions, machines and graphs
    direct_calls: DirectCalls = "warn"  # steps that workflow code calls without ctx.step
    step_inputs: bool = False  # whether the arguments of steps are kept
    step_logs: LineSink | None = None  # receives what steps log and print; None: not kept
    step_timeout: float | None = float(STEP_TIMEOUT)  # default timeout of steps and transitions
    open_secrets: OpenSecrets | None = None  # None: there are none
    redact: Callable[[bytes], bytes] | None = None  # removes secrets from what steps return and raise
    spans: Spans | None = None  # if the program configured OpenTelemetry
    approvals_channel: str = ""  # channel that notifies assignees of approvals; '': none
    history_warn: int = 50_000  # events
    history_max: int = 500_000
    workspace: str = ""  # workspace that stores the `programs`; '': none, so any run may call them

    def spec_to_run(self, spec: StepSpec) -> StepSpec:
        """Return the step as this worker executes it: a built-in node gets its function."""
        if self.stand_ins and spec.name in self.stand_ins:
            return self.stand_ins[spec.name]
        own = self.provided.get(spec.name) if spec.provided else None
        if own is None:
            return spec
        return replace(spec, function=own.function, wants_context=own.wants_context)
