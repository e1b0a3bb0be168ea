"""Cases that follow from the rules and are in no list: each through the engine, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.testing.graphs.cases import Case
from stepwell.testing.graphs.runner import run_case
from tests.authoring.graphs.graphs import START, a, chart, task

FAN = "S>F F>A F>B F>C A>J B>J C>J J>Z"


def play(graph: dict[str, Any], script: Any = None, events: Any = None, input: Any = None) -> dict[str, Any]:
    body = {"id": "x", "graph": graph, "script": script, "events": events, "input": input or {}}
    return run_case(Case.read(body))


def fan(**join: Any) -> dict[str, Any]:
    end = a("Z", "end", output={"j": "{{ctx.j}}"})
    joined = a("J", "merge", outputVariable="j", **join)
    return chart([START, a("F", "fork"), a("A"), a("B"), a("C"), joined, end], FAN)


def in_loop(data: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    loop = a("L", "loop", outputVariable="l", **data)
    end = a("Z", "end", output={"l": "{{ctx.l}}"})
    return chart([START, loop, a("A", parent="L"), *more, end], "S>L L>Z")


@pytest.mark.req("G6")
def test_count_fires_at_the_nth_arrival_and_cancels_the_rest() -> None:
    found = play(fan(mode="count", count=2), {"A": task(10), "B": task(20), "C": task(30)})

    assert found["t"] == 20
    assert found["output"]["j"]["arrived"] == ["A", "B"]
    assert found["steps"]["C"] == "cancelled"


@pytest.mark.req("G6")
def test_late_arrivals_are_recorded_and_fire_nothing() -> None:
    found = play(fan(mode="any", onLate="ignore"), {"A": task(10), "B": task(20), "C": task(30)})

    assert found["log"] == ["JOIN_LATE", "JOIN_LATE"]
    assert found["output"]["j"]["arrived"] == ["A"]


@pytest.mark.req("G6")
def test_too_few_arrivals_at_the_deadline_fail_the_join() -> None:
    found = play(
        fan(mode="timeout", timeoutMs=5, minArrivals=2), {"A": task(1), "B": task(20), "C": task(30)}
    )

    assert (found["error"], found["t"]) == ("JOIN_TIMEOUT", 5)


@pytest.mark.req("G7")
def test_the_later_edge_wins_a_conflict_and_it_is_told() -> None:
    nodes = [START, a("F", "fork"), a("A", outputVariable="v"), a("B", outputVariable="v"), a("J", "merge")]
    graph = chart([*nodes, a("Z", "end", output={"v": "{{ctx.v}}"})], "S>F F>A F>B A>J B>J J>Z")

    found = play(graph, {"A": task(20, out=1), "B": task(10, out=2)})

    assert found["output"] == {"v": 2}
    assert found["log"] == ["MERGE_CONFLICT"]


@pytest.mark.req("G7")
def test_a_branch_that_writes_the_old_value_again_has_written_it() -> None:
    nodes = [START, a("P", outputVariable="v"), a("F", "fork"), a("A", outputVariable="v")]
    nodes += [a("B", outputVariable="v"), a("J", "merge", onConflict="error"), a("Z", "end")]
    graph = chart(nodes, "S>P P>F F>A F>B A>J B>J J>Z")

    found = play(graph, {"P": task(out=1), "A": task(out=1), "B": task(out=2)})

    assert found["error"] == "MERGE_CONFLICT"


@pytest.mark.req("G8")
def test_best_effort_goes_on_with_what_succeeded() -> None:
    found = play(fan(errorStrategy="best-effort"), {"A": task(10), "B": task(5, fail="E"), "C": task(30)})

    assert found["output"]["j"] == {"arrived": ["A", "C"], "errors": ["E"], "timedOut": False}


@pytest.mark.req("G8")
def test_a_race_without_a_winner_fails_with_all_errors() -> None:
    script = {"A": task(10, fail="E1"), "B": task(5, fail="E2"), "C": task(30, fail="E3")}

    found = play(fan(mode="any"), script)

    assert (found["error"], found["t"]) == ("BRANCHES_FAILED", 30)


@pytest.mark.req("K9", "N17")
def test_retries_wait_longer_each_time() -> None:
    graph = chart([START, a("A", retry={"maxAttempts": 3, "delayMs": 10}), a("Z", "end")], "S>A A>Z")
    lines = [{"dur": 1, "fail": "E"}, {"dur": 1, "fail": "E"}, {"dur": 1, "out": 1}]

    found = play(graph, {"A": lines})

    assert (found["status"], found["t"], found["starts"]["A"]) == ("completed", 33, 3)


@pytest.mark.req("N17")
def test_a_retry_container_opens_a_fresh_scope_for_each_attempt() -> None:
    box = a("R", "retry", maxAttempts=3, delayMs=10)
    graph = chart([START, box, a("A", parent="R"), a("B", parent="R"), a("Z", "end")], "S>R A>B R>Z")

    found = play(graph, {"A": task(1, out=1), "B": task(1, fail="E")})

    assert (found["error"], found["t"]) == ("E", 36)
    assert found["steps"]["R#3/B"] == "failed"
    assert found["starts"]["A"] == 3


@pytest.mark.req("N15", "G10")
def test_a_failed_item_leaves_its_place_or_none() -> None:
    script = {"A[1]": task(1, fail="E"), "A": task(1, out="=loop.item")}
    data = {"items": "ctx.input.xs", "collect": "ctx.a"}

    kept = play(in_loop({**data, "onItemError": "continue"}), script, input={"xs": [1, 2, 3]})
    gone = play(in_loop({**data, "onItemError": "remove"}), script, input={"xs": [1, 2, 3]})

    assert kept["output"]["l"]["results"] == [1, {"error": "E"}, 3]
    assert gone["output"]["l"]["results"] == [1, 3]
    assert [failure["index"] for failure in gone["output"]["l"]["failed"]] == [1]


@pytest.mark.req("N15")
def test_while_carries_a_value_from_iteration_to_iteration() -> None:
    data = {"while": "loop.carry < 3", "carry": 0, "carryNext": "loop.carry + 1"}

    found = play(in_loop(data), {"A": task(1)})

    assert found["output"]["l"]["carry"] == 3
    assert found["starts"]["A"] == 3


@pytest.mark.req("N15", "G10")
def test_a_nested_loop_sees_the_loop_around_it() -> None:
    nodes = [
        START,
        a("L", "loop", items="[1, 2]", collect="ctx.m.results", outputVariable="l"),
        a("M", "loop", "L", items="[10, 20]", collect="ctx.a", outputVariable="m"),
        a("A", parent="M"),
        a("Z", "end", output={"l": "{{ctx.l.results}}"}),
    ]

    found = play(chart(nodes, "S>L L>Z"), {"A": task(1, out="=loop.item + loop.parent.currentItem")})

    assert found["output"] == {"l": [[11, 21], [12, 22]]}


@pytest.mark.req("N15", "G10")
@pytest.mark.parametrize(
    ("data", "input", "code"),
    [
        ({"items": "ctx.input.xs"}, {"xs": 5}, "EXPRESSION_ERROR"),
        ({"items": "ctx.input.xs", "maxIterations": 2}, {"xs": [1, 2, 3]}, "LOOP_LIMIT"),
        ({"while": "true"}, {}, "LOOP_LIMIT"),
    ],
)
def test_a_loop_that_cannot_be_fails(data: dict[str, Any], input: Any, code: str) -> None:
    found = play(in_loop(data), {"A": task()}, input=input)

    assert found["error"] == code


@pytest.mark.req("N11", "N10")
def test_an_event_that_came_before_its_wait_counts_and_only_once() -> None:
    wait = a("W", "wait_event", event="paid", outputVariable="w")
    graph = chart([START, a("A"), wait, a("Z", "end", output={"w": "{{ctx.w}}"})], "S>A A>W W>Z")

    found = play(graph, {"A": task(50)}, [{"t": 10, "event": "paid", "data": 7}])

    assert (found["output"], found["t"]) == ({"w": 7}, 50)


@pytest.mark.req("N11")
def test_the_same_event_id_counts_once() -> None:
    nodes = [START, a("W1", "wait", event="paid"), a("W2", "wait", event="paid", timeoutMs=100), a("L")]
    graph = chart([*nodes, a("M", "merge"), a("Z", "end")], "S>W1 S>W2 W1>M W2>M W2-timeout>L L>M M>Z")
    event = {"event": "paid", "id": "one"}

    found = play(graph, None, [{"t": 10, **event}, {"t": 20, **event}])

    assert found["log"] == ["DUPLICATE_EVENT"]
    assert found["starts"]["L"] == 1


@pytest.mark.req("N10", "K16")
def test_a_delay_suspends_the_run() -> None:
    found = play(chart([START, a("D", "delay", duration="2h"), a("Z", "end")], "S>D D>Z"))

    assert found["t"] == 7_200_000
    assert found["history"] == [["running", 0], ["suspended", 0], ["completed", 7_200_000]]


@pytest.mark.req("N11", "K12")
def test_an_unanswered_question_expires_after_a_day() -> None:
    found = play(chart([START, a("H", "approval"), a("Z", "end")], "S>H H-approved>Z"))

    assert (found["error"], found["t"]) == ("WAIT_TIMEOUT", 86_400_000)


@pytest.mark.req("N11")
def test_a_polled_condition_is_asked_until_it_holds() -> None:
    wait = a("W", "wait", mode="condition", condition="now() > ctx.input.t", pollMs=1000)

    found = play(chart([START, wait, a("Z", "end")], "S>W W>Z"), input={"t": 1_800_000_003_500})

    assert (found["status"], found["t"]) == ("completed", 4000)


@pytest.mark.req("N11")
def test_a_polled_condition_that_errs_fails_at_once() -> None:
    wait = a("W", "wait", mode="condition", condition="ctx.nothing", pollMs=1000)

    found = play(chart([START, wait, a("Z", "end")], "S>W W>Z"))

    assert (found["error"], found["t"]) == ("EXPRESSION_ERROR", 0)


@pytest.mark.req("G11")
def test_a_loop_that_fails_takes_its_error_edge() -> None:
    nodes = [START, a("L", "loop", items="[1, 2]"), a("A", parent="L"), a("H")]
    graph = chart([*nodes, a("Z", "end", output={"e": "{{ctx.error.code}}"})], "S>L L-error>H H>Z")

    found = play(graph, {"A": task(1, fail="E")})

    assert found["output"] == {"e": "E"}
    assert found["steps"]["L"] == "failed"


@pytest.mark.req("G11")
def test_fail_workflow_ignores_the_error_edge() -> None:
    nodes = [START, a("A", errorHandling="fail_workflow"), a("H"), a("Z", "end")]

    found = play(chart(nodes, "S>A A>Z A-error>H H>Z"), {"A": task(1, fail="E")})

    assert found["error"] == "E"
    assert found["starts"]["H"] == 0


@pytest.mark.req("G6")
def test_what_was_never_begun_behind_a_loser_is_cancelled_too() -> None:
    nodes = [START, a("F", "fork"), a("A"), a("B"), a("B2"), a("J", "merge", mode="any"), a("Z", "end")]

    found = play(chart(nodes, "S>F F>A F>B B>B2 A>J B2>J J>Z"), {"A": task(5), "B": task(50)})

    assert (found["steps"]["B"], found["steps"]["B2"], found["starts"]["B2"]) == ("cancelled", "cancelled", 0)


@pytest.mark.req("G3")
def test_a_disabled_node_is_passed_through() -> None:
    nodes = [START, a("A", disabled=True), a("Z", "end", output={"a": "{{ctx.a}}"})]

    found = play(chart(nodes, "S>A A>Z"), {"A": task(5, out=1)})

    assert (found["output"], found["t"], found["starts"]["A"]) == ({"a": None}, 0, 0)


@pytest.mark.req("G3")
def test_too_many_activations_outside_loops_fail_the_run() -> None:
    box = a("R", "retry", maxAttempts=20, delayMs=0)
    graph = chart([START, box, a("A", parent="R"), a("Z", "end")], "S>R R>Z", maxSteps=10)

    found = play(graph, {"A": task(0, fail="E")})

    assert found["error"] == "STEP_LIMIT"


@pytest.mark.req("N20", "N21", "N9")
def test_variables_are_set_and_values_computed() -> None:
    nodes = [
        START,
        a(
            "V",
            "set",
            values={"n": "{{ctx.input.n}}", "text": "n is {{ctx.input.n}}", "deep": {"x": ["{{1 + 1}}"]}},
        ),
        a("T", "transform", expression="ctx.n * 2 + size(ctx.deep.x)", outputVariable="t"),
        a(
            "W",
            "switch",
            value="ctx.t",
            cases=[{"id": "five", "equals": 5}, {"id": "big", "when": "ctx.t > 10"}],
        ),
        a("A", "set", values={"way": "five"}),
        a("B", "set", values={"way": "big"}),
        a("D", "set", values={"way": "default"}),
        a("Z", "end", output={"t": "{{ctx.t}}", "text": "{{ctx.text}}", "way": "{{ctx.way}}"}),
    ]
    graph = chart(nodes, "S>V V>T T>W W-five>A W-big>B W-default>D A>Z B>Z D>Z")

    found = [play(graph, input={"n": n})["output"] for n in (2, 9, 1)]

    assert found == [
        {"t": 5, "text": "n is 2", "way": "five"},
        {"t": 19, "text": "n is 9", "way": "big"},
        {"t": 3, "text": "n is 1", "way": "default"},
    ]


@pytest.mark.req("N16", "G11")
def test_what_the_body_of_a_try_wrote_is_seen_behind_it() -> None:
    nodes = [START, a("T", "try"), a("A", parent="T"), a("H"), a("Z", "end", output={"a": "{{ctx.a}}"})]

    found = play(chart(nodes, "S>T T>Z T-catch>H H>Z"), {"A": task(1, out=7)})

    assert found["output"] == {"a": 7}
    assert found["steps"]["H"] == "skipped"


@pytest.mark.req("K9")
@pytest.mark.parametrize(("backoff", "t"), [("exponential", 70), ("linear", 60), ("fixed", 30)])
def test_backoff_has_the_words_of_retry_and_the_formats_own(backoff: str, t: int) -> None:
    retry = {"maxAttempts": 4, "delayMs": 10, "backoff": backoff}
    line = play(chart([START, a("A", retry=retry), a("Z", "end")], "S>A A>Z"), {"A": [{"fail": "E"}]})

    assert (line["error"], line["t"], line["starts"]["A"]) == ("E", t, 4)
