"""One request to a model, in the protocol of its provider. The library is loaded on first use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stepwell.domain.codec import PLAIN
from stepwell.domain.conversation import ANSWER, CALLS_MAX, Reply, ToolCall
from stepwell.domain.schema import Schema
from stepwell.errors import InvalidInput, StepwellError, excerpt
from stepwell.outbound.client import OutboundClient
from stepwell.outbound.errors import OutboundError, OutboundRefused
from stepwell.outbound.request import OutboundCredential
from stepwell.providers.errors import ModelError
from stepwell.providers.model_request import AnswerTool, ModelRequest, ToolOffer
from stepwell.providers.provider import Provider

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters

    from stepwell.providers.transport import OutboundTransport

INSTALL = 'pip install "stepwell[ai]"'
OnText = Callable[[str], None]
_TEXT_MAX = 300  # characters of a provider's message in an error
_QUOTA = frozenset({"insufficient_quota", "billing_error"})


async def ask(
    provider: Provider,
    request: ModelRequest,
    *,
    http: OutboundClient,
    credential: OutboundCredential | None,
    key: str,
    on_text: OnText,
) -> Reply:
    """Return the model's reply. ModelError if there is none. `on_text` gets its text as it arrives."""
    name = provider.model_for(request.model)
    answer_tool = AnswerTool(request.schema) if request.schema is not None else None
    await _load_library()
    import httpx2

    from stepwell.providers.transport import OutboundTransport

    transport = OutboundTransport(
        http, credential=credential, headers={"idempotency-key": key}, timeout=request.seconds
    )
    try:
        parameters = _parameters(request.tools, answer_tool)
        async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None) as client:
            response = await _request_reply(_model(provider, name, client), request, parameters, on_text)
    except StepwellError:
        raise
    except Exception as error:
        raise _model_error(error, transport, name) from None
    return _reply_of(response, provider, name, request, answer_tool)


async def _load_library() -> None:
    """Import the library in a thread: it takes seconds, and heartbeats must continue."""
    try:
        await asyncio.to_thread(_import_library)
    except ImportError as error:
        raise ModelError(
            "AI_NOT_INSTALLED",
            f"this worker cannot ask models: {error}",
            hint=INSTALL,
            config=True,
        ) from None


def _import_library() -> None:
    for module in ("pydantic_ai.direct", "pydantic_ai.models.openai", "pydantic_ai.models.anthropic"):
        import_module(module)
    from genai_prices.data_snapshot import get_snapshot

    get_snapshot()  # the library reads it when a model is created


async def _request_reply(
    model: Model[Any], request: ModelRequest, parameters: ModelRequestParameters, on_text: OnText
) -> ModelResponse:
    from pydantic_ai import direct
    from pydantic_ai.settings import ModelSettings

    settings = ModelSettings()
    if request.max_tokens is not None:
        settings["max_tokens"] = request.max_tokens
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    messages = _messages(request)
    if not request.stream:
        return await direct.model_request(
            model, messages, model_settings=settings, model_request_parameters=parameters, instrument=False
        )
    async with direct.model_request_stream(
        model, messages, model_settings=settings, model_request_parameters=parameters, instrument=False
    ) as stream:
        async for text in _text_deltas(stream):
            on_text(text)
        return stream.get()


async def _text_deltas(stream: Any) -> AsyncIterator[str]:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    async for event in stream:
        text = ""
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            text = event.part.content
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            text = event.delta.content_delta
        if text:
            yield text


def _model(provider: Provider, name: str, client: Any) -> Model[Any]:
    """Return the library's model, without credentials or retries: we add both."""
    if provider.kind == "anthropic":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        anthropic = AsyncAnthropic(
            api_key="-", base_url=provider.address, http_client=client, max_retries=0, timeout=None
        )
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=anthropic))
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    openai = AsyncOpenAI(
        api_key="-", base_url=provider.address, http_client=client, max_retries=0, timeout=None
    )
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=openai))


