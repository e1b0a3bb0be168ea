"""Conversation: the turns with a model until it answers. Pure: replies and results in, decisions out.

Each request and each call of a tool is a recorded step, so a run that another worker takes over repeats
none of them. A reply records what is wrong with it (`fault`), so that a replay checks nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

STEP = "ai.model"  # the step that sends one request to a model
ANSWER = "answer"  # the tool that a model calls to give a structured answer
TURNS = 10
TURNS_MAX = 100
CALLS_MAX = 32  # calls in one turn
REPAIRS = 2
REPAIRS_MAX = 10
FAULTS_MAX = 1  # consecutive turns with a call that cannot be made
REQUEST_SECONDS = 600.0


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's call of a tool."""

    id: str
    name: str
    input: Any = None
    fault: str = ""  # why the call cannot be made


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's reply in one turn, as the log has it."""

    model: str = ""  # the model that replied, as the provider names it
    text: str = ""
    calls: Sequence[ToolCall] = ()
    answers: bool = False  # `answer` is the complete answer
    answer: Any = None
    fault: str = ""  # why the answer does not fit
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class ToolResult(NamedTuple):
    """What a tool returned, or why it failed."""

    call: ToolCall
    value: Any
    failed: bool = False


class Answered(NamedTuple):
    value: Any


class CallTools(NamedTuple):
    calls: list[ToolCall]


class AskAgain(NamedTuple):
    """The model is to be asked again, with the messages so far."""


class GivenUp(NamedTuple):
    code: str
    message: str
    hint: str = ""


Next = Answered | CallTools | AskAgain | GivenUp


class Conversation:
    """The messages after the opening ones, and the state that follows from them."""

    def __init__(self, *, turns_max: int = TURNS, repairs_max: int = REPAIRS) -> None:
        self.turns = 0
        self.model = ""
        self.input_tokens = self.output_tokens = 0
        self.cost = 0.0
        self.messages: list[dict[str, Any]] = []
        self._turns_max = turns_max
        self._repairs_max = repairs_max
        self._repairs = 0
        self._faults = 0  # consecutive turns with a fault
        self._asked: Sequence[ToolCall] = ()

    def take_reply(self, reply: Reply) -> Next:
        """Take in a reply of the model, and decide what comes next."""
        self.turns += 1
        self.model = reply.model
        self.input_tokens += reply.input_tokens
        self.output_tokens += reply.output_tokens
        self.cost += reply.cost
        if reply.answers:
            return Answered(reply.answer)
        calls = [{"id": one.id, "name": one.name, "input": one.input} for one in reply.calls]
        self.messages.append({"role": "assistant", "content": reply.text, "calls": calls})
        return self._given_up(reply) or self._continue(reply)

    def _given_up(self, reply: Reply) -> GivenUp | None:
        faulty = [call for call in reply.calls if call.fault and call.name != ANSWER]
        self._faults = self._faults + 1 if faulty else 0
        self._repairs += bool(reply.fault)
        if self._faults > FAULTS_MAX:
            return GivenUp(
                "AI_TOOL_ERROR",
                f"the model called {faulty[0].name} again, which cannot be called: {faulty[0].fault}",
                "describe the tools and their input more precisely, or choose another model",
            )
        if self._repairs > self._repairs_max:
            return GivenUp(
                "AI_OUTPUT",
                f"the answer does not fit the schema after {self._repairs_max} repairs: {reply.fault}",
                "simplify the schema, describe its fields, or choose another model",
            )
        if self.turns >= self._turns_max:
            return GivenUp(
                "AI_MAX_TURNS",
                f"the model has not answered in {self._turns_max} turns",
                "raise maxTurns, or give it tools that bring it further",
            )
        return None

    def _continue(self, reply: Reply) -> Next:
        self._asked = reply.calls
        if not reply.calls:
            self.messages.append({"role": "user", "content": f"This does not fit: {reply.fault}"})
            return AskAgain()
        ready = [call for call in reply.calls if not call.fault]
        if ready:
            return CallTools(ready)
        self.take_results([])
        return AskAgain()

    def take_results(self, results: Sequence[ToolResult]) -> None:
        """Take in the results of all tools of the last reply. The next request shows them to the model."""
        ended = {result.call.id: result for result in results}
        results_shown = []
        for call in self._asked:
            result = ended.get(call.id) or ToolResult(call, call.fault, failed=True)
            one = {"id": call.id, "name": call.name, "content": result.value}
            results_shown.append({**one, "failed": True} if result.failed else one)
        self.messages.append({"role": "tool", "results": results_shown})

    def summary(self, answer: Any) -> dict[str, Any]:
        """Return the output of the node."""
        return {
            "answer": answer,
            "model": self.model,
            "turns": self.turns,
            "usage": {
                "inputTokens": self.input_tokens,
                "outputTokens": self.output_tokens,
                "cost": self.cost,
            },
        }


def opening_fault(messages: Any) -> str:
    """Return why these messages cannot open a conversation, or ''."""
    if not isinstance(messages, list) or not messages:
        return "the messages must be a list with at least one"
    for at, message in enumerate(messages):
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            return f"message {at} must have a role and content, and nothing else"
        if message["role"] not in ("user", "assistant"):
            return f"the role of message {at} must be user or assistant"
        if not isinstance(message["content"], str) or not message["content"].strip():
            return f"the content of message {at} must be text"
    if messages[-1]["role"] != "user":
        return "the last message must be the user's"
    return ""
