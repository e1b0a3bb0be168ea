"""Errors: what an error of the driver means for the sender of the statement.

The driver's errors are translated here and nowhere else.
"""

from __future__ import annotations

from enum import Enum, auto

import asyncpg

from stepwell.errors import StepwellError, StoreError, StoreUnavailable, StoreUnusable


class FaultKind(Enum):
    BROKEN = auto()  # the connection is gone: whether the statement took effect is unknown
    AGAIN = auto()  # lost to other transactions: nothing was written, send it again
    REFUSED = auto()  # a value that the database cannot hold: nothing was written
    OTHER = auto()


class Refused(Exception):
    """The database refused a value of this batch; nothing was written."""


# 40P01 deadlock, 40001 serialisation, 55P03 lock not available
_AGAIN = frozenset({"40P01", "40001", "55P03"})
_FULL = "53300"  # too many connections
# 57P01-57P05 the server ends the session or starts up, 25P03 it ended an idle transaction,
# 25006 read-only: after a failover this is the old primary
_BROKEN = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25006", _FULL})
# 26000 a prepared statement is missing, 42P05 it exists already: another client's session answered
_NOT_OURS = frozenset({"26000", "42P05"})
_REFUSED_CLASSES = ("22", "23", "54")
# 28 authentication, 3D no such database, 3F no such schema, 42 permission and missing tables
_UNUSABLE_CLASSES = ("28", "3D", "3F", "42", "0A")


def state(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def is_full(error: StepwellError) -> bool:
    """True if the server refused one more connection; existing ones keep working."""
    return error.__cause__ is not None and state(error.__cause__) == _FULL


def fault_kind(error: Exception) -> FaultKind:
    code = state(error)
    if code in _AGAIN:
        return FaultKind.AGAIN
    if code in _BROKEN or code.startswith("08"):
        return FaultKind.BROKEN
    if code.startswith(_REFUSED_CLASSES):
        return FaultKind.REFUSED
    # After our own timeout the driver still waits for an answer: the connection cannot be used again.
    if isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return FaultKind.BROKEN
    return FaultKind.OTHER


def pooled(why: str, redacted: str) -> StoreUnusable:
    return StoreUnusable(
        f"there is a pooler such as PgBouncer in front of PostgreSQL: {why}",
        hint="add ?poll_only=1 to the address (&poll_only=1 after other options), or connect to PostgreSQL "
        "directly",
        database=redacted,
    )


def translated(error: Exception, redacted: str) -> StepwellError:
    """Translate a driver's error into one of ours."""
    if isinstance(error, StepwellError):
        return error
    code = state(error)
    text = str(error) or type(error).__name__
    if "unsupported startup parameter" in text or code in _NOT_OURS:
        return pooled(text, redacted)
    if code.startswith("28"):
        return StoreUnusable(
            f"PostgreSQL refused the login: {text}",
            hint="check the user and password in the URL",
            database=redacted,
        )
    if code == "3D000":
        return StoreUnusable(f"{text}", hint="create it first: createdb ...", database=redacted)
    if code == "42501":
        return StoreUnusable(
            f"PostgreSQL refused: {text}",
            hint="the role needs CREATE on the database the first time, later the schema and its tables",
            database=redacted,
        )
    if code.startswith(_UNUSABLE_CLASSES):
        return StoreUnusable(f"PostgreSQL refused: {text}", database=redacted)
    if code == _FULL:
        return StoreUnavailable(
            f"PostgreSQL has no connection left: {text}",
            hint="raise max_connections (an engine needs one and uses up to 14, plus 4 for transactional "
            "steps), or put PgBouncer in front of it (?poll_only=1); an open engine tries again by itself",
            database=redacted,
        )
    if fault_kind(error) is FaultKind.BROKEN or code.startswith(("53", "57", "58")):
        return StoreUnavailable(f"PostgreSQL does not answer: {text}", database=redacted)
    return StoreError(f"PostgreSQL: {text}", database=redacted)
