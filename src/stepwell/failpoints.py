"""Failpoints: named moments in every transaction where a test can kill, stop or break the process.

`STEPWELL_FAILPOINTS="commit.mid=kill:3,claim.after=raise"` acts on the third hit of the first and the first
hit of the second. Without the variable `hit` is None, and stores skip it: `if failpoints.hit:
failpoints.hit("commit.mid")`.
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
    "hold",
    "hold_scope",
    "force_end",
    "emit",
    "fan_out",
    "register",
    "finish_remote",
    "heartbeat",
    "drain",
    "deregister",
    "reap",
    "define",
    "access",
    "secrets",
    "collections",
    "records",
    "switch",
    "put_trigger",
    "drop_trigger",
    "fire_due",
    "advance_trigger",
    "put_limit",
    "drop_limit",
    "put_start_rate",
    "drop_start_rate",
    "restore",
    "remove",
    "purge",
)
NAMES = frozenset(f"{transaction}.{moment}" for transaction in TRANSACTIONS for moment in MOMENTS)


class Injected(Exception):
    """A fault injected by a test. At `ambiguous` the transaction was executed nevertheless."""


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
    """Return the function that acts as `text` says; refuse unknown failpoints."""
    plan: dict[str, tuple[str, int]] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, what = part.partition("=")
        action, _, count = what.partition(":")
        if name not in NAMES:
            raise ValueError(f"there is no failpoint {name!r}; choose from {sorted(NAMES)}")
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
