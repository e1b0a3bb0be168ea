"""What goes wrong in runs and their steps, and what authors raise there."""

from __future__ import annotations

from stepwell.errors.excerpt import excerpt
from stepwell.errors.root import StepwellError


class RunError(StepwellError):
    """The run did not complete."""

    code = "RUN_ERROR"

    def __init__(self, message: str = "", *, hint: str = "", cause_code: str = "", **context: object) -> None:
        super().__init__(message, hint=hint, **context)
        self.cause_code = cause_code
        self.trace = ""  # the lines of the author's code that led there


class RunFailed(RunError):
    """The run failed."""

    code = "RUN_FAILED"


class RunCancelled(RunError):
    """The run was cancelled."""

    code = "RUN_CANCELLED"


class RunTimedOut(RunError):
    """The run took longer than it may."""

    code = "RUN_TIMED_OUT"


class StepError(StepwellError):
    """The step failed and will not be tried again."""

    code = "STEP_FAILED"

    def __init__(
        self, message: str = "", *, hint: str = "", path: str = "", error_type: str = "", **context: object
    ) -> None:
        super().__init__(message, hint=hint, **context)
        self.path = path
        self.error_type = error_type
        self.permanent = False  # the step raised Permanent: trying again cannot help
        self.cause_code = ""  # of the error that it failed with
        self.cause_message = ""
        self.trace = ""  # the lines of the step's code that led there


class DirectStepCall(UserWarning):
    """A step was called in workflow code without ctx.step: it is done again at every replay."""


class StepTimedOut(StepError, TimeoutError):
    """The step took longer than its timeout."""

    code = "STEP_TIMED_OUT"
    hint = "give it more time with @step(timeout=...), or timeout=None to wait for ever"


class TransitionTimedOut(StepTimedOut):
    """An attempt of the transition took longer than its timeout."""

    code = "TRANSITION_TIMED_OUT"
    hint = "give it more time with @transition(timeout=...), or timeout=None to wait for ever"


class CompensationFailed(StepError):
    """What a step did could not be undone."""

    code = "COMPENSATION_FAILED"
    hint = "look at the compensation's error in the log and undo it by hand"


class StepNotBegun(StepError):
    """The worker that took a remote step could not begin it."""

    code = "STEP_NOT_BEGUN"


class ChildFailed(StepError):
    """The child run did not complete."""

    code = "CHILD_FAILED"


class ExpressionError(StepwellError):
    """The expression has no value for this data."""

    code = "EXPRESSION_ERROR"

    def __init__(
        self, message: str = "", *, hint: str = "", column: int = 0, path: str = "", **context: object
    ) -> None:
        super().__init__(message, hint=hint, column=column, **context)
        self.column = column
        self.path = path  # up to the first part that is missing


class WaitTimedOut(StepwellError, TimeoutError):
    """What the run waited for did not come in time."""

    code = "WAIT_TIMED_OUT"
    path = ""  # of the wait


class NotEndedYet(StepwellError, TimeoutError):
    """The run did not end in the time that the caller waited; it goes on."""

    code = "NOT_ENDED_YET"
    hint = "ask again later; run.why() says what it waits for"


class Exited(StepwellError):
    """The code of a step or workflow called sys.exit()."""

    code = "EXITED"
    hint = "raise an error, or return: sys.exit() fails the attempt, the worker goes on"


class WorkerBroken(StepwellError):
    """The worker of this process stopped because of a fault in the engine; nothing is lost."""

    code = "WORKER_BROKEN"
    hint = "open the engine again or start another worker: runs go on where they stopped; report the cause"


class Permanent(Exception):
    """Raise this in a step when trying again cannot help; it is never retried."""


_RETRY_AFTER_MAX = 100 * 366 * 86400.0  # seconds, as of every duration


class RetryAfter(Exception):
    """Raise this in a step to be tried again after `seconds`, whatever the backoff says."""

    def __init__(self, seconds: float, message: str = "") -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(f"RetryAfter takes seconds, not {excerpt(seconds)}: RetryAfter(30)")
        if not seconds <= _RETRY_AFTER_MAX:  # nor NaN: the run would wait for ever
            raise ValueError(f"RetryAfter takes at most 100 years, not {seconds:g} s: RetryAfter(30)")
        super().__init__(message or f"try again in {seconds:g} s")
        self.seconds = seconds
