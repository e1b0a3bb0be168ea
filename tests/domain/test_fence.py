"""Judge: the fence, and recognising what was written before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.domain.commit import NEVER, Commit, Finish, LogRow, NewEvent, Outcome, Park
from stepwell.domain.events import Accepted, Claimed, StepCompleted, written
from stepwell.domain.fence import check_fence, due_after, was_already_written
from stepwell.domain.ids import LeaseId, RunId
from stepwell.domain.status import Status

RUN = RunId("r1")
MINE = LeaseId("mine")
PARK = Park(seen=2, status=Status.SUSPENDED)
FINISH = Finish(seen=2, status=Status.COMPLETED)


def commit(*events: NewEvent, head: int = 3, then: Park | Finish | None = None, lease: str = MINE) -> Commit:
    return Commit(run_id=RUN, lease=LeaseId(lease), head=head, events=events, then=then)


def log(*events: NewEvent) -> list[LogRow]:
    return [event.row(seq, 0.0) for seq, event in enumerate(events, 1)]


@pytest.mark.req("K3")
@pytest.mark.parametrize(
    ("then", "lease", "head", "wakes", "outcome"),
    [
        (None, MINE, 3, 2, Outcome.OK),
        (None, MINE, 3, 9, Outcome.OK),
        (PARK, MINE, 3, 2, Outcome.OK),
        (FINISH, MINE, 3, 2, Outcome.OK),
        (PARK, MINE, 3, 3, Outcome.WOKEN),
        (FINISH, MINE, 3, 3, Outcome.WOKEN),
        (None, None, 3, 2, Outcome.LOST),
        (None, "other", 3, 2, Outcome.LOST),
        (None, MINE, 2, 2, Outcome.LOST),
        (None, MINE, 4, 2, Outcome.LOST),
        (PARK, "other", 3, 3, Outcome.LOST),
        (FINISH, MINE, 4, 3, Outcome.LOST),
    ],
)
def test_verdict(
    then: Park | Finish | None, lease: str | None, head: int, wakes: int, outcome: Outcome
) -> None:
    assert check_fence(commit(then=then), lease=lease, head=head, wakes=wakes) is outcome


@given(
    lease=st.sampled_from([None, "", "mine", "other"]),
    head=st.integers(2, 4),
    wakes=st.integers(1, 3),
    then=st.sampled_from([None, PARK, FINISH]),
)
def test_only_the_owner_at_its_head_may_write(
    lease: str | None, head: int, wakes: int, then: Park | Finish | None
) -> None:
    verdict = check_fence(commit(then=then), lease=lease, head=head, wakes=wakes)

    assert (verdict is Outcome.LOST) == (lease != MINE or head != 3)
    assert (verdict is Outcome.WOKEN) == (lease == MINE and head == 3 and then is not None and wakes != 2)


@pytest.mark.parametrize(
    ("due_at", "due_in", "wanted"),
    [
        (NEVER, NEVER, NEVER),
        (NEVER, 5.0, 105.0),
        (103.0, 5.0, 103.0),
        (109.0, 5.0, 105.0),
        (103.0, NEVER, 103.0),
    ],
)
def test_due_is_the_earlier_one(due_at: float, due_in: float, wanted: float) -> None:
    assert due_after(Park(seen=0, status=Status.SUSPENDED, due_at=due_at, due_in=due_in), 100.0) == wanted


ACCEPTED = written(Accepted(workflow="order", version="1"))
BEGIN = written(Claimed(lease=MINE, worker="w1"))
OTHER = written(Claimed(lease="other", worker="w2"))
A, B = written(StepCompleted(), "a", 1), written(StepCompleted(), "b", 1)


@pytest.mark.req("K3", "R2")
@pytest.mark.parametrize(
    ("sent", "there", "is_mine"),
    [
        (commit(BEGIN, A, head=1), [ACCEPTED, BEGIN, A], True),
        (commit(A, head=2), [ACCEPTED, BEGIN, A], True),
        (commit(A, head=2), [ACCEPTED, BEGIN, A, OTHER, B], True),
        (commit(A, head=2), [ACCEPTED, BEGIN], False),
        (commit(A, B, head=2), [ACCEPTED, BEGIN, A], False),
        (commit(A, head=2), [ACCEPTED, BEGIN, B], False),
        (commit(A, head=3), [ACCEPTED, BEGIN, OTHER, A], False),
        (commit(A, head=1), [ACCEPTED, A], False),
        (commit(head=2), [ACCEPTED, BEGIN], False),
        (commit(A, head=2), [], False),
    ],
)
def test_recognises_its_own_events_only(sent: Commit, there: list[NewEvent], is_mine: bool) -> None:
    assert was_already_written(sent, log(*there)) is is_mine
