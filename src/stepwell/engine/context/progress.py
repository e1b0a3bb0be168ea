"""Progress: what workflow code tells of it, checked: the log must be readable for ever."""

from __future__ import annotations

import math

from stepwell.domain.events import Progress
from stepwell.domain.text import clean
from stepwell.errors import InvalidInput, excerpt


def progress_of(done: object, total: object, text: object) -> Progress:
    if not isinstance(text, str):
        raise InvalidInput(f"text of ctx.progress is {excerpt(text)}", hint="give text", field="text")
    return Progress(
        done=_number(done, "done"),
        total=None if total is None else _number(total, "total"),
        text=clean(text),
    )


def _number(value: object, field: str) -> float:
    """JSON has no NaN and no infinity, and what is no number could not be read back."""
    if isinstance(value, int | float):
        try:
            if math.isfinite(value):
                return value
        except OverflowError:  # an int that no float can hold
            pass
    raise InvalidInput(
        f"{field} of ctx.progress is no number that can be kept",
        hint="give finite numbers: ctx.progress(47, 312)",
        field=field,
        type=type(value).__name__,
    )