def _parameters(tools: Sequence[ToolOffer], answer_tool: AnswerTool | None) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    offered = [
        ToolDefinition(
            name=tool.name, description=tool.description or None, parameters_json_schema=dict(tool.input)
        )
        for tool in tools
    ]
    if answer_tool is None:
        return ModelRequestParameters(function_tools=offered)
    answer = ToolDefinition(
        name=ANSWER,
        description=AnswerTool.description,
        parameters_json_schema=answer_tool.parameters,
        kind="output",
    )
    return ModelRequestParameters(
        function_tools=offered, output_mode="tool", output_tools=[answer], allow_text_output=False
    )


def _messages(request: ModelRequest) -> list[ModelMessage]:
    from pydantic_ai import messages as theirs

    messages: list[ModelMessage] = []
    for message in request.messages:
        if message["role"] == "assistant":
            parts: list[Any] = [theirs.TextPart(content=message["content"])] if message["content"] else []
            parts += [
                theirs.ToolCallPart(tool_name=call["name"], args=call["input"], tool_call_id=call["id"])
                for call in message.get("calls", ())
            ]
            messages.append(theirs.ModelResponse(parts=parts))
        elif message["role"] == "tool":
            results = [
                theirs.ToolReturnPart(
                    tool_name=result["name"],
                    content=_as_text(result["content"]),
                    tool_call_id=result["id"],
                    outcome="failed" if result.get("failed") else "success",
                )
                for result in message["results"]
            ]
            messages.append(theirs.ModelRequest(parts=results))
        else:
            messages.append(theirs.ModelRequest(parts=[theirs.UserPromptPart(content=message["content"])]))
    last = messages[-1]
    if request.system and isinstance(last, theirs.ModelRequest):
        last.instructions = request.system
    return messages


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else PLAIN.encode(value).decode()


# Replies


def _reply_of(
    response: ModelResponse,
    provider: Provider,
    name: str,
    request: ModelRequest,
    answer_tool: AnswerTool | None,
) -> Reply:
    """Return the reply, its parts checked. ModelError if the model refused or broke off."""
    from pydantic_ai.messages import TextPart
    from pydantic_ai.messages import ToolCallPart as TheirCall

    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    parts = [part for part in response.parts if isinstance(part, TheirCall)]
    calls = _with_own_ids([_call(part, request.tools) for part in parts])
    used = response.usage
    failure = _unusable_reply(response, text, bool(calls))
    if failure is not None:
        failure.input_tokens, failure.output_tokens = used.input_tokens, used.output_tokens
        raise failure
    reply = Reply(
        model=response.model_name or name,
        text=text,
        calls=calls,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost=provider.cost(name, used.input_tokens, used.output_tokens),
    )
    return _with_answer(reply, answer_tool)


def _unusable_reply(response: ModelResponse, text: str, calls: bool) -> ModelError | None:
    if response.finish_reason == "content_filter":
        why = str((response.provider_details or {}).get("refusal") or text)
        return ModelError(
            "AI_REFUSED",
            f"the model refused to answer: {excerpt(why[:_TEXT_MAX])}",
            hint="change the request, or handle it on the error edge",
            permanent=True,
        )
    if response.finish_reason == "length":
        return ModelError(
            "AI_TRUNCATED",
            "the model reached its limit of tokens before the end of its answer",
            hint="raise maxTokens, or ask for less",
            permanent=True,
        )
    if not text and not calls:
        return ModelError("AI_RESPONSE", "the model sent an empty reply")
    return None


def _call(part: Any, tools: Sequence[ToolOffer]) -> ToolCall:
    try:
        input = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return ToolCall(id=part.tool_call_id, name=part.tool_name, input={}, fault="its input is not JSON")
    tool = next((tool for tool in tools if tool.name == part.tool_name), None)
    fault = ""
    if tool is None and part.tool_name != ANSWER:
        fault = f"there is no tool {part.tool_name}; there are: {', '.join(one.name for one in tools)}"
    elif tool is not None:
        fault = _schema_fault(tool.input, input)
    return ToolCall(id=part.tool_call_id, name=part.tool_name, input=input, fault=fault)


