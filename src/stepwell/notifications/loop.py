"""NotificationLoop: what a worker or server repeats: sending notifications, and checking alerts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from stepwell.domain.ids import RunId
from stepwell.domain.notifications import KEPT_SECONDS
from stepwell.errors import StoreError
from stepwell.notifications.alerts import AlertChecks
from stepwell.notifications.sender import NotificationSender
from stepwell.store.base import Store
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock

_log = logging.getLogger("stepwell.notifications")

LOOK_SECONDS = 15.0  # at most between two looks; an alert or notification of another process may be due
# Hints are about all kinds of work: look at most this often because of them.
SEND_SECONDS = 1.0
CHECK_SECONDS = 5.0
_PAUSE_MAX = 30.0
_PURGE_SECONDS = 600.0


class NotificationLoop:
    def __init__(
        self,
        store: Store,
        notifier: Notifier,
        clock: Clock,
        checks: AlertChecks,
        sender: NotificationSender,
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._clock = clock
        self._checks = checks
        self.sender = sender
        self._look_seconds = look_seconds
        self._hinted: list[asyncio.Event] = []  # of what is repeated
        self._purged_at = clock.monotonic()

    async def run(self) -> None:
        """Look until cancelled."""
        forget = self._notifier.on_work(self._hint)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._repeat(self._check, CHECK_SECONDS))
                for channel in self.sender.channels:
                    group.create_task(self._repeat(partial(self.sender.send_due, channel), SEND_SECONDS))
        finally:
            forget()

    def _hint(self, run_id: RunId | None) -> None:
        for hinted in self._hinted:
            hinted.set()

    async def _check(self) -> float | None:
        if self._clock.monotonic() - self._purged_at > _PURGE_SECONDS:
            self._purged_at = self._clock.monotonic()
            await self._store.purge_notifications(KEPT_SECONDS)
        return await self._checks.check_due()

    async def _repeat(self, look: Callable[[], Awaitable[float | None]], apart: float) -> None:
        """Look when something is due, or after a hint; two looks because of hints are `apart`."""
        pause, hinted = 0.1, asyncio.Event()
        self._hinted.append(hinted)
        while True:
            hinted.clear()
            try:
                next_in = await look()
                seconds, pause = self._look_seconds if next_in is None else next_in, 0.1
            except StoreError as error:
                _log.warning("notifications and alerts were not looked at: %s", error.message)
                seconds, pause = pause, min(pause * 2, _PAUSE_MAX)
            except Exception:
                _log.exception("notifications and alerts were not looked at")
                seconds, pause = pause, min(pause * 2, _PAUSE_MAX)
            await _sleep(max(0.05, min(seconds, self._look_seconds)), hinted, apart)


async def _sleep(seconds: float, hinted: asyncio.Event, apart: float) -> None:
    await asyncio.sleep(min(seconds, apart))
    if seconds > apart:
        try:
            async with asyncio.timeout(seconds - apart):
                await hinted.wait()
        except TimeoutError:
            pass
