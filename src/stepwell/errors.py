"""Every error a person can meet, in one tree.

StepwellError                     code, message and hint; the text is the same in Python, CLI and logs
├─ InvalidRequest                 fix the call and try again; nothing was written
│   ├─ InvalidInput               a value does not fit its type
│   │   ├─ NotSerialisable        a value does not survive being written as JSON and read back
│   │   └─ BadCron · BadTimeZone · RecordInvalid
│   ├─ PayloadTooLarge
│   ├─ InvalidDefinition          a workflow or step is declared incorrectly
│   ├─ BadExpression              an expression or template cannot be parsed; names the column
│   ├─ NoWayOut                   no transition of a machine can leave its place
│   ├─ UnknownWorkflow · RunNotFound · StepNotFound · DocumentNotFound · TriggerNotFound
│   ├─ CollectionNotFound · RecordNotFound
│   ├─ InvalidFile                not an exported run, or from a newer version
│   ├─ SearchRefused              the text to search is encrypted
│   ├─ SettingsInvalid
│   ├─ NotAssigned                a decision by somebody who is not an assignee
│   │  └─ StarterBarred           a decision by the one who started the run
│   ├─ Unauthenticated            a server does not know who calls
│   ├─ Forbidden                  the key does not allow this
│   ├─ RequestRefused             refused by a server, with its own code
│   ├─ StatelessWait              a run without a store waits for a message
│   └─ NotDurable                 workflow code awaits something that a replay cannot repeat
├─ Conflict                       the state of the run does not allow this
│   ├─ KeyConflict · MessageConflict    same key or id, different input or message
│   ├─ TriggerExists              a schedule or trigger of that name exists
│   ├─ RecordExists · RecordChanged · RecordLimit · CollectionChanged    of records
│   ├─ RunEnded                   a signal or decision for a run that has ended
│   ├─ AlreadyDecided             the wait is closed, or was answered before
│   ├─ WrongPlace                 a trigger that does not fit the place of the machine
│   ├─ NotRetryable · NotCompensable · NotForkable · NotRemovable
│   ├─ RunExists                  an imported run exists
│   ├─ SignalLimit
│   └─ CodeChanged                the log no longer fits the code
├─ RateLimited                    too many starts; none was made, try again later
├─ RunError                       the run did not complete; raised by result()
│   ├─ RunFailed · RunCancelled · RunTimedOut
│   └─ HistoryLimit               the reason why a run failed whose log grew too long
├─ StepError                      a step failed for good; raised by ctx.step, carries the cause
│   ├─ StepTimedOut
│   │   └─ TransitionTimedOut     of a machine
│   ├─ CompensationFailed
│   ├─ StepNotBegun               a remote step that the worker could not begin
│   └─ ChildFailed
├─ ExpressionError                an expression has no value for this data
├─ WaitTimedOut                   a signal, event or approval did not arrive in time
├─ NotEndedYet                    the caller stopped waiting for the end; the run continues
├─ NotWaitingYet                  the caller stopped waiting for a wait to open; the run continues
├─ Exited                         the code of a step or workflow called sys.exit()
├─ ServerFault                    a server could not answer
├─ WorkerBroken                   a fault in the engine stopped its worker; the runs are safe
└─ StoreError                     a problem with the database
    ├─ StoreUnavailable           try again: nothing is known to be lost
    │   ├─ ServerUnavailable      a server cannot be reached
    │   └─ StoreLocked            a process holds the SQLite file; the error names it
    ├─ StoreUnusable              corrupt, newer, read-only: a person must act
    │   ├─ StoreMoved             moved to another database, or on the way there
    │   ├─ CodecMissing           encrypted or compressed, and opened without its codec or with another key
    │   └─ LogDamaged             a row of a run's log cannot be read; names the run and the event
    └─ OutcomeUnknown             sent but not answered; repeat the call with the same key

Permanent, RetryAfter             raised by authors in a step: never retry · retry after a delay

DirectStepCall (UserWarning)      a step was called without ctx.step; an error with Settings.direct_calls
"""

from __future__ import annotations

from typing import ClassVar

# Excerpts: how much of a value an error repeats


LENGTH_MAX = 200  # characters
_CUT = "..."


def excerpt(value: object) -> str:
    """Return the repr of a value, or its beginning if that is long."""
    if isinstance(value, str | bytes | bytearray):
        return shortened(repr(value[:LENGTH_MAX]), cut=len(value) > LENGTH_MAX)
    try:
        return shortened(repr(value))
    except Exception as error:  # nested too deeply, or a __repr__ that raises
        return f"<{type(value).__name__}, which has no repr: {type(error).__name__}>"


