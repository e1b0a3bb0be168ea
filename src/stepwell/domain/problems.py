"""Problems: record errors, and raise them again from the record."""

from __future__ import annotations

import re
import traceback

from stepwell.domain.events import ChildEnded, Problem
from stepwell.domain.retry import RemoteError, is_permanent
from stepwell.domain.status import Status
from stepwell.domain.text import clean
from stepwell.errors import (
    ChildFailed,
    RunCancelled,
    RunError,
    RunFailed,
    RunTimedOut,
    StepError,
    StepTimedOut,
    StepwellError,
    WaitTimedOut,
)

_OURS = __file__.rpartition("domain")[0]  # the engine's own frames do not help its users
_CAUSES_MAX = 20
_LINES = re.compile(r'File "([^"]+\.py)", line (\d+), in (\S+)')
_CODE_MAX = 200  # a code is one word; authors choose the codes of their nodes


def problem_of(error: BaseException, path: str = "") -> Problem:
    """The error as a record: what happened, where, and what to do next."""
    path = _path_of(error) or path
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
    message = error.message if isinstance(error, StepwellError) else _text(error)
    code, hint = "ERROR", ""
    if isinstance(error, StepwellError | RemoteError):
        code, hint = error.code or code, error.hint
    inner = error.trace if isinstance(error, StepError | RemoteError) else ""  # where the step itself failed
    return Problem(
        code=clean(str(code))[:_CODE_MAX],
        message=clean(str(message or type(error).__name__)),
        type=error.error_type
        if isinstance(error, StepError)
        else getattr(error, "type_name", type(error).__qualname__),
        hint=clean(str(hint)),
        path=path,
        traceback=clean("".join(traceback.format_list(frames[-8:])) + inner),
        permanent=is_permanent(error),
    )


def _text(error: BaseException) -> str:
    """`str(error)` can itself raise; the run must still be able to fail."""
    try:
        return str(error)
    except Exception as failed:
        return f"(its text is not available: {type(failed).__name__})"


def _path_of(error: BaseException) -> str:
    """Where it began: the path of the step or wait that raised this error or its cause."""
    for _ in range(_CAUSES_MAX):
        path = getattr(error, "path", "") if isinstance(error, StepError | WaitTimedOut) else ""
        if path:
            return str(path)
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        cause = inner or error.__cause__ or error.__context__
        if cause is None:
            return ""
        error = cause
    return ""


def step_error(problem: Problem, path: str, *, child: bool = False) -> StepError:
    """The error that ctx.step raises, the same on the first run and on replay."""
    kind = ChildFailed if child else StepTimedOut if problem.code == StepTimedOut.code else StepError
    what = problem.message if not problem.type else f"{problem.type}: {problem.message}"
    error = kind(f"{path} failed: {what}", hint=problem.hint, path=path, error_type=problem.type)
    error.cause_code, error.cause_message = problem.code, problem.message
    error.permanent, error.trace = problem.permanent, problem.traceback
    return error


def child_problem(ended: ChildEnded) -> Problem:
    """Why a child run did not complete, even if no reason was recorded."""
    code = "CHILD_CANCELLED" if ended.status == Status.CANCELLED else "CHILD_FAILED"
    return ended.error or Problem(code=code, message=f"the child run is {ended.status}")


def in_words(problem: Problem) -> str:
    """The problem as one line. Errors of the author's own code need their type to be understood."""
    if problem.code == "ERROR" and problem.type:
        return f"{problem.type}: {problem.message}"
    return problem.message


def run_error(status: str, problem: Problem | None, run_id: str, reason: str = "") -> RunError:
    """The error that result() raises for a run that did not complete."""
    kind = {"cancelled": RunCancelled, "timed_out": RunTimedOut}.get(status, RunFailed)
    if problem is None:
        return kind(f"run {run_id} is {status}" + (f": {reason}" if reason else ""))
    where = {"where": problem.path} if problem.path else {}
    lines = _LINES.findall(problem.traceback)
    own = [line for line in lines if "/lib/python" not in line[0]] or lines
    if own:  # the innermost frame of the author's code
        where["code"] = "{}:{} in {}".format(*own[-1])
    error = kind(
        f"run {run_id} {status}: {in_words(problem)}", hint=problem.hint, cause_code=problem.code, **where
    )
    error.trace = problem.traceback
    return error
