"""A step for a process of its own."""

from __future__ import annotations

import logging
import sys

from stepwell import step


@step(isolation="process")
def isolated(fail: bool) -> str:
    print("printed there")
    logging.getLogger("app.child").warning("logged %s", "there")
    print("to stderr", file=sys.stderr)
    if fail:
        raise ValueError("no luck")
    return "done"