def shortened(text: str, *, cut: bool = False) -> str:
    """Return the text without quotes, cut to LENGTH_MAX; `cut` says that its end is already missing."""
    cut = cut or len(text) > LENGTH_MAX
    return whole(text[: LENGTH_MAX - len(_CUT)] + _CUT if cut else text)


def whole(text: str) -> str:
    """Return text that can be printed: lone surrogates become escapes."""
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
        Exception.__init__(self, self.message)  # not super(): the __init__ of RetryAfter takes seconds

    def __str__(self) -> str:
        lines = [f"{self.message} [{self.code}]"]
        lines += [f"  {name:<8} {whole(str(value))}" for name, value in self.context.items()]
        if self.hint:
            lines.append(f"  {'hint':<8} {self.hint}")
        return "\n".join(lines)


# Invalid requests: fix the call and try again; nothing was written


class InvalidRequest(StepwellError):
    """The request is invalid."""

    code = "INVALID_REQUEST"


class InvalidInput(InvalidRequest):
    """The value does not fit the declared type."""

    code = "INVALID_INPUT"
    hint = "pass a value of the declared type; nothing was written"


class NotSerialisable(InvalidInput):
    """The value does not survive being written as JSON and read back."""

    code = "NOT_SERIALISABLE"
    hint = "return JSON values, or annotate the type (pydantic model, dataclass, datetime, tuple[...], ...)"


class PayloadTooLarge(InvalidRequest):
    """The value is larger than the payload limit."""

    code = "PAYLOAD_TOO_LARGE"
    hint = "store large data elsewhere and pass a reference, or raise Settings.payload_bytes_max"


class InvalidDefinition(InvalidRequest):
    """The workflow or step is declared incorrectly."""

    code = "INVALID_DEFINITION"


class BadExpression(InvalidRequest):
    """The expression cannot be parsed."""

    code = "BAD_EXPRESSION"

    def __init__(self, message: str = "", *, hint: str = "", column: int = 1, **context: object) -> None:
        super().__init__(message, hint=hint, column=column, **context)
        self.column = column


class NoWayOut(InvalidRequest):
    """None of the machine's transitions can leave its current place."""

    code = "NO_WAY_OUT"


class UnknownWorkflow(InvalidRequest):
    """No workflow of that name is known."""

    code = "UNKNOWN_WORKFLOW"
    hint = "start a worker that has the workflow once; that stores its definition"


class RunNotFound(InvalidRequest):
    """There is no run with that id."""

    code = "RUN_NOT_FOUND"
    hint = "check the id, and that you are connected to the right database"


class KeyNotFound(InvalidRequest):
    """There is no key with that id in this workspace."""

    code = "KEY_NOT_FOUND"
    hint = "see the ids: `stepwell keys list`"


class SecretsKeyMissing(InvalidRequest):
    """Secrets are sealed with a key outside the database, and this process does not have it."""

    code = "SECRETS_KEY_MISSING"
    hint = (
        "create one with `openssl rand -base64 32`, and give it to every worker and server as "
        "STEPWELL_SECRETS_KEY, or in a file that STEPWELL_SECRETS_KEY_FILE names"
    )


class SecretUnreadable(InvalidRequest):
    """A step or node names a secret that does not exist, or that this process cannot open."""

    code = "SECRET_UNREADABLE"
    hint = "set the secret, or give this process the key that sealed it"


class SecretCorrupt(SecretUnreadable):
    """A stored secret does not open with its key: it was changed, or the key has another value."""

    code = "SECRET_CORRUPT"
    hint = "give this process the key that sealed it, or set the secret again"


class InvalidSignature(InvalidRequest):
    """The request does not prove that it comes from the sender of this webhook."""

    code = "SIGNATURE"
    hint = "sign the raw bytes of the body with the secret of this webhook"


class InvalidTimestamp(InvalidSignature):
    """The time at which the request was signed is missing, or too far from the current time."""

    code = "TIMESTAMP"
    hint = "send the current time in seconds; it may differ from the server's by the tolerance"


class WorkerNotFound(InvalidRequest):
    """No worker with that id is running."""

    code = "WORKER_NOT_FOUND"
    hint = "list them with `client.workers()`; one that has stopped is gone from there"


class NotDrawn(InvalidRequest):
    """Only graphs and machines are drawn: a function has no shape before it runs."""

    code = "NOT_DRAWN"
    hint = "look at the trace of one of its runs instead"


