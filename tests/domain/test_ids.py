"""Names that are derived: the same thing always gets the same one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.domain.ids import RunId, child_run_id, needs_step, needs_workflow, recorded_random
from stepwell.domain.messages import (
    CANCEL_KEY,
    EndNotice,
    cancel_request,
    child_ended,
    decide_key,
    event_key,
    step_ended,
)

PARENT = RunId("0190aabbccdd7eee8fff000011112222")


@pytest.mark.req("K6")
def test_a_child_is_named_by_its_parent_and_place() -> None:
    child = child_run_id(PARENT, "ship#1")

    assert child == child_run_id(PARENT, "ship#1")
    assert child != child_run_id(PARENT, "ship#2")
    assert child != child_run_id(RunId(PARENT[:-1] + "3"), "ship#1")
    assert child.startswith(PARENT[:12])
    assert len(child) == len(PARENT)


@given(st.text(max_size=10), st.text(max_size=10))
def test_recorded_random_depends_on_seed_and_place_only(seed: str, path: str) -> None:
    value = recorded_random(seed, path)

    assert value == recorded_random(seed, path)
    assert 0 <= value < 2**128


def test_recorded_random_differs_by_place() -> None:
    assert len({recorded_random("seed", f"p#{number}") for number in range(1000)}) == 1000


def test_needs_tell_workflows_and_steps_apart() -> None:
    assert needs_workflow("order", "2") == "order@2"
    assert needs_step("resize") == "step:resize"


@pytest.mark.req("K6")
def test_keys_of_messages() -> None:
    ending = EndNotice(status="completed")

    assert child_ended(PARENT, "c#1", 7, ending).key == "child/c#1/7"
    assert step_ended(PARENT, "s#1", 2, ending).key == "step/s#1/2"
    assert cancel_request(PARENT, "why").key == CANCEL_KEY
    assert (event_key("e"), decide_key("ask#1")) == ("evt/e", "decide/ask#1")
