"""ModelRequest: one request to a model, with the tools that it may call and the form of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stepwell.domain.codec import PLAIN
from stepwell.domain.conversation import ANSWER, REQUEST_SECONDS
from stepwell.domain.schema import Schema
from stepwell.errors import InvalidInput, NotSerialisable


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the model may call."""

    name: str
    description: str = ""
    input: dict[str, Any]  # JSON Schema of its arguments


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    provider: str = ""
    model: str = ""
    system: str = ""
    messages: list[dict[str, Any]]
    tools: list[ToolOffer] = []
    schema: dict[str, Any] | None = None  # JSON Schema of the answer
    max_tokens: int | None = None
    temperature: float | None = None
    stream: bool = True
    seconds: float = REQUEST_SECONDS
    turn: int = 1


class AnswerTool:
    """The tool that a model calls to give a structured answer, in either protocol.

    Arguments of a tool are an object, so an answer of another type is wrapped in one.
    """

    description = "Give the final answer."

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = Schema(dict(schema))
        self._wrapped = schema.get("type") != "object"
        self.parameters: dict[str, Any] = dict(schema)
        if self._wrapped:
            inner = {name: part for name, part in schema.items() if name not in ("$defs", "$schema")}
            self.parameters = {"type": "object", "properties": {ANSWER: inner}, "required": [ANSWER]}
            if "$defs" in schema:
                self.parameters["$defs"] = schema["$defs"]

    def answer(self, input: Any) -> Any:
        """Return the answer in a call. InvalidInput says why it does not fit."""
        if not isinstance(input, dict) or (self._wrapped and ANSWER not in input):
            raise InvalidInput(f"{ANSWER} is missing")
        answer = input[ANSWER] if self._wrapped else input
        self._schema.check(answer)
        return answer

    def answer_in(self, text: str) -> Any:
        """Return the answer of a model that wrote it as JSON text instead."""
        body = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        try:
            answer = PLAIN.decode(body.encode())
        except (NotSerialisable, ValueError, RecursionError):
            raise InvalidInput(f"the answer is text; call {ANSWER} with it") from None
        self._schema.check(answer)
        return answer
