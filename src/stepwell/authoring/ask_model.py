"""ask_model: the conversation of an `ai` node, in the code of a function or a machine's transition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

import msgspec

from stepwell.authoring.functions.step import Step
from stepwell.authoring.model_step import input_schema, model_step, object_schema, tool_name_fault
from stepwell.domain.codec import Codec, codec_for
from stepwell.domain.conversation import (
    REPAIRS,
    REPAIRS_MAX,
    REQUEST_SECONDS,
    TURNS,
    TURNS_MAX,
    Answered,
    CallTools,
    Conversation,
    GivenUp,
    Next,
    Reply,
    ToolCall,
    ToolResult,
    opening_fault,
)
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.program import Context, SyncContext
from stepwell.domain.retry import Retry
from stepwell.domain.schema import schema_fault
from stepwell.domain.steps import StepSpec, decode_arguments, spec_of
from stepwell.domain.usage import Usage
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import InvalidDefinition, InvalidInput, StepError, excerpt

T = TypeVar("T")
RETRY = Retry(5, 2.0, "exponential", 60.0, 0.5)
Messages = str | Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ModelAnswer(Generic[T]):
    """A model's answer, and what it took to get it."""

    answer: T
    model: str
    turns: int  # requests that were made
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A step or workflow that a model may call, and how it is described to the model.

    `Tool(run=find_order)` is the same as passing the step `find_order` itself.
    """

    run: Any
    name: str = ""
    description: str = ""
    input: Mapping[str, Any] | None = field(default=None)  # JSON Schema; by default that of the parameters


@overload
async def ask_model(
    ctx: Context,
    prompt: Messages,
    *,
    output: type[T],
    provider: str = "",
    model: str = "",
    system: str = "",
    tools: Sequence[Any] = (),
    max_turns: int = TURNS,
    max_repairs: int = REPAIRS,
    max_tokens: int | None = None,
    temperature: float | None = None,
    stream: bool = True,
    report_errors: bool = True,
    timeout: Duration = REQUEST_SECONDS,
    retry: Retry = RETRY,
) -> ModelAnswer[T]: ...
@overload
async def ask_model(
    ctx: Context,
    prompt: Messages,
    *,
    provider: str = "",
    model: str = "",
    system: str = "",
    tools: Sequence[Any] = (),
    max_turns: int = TURNS,
    max_repairs: int = REPAIRS,
    max_tokens: int | None = None,
    temperature: float | None = None,
    stream: bool = True,
    report_errors: bool = True,
    timeout: Duration = REQUEST_SECONDS,
    retry: Retry = RETRY,
) -> ModelAnswer[str]: ...
async def ask_model(ctx: Context, prompt: Messages, **options: Any) -> ModelAnswer[Any]:
    """Ask a model, let it call tools, and return its answer.

    `prompt` is the message of the user, or a list of messages with `role` and `content`. `tools` are steps,
    workflows and `Tool`s. Each request and each call of a tool is a recorded step; several calls of one turn
    run at once. With `output` the answer is of that type. `timeout` and `retry` are those of one request.
    `report_errors=False` lets a failed tool fail the caller, instead of reporting it to the model.
    """
    chat = _Chat(prompt, **options)
    after: Next | None = None
    while not isinstance(after, Answered):
        if isinstance(after, CallTools):
            calls = [chat.pending(call) for call in after.calls]
            if len(calls) == 1:
                results = [await _call_tool(ctx, calls[0], chat)]
            else:
                results = await ctx.all(*[_call_tool(ctx, call, chat) for call in calls])
            chat.conversation.take_results(results)
        after = chat.take(await ctx.step(chat.step, chat.request()))
    return chat.answer(after)


def ask_model_sync(ctx: SyncContext, prompt: Messages, **options: Any) -> ModelAnswer[Any]:
    """`ask_model` for a plain function. Its tools run one after the other."""
    chat = _Chat(prompt, **options)
    after: Next | None = None
    while not isinstance(after, Answered):
        if isinstance(after, CallTools):
            chat.conversation.take_results(
                [_call_tool_sync(ctx, chat.pending(call), chat) for call in after.calls]
            )
        after = chat.take(ctx.step(chat.step, chat.request()))
    return chat.answer(after)


class _PendingCall:
    """A call of a tool, ready to run."""

    def __init__(self, tool: _OfferedTool, call: ToolCall) -> None:
        self.tool = tool
        self.call = call

    def result(self, value: Any) -> ToolResult:
        return ToolResult(self.call, self.tool.as_json(value))

    def failure(self, error: StepError) -> ToolResult:
        code = error.cause_code or error.code
        return ToolResult(self.call, f"{code}: {error.cause_message or error.message}", failed=True)


async def _call_tool(ctx: Context, pending: _PendingCall, chat: _Chat) -> ToolResult:
    tool, input = pending.tool, pending.call.input
    try:
        if tool.workflow is not None:
            return pending.result(await ctx.run(tool.workflow, input))
        return pending.result(await ctx.step(tool.step, **tool.arguments(input)))
    except StepError as error:
        if not chat.reports_errors:
            raise
        return pending.failure(error)


def _call_tool_sync(ctx: SyncContext, pending: _PendingCall, chat: _Chat) -> ToolResult:
    tool, input = pending.tool, pending.call.input
    try:
        if tool.workflow is not None:
            return pending.result(ctx.run(tool.workflow, input))
        return pending.result(ctx.step(tool.step, **tool.arguments(input)))
    except StepError as error:
        if not chat.reports_errors:
            raise
        return pending.failure(error)


class _OfferedTool:
    """A tool: how the model sees it, and how it is called."""

    def __init__(self, given: Any) -> None:
        tool = given if isinstance(given, Tool) else Tool(run=given)
        definition = getattr(tool.run, "definition", None)
        self.workflow = tool.run if definition is not None else None
        self.step: Any = None if definition is not None else tool.run
        self._spec: StepSpec | None = None
        if definition is not None:
            name, text = definition.name, definition.description
            schema = object_schema(msgspec.json.decode(definition.input_schema))
        else:
            self._spec = spec_of(tool.run)
            name, text = self._spec.name, self._spec.function.__doc__ or ""
            schema = input_schema(self._spec)
        self.name = tool.name or name
        self._schema = dict(tool.input) if tool.input is not None else schema
        self._text = (tool.description or text).strip()
        fault = tool_name_fault(self.name) or schema_fault(self._schema)
        if fault or self._schema.get("type") != "object":
            raise InvalidDefinition(
                f"{excerpt(self.name)} cannot be a tool: {fault or 'its input is not an object'}",
                hint="give Tool(run=..., name=..., input={'type': 'object', ...})",
            )

    @property
    def offer(self) -> dict[str, Any]:
        return {"name": self.name, "description": self._text, "input": self._schema}

    def arguments(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a step, converted to the types of its parameters."""
        assert self._spec is not None
        data = msgspec.json.encode({"args": [], "kwargs": dict(input)})
        return decode_arguments(self._spec, data)[1]

    def as_json(self, value: Any) -> Any:
        codec: Codec = self._spec.returns if self._spec is not None else codec_for(type(value))
        return msgspec.json.decode(codec.encode(value))