class StepNotFound(InvalidRequest):
    """The run has no step of that name or path."""

    code = "STEP_NOT_FOUND"
    hint = "see the steps of the run: run.trace(), or `stepwell runs steps RUN`"


class DocumentNotFound(InvalidRequest):
    """The run has no such document at that point."""

    code = "DOCUMENT_NOT_FOUND"
    hint = "a document is visible once the step or transition that saves it has completed"


class InvalidFile(InvalidRequest):
    """The file is not an exported run."""

    code = "INVALID_FILE"
    hint = "give a file written by export; nothing was imported"


class SearchRefused(InvalidRequest):
    """The text to search is encrypted in this database."""

    code = "SEARCH_REFUSED"
    hint = "find the runs by status, workflow, tag, key or time instead"


class BadCron(InvalidInput):
    """The cron fields of a schedule are wrong, or the schedule would never be due."""

    code = "CRON"
    hint = "write minute, hour, day of the month, month, day of the week: 0 2 * * 1-5"


class BadTimeZone(InvalidInput):
    """There is no time zone with that name."""

    code = "TIMEZONE"
    hint = "use a name from the IANA database, such as Europe/Berlin"


class TriggerNotFound(InvalidRequest):
    """There is no schedule or trigger with that name in this workspace."""

    code = "TRIGGER_NOT_FOUND"
    hint = "see the names: `stepwell schedules list`"


class RecursionLimit(InvalidRequest):
    """Runs start one another again and again, by events or by calls over HTTP."""

    code = "RECURSION_LIMIT"
    hint = "a workflow starts itself: stop emitting the event, or calling the server, that starts it"


class CollectionNotFound(InvalidRequest):
    """There is no collection with that name in this workspace."""

    code = "COLLECTION_NOT_FOUND"
    hint = "see the names: `stepwell records list`; define it: `stepwell records define`"


class RecordNotFound(InvalidRequest):
    """The collection has no such record."""

    code = "RECORD_NOT_FOUND"
    hint = "find it by an indexed field; it may have been deleted"


class RecordInvalid(InvalidInput):
    """The record does not fit its collection."""

    code = "RECORD_INVALID"
    hint = "send data that fits the collection's schema; nothing was written"


class SettingsInvalid(InvalidRequest):
    """A setting has an invalid value."""

    code = "SETTINGS_INVALID"


class NotAssigned(InvalidRequest):
    """The caller is not an assignee of this approval."""

    code = "NOT_ASSIGNED"


class StarterBarred(NotAssigned):
    """The person who started this run may not decide its approval."""

    code = "STARTER_BARRED"
    hint = "let somebody else decide it"


class Unauthenticated(InvalidRequest):
    """The server does not know who calls."""

    code = "UNAUTHENTICATED"
    hint = "pass a key that is valid: stepwell.connect(address, key=...), or set STEPWELL_API_KEY"


class Forbidden(InvalidRequest):
    """The key does not allow this."""

    code = "FORBIDDEN"
    hint = "ask an admin for a key with the scope that the message names"


class RequestRefused(InvalidRequest):
    """The server refused the request for a reason of its own; `refusal` is its code."""

    code = "REQUEST_REFUSED"

    def __init__(self, message: str = "", *, hint: str = "", refusal: str = "", **context: object) -> None:
        super().__init__(message, hint=hint, **context)
        self.refusal = refusal
        self.code = refusal or self.code  # type: ignore[misc]  # the code that the server sent


class StatelessWait(InvalidRequest):
    """A stateless run waits for a message that cannot arrive."""

    code = "STATELESS_WAIT"
    hint = "pass the message: run_stateless(..., signals={name: payload}), or run it on an Engine"


class NotDurable(InvalidRequest):
    """Workflow code awaited something that a replay cannot repeat."""

    code = "NOT_DURABLE"


# Conflicts: the state of the run does not allow the request


class Conflict(StepwellError):
    """The state of the run does not allow this."""

    code = "CONFLICT"


class KeyConflict(Conflict):
    """This idempotency key belongs to a run with a different input."""

    code = "KEY_CONFLICT"
    hint = "use a new key for a new request, or the same input to get the same run"


class MessageConflict(Conflict):
    """This id belongs to another message, which the run has taken or will take."""

    code = "MESSAGE_CONFLICT"
    hint = "use a new id for a new message; the first one counts"


class TriggerExists(Conflict):
    """A schedule or trigger with that name exists."""

    code = "TRIGGER_EXISTS"
    hint = "choose another name, or change or delete the one that exists"


