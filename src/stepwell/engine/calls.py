"""Calls: what workflow code has asked for and not been told yet."""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell.domain.codec import Codec
from stepwell.domain.commit import NewRun
from stepwell.domain.steps import StepSpec


class Call:
    """One pending question of workflow code, answered through its future."""

    __slots__ = ("after", "future", "path", "withdrawn")

    def __init__(self, path: str, future: asyncio.Future[Any]) -> None:
        self.path = path
        self.future = future
        self.withdrawn = False
        self.after = 0  # effects may start once the log has reached this seq

    @property
    def text(self) -> str:
        """For people: what the run waits for."""
        return self.path


class StepCall(Call):
    __slots__ = ("args", "attempt", "digest", "failures", "kwargs", "queue", "retrying", "spec")

    def __init__(
        self,
        path: str,
        future: asyncio.Future[Any],
        spec: StepSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        queue: str,
        digest: str,
    ) -> None:
        self.path = path
        self.future = future
        self.withdrawn = False
        self.after = 0
        self.spec = spec
        self.args = args
        self.kwargs = kwargs
        self.queue = queue
        self.digest = digest
        self.attempt = 0
        self.failures = 0
        self.retrying = False  # waits for its next attempt

    @property
    def text(self) -> str:
        return f"retry of {self.path}" if self.retrying else f"step {self.path}"


class TimerCall(Call):
    __slots__ = ("seconds",)

    def __init__(self, path: str, future: asyncio.Future[Any], seconds: float) -> None:
        super().__init__(path, future)
        self.seconds = seconds

    @property
    def text(self) -> str:
        return "sleeping"


class WaitCall(Call):
    __slots__ = ("assignees", "codec", "key", "name", "since", "timeout", "title", "what")

    def __init__(
        self,
        path: str,
        future: asyncio.Future[Any],
        *,
        what: str,
        name: str,
        codec: Codec,
        timeout: float | None,
        key: str = "",
        title: str = "",
        assignees: tuple[str, ...] = (),
    ) -> None:
        super().__init__(path, future)
        self.what = what
        self.name = name
        self.codec = codec
        self.timeout = timeout
        self.key = key
        self.title = title
        self.assignees = assignees
        self.since = 0.0

    @property
    def text(self) -> str:
        return f"waiting for {self.what} {self.name}"


class ChildCall(Call):
    """Asks for a child to be started; answered when that is on disk. `new` is None when it is."""

    __slots__ = ("detached", "new")

    def __init__(self, path: str, future: asyncio.Future[Any], new: NewRun | None, detached: bool) -> None:
        super().__init__(path, future)
        self.new = new
        self.detached = detached


class ResultCall(Call):
    """Asks for a child's end."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return f"waiting for child {self.path.rstrip('!')}"
