"""RunEvent: an event of a log, decoded for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from stepwell.domain.commit import LogRow
from stepwell.domain.damage import damaged
from stepwell.domain.event_types import event_type


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event of a log, with its time and decoded payload.

    The start of a node of a graph has the seq of the fact that caused it, and follows that fact.
    """

    seq: int
    at: datetime
    kind: str  # the fact that the engine recorded
    type: str  # what it means, in words for all styles: docs/events.md
    path: str
    attempt: int
    data: dict[str, Any]


def readable(row: LogRow, run: str = "") -> list[RunEvent]:
    """Return the event of a row, followed by the starts of the nodes that it caused."""
    try:
        data = msgspec.json.decode(row.payload)
    except msgspec.DecodeError as error:
        raise damaged(row, error, run) from None
    at = datetime.fromtimestamp(row.at, tz=UTC)
    starts = data.pop("starts", ())
    event = RunEvent(
        seq=row.seq,
        at=at,
        kind=row.kind,
        type=event_type(row.kind, row.path, data),
        path=row.path,
        attempt=row.attempt,
        data=data,
    )
    return [
        event,
        *(
            RunEvent(
                seq=row.seq, at=at, kind="node_started", type="node_started", path=path, attempt=0, data={}
            )
            for path in starts
        ),
    ]
