"""`ask_model` in functions, plain functions and machines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from stepwell import (
    Context,
    Engine,
    Machine,
    NodeError,
    Retry,
    RunFailed,
    StepContext,
    SyncContext,
    Tool,
    ask_model,
    ask_model_sync,
    step,
    transition,
    workflow,
)
from stepwell.errors import StepError
from stepwell.testing.local_provider import LocalProvider, LocalReply, LocalRequest, Script
from tests.engines import Engines

pytestmark = [pytest.mark.req("N25"), pytest.mark.slow]
RETRY = Retry(2, "1ms")


@dataclass
class Triage:
    priority: str
    sum: int


class Refund(BaseModel):
    id: int
    amount: float = 1.0


@step
async def add(one: int, other: int = 1) -> int:
    """Add two numbers."""
    if one < 0:
        raise NodeError("NEGATIVE", "give numbers from 0 on")
    return one + other


@workflow
async def refund(ctx: Context, input: Refund) -> str:
    """Refund an order."""
    return f"refunded {input.amount} of {input.id}"


def both(request: LocalRequest) -> LocalReply:
    if request.turn == 0:
        return LocalReply("I compute.", calls=[("add", {"one": 3}), ("refund", {"id": 7, "amount": 2.5})])
    assert request.results[1] == "refunded 2.5 of 7"
    return LocalReply(calls=[("answer", {"priority": "high", "sum": int(request.results[0])})])


@workflow
async def in_function(ctx: Context, mail: str) -> Triage:
    asked = await ask_model(ctx, mail, output=Triage, tools=[add, refund], retry=RETRY)
    assert (asked.turns, asked.model, asked.usage.cost) == (2, "local-model", asked.usage.input_tokens)
    return asked.answer


@workflow
def in_plain_function(ctx: SyncContext, mail: str) -> Triage:
    answer = ask_model_sync(ctx, mail, output=Triage, tools=[add, refund], retry=RETRY).answer
    assert isinstance(answer, Triage)
    return answer


@dataclass
class Desk:
    triage: Triage | None = None


class InMachine(Machine[Desk]):
    @transition("start", "end")
    async def sort(self, ctx: Context, mail: str) -> None:
        self.state.triage = (
            await ask_model(ctx, mail, output=Triage, tools=[add, refund], retry=RETRY)
        ).answer


@asynccontextmanager
async def asking(
    engines: Engines, script: Script, *workflows: Any
) -> AsyncIterator[tuple[Engine, LocalProvider]]:
    prices = {"local-model": {"input": 1_000_000, "output": 0}}
    async with LocalProvider(script) as local:
        providers = {"local": local.config("anthropic", prices=prices)}
        async with engines.new(*workflows, outbound=local.rules, providers=providers) as engine:
            yield engine, local


async def test_all_styles_of_code_ask_models_with_tools(replayed_engines: Engines) -> None:
    async with asking(replayed_engines, both, in_function, in_plain_function, InMachine, refund) as (
        engine,
        local,
    ):
        for flow in (in_function, in_plain_function):
            assert await engine.run(flow, "how much?") == Triage("high", 4)
        run = await engine.start(InMachine, "how much?")
        await run.result(60)

        checkpoint = (await run.state()).checkpoint
        assert checkpoint is not None
        assert b'"sum":4' in bytes(checkpoint.state)
        assert len(local.requests) == 6
        described = {tool["name"]: tool for tool in local.requests[0].body["tools"]}
        assert described["add"]["description"] == "Add two numbers."
        assert described["add"]["input_schema"]["required"] == ["one"]
        assert set(described["refund"]["input_schema"]["properties"]) == {"id", "amount"}


async def test_the_model_hears_of_a_failed_tool_unless_it_should_fail_the_run(
    memory_engines: Engines,
) -> None:
    @workflow
    async def careful(ctx: Context, tells: bool) -> str:
        return (await ask_model(ctx, "?", tools=[add], report_errors=tells, retry=RETRY)).answer

    def script(request: LocalRequest) -> LocalReply:
        return LocalReply(request.results[0]) if request.turn else LocalReply(calls=[("add", {"one": -1})])

    async with asking(memory_engines, script, careful) as (engine, _):
        assert "NEGATIVE" in await engine.run(careful, True)
        with pytest.raises(RunFailed, match="give numbers from 0 on"):
            await engine.run(careful, False)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (LocalReply(calls=[("add", {"one": 1})]), "AI_MAX_TURNS"),
        (LocalReply(calls=[("divide", {})]), "AI_TOOL_ERROR"),
        (LocalReply("I must not.", stop="refusal"), "AI_REFUSED"),
    ],
)
async def test_code_sees_why_there_is_no_answer(memory_engines: Engines, said: LocalReply, code: str) -> None:
    @workflow
    async def cautious(ctx: Context) -> str:
        try:
            return (await ask_model(ctx, "?", tools=[add], max_turns=3, retry=RETRY)).answer
        except StepError as error:
            return error.cause_code

    async with asking(memory_engines, lambda request: said, cautious) as (engine, _):
        assert await engine.run(cautious) == code


@pytest.mark.parametrize(
    "options",
    [
        {"prompt": ""},
        {"prompt": []},
        {"max_turns": 0},
        {"max_repairs": -1},
        {"tools": [add, Tool(run=add)]},
        {"tools": [Tool(run=add, name="answer")]},
        {"tools": [Tool(run=add, input={"type": "string"})]},
        {"tools": [Tool(run=add, input={"type": "objekt"})]},
    ],
)
async def test_wrong_options_are_refused(memory_engines: Engines, options: dict[str, Any]) -> None:
    @workflow
    async def wrong(ctx: Context) -> str:
        given = dict(options)
        return str((await ask_model(ctx, given.pop("prompt", "?"), **given)).answer)

    async with asking(memory_engines, lambda request: LocalReply("x"), wrong) as (engine, local):
        with pytest.raises(RunFailed):
            await engine.run(wrong)
        assert local.requests == []


@step
async def reports(ctx: StepContext) -> str:
    for number in range(3):
        ctx.publish("rows", {"number": number})
        await asyncio.sleep(0)
    return "done"


@step
def reports_in_thread(ctx: StepContext) -> str:
    ctx.publish("rows", "from a thread")
    return "done"


@workflow
async def reporting(ctx: Context) -> str:
    await ctx.step(reports_in_thread)
    return await ctx.step(reports)


@pytest.mark.req("F12")
async def test_a_step_publishes_while_it_runs(engines: Engines) -> None:
    async with engines.new(reporting) as engine:
        run = await engine.start(reporting)
        await run.result(60)
        events = [event async for event in run.events()]

        news = [(event.path, event.data["data"]) for event in events if event.kind == "published"]
        assert news == [
            ("0/reports_in_thread#1", "from a thread"),
            *(("0/reports#1", {"number": number}) for number in range(3)),
        ]
