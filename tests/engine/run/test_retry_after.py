"""RetryAfter with a time that never comes: an error of the step; before, the run waited for ever."""

from __future__ import annotations

import pytest

from stepwell import Context, Retry, RetryAfter, RunFailed, step, workflow
from stepwell.testing import VirtualEngine


@pytest.mark.req("K9")
@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e300])
async def test_a_step_cannot_ask_to_be_tried_again_never(seconds: float) -> None:
    @step(retry=Retry(2))
    async def later() -> None:
        raise RetryAfter(seconds)

    @workflow
    async def tries(ctx: Context) -> None:
        await ctx.step(later)

    async with VirtualEngine(tries) as engine:
        run = await engine.start(tries)

        with pytest.raises(RunFailed, match="RetryAfter takes at most 100 years"):
            await engine.outcome(run)
