"""One request to a model, over real HTTP in both protocols, streamed and whole."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from stepwell.domain.conversation import Reply
from stepwell.outbound.client import OutboundClient
from stepwell.outbound.request import OutboundCredential
from stepwell.providers.client import ask
from stepwell.providers.errors import ModelError
from stepwell.providers.model_request import ModelRequest, ToolOffer
from stepwell.providers.provider import Providers
from stepwell.testing.local_provider import LocalProvider, LocalReply, Script, _Dialect

pytestmark = pytest.mark.req("N25")
Kind = Literal["openai", "anthropic"]
BOTH = pytest.mark.parametrize("kind", ["openai", "anthropic"])
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
TOOL = ToolOffer(
    name="look",
    description="Looks it up.",
    input={"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
)
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
USER = {"role": "user", "content": "is it there?"}


@dataclass
class Asking:
    """A client and a provider that it may ask."""

    local: LocalProvider
    http: OutboundClient
    kind: Kind
    stream: bool
    texts: list[str] = field(default_factory=list)

    async def __call__(self, *, credential: OutboundCredential | None = None, **request: Any) -> Reply:
        described = self.local.config(self.kind, prices={"local-model": {"input": 1, "output": 2}})
        fields = {"messages": [USER], "stream": self.stream, "seconds": 30.0, **request}
        return await ask(
            Providers({"local": described})["local"],
            ModelRequest(**fields),
            http=self.http,
            credential=credential,
            key="run/0/ai",
            on_text=self.texts.append,
        )


@asynccontextmanager
async def asking(
    script: Script, kind: Kind = "openai", stream: bool = True, key: str = ""
) -> AsyncIterator[Asking]:
    async with LocalProvider(script, key=key) as local:
        http = OutboundClient(local.rules)
        try:
            yield Asking(local, http, kind, stream)
        finally:
            await http.close()


async def refused(asked: Asking, **request: Any) -> ModelError:
    with pytest.raises(ModelError) as refusal:
        await asked(**request)
    return refusal.value


@BOTH
@STREAMED
async def test_a_model_answers_with_text(kind: Kind, stream: bool) -> None:
    async with asking(lambda request: LocalReply("Yes, it is on the shelf."), kind, stream) as asked:
        reply = await asked(system="Be brief.", max_tokens=100, temperature=0.5)

        assert (reply.text, reply.answers, reply.answer) == (reply.text, True, "Yes, it is on the shelf.")
        assert (reply.input_tokens, reply.output_tokens) == (3, 6)
        assert reply.cost == pytest.approx(15e-6)
        assert "".join(asked.texts) == ("Yes, it is on the shelf." if stream else "")
        (request,) = asked.local.requests
        assert (request.system, request.model, request.stream) == ("Be brief.", "local-model", stream)
        assert request.body["temperature"] == 0.5
        assert 100 in (request.body.get("max_tokens"), request.body.get("max_completion_tokens"))


@BOTH
@STREAMED
async def test_calls_of_tools_are_checked(kind: Kind, stream: bool) -> None:
    calls = [("look", {"id": 7}), ("look", {"id": "x"}), ("find", {}), ("look", "{broken")]
    async with asking(lambda request: LocalReply("One moment.", calls=calls), kind, stream) as asked:
        if kind == "anthropic" and not stream:
            calls.pop()  # a whole answer has its input as JSON

        reply = await asked(tools=[TOOL])

        assert not reply.answers
        assert [(call.name, bool(call.fault)) for call in reply.calls][:3] == [
            ("look", False),
            ("look", True),
            ("find", True),
        ]
        assert "integer" in reply.calls[1].fault
        assert "there are: look" in reply.calls[2].fault
        assert all("not JSON" in call.fault for call in reply.calls[3:])


async def test_a_turn_has_a_bounded_number_of_calls_with_ids_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Dialect, "id_of", lambda self, number: "same")
    async with asking(lambda request: LocalReply(calls=[("look", {"id": 1})] * 34)) as asked:
        reply = await asked(tools=[TOOL])

        assert [bool(call.fault) for call in reply.calls] == [False] * 32 + [True] * 2
        assert len({call.id for call in reply.calls}) == 34


@BOTH
@STREAMED
async def test_a_structured_answer_is_checked(kind: Kind, stream: bool) -> None:
    answers: list[Any] = [{"ok": True}, {"ok": "yes"}]
    script = lambda request: LocalReply(calls=[("answer", answers.pop(0))])  # noqa: E731
    async with asking(script, kind, stream) as asked:
        good = await asked(schema=SCHEMA)
        bad = await asked(schema=SCHEMA)

        assert (good.answers, good.answer) == (True, {"ok": True})
        assert (bad.answers, "boolean" in bad.fault) == (False, True)


@pytest.mark.parametrize(
    ("schema", "given", "answer"),
    [
        ({"type": "integer"}, {"answer": 5}, 5),
        (
            {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}},
            {"answer": [1]},
            [1],
        ),
        ({"enum": ["a", "b"]}, {"answer": "b"}, "b"),
    ],
)
async def test_an_answer_may_have_any_type(schema: Any, given: Any, answer: Any) -> None:
    async with asking(lambda request: LocalReply(calls=[("answer", given)])) as asked:
        assert (await asked(schema=schema)).answer == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [('{"ok": true}', {"ok": True}), ('```json\n{"ok": false}\n```', {"ok": False}), ("Sure!", None)],
)
async def test_a_model_that_writes_its_answer_as_text_is_understood(text: str, answer: Any) -> None:
    async with asking(lambda request: LocalReply(text)) as asked:
        reply = await asked(schema=SCHEMA)

        assert reply.answer == answer
        assert bool(reply.fault) is (answer is None)


@BOTH
async def test_earlier_turns_and_results_are_sent(kind: Kind) -> None:
    talk = [
        USER,
        {
            "role": "assistant",
            "content": "I look.",
            "calls": [
                {"id": "1", "name": "look", "input": {"id": 7}},
                {"id": "2", "name": "look", "input": {"id": 8}},
            ],
        },
        {
            "role": "tool",
            "results": [
                {"id": "1", "name": "look", "content": {"found": True}},
                {"id": "2", "name": "look", "content": "NOT_THERE: gone", "failed": True},
            ],
        },
    ]
    async with asking(lambda request: LocalReply("It is."), kind) as asked:
        await asked(messages=talk, tools=[TOOL])

        (request,) = asked.local.requests
        assert request.turn == 1
        assert request.results[0].replace(" ", "") == '{"found":true}'
        assert "NOT_THERE" in request.results[1]


@BOTH
@STREAMED
@pytest.mark.parametrize(
    ("said", "code", "kind_of_error"),
    [
        (LocalReply("no", status=401), "AI_CREDENTIAL", "config"),
        (LocalReply("no", status=403), "AI_CREDENTIAL", "config"),
        (LocalReply("no", status=404), "AI_MODEL", "config"),
        (LocalReply("too long", status=400), "AI_REQUEST", "permanent"),
        (LocalReply("too long", status=413), "AI_REQUEST", "permanent"),
        (LocalReply("no money", status=402), "AI_QUOTA", "permanent"),
        (LocalReply("slower", status=429), "AI_RATE_LIMIT", "retried"),
        (LocalReply("oops", status=500), "AI_UNAVAILABLE", "retried"),
        (LocalReply("busy", status=503), "AI_UNAVAILABLE", "retried"),
        (LocalReply("overloaded", status=529), "AI_UNAVAILABLE", "retried"),
        (LocalReply("a text that is cut off in its middle", cut=True), "AI_UNAVAILABLE", "retried"),
        (LocalReply("I must not.", stop="refusal"), "AI_REFUSED", "permanent"),
        (LocalReply("A very long", stop="length"), "AI_TRUNCATED", "permanent"),
        (LocalReply(""), "AI_RESPONSE", "retried"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_went_wrong_has_a_code(
    kind: Kind, stream: bool, said: LocalReply, code: str, kind_of_error: str
) -> None:
    async with asking(lambda request: said, kind, stream) as asked:
        error = await refused(asked)

        assert error.code == code, error
        assert error.config is (kind_of_error == "config")
        assert error.permanent is (kind_of_error != "retried")
        assert len(asked.local.requests) == 1, "the library tried again by itself"
        paid = code in ("AI_REFUSED", "AI_TRUNCATED", "AI_RESPONSE")
        assert (error.input_tokens > 0) is paid


@BOTH
async def test_the_provider_says_when_to_try_again(kind: Kind) -> None:
    async with asking(
        lambda request: LocalReply("slower", status=429, headers={"Retry-After": "7"}), kind
    ) as asked:
        assert (await refused(asked)).retry_after == 7


async def test_an_account_without_credit_is_not_a_rate() -> None:
    async with asking(lambda request: LocalReply("no", status=429, code="insufficient_quota")) as asked:
        assert (await refused(asked)).code == "AI_QUOTA"


@STREAMED
async def test_a_request_has_one_deadline_for_the_whole_answer(stream: bool) -> None:
    said = LocalReply("a text in some parts, each of which comes in time", pause=0.2 if stream else 30.0)
    async with asking(lambda request: said, "openai", stream) as asked:
        error = await refused(asked, seconds=0.5)

        assert (error.code, error.permanent) == ("AI_TIMEOUT", False)


async def test_nothing_listens() -> None:
    async with LocalProvider(lambda request: LocalReply("x")) as local:
        port, rules = local.port, local.rules
    http = OutboundClient(rules)
    provider = Providers({"l": {"kind": "openai", "base_url": f"http://127.0.0.1:{port}/v1", "model": "m"}})[
        "l"
    ]
    try:
        with pytest.raises(ModelError) as refusal:
            await ask(
                provider,
                ModelRequest(messages=[USER], seconds=10),
                http=http,
                credential=None,
                key="k",
                on_text=lambda text: None,
            )
    finally:
        await http.close()

    assert (refusal.value.code, refusal.value.permanent) == ("AI_UNAVAILABLE", False)


async def test_a_private_address_needs_the_operators_permission() -> None:
    async with LocalProvider(lambda request: LocalReply("x")) as local:
        http = OutboundClient()  # nothing is allowed
        with pytest.raises(ModelError) as refusal:
            await ask(
                Providers({"l": {"kind": "openai", "base_url": "http://127.0.0.1:8080/v1", "model": "m"}})[
                    "l"
                ],
                ModelRequest(messages=[USER]),
                http=http,
                credential=None,
                key="k",
                on_text=lambda text: None,
            )
        await http.close()

        assert (refusal.value.code, refusal.value.config) == ("SSRF_BLOCKED", True)
        assert local.requests == []


@BOTH
async def test_only_our_credential_is_sent_and_only_where_it_belongs(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
    header = "x-api-key" if kind == "anthropic" else "authorization"
    value = "the-key" if kind == "anthropic" else "Bearer the-key"
    here: Callable[[str, str, int], bool] = lambda scheme, host, port: host == "127.0.0.1"  # noqa: E731
    async with asking(lambda request: LocalReply("x"), kind, key="the-key") as asked:
        reply = await asked(credential=OutboundCredential("key", header, value, here))
        assert reply.answer == "x"

        nowhere = OutboundCredential("key", header, value, lambda *where: False)
        assert (await refused(asked, credential=nowhere)).code == "SECRET_HOST"

        assert (await refused(asked)).code == "AI_CREDENTIAL"  # that of the environment was not sent
        assert [one.key for one in asked.local.requests] == ["the-key"]


async def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.models.openai", None)
    async with asking(lambda request: LocalReply("x")) as asked:
        error = await refused(asked)

        assert (error.code, error.config, error.hint) == (
            "AI_NOT_INSTALLED",
            True,
            'pip install "stepwell[ai]"',
        )


async def test_the_library_is_loaded_beside_the_loop() -> None:
    code = """
import asyncio, sys
from stepwell import Engine, workflow, Context
import stepwell.handlers.ai
from stepwell.providers.client import _load_library

@workflow
async def nothing(ctx: Context) -> None: ...

async def main():
    async with Engine(":memory:", workflows=[nothing]) as engine:
        await (await engine.start(nothing)).result()
        _ = engine.graphs
        assert "pydantic_ai" not in sys.modules, "loaded without an ai node"
        ticks = []
        async def tick():
            while True:
                ticks.append(asyncio.get_running_loop().time())
                await asyncio.sleep(0.01)
        beside = asyncio.create_task(tick())
        await asyncio.sleep(0)
        await _load_library()
        beside.cancel()
        assert "pydantic_ai" in sys.modules
        print(len(ticks), max(b - a for a, b in zip(ticks, ticks[1:])))
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await process.communicate()

    assert process.returncode == 0, error.decode()
    assert int(out.split()[0]) > 5, out
