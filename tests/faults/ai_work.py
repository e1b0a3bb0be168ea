"""Conversations with a model in all styles, whose tools write to a ledger of their own: a file.

A tool that finds the file `hold` beside the ledger never returns.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwell import (
    Context,
    Machine,
    Retry,
    StepContext,
    SyncContext,
    ask_model,
    ask_model_sync,
    step,
    transition,
    workflow,
)

LEDGER_VARIABLE = "FAULTS_AI_LEDGER"
RETRY = Retry(3, "10ms")


@step
async def note(ctx: StepContext, number: int) -> int:
    if _written(ctx.key) and number == 2:
        await asyncio.Event().wait()
    return number * 10


def _written(key: str) -> bool:
    """Write a line; return whether the file `hold` is there."""
    ledger = Path(os.environ[LEDGER_VARIABLE])
    with open(ledger, "a", encoding="utf-8") as file:
        file.write(f"{key}\n")
    return (ledger.parent / "hold").exists()


@workflow
async def in_function(ctx: Context, prompt: str) -> str:
    return (await ask_model(ctx, prompt, tools=[note], retry=RETRY)).answer


@workflow
def in_plain_function(ctx: SyncContext, prompt: str) -> str:
    return str(ask_model_sync(ctx, prompt, tools=[note], retry=RETRY).answer)


@dataclass
class Desk:
    answer: str = ""


class InMachine(Machine[Desk]):
    @transition("start", "end")
    async def reply(self, ctx: Context, prompt: str) -> None:
        self.state.answer = (await ask_model(ctx, prompt, tools=[note], retry=RETRY)).answer


NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
GRAPH: dict[str, Any] = {
    "name": "in_graph",
    "nodes": [
        {"id": "start", "type": "start"},
        {
            "id": "talk",
            "type": "ai",
            "data": {
                "prompt": "{{ctx.input.prompt}}",
                "tools": [{"name": "note", "node": "write", "input": NUMBER}],
                "outputVariable": "said",
                "retry": {"maxAttempts": 3, "delayMs": 10},
            },
        },
        {
            "id": "write",
            "type": "call",
            "parentId": "talk",
            "data": {"step": "note", "args": {"number": "{{ctx.tool.input.number}}"}},
        },
        {"id": "end", "type": "end", "data": {"output": {"answer": "{{ctx.said.answer}}"}}},
    ],
    "edges": [{"source": "start", "target": "talk"}, {"source": "talk", "target": "end"}],
}
WORKFLOWS = [in_function, in_plain_function, InMachine, GRAPH]
STEPS = [note]
