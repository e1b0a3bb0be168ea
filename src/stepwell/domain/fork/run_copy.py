"""RunCopy: one run with everything that a store keeps about it, to fork, export or import it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from stepwell.domain.commit import Identity, InboxRow, LogRow, NewWait, identity
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status


class TicketCopy(NamedTuple):
    """A ticket without its owner; any worker may claim it. `due_at` is inf if only a message wakes it."""

    path: str
    queue: str
    needs: str
    priority: int
    started: bool
    ending: bool
    not_before: float
    due_at: float
    head: int
    base: int
    at: float
    wakes: int


class RunCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended has no tickets, and nothing in its inbox."""

    id: RunId
    workspace: str
    workflow: str
    version: str
    kind: str
    hash: str
    status: Status  # as stored: a run that a worker owns may still say pending
    input: bytes
    output: bytes | None
    error: bytes | None
    key: str
    digest: str
    queue: str
    lane: str
    priority: int
    parent: str
    parent_path: str
    root: str
    tags: bytes
    trigger: str
    where_at: str
    created_at: float
    started_at: float | None
    ended_at: float | None
    test: bool
    log: Sequence[LogRow]
    tickets: Sequence[TicketCopy] = ()
    inbox: Sequence[InboxRow] = ()
    waits: Sequence[NewWait] = ()

    @property
    def identity(self) -> Identity:
        return identity(self.workspace, self.key, self.id)


# The columns of `runs`, in the order in which the stores read and write them.
RUN_COLUMNS = RunCopy.__struct_fields__[:25]


class Removal(StrEnum):
    """The outcome of deleting a run with its children."""

    REMOVED = "removed"
    LIVE = "live"  # it, or a run below it, has not ended
    CHILD = "child"  # it belongs to the tree of another run
    UNKNOWN = "unknown"


class Purged(NamedTuple):
    """How many `runs` were removed; continue `after` this one, None: the rest is too young."""

    runs: int
    after: RunId | None
