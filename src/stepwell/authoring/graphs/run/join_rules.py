"""Join rules: when a `merge` fires, fails or is skipped. A pure function of its arrivals.

GR-J0  nothing live, nothing open, no error: skipped, in every mode.
GR-J1  all fires when nothing is open, with the live branches; requireAll fails at a dead branch.
GR-J2  any fires at the first arrival. GR-J3 count:n at the n-th; unreachable: onUnsatisfied.
GR-J4  timeout fires at the deadline with the arrivals, or when nothing is open. In other modes the
    deadline takes the timeout handle, or fails.
GR-E1  fail-fast fails with the first branch error at once. GR-E2 collect-all waits for every branch, then
    fails with all errors. GR-E3 best-effort fires if enough branches are live, else as GR-E2.
A dead-path cascade is over before a join decides, so that it never sees half of one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stepwell.authoring.graphs.nodes.join import Merge


class Arrivals(NamedTuple):
    """A join's in-edges, counted."""

    live: int
    dead: int
    open: int
    errors: int  # branch errors that no node handled
    expired: bool  # the deadline has passed


class JoinVerdict(StrEnum):
    WAIT = "wait"
    FIRE = "fire"
    SKIP = "skip"
    TIMEOUT = "timeout"  # take the timeout handle, or fail JOIN_TIMEOUT
    FAIL_FIRST = "fail_first"  # with the first branch error
    FAIL_BRANCHES = "fail_branches"
    UNSATISFIED = "unsatisfied"


def decide(join: Merge, seen: Arrivals) -> JoinVerdict:
    if seen.errors and join.errors == "fail-fast":
        return JoinVerdict.FAIL_FIRST
    if not (seen.live or seen.open or seen.errors):
        return JoinVerdict.SKIP
    if seen.errors and join.errors == "collect-all":
        if seen.open == 0 or (seen.expired and join.mode == "timeout"):
            return JoinVerdict.FAIL_BRANCHES
        return JoinVerdict.TIMEOUT if seen.expired else JoinVerdict.WAIT
    verdict = _by_mode(join, seen)
    if verdict is JoinVerdict.WAIT and seen.expired:
        return JoinVerdict.TIMEOUT
    waits_for_all = join.errors == "best-effort" and join.mode in ("all", "timeout")
    if verdict is JoinVerdict.FIRE and waits_for_all and seen.live < join.min_successful:
        return JoinVerdict.FAIL_BRANCHES
    return verdict


def _by_mode(join: Merge, seen: Arrivals) -> JoinVerdict:
    if join.mode == "any":
        return _at_least(1, join, seen)
    if join.mode == "count":
        return _at_least(join.count, join, seen)
    if join.mode == "timeout":
        return _timed(join, seen)
    if join.require_all and seen.dead:
        return JoinVerdict.UNSATISFIED
    if seen.open:
        return JoinVerdict.WAIT
    return JoinVerdict.FIRE if seen.live or join.errors != "best-effort" else JoinVerdict.FAIL_BRANCHES


def _timed(join: Merge, seen: Arrivals) -> JoinVerdict:
    if seen.open == 0:
        return JoinVerdict.FIRE if seen.live else JoinVerdict.FAIL_BRANCHES
    if not seen.expired:
        return JoinVerdict.WAIT
    return JoinVerdict.FIRE if seen.live >= join.min_arrivals else JoinVerdict.TIMEOUT


def _at_least(needed: int, join: Merge, seen: Arrivals) -> JoinVerdict:
    if seen.live >= needed:
        return JoinVerdict.FIRE
    if seen.live + seen.open >= needed:
        return JoinVerdict.WAIT
    if needed == 1:
        return JoinVerdict.FAIL_BRANCHES  # no branch can win, and one failed (otherwise GR-J0)
    if join.on_unsatisfied == "fail":
        return JoinVerdict.UNSATISFIED
    if join.on_unsatisfied == "skip":
        return JoinVerdict.SKIP
    if seen.open:
        return JoinVerdict.WAIT
    return JoinVerdict.FIRE if seen.live else JoinVerdict.FAIL_BRANCHES
