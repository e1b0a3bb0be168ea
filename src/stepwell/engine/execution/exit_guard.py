"""Exits: sys.exit() in the code of a run is that code's failure, and never the end of the worker.

asyncio ends its loop with any SystemExit that a task lets pass, so it is turned where user code ends.
Only tasks that the code makes itself are as in any asyncio program. KeyboardInterrupt stays what it is.

Code that forks has a copy of the worker in its child, without its threads. Whatever ends there must end
the child: a copy that went on would hang, or speak to the database on its parent's connections.
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


def as_failure(error: BaseException) -> BaseException:
    """What a run makes of it: an error as any other, with the place where it was raised."""
    if not isinstance(error, SystemExit):
        return error
    code = "" if error.code is None else repr(error.code)
    return Exited(f"the code called sys.exit({code})").with_traceback(error.__traceback__)


@contextmanager
def contained() -> Iterator[None]:
    try:
        yield
    except SystemExit as error:
        raise as_failure(error) from error


def in_copy() -> bool:
    """For code on a loop: asyncio knows no running loop in a process that was forked under one."""
    return asyncio._get_running_loop() is None


def leave_copy(error: BaseException | None) -> NoReturn:
    """End this process as Python would, but without what the parent has registered for its own end."""
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
