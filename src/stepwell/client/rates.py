"""Start rates: how many runs may be started in a window of time, by workflow and by user.

Checked before a run is written: a guardrail for callers, not a promise about runs. The windows are in the
store, so all processes with the same rate share them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, NamedTuple

from stepwell.domain.rates import Full, Window
from stepwell.errors import InvalidInput, RateLimited, excerpt

_log = logging.getLogger("stepwell.client")


class StartRate(NamedTuple):
    """At most `limit` starts in any `seconds`, of each workflow or by each user."""

    per: Literal["workflow", "user"]
    limit: int
    seconds: float = 60.0


def checked_rates(rates: Sequence[StartRate]) -> tuple[StartRate, ...]:
    for rate in rates:
        if (
            not hasattr(rate, "per")
            or rate.per not in ("workflow", "user")
            or rate.limit < 1
            or not 0 < rate.seconds < float("inf")
        ):
            raise InvalidInput(
                f"{excerpt(rate)} is not a start rate", hint='StartRate("workflow", 60, seconds=60)'
            )
    return tuple(rates)


def windows_of(rates: Sequence[StartRate], workspace: str, workflow: str, user: str) -> list[Window]:
    """Return the windows that count a start by this caller."""
    names = {"workflow": f"workflow {workspace}/{workflow}", "user": f"user {workspace}/{user}"}
    return [
        Window(names[rate.per], rate.limit, float(rate.seconds))
        for rate in rates
        if rate.per == "workflow" or user
    ]


def raise_if_limited(full: Full, user: str) -> None:
    """Raise RateLimited, unless the window cannot be read and the caller has a name."""
    window, wait = full
    if wait is not None:
        raise RateLimited(
            f"{window.name} may start {window.limit} runs in {window.seconds:g} s; no run was started",
            retry_after=wait,
            hint=f"try again in {wait:.1f} s",
        )
    _log.warning("the start rate of %s cannot be read", window.name)
    if not user:
        raise RateLimited(
            "start rates cannot be read, and the caller has no name",
            retry_after=1.0,
            hint="try again, or start with by=",
        )
