"""Every error a person can meet, in one tree.

StepwellError                     code, message, hint; the text is the same in Python, CLI, API and Studio
├─ InvalidRequest                 fix the call and ask again; nothing was written
│   ├─ InvalidInput               a value does not fit its type
│   │   └─ NotSerialisable        a value cannot be written as JSON and read back the same
│   ├─ PayloadTooLarge
│   ├─ InvalidDefinition          a workflow or step is declared wrongly
│   ├─ BadExpression              an expression or template cannot be read; names the column
│   ├─ NoWayOut                   no transition of a machine can leave the place where it is
│   ├─ UnknownWorkflow
│   ├─ RunNotFound
│   ├─ StepNotFound
│   ├─ DocumentNotFound
│   ├─ InvalidFile                no exported run, or one that this version cannot read
│   ├─ SettingsInvalid
│   ├─ NotAssigned                a decision by somebody who was not asked
│   ├─ StatelessWait              a run without a store waits for a message
│   └─ NotDurable                 workflow code awaits something that no replay can repeat
├─ Conflict                       the run is not in a state that allows this
│   ├─ KeyConflict                same idempotency key, other input
│   ├─ RunEnded                   a signal or decision for a finished run
│   ├─ AlreadyDecided             the wait is closed, or somebody answered it before
│   ├─ WrongPlace                 a trigger that does not fit the place where the machine is
│   ├─ NotRetryable
│   ├─ NotCompensable             nothing can be undone: it was, or there is nothing
│   ├─ NotForkable                no new run can begin at that place of the log
│   ├─ NotRemovable               the run, or one below it, has not ended
│   ├─ RunExists                  an imported run is there already
│   ├─ SignalLimit
│   └─ CodeChanged                the log does not fit the code any more
├─ RateLimited                    too many starts; none was made, try again after a while
├─ RunError                       the run went wrong; raised by result()
│   ├─ RunFailed · RunCancelled · RunTimedOut
├─ StepError                      a step failed for good; raised by ctx.step, carries the cause
│   ├─ StepTimedOut
│   │   └─ TransitionTimedOut     of a machine
│   ├─ CompensationFailed
│   ├─ StepNotBegun               a remote step that no worker could take up
│   └─ ChildFailed
├─ ExpressionError                an expression has no value for this data
├─ WaitTimedOut                   a signal, event or approval did not come in time
├─ NotEndedYet                    whoever waited for a run's end gave up; the run goes on
├─ Exited                         the code of a step or workflow called sys.exit()
├─ WorkerBroken                   the engine's own fault: its worker stopped, the runs are safe
└─ StoreError                     the database is the trouble
    ├─ StoreUnavailable           try again: nothing is known to be lost
    │   └─ StoreLocked            a process holds the file of SQLite; the error names it
    ├─ StoreUnusable              corrupt, newer, read-only: a person must act
    │   ├─ KeyMissing             encrypted or compressed, and opened without its codec or with another key
    │   └─ LogDamaged             a row of a run's log cannot be read; names the run and the event
    └─ OutcomeUnknown             sent, not answered; ask again with the same key

Permanent, RetryAfter             what authors raise in a step: never again · again after a while

DirectStepCall (UserWarning)      a step was called without ctx.step; an error with Settings.direct_calls

Unwind (BaseException)            control flow of the engine; `except Exception` cannot swallow it
├─ Suspended · OwnershipLost · Continue · TransitionStopped
└─ RunCancelling                  also an asyncio.CancelledError: workflow code may clean up behind it
"""

from __future__ import annotations

from typing import ClassVar

# Excerpts: what an error repeats of a value that somebody gave


LENGTH_MAX = 200  # characters
_CUT = "..."


def excerpt(value: object) -> str:
    """The value as Python writes it, if that is short; else its beginning."""
    if isinstance(value, str | bytes | bytearray):
        return shortened(repr(value[:LENGTH_MAX]), cut=len(value) > LENGTH_MAX)
    try:
        return shortened(repr(value))
    except Exception as error:  # nested too deep, or a class of somebody else's that fails at it
        return f"<{type(value).__name__}, which cannot be shown: {type(error).__name__}>"


def shortened(text: str, *, cut: bool = False) -> str:
    """Text as it is, without quotes; `cut`: its end is missing already."""
    cut = cut or len(text) > LENGTH_MAX
    return whole(text[: LENGTH_MAX - len(_CUT)] + _CUT if cut else text)


