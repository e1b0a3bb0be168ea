"""A step called in workflow code without ctx.step: told at the first call, with its line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from stepwell import Context, Machine, RunFailed, Settings, SyncContext, step, transition, workflow
from stepwell.errors import DirectStepCall, SettingsInvalid
from tests.engines import SETTINGS, Engines

calls: list[int] = []


@step
def charge(cents: int) -> str:
    calls.append(cents)
    return "receipt"


@step
async def charge_later(cents: int) -> str:
    return charge(cents)  # in a step another one is a plain function


@workflow
async def direct(ctx: Context, cents: int) -> str:
    receipt = charge(cents)  # called here
    await ctx.sleep(0.01)
    return receipt


@workflow
async def direct_async(ctx: Context, cents: int) -> str:
    return await charge_later(cents)  # called here


@workflow
def direct_plain(ctx: SyncContext, cents: int) -> str:
    receipt = charge(cents)  # called here
    ctx.sleep(0.01)
    return receipt


@workflow
async def in_branches(ctx: Context, cents: int) -> list[Any]:
    async def branch() -> str:
        return charge(cents)  # called here

    return await ctx.all(branch())


WRONG = [direct, direct_async, direct_plain, in_branches]


@pytest.mark.req("F13")
@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: one.definition.name)
async def test_a_direct_call_is_warned_of_with_its_line(memory_engines: Engines, wrong: Any) -> None:
    async with memory_engines.new(wrong) as engine:
        with pytest.warns(DirectStepCall, match=r"step charge.*ctx\.step\(charge") as told:
            assert await engine.run(wrong, 5) in ("receipt", ["receipt"])

    assert told[0].filename == __file__
    assert "# called here" in _line(told[0].lineno)


@pytest.mark.req("F13")
@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: one.definition.name)
async def test_by_setting_it_is_an_error_before_anything_is_done(memory_engines: Engines, wrong: Any) -> None:
    calls.clear()
    settings = replace(SETTINGS, direct_calls="error")
    async with memory_engines.new(wrong, settings=settings) as engine:
        with pytest.raises(RunFailed) as caught:
            await engine.run(wrong, 5)

    assert caught.value.cause_code == "NOT_DURABLE"
    assert "called directly" in str(caught.value)
    assert "ctx.step(charge" in caught.value.hint
    assert calls == []


def _line(number: int) -> str:
    with open(__file__, encoding="utf-8") as source:
        return source.readlines()[number - 1]


@workflow
async def right(ctx: Context) -> list[str]:
    return [
        await ctx.step(charge, 1),
        await ctx.step(charge_later, 2),
        *await ctx.map(charge, [3]),
        await ctx.step(lambda: charge(4)),
        await ctx.step(nested, 5),
    ]


@workflow
def right_plain(ctx: SyncContext) -> list[str]:
    return [ctx.step(charge, 1), ctx.step(charge_later, 2), ctx.step(nested, 3)]


@step
async def nested(cents: int) -> str:
    awaited: Awaitable[str] = charge_later(cents)
    return await awaited


@dataclass
class Receipts:
    kept: list[str] = field(default_factory=list)


class Till(Machine[Receipts]):
    """A transition's code is repeated until it has succeeded once, as a step's is."""

    ends = frozenset({"done"})

    @transition("start", "paid")
    async def pay(self, ctx: Context, cents: int) -> None:
        self.state.kept.append(charge(cents))
        self.state.kept.append(await charge_later(cents))

    @transition("paid", "done")
    def close(self) -> None:
        self.state.kept.append(charge(1))


@pytest.mark.req("F13", "M1")
async def test_in_a_step_a_transition_or_outside_it_is_a_plain_function(engines: Engines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert charge(1) == "receipt"
        assert await charge_later(1) == "receipt"
        async with engines.new(right, right_plain, Till) as engine:
            assert await engine.run(right, None) == ["receipt"] * 5
            assert await engine.run(right_plain, None) == ["receipt"] * 3
            assert (await engine.run(Till, 7)).kept == ["receipt"] * 3


@pytest.mark.req("F13")
async def test_a_word_that_the_setting_does_not_know_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match=re.escape("direct_calls is 'raise'")):
        Settings(direct_calls="raise")  # type: ignore[arg-type]  # that is the point

    assert Settings.from_env({"STEPWELL_DIRECT_CALLS": "error"}).direct_calls == "error"
