"""Workflow code: how a step that is called directly notices that workflow code called it.

Async workflow code is recognised by its loop. A plain function runs in a thread and names that thread here; a
step inherits the context variable from its caller, but runs in another thread.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Literal, NamedTuple

DirectCalls = Literal["warn", "error"]


class ThreadCode(NamedTuple):
    thread: int
    direct_calls: DirectCalls


thread_code: ContextVar[ThreadCode | None] = ContextVar("stepwell_thread_code", default=None)
