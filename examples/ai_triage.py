"""A model sorts complaints: it looks orders up, may ask for a refund, and a person has the last word on that.

Run it: the model is a script behind a real HTTP server on this machine (`LocalProvider`), so it needs no
account and no network. For a real one see docs/ai.md: STEPWELL_PROVIDER_MAIN='{"kind": "anthropic", ...}'.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from stepwell import Context, Engine, GraphBuilder, RunHandle, step, workflow
from stepwell.testing.local_provider import MODEL, LocalProvider, LocalReply, LocalRequest

ORDERS = {
    7: {"item": "lamp", "price": 40, "status": "lost"},
    8: {"item": "sofa", "price": 900, "status": "sent"},
}


@step
async def find_order(id: int) -> dict[str, Any]:
    """Find an order by its number."""
    return ORDERS[id]


@workflow
async def refund(ctx: Context, input: dict[str, int]) -> str:
    return f"refunded {ORDERS[input['id']]['price']}"


ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
ANSWER = {
    "type": "object",
    "required": ["priority", "reply"],
    "properties": {"priority": {"enum": ["high", "low"]}, "reply": {"type": "string"}},
}


def triage() -> GraphBuilder:
    g = GraphBuilder("triage")
    with g.inside(
        "ai",
        "sort",
        system="You answer complaints. Ask a person before you refund anything.",
        prompt="{{ctx.input.mail}}",
        outputSchema=ANSWER,
        tools=[
            {"name": "find_order", "step": "find_order"},
            {"name": "ask_person", "node": "ask", "input": ORDER, "description": "Ask for a refund."},
            {"name": "refund", "workflow": "refund", "input": ORDER, "description": "Refund an order."},
        ],
        outputVariable="sorted",
    ) as sort:
        g.node("approval", "ask", title="Refund order {{ctx.tool.input.id}}?")
    (
        g.start()
        >> sort
        >> g.end("end", output={"answer": "{{ctx.sorted.answer}}", "turns": "{{ctx.sorted.turns}}"})
    )
    return g


def model(request: LocalRequest) -> LocalReply:
    """Stand in for a language model: it decides by what it has read so far."""
    mail = request.messages[0]["content"]
    id = int("".join(letter for letter in mail if letter.isdigit()))
    if request.turn == 0:
        return LocalReply("I look the order up.", calls=[("find_order", {"id": id})])
    order = json.loads(request.results[0]) if request.turn == 1 else {}
    if order.get("status") == "sent":
        return LocalReply(calls=[("answer", {"priority": "low", "reply": "It is on its way."})])
    if request.turn == 1:
        return LocalReply("It is lost; I ask for a refund.", calls=[("ask_person", {"id": id})])
    if request.turn == 2:
        return LocalReply(calls=[("refund", {"id": id})])
    return LocalReply(
        calls=[("answer", {"priority": "high", "reply": f"We are sorry: {request.results[0]}."})]
    )


async def approve(run: RunHandle[Any]) -> None:
    """Stand in for the person who is asked."""
    async for event in run.events(follow=True):
        if event.type == "node_waiting" and event.kind == "wait_opened":
            print(f"a person approves at {event.path}")
            await run.decide("approved", by="ana")
            return


async def main() -> None:
    async with LocalProvider(model) as provider:
        prices = {MODEL: {"input": 3, "output": 15}}
        engine = Engine(
            ":memory:",
            workflows=[triage(), refund],
            steps=[find_order],
            outbound=provider.rules,
            providers={"local": provider.config("anthropic", prices=prices)},
        )
        async with engine:
            for mail in ("Where is my order 8?", "My order 7 never came!"):
                run = await engine.start("triage", {"mail": mail})
                asking = asyncio.create_task(approve(run))
                output = await run.result(60)
                asking.cancel()
                print(f"{mail} {output['answer']['priority']}: {output['answer']['reply']}")
                row = await run.info()
                tokens = row.input_tokens + row.output_tokens
                print(f"  {output['turns']} turns, {tokens} tokens, cost {row.cost:.6f}")
            for entry in await run.trace():
                print(f"  {entry.path:24} {entry.type:10} {entry.status}")


if __name__ == "__main__":
    asyncio.run(main())
