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


class KeyMissing(StoreUnusable):
    """The database is encrypted or compressed, and this process does not have the codec that reads it."""

    code = "KEY_MISSING"
    hint = (
        "give the codec that its workers have: codec=Encryption({name: key}, current=name) to Engine or "
        "SyncClient, STEPWELL_ENCRYPTION_KEY=name:base64 or --codec MODULE:NAME to the command line"
    )


class LogDamaged(StoreUnusable):
    """A row of a run's log cannot be read."""

    code = "LOG_DAMAGED"
    hint = "restore the row from a backup, then run.retry(); or fork the run before that event"

    def __init__(
        self, message: str = "", *, hint: str = "", run: str = "", seq: int = 0, **context: object
    ) -> None:
        where: dict[str, object] = {"run": run} if run else {}
        context = where | {"seq": seq} | context
        super().__init__(message, hint=hint, **context)
        self.run = run
        self.seq = seq


class OutcomeUnknown(StoreError):
    """The database did not answer: the write may or may not have happened."""

    code = "OUTCOME_UNKNOWN"
    hint = "ask again with the same key: what was written is recognised"
