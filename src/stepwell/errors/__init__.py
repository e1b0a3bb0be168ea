"""Every error a person can meet, in one tree.

StepwellError                     code, message, hint; the text is the same in Python, CLI, API and Studio
├─ AskedWrongly                   fix the call and ask again; nothing was written
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
├─ Suspended · LeaseLost · Continue · TransitionStopped
└─ RunCancelling                  also an asyncio.CancelledError: workflow code may clean up behind it
"""

from __future__ import annotations

from stepwell.errors.asking import (
    BadExpression,
    DocumentNotFound,
    InvalidDefinition,
    InvalidFile,
    InvalidInput,
    InvalidRequest,
    NotAssigned,
    NotDurable,
    NotSerialisable,
    NoWayOut,
    PayloadTooLarge,
    RunNotFound,
    SettingsInvalid,
    StatelessWait,
    StepNotFound,
    UnknownWorkflow,
)
from stepwell.errors.conflicts import (
    AlreadyDecided,
    CodeChanged,
    Conflict,
    KeyConflict,
    NotCompensable,
    NotForkable,
    NotRemovable,
    NotRetryable,
    RateLimited,
    RunEnded,
    RunExists,
    SignalLimit,
    WrongPlace,
)
from stepwell.errors.root import (
    StepwellError,
)
from stepwell.errors.running import (
    ChildFailed,
    CompensationFailed,
    DirectStepCall,
    Exited,
    ExpressionError,
    NotEndedYet,
    Permanent,
    RetryAfter,
    RunCancelled,
    RunError,
    RunFailed,
    RunTimedOut,
    StepError,
    StepNotBegun,
    StepTimedOut,
    TransitionTimedOut,
    WaitTimedOut,
    WorkerBroken,
)
from stepwell.errors.store import (
    KeyMissing,
    LogDamaged,
    OutcomeUnknown,
    StoreError,
    StoreLocked,
    StoreUnavailable,
    StoreUnusable,
)
from stepwell.errors.unwinding import (
    Continue,
    LeaseLost,
    RunCancelling,
    Suspended,
    TransitionStopped,
    Unwind,
)

__all__ = [
    "AlreadyDecided",
    "BadExpression",
    "ChildFailed",
    "CodeChanged",
    "CompensationFailed",
    "Conflict",
    "Continue",
    "DirectStepCall",
    "DocumentNotFound",
    "Exited",
    "ExpressionError",
    "InvalidDefinition",
    "InvalidFile",
    "InvalidInput",
    "InvalidRequest",
    "KeyConflict",
    "KeyMissing",
    "LeaseLost",
    "LogDamaged",
    "NoWayOut",
    "NotAssigned",
    "NotCompensable",
    "NotDurable",
    "NotEndedYet",
    "NotForkable",
    "NotRemovable",
    "NotRetryable",
    "NotSerialisable",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Permanent",
    "RateLimited",
    "RetryAfter",
    "RunCancelled",
    "RunCancelling",
    "RunEnded",
    "RunError",
    "RunExists",
    "RunFailed",
    "RunNotFound",
    "RunTimedOut",
    "SettingsInvalid",
    "SignalLimit",
    "StatelessWait",
    "StepError",
    "StepNotBegun",
    "StepNotFound",
    "StepTimedOut",
    "StepwellError",
    "StoreError",
    "StoreLocked",
    "StoreUnavailable",
    "StoreUnusable",
    "Suspended",
    "TransitionStopped",
    "TransitionTimedOut",
    "UnknownWorkflow",
    "Unwind",
    "WaitTimedOut",
    "WorkerBroken",
    "WrongPlace",
]

# Logs and retry policies hold the full names of errors: where a class is written must not show in them.
for _name in __all__:
    globals()[_name].__module__ = __name__
