"""Hops: the length of the chain of runs that led to a run, by broadcast events or calls over HTTP.

Two workflows that start each other would go on forever. So each event and each outgoing call carries the
number, and a run that an event starts has one more. Children and retries do not count. A new run takes the
number from the context in which it is started.
"""

from __future__ import annotations

from contextvars import ContextVar

HOPS_MAX = 8

hops_here: ContextVar[int] = ContextVar("stepwell_hops", default=0)
"""Of the run whose code runs here, or of the request that is being answered; 0 outside of both."""
