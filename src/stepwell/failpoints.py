"""Failpoints: named places in every transaction where a test may kill, stop or break the process.

`STEPWELL_FAILPOINTS="commit.mid=kill:3,claim.after=raise"` acts on the third and the first hit.
Without it `hit` is None and the stores skip it: `if failpoints.hit: failpoints.hit("commit.mid")`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

MOMENTS = ("before", "mid", "after", "ambiguous")
TRANSACTIONS = (
    "start",
    "start_within",
    "claim",
    "reroute",
    "commit",
    "transact",
    "deliver",
    "cancel",
    "retry",
    "emit",
    "fan_out",
    "register",
    "finish_remote",
    "heartbeat",
    "deregister",
    "reap",
    "define",
    "put_limit",
    "drop_limit",
    "restore",
    "remove",
    "purge",
)
NAMES = frozenset(f"{transaction}.{moment}" for transaction in TRANSACTIONS for moment in MOMENTS)


class Injected(Exception):
    """A fault that a test asked for. At `ambiguous` the transaction was executed all the same."""


def _act(action: str, name: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "raise":
        raise Injected(name)
    elif action == "exit":
        os._exit(1)


def parse(text: str) -> Callable[[str], None]:
    """The function that acts as `text` says; refuses names that no transaction has."""
    plan: dict[str, tuple[str, int]] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, what = part.partition("=")
        action, _, count = what.partition(":")
        if name not in NAMES:
            raise ValueError(f"no failpoint {name!r}; there are {sorted(NAMES)}")
        plan[name] = (action, int(count or 1))
    hits: dict[str, int] = {}

    def acted(name: str) -> None:
        if name in plan:
            hits[name] = hits.get(name, 0) + 1
            action, wanted = plan[name]
            if hits[name] == wanted:
                _act(action, name)

    return acted


hit: Callable[[str], None] | None = None
if os.environ.get("STEPWELL_FAILPOINTS"):
    hit = parse(os.environ["STEPWELL_FAILPOINTS"])
