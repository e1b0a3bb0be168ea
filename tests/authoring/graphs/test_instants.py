"""What falls into one instant of virtual time: a rule decides, not the last bits of sums of floats."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.testing.graphs.cases import Case
from stepwell.testing.graphs.runner import run_case
from tests.authoring.graphs.graphs import START, a, chart, task

APPROVAL = (a("W", "approval", timeoutMs=1), "approved", {"approve": "W", "response": "approved"})
EVENT = (a("W", "wait", event="e", timeoutMs=1), "out", {"event": "e"})


def played(wait: tuple[Any, str, Any], before: int, timeout: int, at: int) -> dict[str, Any]:
    node, handle, event = wait
    node = {**node, "data": {**node["data"], "timeoutMs": timeout}}
    ends = [a("Z", "end", output={"r": "in time"}), a("L", "end", output={"r": "late"})]
    body = chart([START, a("A"), node, *ends], f"S>A A>W W-{handle}>Z W-timeout>L")
    case = {"id": "x", "graph": body, "script": {"A": task(before)}, "events": [{"t": at, **event}]}
    found = run_case(Case.read(case))
    return {"r": found["output"]["r"], "t": found["t"]}


@pytest.mark.req("G13")
@pytest.mark.parametrize("wait", [APPROVAL, EVENT], ids=["approval", "event"])
@pytest.mark.parametrize(
    ("before", "timeout"),
    [(69, 868), (222, 781), (14, 10_652), (86, 86_400_000), (96, 17), (499, 86_400_000)],
)
def test_an_answer_at_the_deadline_is_late_and_one_before_it_is_not(
    wait: tuple[Any, str, Any], before: int, timeout: int
) -> None:
    deadline = before + timeout

    assert played(wait, before, timeout, deadline) == {"r": "late", "t": deadline}
    assert played(wait, before, timeout, deadline - 1) == {"r": "in time", "t": deadline - 1}


@pytest.mark.req("G13")
@pytest.mark.parametrize("before", [1, 3, 69, 222, 499])
def test_a_question_that_is_asked_in_an_instant_is_answered_in_it(before: int) -> None:
    assert played(APPROVAL, before, 1000, before) == {"r": "in time", "t": before}


@pytest.mark.req("G13")
@pytest.mark.parametrize(
    "data",
    [
        {"until": "{{1e300}}"},
        {"until": "{{9223372036854775807}}"},
        {"until": "{{'3000-01-01T00:00:00'}}"},
        {"duration": "{{'400d'}}"},
    ],
)
def test_a_moment_that_nobody_lives_to_see_fails_its_node(data: dict[str, Any]) -> None:
    body = chart([START, a("D", "delay", **data), a("Z", "end")], "S>D D>Z")

    found = run_case(Case.read({"id": "x", "graph": body}))

    assert (found["status"], found["t"]) == ("failed", 0)
    assert found["error"] == "NODE_CONFIG"
