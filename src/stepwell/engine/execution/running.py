"""Running: what executes for a claimed run: an attempt of a step, or of a transition's body."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class Named(Protocol):
    """What notes of long executions ask of a spec."""

    @property
    def name(self) -> str: ...

    @property
    def transactional(self) -> bool: ...


class Running(Protocol):
    attempt: int
    began: float  # by the monotonic clock; inf: a thread has not taken it up yet
    noted: bool  # the log says that it takes long

    @property
    def spec(self) -> Named: ...

    def begin(self) -> None:
        """A thread or process has taken it up. May be called on that thread."""
        ...

    def look(self, now: float) -> None:
        """Called now and then: has it run for too long?"""
        ...

    def stop(self) -> None:
        """Nobody wants the result any more."""
        ...


def outcome_of(task: asyncio.Task[Any]) -> tuple[Any, BaseException | None]:
    """The result and the error that a task has ended with."""
    if task.cancelled():
        return None, asyncio.CancelledError()
    error = task.exception()
    return (None if error is not None else task.result()), error
