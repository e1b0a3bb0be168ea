"""Outage: waiting until the store answers again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stepwell.errors import StoreError

_log = logging.getLogger("stepwell.engine")

T = TypeVar("T")


async def outlast(
    call: Callable[[], Awaitable[T]], what: str, *args: object, pause: float = 0.2, longest: float = 0.2
) -> T:
    """Repeat the call until the store answers it, however long that takes.

    `what` and `args` name the call in the log. The pause doubles from `pause` up to `longest` seconds.
    """
    while True:
        try:
            return await call()
        except StoreError as error:
            _log.warning(f"{what} not answered, trying again: %s", *args, error.message)
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)
