"""Exits: sys.exit() in the code of a run is that code's failure, and never the end of the worker.

asyncio ends its loop with any SystemExit that a task lets pass, so it is turned where user code ends.
Only tasks that the code makes itself are as in any asyncio program. KeyboardInterrupt stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
