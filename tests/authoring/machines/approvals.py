"""A machine with questions, and one person as a process.

python -m tests.authoring.machines.approvals URL RUN TRIGGER BY
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

from stepwell import Context, Engine, Machine, transition
from stepwell.errors import StepwellError


@dataclass
class Approval:
    by: str


class Review(Machine[dict[str, Any]]):
    ends = frozenset({"published"})

    @transition("start", "draft")
    async def open(self, ctx: Context) -> None:
        self.state = {"reworks": 0, "approved_by": ""}

    @transition("draft", "review", wait=True)
    async def submit(self, ctx: Context) -> None: ...

    @transition("review", "approved", wait=Approval)
    async def approve(self, ctx: Context, approval: Approval) -> None:
        self.state["approved_by"] = approval.by

    @transition("review", "draft", wait=Approval)
    async def rework(self, ctx: Context, approval: Approval) -> None:
        self.state["reworks"] += 1

    @transition("approved", "published", wait=True)
    async def publish(self, ctx: Context) -> None: ...


async def person(url: str, run_id: str, name: str, by: str) -> None:
    """Reads what is open, waits for the starting shot, clicks."""
    async with Engine(url, workflows=[Review]) as engine:
        run = engine.handle(run_id)
        deliver = engine.deliver

        async def at_the_shot(message: Any) -> Any:
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            return await deliver(message)

        engine.deliver = at_the_shot  # type: ignore[method-assign]  # the last moment before it is sent
        try:
            await run.trigger(name, {"by": by}, by=by)
        except StepwellError as error:
            print(error.code, error.message)
        else:
            print("won")


if __name__ == "__main__":
    asyncio.run(person(*sys.argv[1:]))
