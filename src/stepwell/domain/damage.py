"""Damage: the error for a row of a log that cannot be read."""

from __future__ import annotations

from stepwell.domain.commit import LogRow
from stepwell.errors import LogDamaged, StepwellError

_WHY_MAX = 200  # characters of what a decoder says


def damaged(row: LogRow, error: Exception, run: str = "", *, known: bool = True) -> LogDamaged:
    """`error` was raised by reading the row; `known`: this version has a fact of that kind."""
    where = f"event {row.seq} ({row.kind[:_WHY_MAX]})" + (f" of run {run}" if run else "")
    if not known:
        return LogDamaged(
            f"{where} has a kind that this version of Stepwell does not know",
            hint="a newer version wrote it: upgrade Stepwell here",
            run=run,
            seq=row.seq,
        )
    why = error.message if isinstance(error, StepwellError) else str(error)
    return LogDamaged(f"{where} cannot be read: {why[:_WHY_MAX]}", run=run, seq=row.seq)
