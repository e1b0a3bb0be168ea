"""Conflicts: the run, or the moment, does not allow what was asked."""

from __future__ import annotations

from stepwell.errors.root import StepwellError


class Conflict(StepwellError):
    """The run is not in a state that allows this."""

    code = "CONFLICT"


class KeyConflict(Conflict):
    """This idempotency key belongs to a run with another input."""

    code = "KEY_CONFLICT"
    hint = "use a new key for a new request, or the same input to get the same run"


class RunEnded(Conflict):
    """The run has already ended."""

    code = "RUN_FINISHED"
    hint = "read its result; a new run needs a new key"


class AlreadyDecided(Conflict):
    """That question is not open: it was answered, withdrawn or timed out."""

    code = "ALREADY_DECIDED"
    hint = "read the run's open waits; a decision answers exactly one of them"


class WrongPlace(Conflict):
    """The machine is at a place that this trigger does not fit."""

    code = "WRONG_PLACE"


class NotRetryable(Conflict):
    """Only a run that failed or timed out can be retried."""

    code = "NOT_RETRYABLE"


class NotCompensable(Conflict):
    """Only a run that failed or timed out and kept what it did can be undone."""

    code = "NOT_COMPENSABLE"


class NotForkable(Conflict):
    """No new run can begin at that place of the log."""

    code = "NOT_FORKABLE"


class NotRemovable(Conflict):
    """Only a run that has ended, with all runs below it, can be deleted."""

    code = "NOT_REMOVABLE"


class RunExists(Conflict):
    """A run of that id is there already."""

    code = "RUN_EXISTS"
    hint = "delete it first, or import into another database; nothing was imported"


class SignalLimit(Conflict):
    """The run has too many signals that it has not taken yet."""

    code = "SIGNAL_LIMIT"


DIFFERS = (
    "if it did not change, it depends on a clock, on chance or on the order of a set: instead of time, "
    "datetime.now, random or uuid4 use ctx.now(), ctx.random(), ctx.uuid(), or a step"
)


class CodeChanged(Conflict):
    """The workflow's code no longer asks for what the log has recorded."""

    code = "CODE_CHANGED"
    hint = (
        f'keep the old version importable, or guard the change: if ctx.patched("my-change"): ...; {DIFFERS}'
    )


class RateLimited(StepwellError):
    """Too many runs are being started; none was started now."""

    code = "RATE_LIMITED"
    hint = "try again after `retry_after` seconds"

    def __init__(self, message: str = "", *, retry_after: float, hint: str = "", **context: object) -> None:
        super().__init__(message, hint=hint, **context)
        self.retry_after = retry_after
