"""RunEvent: an event of a log, decoded for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from stepwell.domain.commit import LogRow
from stepwell.domain.damage import damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event of a log, with its time and payload decoded."""

    seq: int
    at: datetime
    kind: str
    path: str
    attempt: int
    data: dict[str, Any]


def readable(row: LogRow, run: str = "") -> RunEvent:
    try:
        data = msgspec.json.decode(row.payload)
    except msgspec.DecodeError as error:
        raise damaged(row, error, run) from None
    return RunEvent(
        seq=row.seq,
        at=datetime.fromtimestamp(row.at, tz=UTC),
        kind=row.kind,
        path=row.path,
        attempt=row.attempt,
        data=data,
    )
