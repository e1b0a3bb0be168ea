"""Failure: how a command reports an error, and the exit code that a script can rely on."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

from stepwell.cli.text import printable
from stepwell.errors import (
    Conflict,
    DocumentNotFound,
    Forbidden,
    KeyNotFound,
    NotAssigned,
    NotEndedYet,
    NotWaitingYet,
    OutcomeUnknown,
    RateLimited,
    RunCancelled,
    RunError,
    RunNotFound,
    ServerFault,
    StepNotFound,
    StepwellError,
    StoreUnavailable,
    TriggerNotFound,
    Unauthenticated,
    UnknownWorkflow,
    WorkerNotFound,
)

FAILED = 1  # the run failed or timed out, or a check found something
USAGE = 2
NOT_FOUND = 3
CONFLICT = 4
NOT_AUTHORISED = 5
UNREACHABLE = 6
CANCELLED = 7
NOT_YET = 8  # --timeout passed; the run continues
WAITING = 9  # --exit-on-wait: the run waits for a person or a message
BUG = 70
INTERRUPTED = 130

_CODES: tuple[tuple[type[StepwellError] | tuple[type[StepwellError], ...], int], ...] = (
    (
        (
            RunNotFound,
            KeyNotFound,
            StepNotFound,
            DocumentNotFound,
            UnknownWorkflow,
            WorkerNotFound,
            TriggerNotFound,
        ),
        NOT_FOUND,
    ),
    ((NotAssigned, Forbidden, Unauthenticated), NOT_AUTHORISED),
    (Conflict, CONFLICT),
    ((StoreUnavailable, OutcomeUnknown, RateLimited, ServerFault), UNREACHABLE),
    (RunCancelled, CANCELLED),
    (RunError, FAILED),
    ((NotEndedYet, NotWaitingYet), NOT_YET),
)


def exit_code(error: StepwellError) -> int:
    """Return the exit code for an error, so that scripts need not parse messages."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), USAGE)


def report(error: Exception, *, as_json: bool) -> int:
    """Print an error on stderr; with --json as one JSON object, so that stdout stays empty."""
    while isinstance(error, ExceptionGroup) and error.split(StepwellError)[1] is None:
        error = error.exceptions[0]  # of tasks that ended together
    if not isinstance(error, StepwellError):
        return _report_bug(error)
    if as_json:
        _print_json(error.code, error.message, error.hint, error.context)
    else:
        print("stepwell:", printable(str(error), keep="\n"), file=sys.stderr)
        if not error.hint:
            print(f"  {'hint':<8} see `stepwell doctor` and docs/errors.md#codes", file=sys.stderr)
    return exit_code(error)


def report_usage(error: Any, *, as_json: bool) -> int:
    """Print what is wrong with a command line, and how to get help."""
    message = printable(error.format_message()).rstrip(".")
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "stepwell"
    hint = f"see `{command} --help`"
    possible = [name for name in getattr(error, "possibilities", None) or () if name not in message]
    if possible:
        message += f"; did you mean {' or '.join(sorted(possible))}?"
    if as_json:
        _print_json("INVALID_REQUEST", message, hint, {})
    else:
        print(f"stepwell: {message} [INVALID_REQUEST]\n  {'hint':<8} {hint}", file=sys.stderr)
    return USAGE


def _print_json(code: str, message: str, hint: str, context: dict[str, Any]) -> None:
    import msgspec

    details = {name: str(value) for name, value in context.items()}
    body = {"error": {**details, "code": code, "message": message, "hint": hint}}
    print(msgspec.json.encode(body).decode(), file=sys.stderr)


def _report_bug(error: Exception) -> int:
    """Save the traceback to a file. People see one line and can attach the rest to a report."""
    import tempfile

    if os.environ.get("STEPWELL_FULL_TRACEBACK"):
        traceback.print_exception(error)
        return BUG
    words = [word for word in sys.argv[1:3] if not word.startswith("-")]
    with tempfile.NamedTemporaryFile(
        "w",
        prefix="stepwell-report-",
        suffix=".txt",
        delete=False,
        encoding="utf-8",
        errors="backslashreplace",
    ) as file:
        file.write(f"stepwell {' '.join(words)}\n")
        traceback.print_exception(error, file=file)
    what = printable(f"{type(error).__name__}: {error}")[:200]
    print(
        f"stepwell: this is a bug in Stepwell: {what}\n  {'hint':<8} report it with this file: {file.name}",
        file=sys.stderr,
    )
    return BUG
