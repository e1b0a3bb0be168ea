"""Asked wrongly: fix the call and ask again; nothing was written."""

from __future__ import annotations

from stepwell.errors.root import StepwellError


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
