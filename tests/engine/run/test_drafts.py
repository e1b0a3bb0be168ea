"""Drafts: what the commit of a run says about itself."""

from __future__ import annotations

import pytest

from stepwell.domain import events as ev
from stepwell.domain.commit import Park
from stepwell.domain.ids import LeaseId, RunId
from stepwell.domain.status import Status
from stepwell.engine.run.log_writer import Draft, Rest

RUN, LEASE = RunId("run"), LeaseId("lease")
PARK = Park(status=Status.SUSPENDED, seen=0)


def drafted() -> Draft:
    draft = Draft()
    draft.add(ev.StepCompleted(), "0/work#1", 1)
    return draft


def test_a_commit_of_a_step_has_events_only() -> None:
    assert drafted().commit(RUN, LEASE, 1, None).events_only


@pytest.mark.parametrize("name", Rest.__struct_fields__)
def test_a_commit_that_writes_anything_else_does_not_say_that_it_has_events_only(name: str) -> None:
    """Stores take no closer look at a commit that says so."""
    draft = drafted()

    getattr(draft.rest, name).append("one")

    assert not draft.commit(RUN, LEASE, 1, None).events_only


def test_a_commit_that_ends_the_lease_or_is_empty_does_not_say_so_either() -> None:
    assert not drafted().commit(RUN, LEASE, 1, PARK).events_only
    assert not Draft().commit(RUN, LEASE, 1, None).events_only
