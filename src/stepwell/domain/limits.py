"""Limits: how many runs of a workspace, workflow, queue or key may be active at once.

A definition or a start can name a limit (see `domain/lanes`); a row of `limits` with the same scope replaces
it, so limits change at run time. Usage is counted from tickets (leased ones; with hold = run every ticket
that ever began), so a dead worker's slots come free with its lease and nothing can leak.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from stepwell.errors import InvalidDefinition, InvalidInput, excerpt

LimitKind = Literal["workspace", "workflow", "queue", "key"]
Hold = Literal["active", "run"]
KINDS: tuple[LimitKind, ...] = ("workspace", "workflow", "queue", "key")


class LimitScope(NamedTuple):
    """What a limit counts. All workspaces share the queues, so a queue's workspace is ''."""

    kind: LimitKind
    workspace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {excerpt(self.name or self.workspace)}"


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The maximum number of runs at once; None: no limit.

    hold = active counts the runs that a worker owns, so a suspended run holds no slot;
    hold = run counts a run from its first claim to its end.
    """

    kind: LimitKind
    workspace: str = ""
    name: str = ""
    limit: int | None = None
    hold: Hold = "active"
    by: str = ""  # who set it

    @property
    def scope(self) -> LimitScope:
        return LimitScope(self.kind, self.workspace, self.name)


class Concurrency(msgspec.Struct, frozen=True):
    """Passed to a start: runs with the same key share this limit."""

    key: str
    limit: int = 1
    hold: Hold = "active"


def checked_concurrency(limit: int | None, where: str) -> int | None:
    """Return the number of concurrent runs that a definition allows, or raise InvalidDefinition."""
    if limit is not None and (type(limit) is not int or limit < 1):
        raise InvalidDefinition(
            f"{where}(concurrency={excerpt(limit)})", hint="at least one run at once: give 1 or more"
        )
    return limit


def checked_limit(limit: Limit) -> Limit:
    """Return the limit, or raise InvalidInput that says what is wrong with it."""
    if limit.kind not in KINDS:
        raise InvalidInput(
            f"{excerpt(limit.kind)} is not a kind of limit", hint=f"use one of {', '.join(KINDS)}"
        )
    if limit.hold not in ("active", "run"):
        raise InvalidInput(f"a limit cannot hold {excerpt(limit.hold)}", hint="hold is 'active' or 'run'")
    if limit.limit is not None and (type(limit.limit) is not int or not 0 <= limit.limit <= 10**9):
        raise InvalidInput(
            f"a limit cannot be {excerpt(limit.limit)}", hint="0 lets no run begin; None removes the limit"
        )
    if type(limit.name) is not str or len(limit.name) > 500 or not limit.name.isprintable():
        raise InvalidInput(
            f"a limit cannot be named {excerpt(limit.name)}", hint="use at most 500 printable characters"
        )
    if (limit.kind == "workspace") != (not limit.name):
        raise InvalidInput(
            f"a limit of kind {excerpt(limit.kind)} with name {excerpt(limit.name)}",
            hint="the limit of a workspace has no name; every other limit has one",
        )
    return limit
