"""Work for the move: runs of all three styles, and a process that moves them."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from stepwell import Context, Machine, step, transition, workflow
from stepwell.authoring.graphs.format.python_builder import GraphBuilder
from stepwell.store.move import MoveProgress
from stepwell.store.open import move


@step
async def double(n: int) -> int:
    print("doubling", n)
    return 2 * n


@workflow
async def function(ctx: Context, n: int) -> int:
    doubled = await ctx.step(double, n)
    return doubled + (await ctx.signal("go", int) if n >= 0 else 0)


class Order(Machine[dict[str, Any]]):
    @transition("start", "asked")
    async def take(self, ctx: Context, n: int) -> None:
        self.state |= {"n": n, "doubled": await ctx.step(double, n)}

    @transition("asked", "end", when=lambda state: state["n"] < 0)
    async def skip(self, ctx: Context) -> None: ...

    @transition("asked", "end", wait=int, when=lambda state: state["n"] >= 0)
    async def pay(self, ctx: Context, amount: int) -> None:
        self.state["paid"] = amount


def graph() -> GraphBuilder:
    made = GraphBuilder("graph")
    call = made.node(
        "call", id="call", step="double", args={"n": "{{ctx.input.n}}"}, outputVariable="doubled"
    )
    which = made.node("condition", id="which", branches=[{"id": "asks", "when": "ctx.input.n >= 0"}])
    ask = made.node("approval", id="ask", message="Pay?", required=2)
    made.node("start") >> call >> which
    which["asks"] >> ask
    which["else"] >> made.node("end", id="ended", output={"doubled": "{{ctx.doubled}}"})
    ask["approved"] >> made.node("end", id="paid", output={"doubled": "{{ctx.doubled}}"})
    return made


async def main(source: str, target: str, stop_at: int) -> None:
    def say(progress: MoveProgress) -> None:
        print(progress.runs, progress.total, flush=True)
        if stop_at and progress.runs >= stop_at:
            signal.pause()  # to be killed here, between two transactions

    done = await move(source, target, progress=say)
    print("moved", done.runs, done.unfinished, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