def whole(text: str) -> str:
    """Text that can be printed: halves of characters (lone surrogates) stand in it as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


# The root


class StepwellError(Exception):
    """Something went wrong in Stepwell."""

    code: ClassVar[str] = "STEPWELL_ERROR"
    hint: str = ""

    def __init__(self, message: str = "", *, hint: str = "", **context: object) -> None:
        self.message = whole(message or (type(self).__doc__ or "").strip())
        if hint:
            self.hint = hint
        self.context = context
        super().__init__(self.message)

    def __str__(self) -> str:
        lines = [f"{self.message} [{self.code}]"]
        lines += [f"  {name:<8} {whole(str(value))}" for name, value in self.context.items()]
        if self.hint:
            lines.append(f"  {'hint':<8} {self.hint}")
        return "\n".join(lines)


# Invalid requests: fix the call and ask again; nothing was written


class InvalidRequest(StepwellError):
    """The request cannot be carried out as it was made."""

    code = "INVALID_REQUEST"


class InvalidInput(InvalidRequest):
    """The value does not fit the declared type."""

    code = "INVALID_INPUT"
    hint = "pass a value of the declared type; nothing was written"


class NotSerialisable(InvalidInput):
    """The value cannot be written as JSON and read back the same."""

    code = "NOT_SERIALISABLE"
    hint = "return JSON values, or annotate the type (pydantic model, dataclass, datetime, tuple[...], ...)"


class PayloadTooLarge(InvalidRequest):
    """The value is larger than the payload limit."""

    code = "PAYLOAD_TOO_LARGE"
    hint = "store large data elsewhere and pass a reference, or raise Settings.payload_bytes_max"


class InvalidDefinition(InvalidRequest):
    """The workflow or step is declared wrongly."""

    code = "INVALID_DEFINITION"


class BadExpression(InvalidRequest):
    """The expression cannot be read."""

    code = "BAD_EXPRESSION"

    def __init__(self, message: str = "", *, hint: str = "", column: int = 1, **context: object) -> None:
        super().__init__(message, hint=hint, column=column, **context)
        self.column = column


class NoWayOut(InvalidRequest):
    """A machine is at a place that none of its transitions can leave now."""

    code = "NO_WAY_OUT"


class UnknownWorkflow(InvalidRequest):
    """No workflow of that name is known."""

    code = "UNKNOWN_WORKFLOW"
    hint = "start a worker that has it once; that makes it known"


class RunNotFound(InvalidRequest):
    """There is no run with that id."""

    code = "RUN_NOT_FOUND"
    hint = "check the id, and that you are connected to the right database"


class StepNotFound(InvalidRequest):
    """The run has no step of that name or path."""

    code = "STEP_NOT_FOUND"
    hint = "look at the paths in the run's log: run.events() or run.checkpoints()"


class DocumentNotFound(InvalidRequest):
    """The run has no such document there."""

    code = "DOCUMENT_NOT_FOUND"
    hint = "a document is visible once the step or transition that saves it has completed"


class InvalidFile(InvalidRequest):
    """The file is no exported run."""

    code = "INVALID_FILE"
    hint = "give a file that export made; nothing was written"


class SettingsInvalid(InvalidRequest):
    """A setting has a value that cannot work."""

    code = "SETTINGS_INVALID"


class NotAssigned(InvalidRequest):
    """That question is for others to decide."""

    code = "NOT_ASSIGNED"


class StatelessWait(InvalidRequest):
    """A stateless run waits for something that nobody can send."""

    code = "STATELESS_WAIT"
    hint = "give the answer along: run_stateless(..., signals={name: payload}), or run it on an Engine"


class NotDurable(InvalidRequest):
    """Workflow code awaited something that a replay cannot repeat."""

    code = "NOT_DURABLE"


# Conflicts: the run, or the moment, does not allow what was asked


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


# What goes wrong in runs and their steps, and what authors raise there


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


# The database is the trouble


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


# Control flow of the engine; `except Exception` cannot swallow it


class Unwind(BaseException):
    """Leaves workflow code without being an error of it."""


class Suspended(Unwind):
    """The run waits; its code is left and will be replayed when something happens."""


class OwnershipLost(Unwind):
    """Another worker owns the run now; nothing done here counts any more."""


class RunCancelling(Unwind):
    """Somebody asked to cancel the run: clean up in `except CancelledError` or `finally` and let it pass."""


class TransitionStopped(Unwind):
    """A machine's transition failed for good and has nowhere else to go; `problem` is its record."""

    def __init__(self, problem: object) -> None:
        super().__init__()
        self.problem = problem


class Continue(Unwind):
    """The run goes on as a new generation with a fresh log."""

    def __init__(self, input: bytes) -> None:
        super().__init__()
        self.input = input
