"""Usage: the tokens and cost of steps, and the progress of a run, as its row shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import InvalidInput, excerpt

TOKENS_MAX = 10**12  # for one step; sums stay far below what a database can hold


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt of a step used, or the sum over all of them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
        )

    def __bool__(self) -> bool:
        return bool(self.input_tokens or self.output_tokens or self.cost)


NOTHING_USED = Usage()


def checked_usage(input_tokens: object, output_tokens: object, cost: object) -> Usage:
    hint = "give the number of tokens, 0 or more"
    for name, value in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
        whole_number(value, name, 0, TOKENS_MAX, hint, wrong=InvalidInput)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not math.isfinite(cost) or cost < 0:
        raise InvalidInput(f"the cost is {excerpt(cost)}", hint="give a number, 0 or more", field="cost")
    assert isinstance(input_tokens, int)
    assert isinstance(output_tokens, int)
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost=float(cost))


class Mark(NamedTuple):
    """How far a run is: `done` of `total`, which may be unknown."""

    done: float
    total: float | None


class Figures(NamedTuple):
    """What a commit adds to the row of its run; `shows` if there is a new mark."""

    run_id: str
    shows: bool
    done: float | None
    total: float | None
    input_tokens: int
    output_tokens: int
    cost: float


def figures_of(run_id: str, used: Sequence[Usage], marks: Sequence[Mark]) -> Figures:
    """Return the sum of what was used, and the last mark."""
    total = NOTHING_USED
    for usage in used:
        total = total.plus(usage)
    done, of = marks[-1] if marks else (None, None)
    return Figures(run_id, bool(marks), done, of, total.input_tokens, total.output_tokens, total.cost)
