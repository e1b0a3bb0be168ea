"""LocalProvider: a provider of models on this machine, for tests and examples without an account.

It speaks the protocols of OpenAI (chat completions) and Anthropic (messages) over real HTTP, streamed or not.
A script, a function of the request, decides what the model replies.

    def script(request: LocalRequest) -> LocalReply:
        if request.turn == 0:
            return LocalReply(calls=[("find_order", {"id": 7})])
        return LocalReply("It is on its way.")

    async with LocalProvider(script) as provider:
        engine = Engine(..., outbound=provider.rules, providers={"local": provider.config("openai")})
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from stepwell.outbound.request import OutboundRules

Protocol = Literal["openai", "anthropic"]
MODEL = "local-model"
_PATHS: dict[str, Protocol] = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}
_PIECE = 12  # characters per event of a stream


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRequest:
    """One request, in the same form for both protocols."""

    protocol: Protocol
    model: str
    system: str
    messages: list[dict[str, Any]]  # role (user, assistant or tool) and content; calls and results are text
    tools: list[str]
    stream: bool
    key: str  # credential of the request
    idempotency_key: str  # the same on every attempt of one request
    body: dict[str, Any]

    @property
    def turn(self) -> int:
        """How often the model has replied in this conversation."""
        return sum(_is_reply(message) for message in self.messages)

    @property
    def results(self) -> list[str]:
        """Results of tools since the model's last reply."""
        last = max(at for at, one in enumerate([{"role": "assistant"}, *self.messages]) if _is_reply(one))
        return [one["content"] for one in self.messages[last:] if one["role"] == "tool"]


@dataclass(frozen=True, slots=True)
class LocalReply:
    """What the model replies."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()  # tools and their input
    stop: Literal["", "length", "refusal"] = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str = ""  # of an error
    pause: float = 0.0  # seconds before each part of a stream
    cut: bool = False  # the connection breaks in the middle of the answer
    input_tokens: int | None = None  # counted, unless given
    output_tokens: int | None = None


Script = Callable[[LocalRequest], LocalReply]


class LocalProvider:
    def __init__(self, script: Script, *, key: str = "", port: int = 0) -> None:
        self.script = script
        self.requests: list[LocalRequest] = []
        self._key = key  # that callers must send; '': any
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=2**24)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:  # one may be in the middle of a long pause
            task.cancel()
        if self._connections:
            await asyncio.wait(list(self._connections))

    @property
    def port(self) -> int:
        return self._port

    @property
    def rules(self) -> OutboundRules:
        """What an engine must be allowed to reach it."""
        return OutboundRules.of(["127.0.0.1"], [self._port])

    def config(self, kind: Protocol = "openai", **more: Any) -> dict[str, Any]:
        """How an engine finds it: `Engine(providers={"local": provider.config()})`."""
        path = "/v1" if kind == "openai" else ""
        address = f"http://127.0.0.1:{self._port}{path}"
        return {"kind": kind, "base_url": address, "model": MODEL, **more}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")
                pairs = (line.partition(":") for line in lines if line)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                if not await self._answer(first.split(" ")[1], headers, body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the streams of asyncio complain about a task that was cancelled
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _answer(
        self, path: str, headers: Mapping[str, str], data: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; False if the connection is over."""
        protocol = _PATHS.get(path.partition("?")[0])
        if protocol is None:
            return await _send(
                writer, LocalReply(f"no such path: {path}", status=404), _error("openai", "", "")
            )
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if self._key and key != self._key:
            reply = LocalReply(status=401)
            return await _send(writer, reply, _error(protocol, "invalid key", "invalid_api_key"))
        request = _received(protocol, json.loads(data), key, headers.get("idempotency-key", ""))
        self.requests.append(request)
        reply = self.script(request)
        if reply.status != 200:
            return await _send(writer, reply, _error(protocol, reply.text, reply.code))
        dialect = _OpenAI(request, reply) if protocol == "openai" else _Anthropic(request, reply)
        if not request.stream:
            return await _send(writer, reply, dialect.whole())
        return await _stream(writer, reply, dialect.parts())


