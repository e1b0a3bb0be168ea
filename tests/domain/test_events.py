"""Facts: each one is written and read back the same, under a name that never changes."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from stepwell.domain.commit import LogRow
from stepwell.domain.events import (
    FACTS,
    KIND,
    SETTLING,
    Accepted,
    Cancelled,
    CancelRequested,
    Carried,
    ChildEnded,
    ChildStarted,
    Claimed,
    CompensationCompleted,
    CompensationStarted,
    Completed,
    Continued,
    DelayChanged,
    DetailsReported,
    DocumentSaved,
    Event,
    Fact,
    Failed,
    Held,
    JoinLate,
    LeaseLost,
    LoopAdvanced,
    LoopCompleted,
    LoopStarted,
    MergeConflict,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeSkipped,
    NodeStarted,
    Problem,
    Progress,
    Published,
    Received,
    Released,
    Resumed,
    Retried,
    StepCompleted,
    StepFailed,
    StepScheduled,
    StepStarted,
    Suspended,
    TimedOut,
    TimerFired,
    TimerSet,
    TransitionCompleted,
    TransitionFailed,
    TriggerChoice,
    UsageReported,
    ValueRecorded,
    VariableSet,
    WaitEnded,
    WaitOpened,
    WaitReassigned,
    WaitReminded,
    read,
    read_as,
    written,
)

PROBLEM = Problem(code="X", message="no\nway", type="ValueError", hint="try", path="a#1", traceback="...")
VALUE = Raw('{"é":[1,null,"\\u0000"]}'.encode())
FULL: list[Fact] = [
    Accepted(
        workflow="order",
        version="1",
        kind="machine",
        input=VALUE,
        seed="s",
        timeout=5.0,
        parent="p",
        parent_path="c#1",
        root="r",
        depth=2,
        key="k",
        queue="gpu",
    ),
    Claimed(lease="l", worker="w"),
    LeaseLost(lease="l"),
    Held(by="me", reason="why"),
    Released(by="me", reason="why"),
    Retried(path="a#1"),
    Continued(generation=2, input=VALUE, seed="s", carried=[Carried(name="n", payload=VALUE)], keys=["k"]),
    CancelRequested(reason="why"),
    Suspended(),
    Resumed(),
    VariableSet(name="amount", value=Raw(b"1"), key="variable/1", by="me", reason="why"),
    Completed(result=VALUE, unconsumed=["a"]),
    Failed(error=PROBLEM, unconsumed=["a"]),
    Cancelled(reason="why", unconsumed=["a"]),
    TimedOut(error=PROBLEM, unconsumed=["a"]),
    StepScheduled(step="s", queue="gpu", args=VALUE, timeout=1.5, digest="d"),
    StepStarted(step="s"),
    StepCompleted(result=VALUE, digest="d"),
    StepFailed(error=PROBLEM, retry_in=2.0, digest="d"),
    ValueRecorded(what="now", value=VALUE),
    DocumentSaved(name="d", type="str", value=VALUE),
    DetailsReported(details=VALUE),
    UsageReported(input_tokens=512, output_tokens=80, cost=0.004),
    CompensationStarted(status="failed", steps=["a#1"], error=PROBLEM, reason="why"),
    CompensationCompleted(failed=["a#1"]),
    TimerSet(seconds=3.0),
    DelayChanged(seconds=1.0, by="me", reason="why"),
    TimerFired(),
    WaitOpened(
        what="approval",
        name="n",
        key="k",
        timeout=1.0,
        form=VALUE,
        title="t",
        assignees=["me"],
        since=4.0,
        choices=[TriggerChoice(name="c", form=VALUE, title="t")],
    ),
    WaitReassigned(assignees=["ann"], by="bob", reason="away"),
    WaitReminded(by="bob", reason="urgent"),
    WaitEnded(outcome="answered", received="k"),
    Received(key="k", n=3, what="signal", name="n", payload=VALUE, rejected="bad", choice="c", by="me"),
    TransitionCompleted(
        transition="t",
        source="a",
        target="b",
        version=2,
        state=VALUE,
        documents=["d"],
        error=PROBLEM,
        carried=[Carried(name="n", payload=VALUE)],
        keys=["k"],
        children={"0/a@1/child:c#1": "r"},
        triggers={"0/a@1/child:c#1": "t"},
        active=1.5,
    ),
    TransitionFailed(transition="t", source="a", error=PROBLEM, retry_in=1.0, target="b"),
    ChildStarted(run="r", workflow="w", version="2", detached=True, trigger="t"),
    ChildEnded(status="failed", result=VALUE, error=PROBLEM),
    Published(topic="t", data=VALUE),
    Progress(done=1.0, total=2.0, text="half"),
    NodeStarted(),
    NodeCompleted(output=VALUE, handles=["out"], pinned=True),
    NodeFailed(error=PROBLEM),
    NodeSkipped(),
    NodeCancelled(),
    JoinLate(source="A"),
    MergeConflict(variables=["v"]),
    LoopStarted(count=3),
    LoopAdvanced(done=1, count=3),
    LoopCompleted(done=3, failed=1),
]
SMALLEST: list[Fact] = [
    msgspec.convert(
        {
            field.encode_name: getattr(fact, field.name)
            for field in msgspec.structs.fields(fact)
            if field.required
        },
        type(fact),
    )
    for fact in FULL
]


@pytest.mark.req("K1", "K5")
@pytest.mark.parametrize("fact", [*FULL, *SMALLEST], ids=lambda fact: type(fact).__name__)
def test_fact_comes_back_the_same(fact: Fact) -> None:
    event = written(fact, "a#1", 2)

    found = read(event.row(7, 1.5))

    assert _plain(found.fact) == _plain(fact)
    assert found[:4] == (7, 1.5, "a#1", 2)
    assert found.kind == KIND[type(fact)]


def test_there_is_an_example_of_every_fact() -> None:
    assert [type(fact) for fact in FULL] == list(FACTS)


@pytest.mark.req("K1")
def test_names_on_disk_stay() -> None:
    assert sorted(KIND.values()) == [
        "accepted",
        "cancel_requested",
        "cancelled",
        "child_ended",
        "child_started",
        "claimed",
        "compensation_completed",
        "compensation_started",
        "completed",
        "continued",
        "delay_changed",
        "details_reported",
        "document_saved",
        "failed",
        "held",
        "join_late",
        "lease_lost",
        "loop_advanced",
        "loop_completed",
        "loop_started",
        "merge_conflict",
        "node_cancelled",
        "node_completed",
        "node_failed",
        "node_skipped",
        "node_started",
        "progress",
        "published",
        "received",
        "released",
        "resumed",
        "retried",
        "step_completed",
        "step_failed",
        "step_scheduled",
        "step_started",
        "suspended",
        "timed_out",
        "timer_fired",
        "timer_set",
        "transition_completed",
        "transition_failed",
        "usage_reported",
        "value_recorded",
        "variable_set",
        "wait_ended",
        "wait_opened",
        "wait_reassigned",
        "wait_reminded",
    ]


def test_fields_of_a_newer_version_are_ignored() -> None:
    row = LogRow(1, "claimed", "", 0, 0.0, b'{"lease":"l","worker":"w","mood":"good"}')

    assert read_as(Claimed, row) == Claimed(lease="l", worker="w")


def test_being_claimed_or_starting_a_step_settles_nothing() -> None:
    assert not SETTLING & {"claimed", "lease_lost", "step_started", "step_scheduled", "received", "retried"}
    assert {"step_completed", "step_failed", "completed", "failed"} <= SETTLING


def test_the_wrong_fact_is_our_mistake() -> None:
    event = written(TimerFired())

    with pytest.raises(AssertionError, match="timer_fired"):
        read_as(Claimed, event.row(1, 0.0))


def test_event_knows_its_kind() -> None:
    assert Event(1, 0.0, "", 0, TimerFired()).kind == "timer_fired"


def _plain(fact: Fact) -> object:
    return msgspec.json.decode(msgspec.json.encode(fact)), type(fact)
