"""Work for the move: runs of all three styles, and a process that moves them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

from stepwell import Context, Machine, step, transition, workflow
from stepwell.authoring.graphs.format.python_builder import GraphBuilder
from stepwell.cli import main as cli
from stepwell.store import open as stores
from stepwell.store.move import Moved, MoveProgress


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


def main(source: str, target: str, stop_at: int) -> int:
    """Call `stepwell move`, and say how far it is."""
    move = stores.move

    async def told(source: str, target: str, *, progress: Callable[[MoveProgress], None]) -> Moved:
        def say(at: MoveProgress) -> None:
            progress(at)
            print(at.runs, at.total, flush=True)
            if stop_at and at.runs >= stop_at:
                signal.pause()  # to be killed here, between two transactions

        return await move(source, target, progress=say)

    stores.move = told  # type: ignore[assignment]
    return cli(["move", source, target, "--yes", "--json"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
