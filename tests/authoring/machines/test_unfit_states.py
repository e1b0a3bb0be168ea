"""A transition that leaves a state which is none: it fails, and says whose state it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Context, Machine, RunFailed, run_stateless, transition


@dataclass
class Order:
    amount: int = 0


class Unfit(Machine[Order]):
    @transition("start", "end")
    async def go(self, ctx: Context, left: Any) -> None:
        self.state = left


class UnfitInThread(Machine[Order]):
    @transition("start", "end")
    def go(self, ctx: Any, left: Any) -> None:
        self.state = left


@pytest.mark.req("M3")
@pytest.mark.parametrize("machine", [Unfit, UnfitInThread])
async def test_a_state_of_another_type_names_its_transition(machine: type[Machine[Order]]) -> None:
    with pytest.raises(RunFailed, match=r"self\.state after go \(test_unfit_states\.py:\d+\): ") as failed:
        await run_stateless(machine, 5)

    assert failed.value.cause_code in ("INVALID_INPUT", "NOT_SERIALISABLE")
