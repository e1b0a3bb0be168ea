"""A conversation decides what follows a reply."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.domain.conversation import (
    Answered,
    AskAgain,
    CallTools,
    Conversation,
    GivenUp,
    Reply,
    ToolCall,
    ToolResult,
    opening_fault,
)

pytestmark = pytest.mark.req("N25")
LOOK = ToolCall(id="1", name="look", input={"id": 7})
UNKNOWN = ToolCall(id="2", name="nothing", input={}, fault="there is no tool nothing")


def replied(*calls: ToolCall, **fields: Any) -> Reply:
    return Reply(model="m", calls=calls, input_tokens=2, output_tokens=1, cost=0.5, **fields)


def test_an_answer_ends_it_and_its_use_is_summed() -> None:
    talk = Conversation()

    after = talk.take_reply(replied(LOOK))
    talk.take_results([ToolResult(LOOK, {"found": True})])
    last = talk.take_reply(replied(answers=True, answer="done"))

    assert after == CallTools([LOOK])
    assert last == Answered("done")
    assert talk.summary("done") == {
        "answer": "done",
        "model": "m",
        "turns": 2,
        "usage": {"inputTokens": 4, "outputTokens": 2, "cost": 1.0},
    }
    assert talk.messages == [
        {"role": "assistant", "content": "", "calls": [{"id": "1", "name": "look", "input": {"id": 7}}]},
        {"role": "tool", "results": [{"id": "1", "name": "look", "content": {"found": True}}]},
    ]


def test_a_call_that_cannot_be_made_is_returned_once_then_fails() -> None:
    talk = Conversation()

    first = talk.take_reply(replied(UNKNOWN))
    shown = talk.messages[-1]["results"]
    second = talk.take_reply(replied(UNKNOWN))

    assert first == AskAgain()
    assert shown == [{"id": "2", "name": "nothing", "content": UNKNOWN.fault, "failed": True}]
    assert isinstance(second, GivenUp)
    assert second.code == "AI_TOOL_ERROR"


def test_a_good_turn_between_forgives_a_call_that_cannot_be_made() -> None:
    talk = Conversation()

    talk.take_reply(replied(UNKNOWN))
    assert talk.take_reply(replied(LOOK)) == CallTools([LOOK])
    talk.take_results([ToolResult(LOOK, 1)])

    assert talk.take_reply(replied(UNKNOWN)) == AskAgain()


def test_results_keep_the_order_of_the_calls_with_faults_between() -> None:
    other = ToolCall(id="3", name="look", input={"id": 8})
    talk = Conversation()

    assert talk.take_reply(replied(LOOK, UNKNOWN, other)) == CallTools([LOOK, other])
    talk.take_results([ToolResult(other, "b"), ToolResult(LOOK, "a")])

    assert [one["content"] for one in talk.messages[-1]["results"]] == ["a", UNKNOWN.fault, "b"]


def test_no_tool_runs_for_a_turn_that_cannot_follow() -> None:
    talk = Conversation(turns_max=1)

    after = talk.take_reply(replied(LOOK))

    assert isinstance(after, GivenUp)
    assert after.code == "AI_MAX_TURNS"


def test_repairs_are_bounded() -> None:
    talk = Conversation(repairs_max=1)

    first = talk.take_reply(replied(text="no JSON", fault="it is text"))
    second = talk.take_reply(replied(text="no JSON", fault="it is text"))

    assert first == AskAgain()
    assert talk.messages[1]["role"] == "user"
    assert isinstance(second, GivenUp)
    assert second.code == "AI_OUTPUT"


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        "text",
        [{"role": "system", "content": "x"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": "  "}],
        [{"role": "user", "content": 7}],
        [{"role": "user", "content": "x", "name": "y"}],
        [{"role": "user"}],
        ["hello"],
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
    ],
)
def test_what_cannot_open_a_conversation_is_refused(messages: Any) -> None:
    assert opening_fault(messages)


def test_an_opening_may_have_earlier_turns() -> None:
    said = [("user", "a"), ("assistant", "b"), ("user", "c")]

    assert opening_fault([{"role": role, "content": content} for role, content in said]) == ""
