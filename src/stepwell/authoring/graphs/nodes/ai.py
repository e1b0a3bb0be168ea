"""The `ai` node: a model that is asked in turns, and may call tools: nodes in its body, workflows and steps.

`run/conversations.py` leads the conversation; each request and each call of a tool is a step of its own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from stepwell.authoring.graphs.errors import NodeConfigError
from stepwell.authoring.graphs.nodes.node_data import (
    WHOLE,
    Identifier,
    NodeData,
    Source,
    Strict,
    Timeout,
    exactly_one,
    field_error,
)
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import NodeRetry, retry_of
from stepwell.authoring.graphs.nodes.steps import CALL, CallData
from stepwell.authoring.graphs.nodes.subworkflow import WORKFLOW, WorkflowData
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.authoring.model_step import input_schema, model_step, tool_name_fault
from stepwell.domain.conversation import (
    REPAIRS,
    REPAIRS_MAX,
    REQUEST_SECONDS,
    TURNS,
    TURNS_MAX,
    Conversation,
    opening_fault,
)
from stepwell.providers.errors import ModelError

RETRY = NodeRetry(5, 2.0, "exponential", 60.0, 0.5)
_INPUT = "{{ctx.tool.input}}"
_NO_INPUT: dict[str, Any] = {"type": "object"}
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]


class MessageData(Strict):
    """A message that the model gets before its first turn."""

    role: Annotated[Literal["user", "assistant"], Field(description="Who said it.")] = "user"
    content: Annotated[Source, Field(description="The text of the message; may have {{ }}.")]


class StepToolData(CallData):
    """The node of a tool that is a step. Its input is the arguments."""

    args: Any = _INPUT


class ToolData(Strict):
    """Something that the model may call."""

    model_config = ConfigDict(json_schema_extra=exactly_one("node", "workflow", "step"))

    name: Annotated[ToolName, Field(description="The name by which the model calls it.")]
    description: Annotated[str, Field(max_length=4096, description="What it does, for the model.")] = ""
    input: Annotated[
        dict[str, Any] | None,
        Field(description="JSON Schema of its input, an object. A step has that of its parameters."),
    ] = None
    node: Annotated[
        Identifier | None,
        Field(description="A node in the body; it and its successors run, and see ctx.tool.input."),
    ] = None
    workflow: Annotated[str | None, Field(description="A workflow that is started with the input.")] = None
    step: Annotated[str | None, Field(description="A registered step, called with the input's fields.")] = (
        None
    )

    @model_validator(mode="after")
    def _one_kind(self) -> ToolData:
        if sum(kind is not None for kind in (self.node, self.workflow, self.step)) != 1:
            message = "a tool is a node, a workflow or a step"
            raise field_error("node", message, "give exactly one of node, workflow and step")
        return self


class AiData(NodeData):
    """A question to a language model."""

    model_config = ConfigDict(json_schema_extra=exactly_one("prompt", "messages"))

    provider: Annotated[
        Identifier | None,
        Field(description="The name that an operator gave the provider; the only one, if left out."),
    ] = None
    model: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="The model; the provider's own, if left out."),
    ] = None
    system: Annotated[str, Field(description="What the model reads first; may have {{ }}.")] = ""
    prompt: Annotated[Source | None, Field(description="The one message of the user; may have {{ }}.")] = None
    messages: Annotated[
        list[MessageData] | Source | None,
        Field(description="The messages instead of a prompt, or {{ }} for a list of role and content."),
    ] = None
    output_schema: Annotated[
        dict[str, Any] | None,
        Field(description="JSON Schema of the answer; without it, the answer is text."),
    ] = None
    tools: Annotated[list[ToolData], Field(max_length=64, description="What the model may call.")] = Field(
        default_factory=list
    )
    max_turns: Annotated[
        int, Field(ge=1, le=TURNS_MAX, description="How often the model is asked at most."), WHOLE
    ] = TURNS
    max_repairs: Annotated[
        int,
        Field(ge=0, le=REPAIRS_MAX, description="How often it may correct an answer that does not fit."),
        WHOLE,
    ] = REPAIRS
    on_tool_error: Annotated[
        Literal["tell", "fail"],
        Field(description="Whether a failed tool is reported to the model, or fails the node."),
    ] = "tell"
    max_tokens: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="The longest reply, in tokens."), WHOLE
    ] = None
    temperature: Annotated[
        float | None,
        Field(ge=0, le=2, description="The sampling temperature: the higher, the more varied the text."),
    ] = None
    stream: Annotated[
        bool, Field(description="Whether its text is shown in live events while it is written.")
    ] = True
    request_timeout_ms: Annotated[
        Timeout, Field(description="The timeout of one request; timeoutMs limits the whole node.")
    ] = int(REQUEST_SECONDS * 1000)

    @model_validator(mode="after")
    def _one_opening(self) -> AiData:
        if (self.prompt is None) == (self.messages is None):
            message = "a conversation begins with a prompt or with messages"
            raise field_error("prompt", message, "give either prompt or messages")
        return self


class AiWork:
    """The conversation of one `ai` node, built from its templates."""

    def __init__(self, data: AiData, compiler: NodeCompiler) -> None:
        self._data = data
        self._system = compiler.template(data.system, "system")
        self._messages = self._opening(data, compiler)
        compiler.schema(data.output_schema, "outputSchema")
        self.tells = data.on_tool_error == "tell"
        seconds = data.request_timeout_ms / 1000
        self.spec = model_step(retry=retry_of(data.retry, RETRY), seconds=seconds, queue=data.queue or "")
        self.called: dict[str, tuple[NodeType, NodeData, Any]] = {}  # by tool: the node that makes the call
        self._tools = [self._tool(at, tool, compiler) for at, tool in enumerate(data.tools)]
        self._check(data, compiler)

    @staticmethod
    def _opening(data: AiData, compiler: NodeCompiler) -> Any:
        if data.prompt is not None:
            return compiler.template([{"role": "user", "content": data.prompt}], "prompt")
        if isinstance(data.messages, str):
            return compiler.template(data.messages, "messages")
        listed = [{"role": one.role, "content": one.content} for one in data.messages or []]
        fault = opening_fault(listed)
        if fault:
            compiler.problem("AI_MESSAGES", fault, "messages", "end with a message of the user")
        return compiler.template(listed, "messages")

    def _tool(self, at: int, tool: ToolData, compiler: NodeCompiler) -> dict[str, Any]:
        """Describe a tool to the model. A workflow or step gets a node of its own."""
        schema = tool.input
        compiler.schema(schema, f"tools.{at}.input")
        fault = tool_name_fault(tool.name)
        if sum(other.name == tool.name for other in self._data.tools) > 1:
            fault = f"two tools are named {tool.name}"
        if fault:
            compiler.problem("TOOL_NAME", fault, f"tools.{at}.name", "choose another name")
        if tool.workflow is not None:
            child = WorkflowData(workflow=tool.workflow, input=_INPUT)
            behaviour = WORKFLOW.compile(child, compiler.within(f"tools.{at}"))
            self.called[tool.name] = (WORKFLOW, child, behaviour)
        elif tool.step is not None:
            call = StepToolData(step=tool.step)
            self.called[tool.name] = (CALL, call, CALL.compile(call, compiler.within(f"tools.{at}")))
            known = (compiler.steps or {}).get(tool.step)
            if schema is None and known is not None:
                schema = input_schema(known)
        return {"name": tool.name, "description": tool.description, "input": schema or _NO_INPUT}

    @staticmethod
    def _check(data: AiData, compiler: NodeCompiler) -> None:
        """Report problems with the providers that the saving engine knows. It may know none."""
        providers = compiler.providers
        if not providers:
            return
        try:
            provider = providers.named(data.provider or "")
        except ModelError as error:
            compiler.problem(error.code, error.message, "provider", error.hint)
            return
        try:
            provider.model_for(data.model or "")
        except ModelError as error:
            compiler.problem(error.code, error.message, "model", error.hint)

    def conversation(self) -> Conversation:
        return Conversation(turns_max=self._data.max_turns, repairs_max=self._data.max_repairs)

    def opening(self, scope: ExpressionScope, now: Now) -> dict[str, Any]:
        """Return what every request of the conversation begins with."""
        data = self._data
        messages = self._messages.render(scope, now)
        fault = opening_fault(messages)
        if fault:
            raise NodeConfigError(
                fault, code="AI_MESSAGES", hint="give text, and end with a message of the user"
            )
        return {
            "provider": data.provider or "",
            "model": data.model or "",
            "system": str(self._system.render(scope, now)),
            "messages": messages,
            "tools": self._tools,
            "schema": data.output_schema,
            "max_tokens": data.max_tokens,
            "temperature": data.temperature,
            "stream": data.stream,
            "seconds": data.request_timeout_ms / 1000,
        }


AI = NodeType(
    name="ai", data=AiData, role=Role.CONVERSATION, compile=AiWork, text="asks a language model, with tools"
)
