"""Whole log: what lies before a machine's last checkpoint is not at hand, and is read from the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stepwell.domain.commit import LogRow
from stepwell.errors import LogDamaged, StoreError

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation

_PAGE = 1000

Take = Callable[[LogRow], None]


async def whole_log(activation: Activation, take: Take) -> None:
    """Every row, for code that runs in a turn."""
    read = activation.turns.create_future()
    look_back(activation, take, lambda: read.set_result(None))
    await read


def look_back(activation: Activation, take: Take, then: Callable[[], None]) -> None:
    """Every row, then `then`; the run stays until that. Without the store it is given back."""
    activation.busy += 1
    services = activation.services
    # Not from here: in a turn the running loop is the workflow's.
    services.loop.call_soon(lambda: services.runner.spawn(_read(activation, take, then)))


async def _read(activation: Activation, take: Take, then: Callable[[], None]) -> None:
    store, after = activation.services.store, 0
    try:
        while page := await store.read_log(activation.run_id, after=after, limit=_PAGE):
            for row in page:
                take(row)
            after = page[-1].seq
    except StoreError as error:
        activation.busy -= 1
        activation.damage = error if isinstance(error, LogDamaged) else None
        activation.broken = True  # whoever has it next looks again
        activation.lose()
        return
    activation.busy -= 1
    if activation.closed is None:
        then()
        activation.advance()