class RecordExists(Conflict):
    """The collection has a record with that id or key."""

    code = "RECORD_EXISTS"
    hint = "update the record that exists, or choose another id or key"


class RecordChanged(Conflict):
    """The record does not have the expected version: somebody changed it."""

    code = "RECORD_CHANGED"
    hint = "read the record again, decide again, and update it with its version"


class RecordLimit(Conflict):
    """The workspace or collection has reached its limit of collections or records."""

    code = "RECORD_LIMIT"
    hint = "delete what is no longer needed"


class CollectionChanged(Conflict):
    """The collection is not as expected: somebody changed it, or it has records."""

    code = "COLLECTION_CHANGED"
    hint = "read the collection again, and send its version"


class WorkflowDisabled(Conflict):
    """The workflow is disabled and accepts no new runs."""

    code = "WORKFLOW_DISABLED"
    hint = "enable it: client.enable(name), or `stepwell workflows enable NAME`; its live runs continue"


class RunEnded(Conflict):
    """The run has already ended."""

    code = "RUN_ENDED"
    hint = "read its result; a new run needs a new key"


class AlreadyDecided(Conflict):
    """That wait is not open: it was answered, withdrawn or timed out."""

    code = "ALREADY_DECIDED"
    hint = "read the open waits with run.waits(); a decision answers exactly one of them"


class WrongPlace(Conflict):
    """The trigger does not fit the place where the machine is."""

    code = "WRONG_PLACE"


class NotRetryable(Conflict):
    """Only a run that failed or timed out can be retried."""

    code = "NOT_RETRYABLE"


class NotCompensable(Conflict):
    """Only a failed or timed-out run that kept its completed steps can be compensated."""

    code = "NOT_COMPENSABLE"


class NotForkable(Conflict):
    """A new run cannot begin at that event of the log."""

    code = "NOT_FORKABLE"


class NotHoldable(Conflict):
    """A run that was cancelled and is cleaning up cannot be held."""

    code = "NOT_HOLDABLE"
    hint = "wait for its end; if its cleanup hangs, end it by force: run.cancel(force=True)"


class NotSleeping(Conflict):
    """The run has no such timer."""

    code = "NOT_SLEEPING"
    hint = "list its open waits with run.waits(), and give the path of a timer"


class NotSettable(Conflict):
    """Variables can only be set in a graph run that waits or is held."""

    code = "NOT_SETTABLE"
    hint = "wait until it is suspended, or hold it first: run.hold()"


class NotSkippable(Conflict):
    """Only the step that failed a run can be skipped."""

    code = "NOT_SKIPPABLE"
    hint = "retry the run, or rerun or fork it instead"


class NotRemovable(Conflict):
    """A run can be deleted only after it and all runs below it have ended."""

    code = "NOT_REMOVABLE"


class RunExists(Conflict):
    """A run with that id exists."""

    code = "RUN_EXISTS"
    hint = "delete it first, or import into another database; nothing was imported"


class SignalLimit(Conflict):
    """Too many signals are waiting for the run."""

    code = "SIGNAL_LIMIT"


