"""The step of `wait` nodes that poll: it reads once, and evaluates the condition."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.steps import providing_step
from stepwell.authoring.graphs.nodes.waits import LOOK
from stepwell.domain.program import StepContext
from stepwell.domain.steps import NotYet, StepSpec
from stepwell.errors import RetryAfter

_DELAY_MAX = 3600.0  # longest delay, in seconds, that a service may ask for
_log = logging.getLogger("stepwell.wait")
Look = Callable[[StepContext, dict[str, Any]], Awaitable[Any]]


def wait_step(looks: Mapping[str, Look], now: Callable[[], float] = time.time) -> StepSpec:
    """Return the step that looks once. `looks` are the functions of the nodes that read, by type."""

    async def call(step: StepContext, config: dict[str, Any]) -> Any:
        seconds: float = config["seconds"]
        try:
            answer = await looks[config["type"]](step, config["config"])
        except NodeError as error:
            if error.permanent:
                raise
            # A passing failure means that there is no answer yet; the node's timeout ends the wait.
            _log.warning("nothing is known yet: %s: %s", error.code, error.message)
            if isinstance(error, RetryAfter):
                seconds = max(seconds, min(error.seconds, _DELAY_MAX))
            return NotYet(seconds)
        scope = {**config["scope"], "answer": answer}
        return answer if config["condition"].truth(scope, now()) else NotYet(seconds)

    return providing_step(LOOK, call)
