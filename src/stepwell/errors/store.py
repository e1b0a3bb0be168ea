"""The database is the trouble."""

from __future__ import annotations

from stepwell.errors.root import StepwellError


class StoreError(StepwellError):
    """The database is in trouble."""

    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    """The database cannot be reached."""

    code = "STORE_UNAVAILABLE"
    hint = "check the address and that the server is up; an engine that is open tries again by itself"


class StoreLocked(StoreUnavailable):
    """Another process keeps the database file locked."""

    code = "STORE_LOCKED"
    hint = "end the process that holds the lock, or wait for it; nothing was written, so ask again"


class StoreUnusable(StoreError):
    """The database is there but cannot be used."""

    code = "STORE_UNUSABLE"


class OutcomeUnknown(StoreError):
    """The database did not answer: the write may or may not have happened."""

    code = "OUTCOME_UNKNOWN"
    hint = "ask again with the same key: what was written is recognised"
