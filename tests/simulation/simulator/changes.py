"""Changes: a workflow whose code is replaced while its runs wait, and the client that decides meanwhile.

There are three releases of it. The second inserts a step before the first wait and is a mistake: runs that
wait there fail with CODE_CHANGED. The third guards the same step with `ctx.patched`. Runs that began on the
second have the step in their logs without a guard, so no later release can finish them; they stay failed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepwell.authoring.functions.step import step
from stepwell.authoring.functions.workflow import Workflow, workflow
from stepwell.client.handle import RunHandle
from stepwell.domain.messages import decide_key
from stepwell.domain.program import Context, StepContext
from stepwell.domain.status import Status
from stepwell.errors import AlreadyDecided, RunEnded
from tests.simulation.checker.changes import CHANGING
from tests.simulation.checker.evidence import Sent, Wanted
from tests.simulation.simulator.ledger import ledger
from tests.simulation.simulator.shapes import Shape
from tests.simulation.simulator.workflows import work

if TYPE_CHECKING:
    from tests.simulation.simulator.clients import SimulatedClients
    from tests.simulation.simulator.fleet import Fleet

_DECISIONS_MAX = 400
_RETRIES_AFTER_HEALING = 4

Guard = Callable[[Context], bool]


@step
async def fee(context: StepContext, tag: str) -> str:
    """The step that a later release inserts."""
    return await ledger().perform(context, tag, "", 0)


def _release(inserts: Guard) -> Workflow[Any, Any]:
    @workflow(name=CHANGING)
    async def changing(ctx: Context, plan: dict[str, Any]) -> list[str]:
        async def asks() -> str:
            if inserts(ctx):
                await ctx.step(fee, "fee")
            if plan["wait"] == "sleep":
                await ctx.sleep(plan["seconds"])
            elif plan["wait"] == "signal":
                await ctx.signal("go")
            return str(await ctx.approval(str, name="first"))

        async def works() -> None:
            for number in range(plan["beside"]):
                await ctx.step(work, f"beside{number}")
                await ctx.sleep(0.7)

        first = str((await ctx.all(asks(), works()))[0]) if plan["beside"] else await asks()
        await ctx.step(work, "asked")
        return [first, str(await ctx.approval(str, name="second"))]

    return changing


RELEASES: tuple[Workflow[Any, Any], ...] = (
    _release(lambda ctx: False),
    _release(lambda ctx: True),
    _release(lambda ctx: ctx.patched("fee")),
)


async def deploy(fleet: Fleet, rng: random.Random) -> None:
    """Replace the workers with those of the next release, one by one, by a stop or a kill."""
    for release in range(1, len(RELEASES)):
        await asyncio.sleep(rng.choice((1.0, 4.0)) * (0.5 + rng.random()))
        fleet.release = release
        for host in fleet.hosts:
            if rng.random() < 0.5:
                await fleet.restart(host)
            else:
                fleet.crash(host)
                fleet.boot(host)


# The client


def _answer(path: str) -> str:
    return f"yes to {path}"


async def decide(clients: SimulatedClients, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
    """Answer each question once, at a random time; retry a run that failed."""
    signalled = plan["wait"] != "signal"
    retries = 0
    for _ in range(_DECISIONS_MAX):
        await clients._pause()
        row = await clients._surely(handle.info)
        if row.status is Status.FAILED:
            retries += clients.healed
            if retries > _RETRIES_AFTER_HEALING:
                return
            await clients._retry_once(handle)
        elif row.status.terminal:
            return
        else:
            signalled = signalled or await clients._signal(handle, "go", 0)
            await _decide_once(clients, handle)


async def _decide_once(clients: SimulatedClients, handle: RunHandle[Any]) -> None:
    for wait in await clients._surely(handle.waits):
        if wait.what != "approval":
            continue
        path = wait.path
        try:
            await clients._surely(lambda path=path: handle.decide(_answer(path), path=path))  # type: ignore[misc]  # bound
        except (AlreadyDecided, RunEnded):
            continue  # by our own decision, whose answer was lost; or the run has failed meanwhile
        clients.decisions.append(Sent(handle.id, decide_key(path), wait.name))


# Expected results


def _input(rng: random.Random) -> dict[str, Any]:
    return {
        "wait": rng.choice(("approval", "signal", "sleep")),
        "seconds": rng.choice((0.3, 2.0, 9.0)),
        "beside": rng.choice((0, 0, 3)),
    }


def _wanted(plan: dict[str, Any]) -> Wanted:
    scope = "0~1" if plan["beside"] else "0"
    answers = [_answer(f"{scope}/approval:first#1"), _answer("0/approval:second#1")]
    return Wanted(("completed", "failed"), fits=lambda output: output == answers)


CHANGES: tuple[Shape, ...] = (Shape(RELEASES[0], _input, _wanted, "decides"),)  # a world of their own
