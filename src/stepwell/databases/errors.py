"""QueryError: why a query has no result. Its codes are data: graphs route by them."""

from __future__ import annotations

from stepwell.errors import StepwellError


class QueryError(StepwellError):
    """A query did not give a result."""

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


def check_columns(names: list[str]) -> None:
    """Refuse two columns of one name: a row is an object, and one of them would be lost."""
    if len(set(names)) < len(names):
        raise QueryError("SQL_TYPE", "two columns have the same name", hint="name them: SELECT a AS first")
