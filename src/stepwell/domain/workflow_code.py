"""Workflow code: how a step that is called directly learns that workflow code calls it.

Code on a loop is known by its loop. That of a plain function has a thread, which it names here; a step
inherits the variable with the others of its caller, but not the thread.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Literal, NamedTuple

DirectCalls = Literal["warn", "error"]


class ThreadCode(NamedTuple):
    thread: int
    direct_calls: DirectCalls


thread_code: ContextVar[ThreadCode | None] = ContextVar("stepwell_thread_code", default=None)
