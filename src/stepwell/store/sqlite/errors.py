"""Errors: what SQLite's errors mean for the caller. They are translated here and nowhere else."""

from __future__ import annotations

import apsw

from stepwell.errors import InvalidInput, PayloadTooLarge, StepwellError, StoreUnavailable, StoreUnusable

# A value that this database cannot hold: wrong type, lone surrogate, too large, an existing key.
BAD_VALUE = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.RangeError,
    TypeError,
    ValueError,  # also UnicodeEncodeError
    OverflowError,
)
_BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)
_HINTS: dict[type[Exception], str] = {
    apsw.FullError: "the disk is full: free space and Stepwell continues by itself; nothing was half-written",
    apsw.IOError: "the disk reports errors: look into the system log; nothing was half-written",
    apsw.BusyError: "another process has held the write lock for very long; find it and end its transaction",
    apsw.ReadOnlyError: "make the file and its directory writable for this user",
    apsw.CantOpenError: "the file or its directory can no longer be written; was it moved or deleted?",
}


def translated(error: BaseException, path: str) -> BaseException:
    """Translate an error of the database; others are returned unchanged."""
    if isinstance(error, StepwellError):
        return error
    if isinstance(error, apsw.TooBigError):
        return PayloadTooLarge(str(error))
    if isinstance(error, _BROKEN):
        return StoreUnusable(
            f"the database is damaged: {error}",
            hint="restore a backup, or save what can be read with the sqlite3 command .recover",
            path=path,
        )
    if isinstance(error, BAD_VALUE):
        return InvalidInput(f"the database cannot hold this value: {error}")
    if isinstance(error, apsw.Error):
        hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), "")
        return StoreUnavailable(f"the database failed: {error}", hint=hint, path=path)
    return error
