"""The `ai` node in running graphs, against a provider on loopback that speaks both protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from stepwell import Context, Engine, InvalidGraph, NodeError, RunHandle, step, workflow
from stepwell.secrets.keyring import Keyring
from stepwell.testing.local_provider import LocalProvider, LocalReply, Script
from tests.engines import Engines, crash, suspended, until
from tests.secrets.test_use import everything_stored

pytestmark = [pytest.mark.req("N25"), pytest.mark.slow]
Kind = Literal["openai", "anthropic"]
BOTH = pytest.mark.parametrize("kind", ["openai", "anthropic"])
PRICES = {"local-model": {"input": 1_000_000, "output": 2_000_000}}
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
ONCE = {"maxAttempts": 1}
QUICKLY = {"maxAttempts": 3, "delayMs": 1, "maxDelayMs": 5}


@step
async def double(number: int) -> int:
    if number < 0:
        raise NodeError("NEGATIVE", "give a number from 0 on")
    return number * 2


@workflow
async def triple(ctx: Context, input: dict[str, int]) -> int:
    return input["number"] * 3


def talk(data: dict[str, Any], *body: dict[str, Any]) -> dict[str, Any]:
    question = {} if "messages" in data else {"prompt": "{{ctx.input.text}}"}
    nodes: list[dict[str, Any]] = [
        {"id": "start", "type": "start"},
        {"id": "talk", "type": "ai", "data": {**question, "outputVariable": "said", **data}},
        {"id": "end", "type": "end", "data": {"output": {"result": "{{ctx.said}}"}}},
        {"id": "failed", "type": "end", "data": {"output": {"result": "{{ctx.error.code}}"}}},
        *({**node, "parentId": "talk"} for node in body),
    ]
    edges = [
        {"source": "start", "target": "talk"},
        {"source": "talk", "target": "end"},
        {"source": "talk", "target": "failed", "sourceHandle": "error"},
    ]
    return {"nodes": nodes, "edges": edges}


@asynccontextmanager
async def asking(
    engines: Engines, script: Script, kind: Kind = "openai", key: str = "", **options: Any
) -> AsyncIterator[tuple[Engine, LocalProvider]]:
    async with LocalProvider(script, key=key) as local:
        described = local.config(kind, prices=PRICES, **({"credential": "model-key"} if key else {}))
        options = {"providers": {"local": described}, "outbound": local.rules, **options}
        async with engines.new(triple, steps=[double], **options) as engine:
            yield engine, local


async def result(run: RunHandle[Any]) -> Any:
    return (await run.result(60))["result"]


@BOTH
async def test_a_graph_asks_a_model_with_tools_of_every_kind(engines: Engines, kind: Kind) -> None:
    """A step, a workflow and nodes of the body; the first turn calls all of them at once."""

    def script(request: Any) -> LocalReply:
        if request.turn == 0:
            names = ("double", "triple", "add")
            return LocalReply("I compute.", calls=[(name, {"number": 7}) for name in names])
        return LocalReply(calls=[("answer", {"sum": sum(int(one) for one in request.results)})])

    tools = [
        {"name": "double", "step": "double", "description": "Doubles it."},
        {"name": "triple", "workflow": "triple", "input": NUMBER},
        {"name": "add", "node": "first", "input": NUMBER},
    ]
    body = [
        {"id": "first", "type": "set", "data": {"values": {"more": "{{ctx.tool.input.number + 1}}"}}},
        {"id": "second", "type": "transform", "data": {"expression": "ctx.more + ctx.input.plus"}},
    ]
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    definition = talk({"system": "Add {{ctx.input.plus}}.", "tools": tools, "outputSchema": schema}, *body)
    definition["edges"].append({"source": "first", "target": "second"})
    async with asking(engines, script, kind) as (engine, local):
        run = await engine.start_graph(definition, {"text": "how much?", "plus": 100})

        said = await result(run)
        assert said["answer"] == {"sum": 14 + 21 + 108}
        assert (said["model"], said["turns"]) == ("local-model", 2)
        assert local.requests[0].system == "Add 100."
        assert sorted(local.requests[0].tools) == ["add", "answer", "double", "triple"]
        entries = {entry.path: entry for entry in await run.trace()}
        ai = entries["0/talk"]
        used = said["usage"]
        assert ai.details == {"model": "local-model", "turns": 2}
        assert ai.usage is not None
        assert (ai.usage["input_tokens"], ai.usage["cost"]) == (used["inputTokens"], used["cost"])
        assert used["cost"] == used["inputTokens"] + 2 * used["outputTokens"]
        assert [path for path in entries if path.startswith("0/talk[")] == [
            "0/talk[0]/double",
            "0/talk[1]/triple",
            "0/talk[2]/first",
            "0/talk[2]/second",
        ]
        info = await run.info()
        assert (info.input_tokens, info.cost) == (used["inputTokens"], used["cost"])


@BOTH
async def test_messages_may_have_earlier_turns_or_come_from_data(memory_engines: Engines, kind: Kind) -> None:
    listed = [
        {"role": "user", "content": "I am {{ctx.input.name}}."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Who am I?"},
    ]
    async with asking(memory_engines, lambda request: LocalReply(request.messages[0]["content"]), kind) as (
        engine,
        local,
    ):
        first = await engine.start_graph(talk({"messages": listed}), {"name": "Ada"})
        given = [{"role": "user", "content": "I am Bob."}]
        second = await engine.start_graph(talk({"messages": "{{ctx.input.talk}}"}), {"talk": given})
        third = await engine.start_graph(talk({"messages": "{{ctx.input.talk}}"}), {"talk": "hello"})

        assert (await result(first))["answer"] == "I am Ada."
        assert (await result(second))["answer"] == "I am Bob."
        assert await result(third) == "AI_MESSAGES"
        assert [len(request.messages) for request in local.requests] == [3, 1]


async def test_an_answer_that_does_not_fit_is_repaired_a_few_times(memory_engines: Engines) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    good_after = {"value": 2}

    def script(request: Any) -> LocalReply:
        return LocalReply(
            calls=[("answer", {"n": request.turn if request.turn >= good_after["value"] else "many"})]
        )

    async with asking(memory_engines, script) as (engine, local):
        run = await engine.start_graph(talk({"outputSchema": schema}), {"text": "?"})
        assert (await result(run))["answer"] == {"n": 2}
        assert "integer" in local.requests[1].results[0]

        good_after["value"] = 99
        run = await engine.start_graph(talk({"outputSchema": schema, "maxRepairs": 1}), {"text": "?"})
        assert await result(run) == "AI_OUTPUT"
        assert len(local.requests) == 5


@pytest.mark.parametrize(
    ("calls", "data", "code", "requests"),
    [
        ([("nothing", {})], {}, "AI_TOOL_ERROR", 2),  # GC-K29
        ([("double", {"number": "x"})], {}, "AI_TOOL_ERROR", 2),
        ([("double", {"number": 1})], {"maxTurns": 3}, "AI_MAX_TURNS", 3),
        ([("double", {"number": -1})], {"onToolError": "fail"}, "NEGATIVE", 1),
    ],
)
async def test_a_tool_loop_is_bounded(
    memory_engines: Engines, calls: Any, data: dict[str, Any], code: str, requests: int
) -> None:
    tools = [{"name": "double", "step": "double"}]
    async with asking(memory_engines, lambda request: LocalReply(calls=calls)) as (engine, local):
        run = await engine.start_graph(talk({"tools": tools, **data}), {"text": "?"})

        assert await result(run) == code
        assert len(local.requests) == requests


async def test_the_model_hears_of_a_tool_that_failed(memory_engines: Engines) -> None:
    def script(request: Any) -> LocalReply:
        return (
            LocalReply(request.results[0]) if request.turn else LocalReply(calls=[("double", {"number": -1})])
        )

    async with asking(memory_engines, script) as (engine, _):
        run = await engine.start_graph(talk({"tools": [{"name": "double", "step": "double"}]}), {"text": "?"})

        assert "NEGATIVE: give a number from 0 on" in (await result(run))["answer"]


@BOTH
async def test_busy_providers_are_asked_again_when_they_say(memory_engines: Engines, kind: Kind) -> None:
    answers = [
        LocalReply("slower", status=429, headers={"retry-after": "0"}),
        LocalReply("overloaded", status=529),
        LocalReply("at last"),
    ]
    async with asking(memory_engines, lambda request: answers.pop(0), kind) as (engine, local):
        run = await engine.start_graph(talk({"retry": QUICKLY}), {"text": "?"})

        assert (await result(run))["answer"] == "at last"
        keys = {request.idempotency_key for request in local.requests}
        assert keys == {f"{run.id}/0/talk@model#1"}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (LocalReply("no", status=401), "AI_CREDENTIAL"),
        (LocalReply("no", status=404), "AI_MODEL"),
        (LocalReply("I must not.", stop="refusal"), "AI_REFUSED"),
        (LocalReply("A very long", stop="length"), "AI_TRUNCATED"),
        (LocalReply("too long", status=400), "AI_REQUEST"),
    ],
)
async def test_what_cannot_be_helped_is_not_tried_again(
    memory_engines: Engines, said: LocalReply, code: str
) -> None:
    async with asking(memory_engines, lambda request: said) as (engine, local):
        run = await engine.start_graph(talk({"retry": QUICKLY}), {"text": "one two"})

        assert await result(run) == code
        assert len(local.requests) == 1
        paid = said.stop != ""
        assert ((await run.info()).input_tokens == 2) is paid


async def test_text_is_shown_while_it_is_written(engines: Engines) -> None:
    text = " ".join(f"word{number}" for number in range(40))
    said = LocalReply(text, pause=0.06)
    async with asking(engines, lambda request: said) as (engine, _):
        run = await engine.start_graph(talk({}), {"text": "?"})
        await run.result(60)
        events = [event async for event in run.events()]
        shown = [event for event in events if event.kind == "published"]
        silent = await engine.start_graph(talk({"stream": False}), {"text": "?"})
        await silent.result(60)

        assert 1 <= len(shown) <= 10, "coalesced"
        assert {event.path for event in shown} == {"0/talk@model#1"}
        assert text.startswith("".join(event.data["data"]["text"] for event in shown))
        assert events.index(shown[0]) < next(
            i for i, one in enumerate(events) if one.kind == "step_completed"
        )
        assert "published" not in [event.kind async for event in silent.events()]


async def test_a_conversation_has_a_time_limit_of_its_own(memory_engines: Engines) -> None:
    async with asking(memory_engines, lambda request: LocalReply("late", pause=60)) as (engine, _):
        whole = await engine.start_graph(talk({"timeoutMs": 200}), {"text": "?"})
        each = await engine.start_graph(
            talk({"requestTimeoutMs": 200, "retry": ONCE, "stream": False}), {"text": "?"}
        )

        assert await result(whole) == "STEP_TIMED_OUT"
        assert await result(each) == "AI_TIMEOUT"


async def test_a_run_that_is_taken_over_continues_in_the_middle(durable_engines: Engines) -> None:
    """A person approves what the model wants; each time another worker goes on, and replays everything."""

    def script(request: Any) -> LocalReply:
        if request.turn < 2:
            return LocalReply(calls=[("double", {"number": request.turn}), ("approve", {})])
        return LocalReply("done")

    tools = [{"name": "double", "step": "double"}, {"name": "approve", "node": "ask"}]
    body = {"id": "ask", "type": "approval", "data": {"title": "May it?"}}
    async with LocalProvider(script) as local:
        options: dict[str, Any] = {"providers": {"local": local.config()}, "outbound": local.rules}
        options |= {"steps": [double], "replay_always": True}
        async with durable_engines.new(triple, **options) as engine:
            run = await engine.start_graph(talk({"tools": tools}, body), {"text": "?"})
            await suspended(run)
        for turn in range(2):
            engine = durable_engines.new(triple, **options)
            await engine.open()
            run = engine.handle(run.id)
            await run.decide("approved", path=f"0/talk[{turn * 2 + 1}]/ask")
            if turn == 0:
                await until(lambda: len(local.requests) == 2)
                await suspended(run)
                await crash(engine)
        assert (await result(run))["answer"] == "done"
        await engine.close()

        assert len(local.requests) == 3


def problems(engine: Engine, definition: dict[str, Any]) -> set[tuple[str, str, str]]:
    with pytest.raises(InvalidGraph) as refusal:
        engine.graphs.workflow(definition)
    assert all(problem.suggestion for problem in refusal.value.problems)
    return {(problem.code, problem.node, problem.field) for problem in refusal.value.problems}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"provider": "locl"}, ("AI_PROVIDER", "talk", "provider")),
        ({"provider": "bare"}, ("AI_MODEL", "talk", "model")),
        ({"provider": "few", "model": "smal"}, ("AI_MODEL", "talk", "model")),
        ({"tools": [{"name": "x", "step": "doubl"}]}, ("UNKNOWN_STEP", "talk", "tools.0.step")),
        ({"tools": [{"name": "x", "node": "gone"}]}, ("UNKNOWN_TOOL", "talk", "tools.0.node")),
        ({"tools": [{"name": "answer", "workflow": "w"}]}, ("TOOL_NAME", "talk", "tools.0.name")),
        (
            {"tools": [{"name": "x", "workflow": "w", "input": {"type": "objekt"}}]},
            ("INVALID_DATA", "talk", "tools.0.input"),
        ),
        ({"outputSchema": {"type": "objekt"}}, ("INVALID_DATA", "talk", "outputSchema")),
        ({"system": "{{ctx.}}"}, ("BAD_EXPRESSION", "talk", "system")),
        ({"messages": [{"role": "assistant", "content": "x"}]}, ("AI_MESSAGES", "talk", "messages")),
    ],
)
def test_mistakes_are_found_when_the_graph_is_saved(
    data: dict[str, Any], problem: tuple[str, str, str]
) -> None:
    providers: dict[str, dict[str, Any]] = {
        "local": {"kind": "openai", "model": "m"},
        "bare": {"kind": "openai"},
        "few": {"kind": "openai", "models": ["small"]},
        "default": {"kind": "openai", "model": "m"},
    }
    engine = Engine(":memory:", steps=[double], providers=providers)

    assert problem in problems(engine, talk(data))


@pytest.mark.parametrize(
    "data",
    [
        {"prompt": ""},
        {"messages": []},
        {"prompt": "x", "messages": "{{ctx.x}}"},
        {"maxTurns": 0},
        {"maxTurns": 101},
        {"temperature": 3},
        {"requestTimeoutMs": 0},
        {"tools": [{"name": "a b", "step": "double"}]},
        {"tools": [{"name": "x"}]},
        {"tools": [{"name": "x", "step": "double", "workflow": "w"}]},
        {"unknown": 1},
    ],
)
def test_wrong_data_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidGraph):
        Engine(":memory:", steps=[double]).graphs.workflow(talk(data))


def test_a_body_has_only_tools() -> None:
    engine = Engine(":memory:", steps=[double])
    lost = {"id": "lost", "type": "set", "data": {"values": {"a": 1}}}

    assert ("UNKNOWN_TOOL", "lost", "parentId") in problems(engine, talk({}, lost))


@pytest.mark.parametrize(
    ("data", "providers", "code"),
    [
        ({}, {}, "AI_PROVIDER"),
        ({"provider": "other"}, {}, "AI_PROVIDER"),
    ],
)
async def test_a_worker_without_the_provider_says_so(
    memory_engines: Engines, data: dict[str, Any], providers: dict[str, Any], code: str
) -> None:
    async with memory_engines.new(triple, steps=[double], providers=providers) as engine:
        run = await engine.start_graph(talk(data), {"text": "?"})

        assert await result(run) == code
        ai = next(entry for entry in await run.trace() if entry.path == "0/talk")
        assert ai.error is not None
        assert ai.error.kind == "configuration"


KEYS = Keyring({"k1": b"1" * 32}, current="k1")
CANARY = "canary-4f9a-8841-71b2"


@BOTH
async def test_a_key_is_sent_to_its_host_and_written_nowhere(engines: Engines, kind: Kind) -> None:
    def script(request: Any) -> LocalReply:
        if "reveal" in request.messages[0]["content"]:
            return LocalReply(f"the key is {request.key}", pause=0.6)
        return LocalReply(f"wrong key: {request.key}", status=400)

    async with asking(engines, script, kind, key=CANARY, keyring=KEYS) as (engine, local):
        runs = [await engine.start_graph(talk({}), {"text": "reveal"})]
        assert await result(runs[0]) == "SECRET_UNREADABLE"

        await engine.secrets.set("model-key", CANARY, hosts=[f"http://127.0.0.1:{local.port + 1}"])
        runs.append(await engine.start_graph(talk({}), {"text": "reveal"}))
        assert await result(runs[1]) in ("SECRET_HOST", "SECRET_UNREADABLE")
        assert local.requests == []

    async with asking(engines, script, kind, key=CANARY, keyring=KEYS) as (engine, local):
        await engine.secrets.set("model-key", CANARY, hosts=[f"http://127.0.0.1:{local.port}"])
        runs.append(await engine.start_graph(talk({}), {"text": "reveal"}))
        assert (await result(runs[2]))["answer"] == "the key is [secret model-key]"
        runs.append(await engine.start_graph(talk({}), {"text": "fail"}))
        assert await result(runs[3]) == "AI_REQUEST"

        assert {request.key for request in local.requests} == {CANARY}
        seen = [
            [[event async for event in run.events()], await run.trace(), await run.info()]
            for run in [engine.handle(run.id) for run in runs]
        ]
        assert CANARY not in repr(seen)
        assert CANARY.encode() not in await everything_stored(engines, engine)
