"""Exit guard: turn sys.exit() in user code into a failure of that code, so it can't stop the worker.

asyncio ends its loop with any SystemExit that leaves a task, so it is converted at the edge of user code.
Tasks that user code creates itself behave as in any asyncio program. KeyboardInterrupt is not touched.

If user code forks, the child has a copy of the worker without its threads. When that code ends, the child
must end: a copy that continued would hang, or talk to the database on its parent's connections.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from stepwell.errors import Exited


def sys_exit_as_error(error: BaseException) -> BaseException:
    """The error as a run records it: a SystemExit becomes `Exited`, with its traceback."""
    if not isinstance(error, SystemExit):
        return error
    code = "" if error.code is None else repr(error.code)
    return Exited(f"the code called sys.exit({code})").with_traceback(error.__traceback__)


@contextmanager
def sys_exit_guard() -> Iterator[None]:
    try:
        yield
    except SystemExit as error:
        raise sys_exit_as_error(error) from error


def in_forked_child() -> bool:
    """For code on a loop: in a process that was forked under a loop, asyncio has no running loop."""
    return asyncio._get_running_loop() is None


def exit_forked_child(error: BaseException | None) -> NoReturn:
    """End this process as Python would, but without the parent's atexit handlers."""
    code = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    elif isinstance(error, SystemExit):
        print(error.code, file=sys.stderr)
        code = 1
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)
