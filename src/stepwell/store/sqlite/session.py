"""Session: the statements of one connection by name, and the time of the current transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from stepwell.store import queries

FILES = (
    *("writer", "starts", "commits", "cancel_retry", "messages", "claims", "workers"),
    *("reads", "definitions", "archive", "limits", "rates", "access", "step_logs", "holds", "search"),
    *("secrets", "triggers", "records", "notifications", "maintenance"),
)
QUERIES = queries.load("stepwell.store.sqlite", *FILES)
STATEMENTS_CACHED = 200  # all of ours stay prepared, with room for those of transactional steps

Values = Sequence[Any] | dict[str, Any]
Row = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode


class Session:
    """Used by one thread."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.now = 0.0  # the same for the whole transaction

    def run(self, name: str, *values: Any) -> None:
        self.connection.execute(QUERIES[name], values)

    def many(self, name: str, rows: Iterable[Values]) -> None:
        self.connection.executemany(QUERIES[name], rows)

    def rows(self, name: str, *values: Any) -> list[Row]:
        rows: list[Row] = self.connection.execute(QUERIES[name], values).fetchall()
        return rows

    def rows_named(self, name: str, values: dict[str, Any]) -> list[Row]:
        rows: list[Row] = self.connection.execute(QUERIES[name], values).fetchall()
        return rows

    def row(self, name: str, *values: Any) -> Row | None:
        rows = self.rows(name, *values)
        return rows[0] if rows else None


def as_list(values: object) -> str:
    """Encode many values as one parameter."""
    return _encode(values).decode()
