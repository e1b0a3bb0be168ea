"""Own faults: an error of the engine itself ends what this worker does with a run, not the run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from stepwell.errors import LogDamaged, OwnershipLost

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation

_log = logging.getLogger("stepwell.engine")


def give_back(activation: Activation) -> None:
    """For the handler of such an error: whoever claims the run next begins where its log ends.

    Kept, it would wait for ever for what the error swallowed: its owner lives, so nobody takes it over.
    """
    error = sys.exception()
    if isinstance(error, LogDamaged):
        activation.damage = error
    else:
        _log.exception("run %s: the engine failed; the run is given back", activation.run_id)
    activation.broken = True
    activation.close(OwnershipLost)


async def guarded(activation: Activation, work: Awaitable[None]) -> None:
    """For a task beside the run, which nobody awaits."""
    try:
        await work
    except Exception:
        give_back(activation)
