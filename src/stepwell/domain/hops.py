"""Hops: how many runs led to one another before this one, by broadcast events or by calls over HTTP.

Two workflows that start each other would go on forever. So each event and each outgoing call carries the
number, and the run that an event starts has one more. Neither children nor retries count. A new run takes the
number from where it is started.
"""

from __future__ import annotations

from contextvars import ContextVar

HOPS_MAX = 8

hops_here: ContextVar[int] = ContextVar("stepwell_hops", default=0)
"""Of the run whose code runs here, or of the request that is being answered; 0 outside of both."""
