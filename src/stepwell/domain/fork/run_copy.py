"""RunCopy: one run with everything that a store keeps about it, to fork, export or import it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from stepwell.domain.commit import (
    DecidedApproval,
    Identity,
    InboxRow,
    LogRow,
    Message,
    NewRun,
    NewWait,
    identity,
)
from stepwell.domain.events import Failed, Problem, written
from stepwell.domain.ids import RunId
from stepwell.domain.messages import EndNotice, child_ended
from stepwell.domain.search import error_words, tag_terms, word_terms
from stepwell.domain.status import Status
from stepwell.domain.step_log import LogLineRow


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
    held: bytes | None = None


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
    decided: Sequence[DecidedApproval] = ()
    started_by: str = ""
    lines: Sequence[LogLineRow] = ()  # what its steps logged and printed
    words: Sequence[str] = ()  # words of its error, by which it is found
    done: float | None = None
    total: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    @property
    def terms(self) -> list[str]:
        """Return the terms by which it is found."""
        return [*tag_terms(self.tags), *word_terms(self.words)]

    @property
    def identity(self) -> Identity:
        return identity(self.workspace, self.key, self.id)


# The columns of `runs`, in the order in which the stores read and write them.
RUN_COLUMNS = (
    *RunCopy.__struct_fields__[:25],
    *("started_by", "done", "total", "input_tokens", "output_tokens", "cost"),
)


# The columns of `waits` after the run's id.
WAIT_COLUMNS = tuple(name for name in NewWait.__struct_fields__ if name != "timeout")


# The columns of `decided_approvals` after the run's id.
DECIDED_COLUMNS = DecidedApproval.__struct_fields__


def refused_child(new: NewRun, at: float) -> tuple[RunCopy, Message | None]:
    """A child of a disabled workflow: a run that failed before it began, and the notice for its parent.

    It can be retried when its workflow is enabled. The reason is not repeated: it may be encrypted.
    """
    problem = Problem(
        code="WORKFLOW_DISABLED",
        message=f"workflow {new.workflow} is disabled and accepts no new runs",
        hint="enable the workflow, then retry this run",
    )
    failed = written(Failed(error=problem))
    values = {name: getattr(new, name) for name in RUN_COLUMNS if name in NewRun.__struct_fields__}
    copy = RunCopy(
        **values,
        status=Status.FAILED,
        output=None,
        error=msgspec.json.encode(problem),
        words=error_words(problem),
        where_at="",
        created_at=at,
        started_at=None,
        ended_at=at,
        log=[LogRow(1, "accepted", "", 0, at, new.accepted), failed.row(2, at)],
    )
    if not new.parent:
        return copy, None
    notice = EndNotice(status=Status.FAILED, error=problem, run=new.id)
    return copy, child_ended(RunId(new.parent), new.parent_path, 2, notice)


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