async def _send(writer: asyncio.StreamWriter, reply: LocalReply, body: dict[str, Any]) -> bool:
    data = json.dumps(body).encode()
    head = [f"HTTP/1.1 {reply.status} {reply.status}", "content-type: application/json"]
    head += [f"{name}: {value}" for name, value in reply.headers.items()]
    head.append(f"content-length: {len(data)}")
    await asyncio.sleep(reply.pause)
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + (data[: len(data) // 2] if reply.cut else data))
    await writer.drain()
    return not reply.cut


async def _stream(writer: asyncio.StreamWriter, reply: LocalReply, parts: list[str]) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    if reply.cut:
        parts = parts[: max(1, len(parts) // 2)]
    for part in parts:
        await asyncio.sleep(reply.pause)
        data = part.encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
    if reply.cut:
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


# What both protocols say


def _received(protocol: Protocol, body: dict[str, Any], key: str, idempotency_key: str) -> LocalRequest:
    system = _text(body.get("system", ""))
    messages: list[dict[str, Any]] = []
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role in ("system", "developer"):
            system = _text(content)
        elif isinstance(content, list) and any(part.get("type") == "tool_result" for part in content):
            messages += [
                {"role": "tool", "content": _text(part.get("content"))}
                for part in content
                if part["type"] == "tool_result"
            ]
        else:
            messages.append({"role": role, "content": _text(content)})
    tools = [tool.get("function", tool)["name"] for tool in body.get("tools", [])]
    return LocalRequest(
        protocol=protocol,
        model=body["model"],
        system=system,
        messages=messages,
        tools=tools,
        stream=bool(body.get("stream")),
        key=key,
        idempotency_key=idempotency_key,
        body=body,
    )


def _is_reply(message: Mapping[str, Any]) -> bool:
    return bool(message["role"] == "assistant")


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _error(protocol: Protocol, message: str, code: str) -> dict[str, Any]:
    if protocol == "openai":
        return {"error": {"message": message, "type": code or "error", "code": code or None}}
    return {"type": "error", "error": {"type": code or "api_error", "message": message}}


class _Dialect:
    def __init__(self, request: LocalRequest, reply: LocalReply) -> None:
        self.request = request
        self.reply = reply
        words = sum(len(message["content"].split()) for message in request.messages)
        self.input_tokens = words if reply.input_tokens is None else reply.input_tokens
        written = len(reply.text.split()) + len(reply.calls)
        self.output_tokens = written if reply.output_tokens is None else reply.output_tokens

    @property
    def pieces(self) -> list[str]:
        text = self.reply.text
        return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]

    def id_of(self, number: int) -> str:
        return f"call_{self.request.turn}_{number}"


class _OpenAI(_Dialect):
    @property
    def _finish(self) -> str:
        return "length" if self.reply.stop == "length" else "tool_calls" if self.reply.calls else "stop"

    @property
    def _usage(self) -> dict[str, int]:
        total = self.input_tokens + self.output_tokens
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": total,
        }

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": self.id_of(number),
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": input if isinstance(input, str) else json.dumps(input),
                },
            }
            for number, (name, input) in enumerate(self.reply.calls)
        ]

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": self.request.model}

    def whole(self) -> dict[str, Any]:
        refused = self.reply.stop == "refusal"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused else self.reply.text or None,
            "refusal": self.reply.text if refused else None,
        }
        if self.reply.calls:
            message["tool_calls"] = self._calls()
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._envelope("chat.completion"), "choices": [choice], "usage": self._usage}

    def parts(self) -> list[str]:
        word = "refusal" if self.reply.stop == "refusal" else "content"
        deltas: list[dict[str, Any]] = [{"role": "assistant"}, *({word: piece} for piece in self.pieces)]
        for number, call in enumerate(self._calls()):
            function = call["function"]
            half = len(function["arguments"]) // 2
            begun = {"name": function["name"], "arguments": function["arguments"][:half]}
            deltas.append({"tool_calls": [{**call, "index": number, "function": begun}]})
            rest = {"arguments": function["arguments"][half:]}
            deltas.append({"tool_calls": [{"index": number, "function": rest}]})
        envelope = self._envelope("chat.completion.chunk")
        chunks: list[dict[str, Any]] = [
            {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        chunks.append({**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": self._finish}]})
        chunks.append({**envelope, "choices": [], "usage": self._usage})
        return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


class _Anthropic(_Dialect):
    @property
    def _stop(self) -> str:
        named = {"length": "max_tokens", "refusal": "refusal"}.get(self.reply.stop)
        return named or ("tool_use" if self.reply.calls else "end_turn")

    def _envelope(self) -> dict[str, Any]:
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": self.request.model}

    def _blocks(self) -> list[dict[str, Any]]:
        text = [{"type": "text", "text": self.reply.text}] if self.reply.text else []
        return text + [
            {"type": "tool_use", "id": self.id_of(number), "name": name, "input": input}
            for number, (name, input) in enumerate(self.reply.calls)
        ]

    def whole(self) -> dict[str, Any]:
        return {
            **self._envelope(),
            "content": self._blocks(),
            "stop_reason": self._stop,
            "stop_sequence": None,
            "usage": {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens},
        }

    def parts(self) -> list[str]:
        usage = {"input_tokens": self.input_tokens, "output_tokens": 0}
        begun = {
            **self._envelope(),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(self._blocks()):
            if block["type"] == "text":
                deltas = [{"type": "text_delta", "text": piece} for piece in self.pieces]
                empty = {**block, "text": ""}
            else:
                arguments = block["input"]
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                half = len(text) // 2
                pieces = [text[:half], text[half:]]
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
                empty = {**block, "input": {}}
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        ended = {"stop_reason": self._stop, "stop_sequence": None}
        usage = {"output_tokens": self.output_tokens}
        events += [{"type": "message_delta", "delta": ended, "usage": usage}, {"type": "message_stop"}]
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
