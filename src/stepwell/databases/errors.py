"""QueryError: why a query has no result. Its codes are data: graphs route by them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepwell.domain.codec import PAYLOAD_BYTES_MAX
from stepwell.errors import StepwellError


class QueryError(StepwellError):
    """A query that gave no result."""

    code = "SQL_ERROR"

    def __init__(
        self, code: str, message: str, *, hint: str = "", permanent: bool = True, **context: object
    ) -> None:
        super().__init__(message, hint=hint, **context)
        self.code = code  # type: ignore[misc]  # data, not a class
        self.permanent = permanent  # another attempt cannot help


def too_many_rows(most: int) -> QueryError:
    return QueryError(
        "RESULT_TOO_LARGE", f"there are more than {most:,} rows", hint="add LIMIT, or raise maxRows"
    )


class ResultSize:
    """Counts what a result holds, so that a result too large to record does not fill the memory."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, row: Iterable[Any]) -> None:
        """Count the texts, binary values and JSON of a row. QueryError if all rows have too many."""
        self._bytes += sum(map(_size, row))
        if self._bytes > PAYLOAD_BYTES_MAX:
            raise too_many_bytes()

    def rows_at_once(self, count: int, most: int) -> int:
        """How many more rows to hold before they are counted, if they are like the `count` before them."""
        return max(1, min(most, PAYLOAD_BYTES_MAX * count // max(1, self._bytes)))


def _size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return len(repr(value)) if isinstance(value, dict | list) else 0


def too_many_bytes() -> QueryError:
    return QueryError(
        "RESULT_TOO_LARGE",
        f"the rows have more than {PAYLOAD_BYTES_MAX:,} bytes",
        hint="select fewer columns or rows, or a part of a large value",
    )


def check_columns(names: list[str]) -> None:
    """Refuse two columns with one name: a row is an object and would lose one of them."""
    if len(set(names)) < len(names):
        raise QueryError("SQL_TYPE", "two columns have the same name", hint="name them: SELECT a AS first")
