"""Start rates: how many runs may be started in a window of time, by workflow and by user.

Checked before a run is written: a guardrail for callers, not a promise about runs. The windows are in the
store, so all processes with the same rate share them. A rate is given to an engine, or set in the database
while engines run; the one in the database counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepwell.domain.rates import Full, StoredRate, Window
from stepwell.domain.text import checked_text
from stepwell.errors import InvalidInput, RateLimited, StoreUnavailable, excerpt
from stepwell.store.base import Store

if TYPE_CHECKING:
    from stepwell.client.store_access import StoreAccess

_log = logging.getLogger("stepwell.client")
RATES_SECONDS = 5.0  # how soon a process follows a rate that another one set
LIMIT_MAX = 2**31 - 1
SECONDS_MAX = 366 * 86400.0


RatePer = Literal["workflow", "user"]


class StartRate(NamedTuple):
    """At most `limit` starts in any `seconds`, of each workflow or by each user."""

    per: RatePer
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


def checked_rate(per: Any, limit: Any, seconds: Any, by: Any) -> StoredRate:
    """Return the rate as a store keeps it."""
    if per not in ("workflow", "user"):
        raise InvalidInput(f"per is {excerpt(per)}", hint='a start rate is per "workflow" or per "user"')
    whole = isinstance(limit, int) and not isinstance(limit, bool)
    if limit is not None and not (whole and 1 <= limit <= LIMIT_MAX):
        raise InvalidInput(
            f"the limit of a start rate is {excerpt(limit)}",
            hint="give a whole number, 1 or more; None for no rate; to start nothing, disable the workflow",
        )
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (number and 0 < seconds <= SECONDS_MAX):
        raise InvalidInput(
            f"seconds of a start rate is {excerpt(seconds)}", hint="give more than 0, and at most 366 days"
        )
    return StoredRate(per, float(seconds), limit, checked_text(by, "by"))


class StartRates:
    """The rates in force: those in the database, and those given to the engine that they do not replace."""

    def __init__(self, store: Store, given: Sequence[StartRate] = ()) -> None:
        self.given = checked_rates(given)
        self._store = store
        self._known: tuple[StartRate, ...] = self.given
        self._read_at = float("-inf")
        self._read = False
        self._looking: asyncio.Future[None] | None = None

    async def in_force(self) -> tuple[StartRate, ...]:
        """Return the rates as they were at most RATES_SECONDS ago."""
        now = asyncio.get_running_loop().time()
        if not 0 <= now - self._read_at < RATES_SECONDS:
            if self._read:
                self._read_at = now  # meanwhile, other callers use the last known rates
                await self._look(now)
            else:
                await self._first_look(now)
        return self._known

    async def _first_look(self, now: float) -> None:
        """Read the rates once for all starts that come together, so that these are sent together."""
        looking = self._looking
        if looking is not None and not looking.done():
            await looking
            if self._read:
                return
        looking = self._looking = asyncio.get_running_loop().create_future()
        try:
            await self._look(now)
        finally:
            looking.set_result(None)
        await asyncio.sleep(0)  # the others continue in the next turn of the loop, and this start with them

    async def _look(self, now: float) -> None:
        try:
            stored = await self._store.read_start_rates()
        except StoreUnavailable as error:  # the start itself will wait for the store
            _log.warning("start rates cannot be read; those known so far apply: %s", error)
            return
        self._known = merged(self.given, stored)
        self._read_at, self._read = now, True

    async def put(self, access: StoreAccess, rate: StoredRate) -> None:
        await access.call_idempotent(lambda: access.store.put_start_rate(rate))
        self._forget()

    async def drop(self, access: StoreAccess, rate: StoredRate) -> bool:
        known = await access.store.read_start_rates()
        if all((other.per, other.seconds) != (rate.per, rate.seconds) for other in known):
            return False
        dropped, repeated = await access.retry_call(
            lambda: access.store.drop_start_rate(rate.per, rate.seconds)
        )
        _log.info("start rate per %s in %g s was dropped by %s", rate.per, rate.seconds, rate.by)
        self._forget()
        return dropped or repeated

    def _forget(self) -> None:
        """Read the rates again before the next start of this process."""
        self._read_at, self._read = float("-inf"), False


def merged(given: Sequence[StartRate], stored: Sequence[StoredRate]) -> tuple[StartRate, ...]:
    set_there = {(rate.per, rate.seconds) for rate in stored}
    kept = [rate for rate in given if (rate.per, float(rate.seconds)) not in set_there]
    added: list[Any] = [(rate.per, rate.limit, rate.seconds) for rate in stored if rate.limit is not None]
    return (*kept, *(StartRate(*rate) for rate in added))


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