class _Chat:
    """A conversation in workflow code: it sends requests, calls tools and returns the answer."""

    def __init__(
        self,
        prompt: Messages,
        *,
        output: Any = None,
        provider: str = "",
        model: str = "",
        system: str = "",
        tools: Sequence[Any] = (),
        max_turns: int = TURNS,
        max_repairs: int = REPAIRS,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stream: bool = True,
        report_errors: bool = True,
        timeout: Duration = REQUEST_SECONDS,
        retry: Retry = RETRY,
    ) -> None:
        limit = seconds(timeout, name="ask_model(timeout)")
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        fault = opening_fault(messages)
        if fault:
            raise InvalidInput(fault, hint="give text, or a list that ends with a message of the user")
        self._codec = None if output is None else codec_for(output)
        schema = None if self._codec is None else self._codec.schema()
        offered = [_OfferedTool(tool) for tool in tools]
        self._tools = {tool.name: tool for tool in offered}
        if len(self._tools) < len(offered):
            raise InvalidDefinition("two tools have the same name", hint="give Tool(run=..., name=...)")
        self._opening = messages
        self._request = {
            "provider": provider,
            "model": model,
            "system": system,
            "tools": [tool.offer for tool in offered],
            "schema": object_schema(schema) if isinstance(schema, dict) else None,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stream": stream,
            "seconds": limit,
        }
        self.reports_errors = report_errors
        self.step: Any = Step(model_step(retry=retry, seconds=limit))
        self.conversation = Conversation(
            turns_max=whole_number(max_turns, "max_turns", 1, TURNS_MAX, wrong=InvalidInput),
            repairs_max=whole_number(max_repairs, "max_repairs", 0, REPAIRS_MAX, wrong=InvalidInput),
        )

    def request(self) -> dict[str, Any]:
        talk = self.conversation
        messages = [*self._opening, *talk.messages]
        return {**self._request, "messages": messages, "turn": talk.turns + 1}

    def take(self, reply: Any) -> Next:
        after = self.conversation.take_reply(msgspec.convert(reply, Reply))
        if isinstance(after, GivenUp):
            error = StepError(after.message, hint=after.hint)
            error.cause_code, error.cause_message = after.code, after.message
            raise error
        return after

    def pending(self, call: ToolCall) -> _PendingCall:
        return _PendingCall(self._tools[call.name], call)

    def answer(self, after: Answered) -> ModelAnswer[Any]:
        talk, value = self.conversation, after.value
        if self._codec is not None:
            value = self._codec.decode(msgspec.json.encode(value))
        used = Usage(input_tokens=talk.input_tokens, output_tokens=talk.output_tokens, cost=talk.cost)
        return ModelAnswer(value, talk.model, talk.turns, used)
