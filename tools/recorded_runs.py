"""Recorded runs: the engine's own events and what it says of them, for the tests of Studio.

`python -m tools.recorded_runs` runs small workflows of all three styles in memory and writes, for each, the
events as the API shows them, and the run's status and the status of its steps after every event. Studio
folds the same events in TypeScript and must come to the same answer.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepwell import Context, Engine, GraphBuilder, Machine, Retry, StepContext, step, transition, workflow
from stepwell.client import RunHandle
from stepwell.errors import RunError
from stepwell.server import views

FOLDER = Path(__file__).resolve().parents[1] / "studio" / "recorded"


@step
async def load(order: str) -> dict[str, Any]:
    return {"order": order, "amount": 1999}


@step(retry=Retry(3, delay="10ms"))
async def decline(amount: int) -> str:
    raise RuntimeError("card declined")


@step
async def count(kind: str) -> int:
    await asyncio.sleep(0.01)
    return len(kind)


@workflow
async def report(ctx: Context, day: str) -> int:
    await ctx.step(load, day)
    async with asyncio.TaskGroup() as group:
        lanes = [group.create_task(ctx.step(count, kind)) for kind in ("sales", "refunds", "stock")]
    await ctx.approval(bool, name="sign", title=f"Send the report of {day}?")
    await ctx.sleep("10ms")
    for page in range(10):
        await ctx.step(count, str(page))
        ctx.progress(page + 1, 10, f"page {page + 1} of 10")
    return sum(lane.result() for lane in lanes)


@workflow
async def checkout(ctx: Context, order: str) -> str:
    found = await ctx.step(load, order)
    return await ctx.step(decline, found["amount"])


@dataclass
class RefundState:
    cents: int = 0
    log: list[str] = field(default_factory=list)


class Refund(Machine[RefundState], name="refund"):
    ends = frozenset({"paid", "denied"})

    @transition("start", "review")
    async def submit(self, ctx: Context, cents: int) -> None:
        self.state.cents = cents

    @transition("review", "paid", wait=str)
    async def approve(self, ctx: Context, by: str) -> None:
        self.state.log.append(by)

    @transition("review", "denied", wait=True)
    async def deny(self, ctx: Context) -> None: ...


def order() -> GraphBuilder:
    graph = GraphBuilder("order")
    start, fork, join = graph.start(), graph.fork("both"), graph.merge("joined")
    check = graph.condition("check", enough="ctx.input.count < 5")
    start >> graph.node("call", "load", step="load", args={"order": "{{ctx.input.order}}"}) >> check
    check.on("enough") >> fork
    check.on("else") >> graph.end("none")
    fork >> graph.node("call", "sales", step="count", args={"kind": "sales"}) >> join
    ask = graph.node("approval", "ask", title="Ship it?")
    fork >> ask
    ask.on("approved") >> join
    ask.on("denied") >> graph.end("stopped")
    join >> graph.end("done", output={"text": "shipped"})
    return graph


@step(retry=Retry(2, delay="1ms"))
async def ask(ctx: StepContext, item: int) -> int:
    """Counts what a model used, also of the attempt that failed."""
    ctx.usage(input_tokens=10 * item, output_tokens=item, cost=0.25)
    ctx.details(model="m", item=item)
    if item == 2 and ctx.attempt == 1:
        raise RuntimeError("rate limited")
    return item


def triage() -> GraphBuilder:
    graph = GraphBuilder("triage")
    with graph.inside("loop", "each", items="ctx.input.mails") as each:
        graph.node("call", "ask", step="ask", args={"item": "{{loop.item}}"})
    graph.start() >> each
    each.on("done") >> graph.end("done")
    return graph


async def record() -> dict[str, dict[str, Any]]:
    """Run each workflow to its end and return what happened, by name."""
    async with Engine(
        ":memory:", workflows=[report, checkout, Refund, order(), triage()], steps=[load, count, ask]
    ) as engine:
        reported = await engine.start(report, "2026-11-16")
        failed = await engine.start(checkout, "8841")
        refunded = await engine.start(Refund, 1999)
        shipped = await engine.start("order", {"order": "8841", "count": 2})
        triaged = await engine.start("triage", {"mails": [1, 2, 3]})
        await reported.waiting_for("sign")
        await reported.decide(True, by="ana")
        await refunded.waiting_for("review")
        await refunded.trigger("approve", "ana", by="ana")
        await shipped.waiting_for("ask")
        await shipped.decide("approved", by="ben")
        runs: dict[str, RunHandle[Any]] = {
            "function": reported,
            "failed": failed,
            "machine": refunded,
            "graph": shipped,
            "loop": triaged,
        }
        return {name: await recorded(run) for name, run in runs.items()}


async def recorded(run: RunHandle[Any]) -> dict[str, Any]:
    try:
        await run.result(timeout=30)
    except RunError:
        pass
    rows = await run._client.store.read_log(run.id, after=0, limit=1000)
    moments = []
    for row in rows:
        state = await run.state(row.seq)
        moments.append(
            {
                "seq": row.seq,
                "ended": state.status.value if state.status.terminal else "",
                "steps": {path: step.status for path, step in state.steps.items()},
                "waits": sorted(state.waits),
                "place": state.checkpoint.place if state.checkpoint else "",
            }
        )
    events = [views.EventView(**views.event_fields(row, run.id, "")).model_dump(mode="json") for row in rows]
    info = await run.info()
    used = {"input": info.input_tokens, "output": info.output_tokens, "cost": info.cost}
    return {"events": events, "moments": moments, "used": used}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, run in asyncio.run(record()).items():
        (FOLDER / f"{name}.json").write_text(json.dumps(run, indent=1))


if __name__ == "__main__":
    main()
