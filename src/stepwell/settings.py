"""Settings: read once, checked when an engine is made, then passed on as plain values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import get_args

from stepwell.domain.step_log import Capture
from stepwell.domain.trace import StepInputs
from stepwell.domain.workflow_code import DirectCalls
from stepwell.errors import SettingsInvalid, excerpt

_WORDS: dict[object, tuple[str, ...]] = {
    "DirectCalls": get_args(DirectCalls),
    "Capture": get_args(Capture),
    "StepInputs": get_args(StepInputs),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of an engine. Each field can be set as STEPWELL_<NAME>; times are in seconds."""

    slots: int = 100  # runs that one worker drives at once
    lease_seconds: float = 15.0  # a worker that is silent for this long is considered dead
    heartbeat_seconds: float = 5.0
    reap_seconds: float = 5.0  # how often to look for dead workers
    poll_seconds: float = 5.0  # how often to check the queue without a wake-up; at most 1 on stores that poll
    grace_seconds: float = 30.0  # how long a stopping worker lets steps finish
    keep_lease_seconds: float = 2.0  # a run that waits less than this stays in memory
    threads: int = 32  # concurrent sync steps
    workflow_threads: int = 32  # concurrent sync workflow functions
    processes: int = 2  # concurrent steps with isolation="process"
    payload_bytes_max: int = 2 * 1024 * 1024
    child_depth_max: int = 10
    fresh_share: float = 0.25  # share of the slots kept for new runs while resumed ones wait
    lost_leases_max: int = 3  # owners that a run may lose at one place before it fails as WORKER_CRASHED
    keep_ended_seconds: float | None = None  # remove runs this long after their end; None: never
    direct_calls: DirectCalls = "warn"  # a step called in workflow code without ctx.step: "warn" or "error"
    step_inputs: StepInputs = "off"  # keep the arguments of steps in the log, for the trace: "on" or "off"
    step_logs: Capture = "all"  # keep a step's output: "all", only "logging", or "off"
    step_log_bytes_max: int = 256 * 1024  # for one attempt; the rest is cut off
    step_timeout_seconds: float | None = 300.0  # for steps and transitions without timeout=; None: no timeout
    graph_timeout_seconds: float | None = (
        1800.0  # for graphs without maxExecutionMs; suspended time does not count
    )
    suspension_seconds: float | None = 86_400.0  # for waits in graphs without timeoutMs and suspendTtlMs
    history_warn: int = 50_000  # events since a run began, continued as new or reached a place
    history_max: int = 500_000  # a run with more fails with HISTORY_LIMIT

    def __post_init__(self) -> None:
        for field in fields(Settings):
            value = getattr(self, field.name)
            if field.type in _WORDS:
                if value not in _WORDS[field.type]:
                    words = " or ".join(f'"{word}"' for word in _WORDS[field.type])
                    raise SettingsInvalid(f"{field.name} is {excerpt(value)}", hint=f"it must be {words}")
                continue
            if value is None and "None" in str(field.type):
                continue
            whole = field.type == "int"
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise SettingsInvalid(
                    f"{field.name} is {excerpt(value)}",
                    hint=f"it must be a {'whole ' if whole else ''}number",
                )
            if not 0 < value < float("inf"):
                raise SettingsInvalid(f"{field.name} is {excerpt(value)}", hint="it must be more than 0")
        if self.history_warn > self.history_max:
            raise SettingsInvalid(
                f"history_warn is {self.history_warn}, history_max {self.history_max}",
                hint="warn before the limit is reached",
            )
        if self.fresh_share >= 1:
            raise SettingsInvalid(f"fresh_share is {self.fresh_share:g}", hint="it must be less than 1")
        if self.heartbeat_seconds * 2 > self.lease_seconds:
            raise SettingsInvalid(
                f"heartbeat_seconds is {self.heartbeat_seconds:g}, lease_seconds {self.lease_seconds:g}",
                hint="a lease must outlast two heartbeats",
            )

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None, **options: float | str | None) -> Settings:
        """Read settings: arguments override STEPWELL_* variables, which override the defaults."""
        source = os.environ if env is None else env
        values: dict[str, float | str | None] = {}
        for field in fields(cls):
            text = source.get(f"STEPWELL_{field.name.upper()}")
            if text is not None and field.type in _WORDS:
                values[field.name] = text
            elif text is not None and text.lower() == "none" and "None" in str(field.type):
                values[field.name] = None
            elif text is not None:
                values[field.name] = _number(f"STEPWELL_{field.name.upper()}", text, field.type == "int")
        return cls(**{**values, **options})  # type: ignore[arg-type]  # each of its field's type


def _number(name: str, text: str, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise SettingsInvalid(f"{name} is {excerpt(text)}", hint="it must be a number") from None