def _with_own_ids(calls: list[ToolCall]) -> list[ToolCall]:
    """Give the calls ids of our own, and keep no more than a turn may have."""
    ids: set[str] = set()
    numbered = []
    for number, call in enumerate(calls):
        id = call.id if call.id not in ids else f"{call.id}_{number}"
        ids.add(id)
        fault = call.fault if number < CALLS_MAX else f"more than {CALLS_MAX} calls in one turn"
        numbered.append(replace(call, id=id, fault=fault))
    return numbered


def _schema_fault(schema: Mapping[str, Any], value: Any) -> str:
    try:
        Schema(dict(schema)).check(value)
    except InvalidInput as error:
        return error.message
    return ""


def _with_answer(reply: Reply, tool: AnswerTool | None) -> Reply:
    given = next((call for call in reply.calls if call.name == ANSWER), None)
    if tool is None:
        if reply.calls:
            return reply
        return replace(reply, answers=True, answer=reply.text)
    if given is None and reply.calls:
        return reply
    try:
        if given is not None and given.fault:
            raise InvalidInput(given.fault)
        answer = tool.answer(given.input) if given is not None else tool.answer_in(reply.text)
        return replace(reply, answers=True, answer=answer)
    except InvalidInput as error:
        calls = [replace(call, fault=error.message) if call is given else call for call in reply.calls]
        return replace(reply, calls=calls, fault=error.message)


# Failures


def _model_error(error: Exception, transport: OutboundTransport, name: str) -> ModelError:
    """Return our error for what the library raised."""
    if transport.failure is not None:
        return _transport_error(transport.failure)
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

    if isinstance(error, ModelHTTPError):
        return _status_error(error, name)
    if isinstance(error, ModelAPIError):
        return ModelError(
            "AI_UNAVAILABLE", f"the provider failed: {_excerpt_of(error)}", retry_after=error.retry_after
        )
    return ModelError(
        "AI_RESPONSE", f"the reply cannot be read: {type(error).__name__}: {_excerpt_of(error)}"
    )


def _transport_error(failure: OutboundError) -> ModelError:
    if isinstance(failure, OutboundRefused):
        return ModelError(failure.code, failure.message, hint=failure.hint, config=True)
    if failure.code == "HTTP_TIMEOUT":
        return ModelError("AI_TIMEOUT", failure.message, hint="raise requestTimeoutMs, or ask a faster model")
    return ModelError("AI_UNAVAILABLE", failure.message, hint=failure.hint, permanent=failure.permanent)


def _status_error(error: Any, name: str) -> ModelError:
    status, words = error.status_code, _excerpt_of(error)
    if status in (401, 403):
        return ModelError(
            "AI_CREDENTIAL",
            f"the provider answered {status}: {words}",
            hint="let an operator check the provider's credential: stepwell secrets set NAME",
            config=True,
        )
    if status == 404:
        return ModelError(
            "AI_MODEL",
            f"the provider has no model {excerpt(name)}: {words}",
            hint="check model, and base_url of the provider",
            config=True,
        )
    if status == 402 or {error.provider_error_code, error.provider_error_type} & _QUOTA:
        return ModelError(
            "AI_QUOTA",
            f"the account has no credit left: {words}",
            hint="the operator's account with the provider needs credit",
            permanent=True,
        )
    if status == 429:
        return ModelError(
            "AI_RATE_LIMIT", f"the provider limits the rate: {words}", retry_after=error.retry_after
        )
    if status in (408, 409) or status >= 500:
        return ModelError(
            "AI_UNAVAILABLE", f"the provider answered {status}: {words}", retry_after=error.retry_after
        )
    return ModelError(
        "AI_REQUEST",
        f"the provider refused the request with {status}: {words}",
        hint="the prompt may be too long, or the model may lack a feature that the node uses",
        permanent=True,
    )


def _excerpt_of(error: Any) -> str:
    """Return what the provider said, short enough for a screen."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        body = inner.get("message") if isinstance(inner, Mapping) else inner
    return excerpt(str(body or error)[:_TEXT_MAX])
