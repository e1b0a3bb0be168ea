"""Direct call: a step called in workflow code as a plain function. It is done again at every replay."""

from __future__ import annotations

import sys
import warnings
from threading import get_ident
from types import FrameType

from stepwell.domain.workflow_code import DirectCalls, thread_code
from stepwell.errors import DirectStepCall, NotDurable


def check_direct_call(name: str) -> None:
    """Called by the step itself. Nothing is wrong with it outside workflow code: in other steps, in tests."""
    what = _direct_calls()
    if what is None:
        return
    message = f"step {name} was called directly in workflow code: it is done again at every replay"
    hint = f"write ctx.step({name}, ...); awaited, if the workflow is async"
    if what == "error":
        raise NotDurable(message, hint=hint, where=_where(sys._getframe(2)))
    warnings.warn(f"{message}; {hint}", DirectStepCall, stacklevel=3)


def _direct_calls() -> DirectCalls | None:
    """What is to be done about it; None where no workflow code runs."""
    events = sys.modules.get("asyncio.events")  # not loaded, nothing runs on a loop
    loop = None if events is None else events._get_running_loop()
    here: DirectCalls | None = getattr(loop, "direct_calls", None)
    code = thread_code.get()
    if here is None and code is not None and code.thread == get_ident():
        here = code.direct_calls
    return here


def _where(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