DIFFERS = (
    "if the code did not change, it depends on a clock, on randomness or on the order of a set: instead of "
    "time, datetime.now, random or uuid4 use ctx.now(), ctx.random(), ctx.uuid(), or a step"
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


# Failures of runs and steps, and exceptions for authors to raise


class RunError(StepwellError):
    """The run did not complete."""

    code = "RUN_ERROR"

    def __init__(self, message: str = "", *, hint: str = "", cause_code: str = "", **context: object) -> None:
        super().__init__(message, hint=hint, **context)
        self.cause_code = cause_code
        self.trace = ""  # the lines of user code that led to the error


class RunFailed(RunError):
    """The run failed."""

    code = "RUN_FAILED"


class RunCancelled(RunError):
    """The run was cancelled."""

    code = "RUN_CANCELLED"


class RunTimedOut(RunError):
    """The run exceeded its timeout."""

    code = "RUN_TIMED_OUT"


class HistoryLimit(RunError):
    """The log of the run has grown too long."""

    code = "HISTORY_LIMIT"
    hint = (
        "call ctx.continue_as_new(...) before it does: the run goes on with an empty history; "
        "or start a child run for each part, or raise history_max"
    )


class StepError(StepwellError):
    """The step failed and will not be retried."""

    code = "STEP_FAILED"

    def __init__(
        self, message: str = "", *, hint: str = "", path: str = "", error_type: str = "", **context: object
    ) -> None:
        super().__init__(message, hint=hint, **context)
        self.path = path
        self.error_type = error_type
        self.permanent = False  # the step raised Permanent: a retry cannot help
        self.cause_code = ""  # code of the underlying error
        self.cause_message = ""
        self.trace = ""  # the lines of the step that led to the error


class DirectStepCall(UserWarning):
    """A step was called in workflow code without ctx.step: every replay executes it again."""


class StepTimedOut(StepError, TimeoutError):
    """The step exceeded its timeout."""

    code = "STEP_TIMED_OUT"
    hint = "give it more time with @step(timeout=...), or timeout=None to wait forever"


class TransitionTimedOut(StepTimedOut):
    """An attempt of the transition exceeded its timeout."""

    code = "TRANSITION_TIMED_OUT"
    hint = "give it more time with @transition(timeout=...), or timeout=None to wait forever"


class CompensationFailed(StepError):
    """A completed step could not be undone."""

    code = "COMPENSATION_FAILED"
    hint = "see the error of the compensation in the log, and undo the step by hand"


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
        self.path = path  # up to the first missing part


class WaitTimedOut(StepwellError, TimeoutError):
    """What the run waited for did not arrive in time."""

    code = "WAIT_TIMED_OUT"
    path = ""  # of the wait


class NotEndedYet(StepwellError, TimeoutError):
    """The run did not end while the caller waited; it continues."""

    code = "NOT_ENDED_YET"
    hint = "try again later; run.why() says what the run waits for"


class NotWaitingYet(StepwellError, TimeoutError):
    """The run did not wait there while the caller waited; it continues."""

    code = "NOT_WAITING_YET"
    hint = "check the name: run.waits() lists the open waits with their names and paths"


class Exited(StepwellError):
    """The code of a step or workflow called sys.exit()."""

    code = "EXITED"
    hint = "raise an error or return instead: sys.exit() fails the attempt, and the worker continues"


class WorkerBroken(StepwellError):
    """A fault in the engine stopped the worker of this process; nothing is lost."""

    code = "WORKER_BROKEN"
    hint = "reopen the engine or start another worker: runs continue where they stopped; report the cause"


class ServerFault(StepwellError):
    """The server could not answer, or the answer is not from a Stepwell server."""

    code = "SERVER_FAULT"
    hint = "try again; report the request id if it happens again"


class Permanent(Exception):
    """Raise this in a step when a retry cannot help; the step is never retried."""


_RETRY_AFTER_MAX = 100 * 366 * 86400.0  # seconds, as for every duration


class RetryAfter(Exception):
    """Raise this in a step to retry it after `seconds`, regardless of its backoff."""

    def __init__(self, seconds: float, message: str = "") -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(f"RetryAfter takes seconds, not {excerpt(seconds)}: RetryAfter(30)")
        if not seconds <= _RETRY_AFTER_MAX:  # also refuses NaN: the run would wait forever
            raise ValueError(f"RetryAfter takes at most 100 years, not {seconds:g} s: RetryAfter(30)")
        super().__init__(message or f"try again in {seconds:g} s")
        self.seconds = seconds


# Problems with the database


class StoreError(StepwellError):
    """The database failed."""

    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    """The database cannot be reached."""

    code = "STORE_UNAVAILABLE"
    hint = "check the address and that the server is up; an open engine reconnects by itself"


class ServerUnavailable(StoreUnavailable):
    """The server cannot be reached."""

    code = "SERVER_UNAVAILABLE"
    hint = "check the address and that the server is up: GET /healthz; an open client reconnects by itself"


class StoreLocked(StoreUnavailable):
    """Another process has locked the database file."""

    code = "STORE_LOCKED"
    hint = "end the process that holds the lock, or wait for it, then try again; nothing was written"


class StoreUnusable(StoreError):
    """The database exists but cannot be used."""

    code = "STORE_UNUSABLE"


class StoreMoved(StoreUnusable):
    """The content of this database has moved, or is being moved, to another one."""

    code = "STORE_MOVED"


class CodecMissing(StoreUnusable):
    """The database is encrypted or compressed, and this process does not have the codec to read it."""

    code = "CODEC_MISSING"
    hint = (
        "use the codec that its workers use: codec=Encryption({name: key}, current=name) for Engine and "
        "SyncClient, STEPWELL_ENCRYPTION_KEY=name:base64 or --codec MODULE:NAME for the command line"
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
    hint = "repeat the call with the same key: a write that happened is not repeated"
