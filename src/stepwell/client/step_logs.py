"""The logs of steps, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from stepwell.domain.ids import RunId
from stepwell.domain.step_log import LogLine, LogLineRow, Stream
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import InvalidInput, StoreUnusable
from stepwell.store.base import StepLogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLogLine:
    """One line that the code of a step logged or printed.

    `stream` is log, stdout or stderr; `level` and `logger` are those of `logging`, and '' for printed lines.
    `n` counts the lines of the run: give the last one you read as `after` to continue there.
    """

    n: int
    at: datetime
    path: str
    attempt: int
    stream: Stream
    level: str
    logger: str
    text: str


async def read_lines(
    store: StepLogStore, run_id: RunId, path: str, *, attempt: int, after: int, limit: int
) -> Sequence[StepLogLine]:
    """Return the next lines of a run, or of one of its steps."""
    checked_text(path, "path")
    whole_number(attempt, "attempt", 0, 2**31 - 1, "attempts count from 1; 0 means all", wrong=InvalidInput)
    whole_number(after, "after", 0, 2**53, "give the n of the last line you have read", wrong=InvalidInput)
    whole_number(limit, "limit", 1, 10_000, "give the lines of one page", wrong=InvalidInput)
    if attempt and not path:
        raise InvalidInput(
            "attempt is given without path", hint="give the path of the step too", field="path"
        )
    rows = await store.read_log_lines(run_id, path=path, attempt=attempt, after=after, limit=limit)
    return [_readable(row, run_id) for row in rows]


def _readable(row: LogLineRow, run_id: RunId) -> StepLogLine:
    try:
        line = msgspec.json.decode(row.payload, type=LogLine)
    except msgspec.DecodeError as error:
        raise StoreUnusable(
            f"line {row.n} of a step's log cannot be read: {error}",
            hint="restore it from a backup",
            run=run_id,
        ) from None
    return StepLogLine(
        n=row.n,
        at=datetime.fromtimestamp(row.at, tz=UTC),
        path=row.path,
        attempt=row.attempt,
        stream=line.stream,
        level=line.level,
        logger=line.logger,
        text=line.text,
    )
