"""Fence: decides whether a commit may be written. The only place for that rule."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepwell.domain.commit import NEVER, Commit, LogRow, Outcome, Park
from stepwell.domain.events import KIND, Claimed

_OK = Outcome.OK  # read for every commit; an enum member takes twice as long to read


def check_fence(commit: Commit, *, lease: str | None, head: int, wakes: int) -> Outcome:
    """Compare the commit with its locked ticket: `lost` if we no longer own it, `woken` if a message came.

    PostgreSQL repeats this rule in SQL (commit_batch); the store suite compares the two.
    """
    if lease is None or lease != commit.lease or head != commit.head:
        return Outcome.LOST
    if commit.then is not None and wakes != commit.then.seen:
        return Outcome.WOKEN
    return _OK


def due_after(park: Park, at: float) -> float:
    """When a parked ticket is due again."""
    return min(park.due_at, at + park.due_in if park.due_in != NEVER else NEVER)


def was_already_written(commit: Commit, log: Sequence[LogRow]) -> bool:
    """Whether we already wrote this commit. Checked when its answer was lost and it is sent again.

    True if the log holds its events at their seqs and they follow a Claimed with our lease.
    """
    if not commit.events:
        return False
    rows = {row.seq: row for row in log}
    for seq, event in enumerate(commit.events, commit.head + 1):
        row = rows.get(seq)
        if row is None or row != event.row(seq, row.at):
            return False
    last = commit.head + len(commit.events)
    claims = [row for row in log if row.kind == KIND[Claimed] and row.seq <= last]
    if not claims:
        return False
    return msgspec.json.decode(claims[-1].payload, type=Claimed).lease == commit.lease
