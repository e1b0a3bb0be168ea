"""Progress that cannot be kept: refused where it is told; before, the run's log could never be read again."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, RunFailed, workflow
from stepwell.testing import VirtualEngine


@pytest.mark.req("K8", "F2")
@pytest.mark.parametrize(
    "told", [(float("nan"),), (float("inf"), 3), (1, "x"), ("a",), (None,), (1, 2, 5), (10**400,)]
)
async def test_progress_that_cannot_be_kept_fails_the_run_and_not_its_log(told: tuple[Any, ...]) -> None:
    @workflow
    async def tells(ctx: Context) -> None:
        ctx.progress(*told)
        await ctx.sleep("1h")

    async with VirtualEngine(tells, replay_always=True) as engine:
        run = await engine.start(tells)

        with pytest.raises(RunFailed, match=r"of ctx\.progress is") as caught:
            await engine.outcome(run)

        assert caught.value.cause_code == "INVALID_INPUT"
        assert (await run.state()).status == "failed"


@pytest.mark.req("F2")
async def test_numbers_of_every_size_and_odd_text_are_progress() -> None:
    @workflow
    async def tells(ctx: Context) -> None:
        ctx.progress(0.5, 2**60, "half\ud800")
        await ctx.sleep("1h")

    async with VirtualEngine(tells, replay_always=True) as engine:
        run = await engine.start(tells)
        await engine.outcome(run)

        [told] = [event.data async for event in run.events() if event.kind == "progress"]
        assert told["done"] == 0.5
        assert told["total"] == 2**60
