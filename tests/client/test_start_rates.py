"""How many runs may be started in a while, and what happens when that cannot be told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stepwell import Context, StartRate, workflow
from stepwell.client.rates import OwnWindows, StartGate, Window
from stepwell.errors import InvalidInput, RateLimited
from stepwell.testing.clock import FakeClock
from tests.stage import Stage


@workflow
async def hello(ctx: Context, name: str) -> str:
    return f"hello {name}"


class Broken:
    async def take(self, windows: Sequence[Window], count: int) -> tuple[Window, float] | None:
        raise ConnectionError("the counters are away")


@pytest.mark.req("K20")
async def test_what_is_too_much_is_refused_before_a_run_is_made(stage: Stage) -> None:
    async with stage.engine(hello, start_rates=[StartRate("workflow", 3)]) as engine:
        for name in "abc":
            await engine.start(hello, name)

        with pytest.raises(RateLimited, match="may start 3 runs in 60 s") as error:
            await engine.start(hello, "d")

        assert error.value.code == "RATE_LIMITED"
        assert 0 < error.value.retry_after <= 60
        assert len(await engine.runs()) == 3


@pytest.mark.req("K20")
async def test_the_window_slides(memory: Stage) -> None:
    clock = FakeClock()
    async with memory.engine(hello) as engine:
        engine.start_gate = StartGate([StartRate("workflow", 2, 10)], OwnWindows(clock))
        await engine.start(hello, "a")
        clock.advance(6)
        await engine.start(hello, "b")

        with pytest.raises(RateLimited) as error:
            await engine.start(hello, "c")
        assert error.value.retry_after == pytest.approx(4)
        clock.advance(4)
        await engine.start(hello, "c")
        with pytest.raises(RateLimited) as error:
            await engine.start(hello, "d")
        assert error.value.retry_after == pytest.approx(6)


@pytest.mark.req("K20")
async def test_each_user_has_a_window_and_many_at_once_are_all_or_none(memory: Stage) -> None:
    async with memory.engine(hello, start_rates=[StartRate("user", 2)]) as engine:
        await engine.start_many(hello, ["a"], user="ann")
        with pytest.raises(RateLimited, match="user default/ann"):
            await engine.start_many(hello, ["b", "c"], user="ann")
        await engine.start(hello, "d", user="ann")
        await engine.start_many(hello, ["e", "f"], user="bob")

        assert len(await engine.runs()) == 4


@pytest.mark.req("K20")
async def test_a_fault_of_the_limiter_lets_known_callers_start_and_no_others(memory: Stage) -> None:
    async with memory.engine(hello) as engine:
        engine.start_gate = StartGate([StartRate("workflow", 1)], Broken())

        assert await (await engine.start(hello, "ann", user="ann")).result() == "hello ann"
        with pytest.raises(RateLimited, match="the caller is not known"):
            await engine.start(hello, "nobody")
        assert len(await engine.runs()) == 1


@pytest.mark.req("K20")
def test_a_rate_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is no rate"):
        StartGate([StartRate("workflow", 0)], Broken())
