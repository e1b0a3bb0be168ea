"""Unserved: a run that no worker has. Whoever waits for its end would wait in silence."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stepwell.errors import StepwellError

if TYPE_CHECKING:
    from stepwell.client.handle import RunHandle

_log = logging.getLogger("stepwell.client")


async def tell_if_unserved(run: RunHandle[Any]) -> None:
    """Mostly an engine was not given the workflow."""
    with suppress(StepwellError):  # only news: whatever is wrong is met again by those who look
        reason = await run.why()
        if reason.code == "no_worker":
            _log.warning(
                "run %s has not begun: %s. Give its workflow to an engine that works: "
                "Engine(..., workflows=[...]), or begin `stepwell worker`",
                *(run.id, reason.text),
            )
