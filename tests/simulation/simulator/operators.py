"""Operators: runs that people hold, release, end by force and skip steps of, and whose variables they set."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec

from stepwell.authoring.functions.workflow import workflow
from stepwell.authoring.graphs.workflow import GraphWorkflow, graph
from stepwell.client.handle import RunHandle
from stepwell.domain.commit import RunRow
from stepwell.domain.program import Context
from stepwell.domain.status import Status
from stepwell.errors import NotHoldable, NotSettable, NotSkippable, RunEnded
from tests.simulation.checker.evidence import Operated, Wanted
from tests.simulation.simulator import workflows as w
from tests.simulation.simulator.shapes import Shape

if TYPE_CHECKING:
    from tests.simulation.simulator.clients import SimulatedClients

_LOOKS_MAX = 400
GIVEN = "given"


@workflow
async def steady(ctx: Context, plan: dict[str, Any]) -> list[str]:
    """Step after step, with a pause before each second one."""
    tokens: list[str] = []
    for number in range(plan["n"]):
        if number % 2:
            await ctx.sleep(plan["seconds"])
        tokens.append(await ctx.step(w.work, f"t{number}", tokens[-1] if tokens else ""))
    return w.tags(*tokens)


@workflow
async def stuck(ctx: Context, plan: dict[str, Any]) -> list[str]:
    """One of its steps can only be skipped."""
    before = await ctx.step(w.work, "before")
    lost = await ctx.step(w.fragile, "lost", 1000)
    after = await ctx.step(w.work, "after", before)
    return [*w.tags(before), lost, *w.tags(after)]


def _waiting() -> GraphWorkflow:
    """Sets a variable and waits; what its end shows is what people have set it to."""
    nodes = [
        {"id": "start", "type": "start"},
        {"id": "first", "type": "set", "data": {"values": {"v": -1}}},
        {"id": "wait", "type": "wait", "data": {"mode": "event", "event": "go"}},
        {"id": "end", "type": "end", "data": {"output": {"v": "{{ctx.v}}"}}},
    ]
    edges = [
        {"id": f"e{at}", "source": source, "sourceHandle": "out", "target": target}
        for at, (source, target) in enumerate((("start", "first"), ("first", "wait"), ("wait", "end")))
    ]
    return graph({"name": "waiting", "nodes": nodes, "edges": edges})


WAITING = _waiting()
OPERATED = (steady, stuck, WAITING)


# What the operators do


async def hold(clients: SimulatedClients, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
    """Hold and release it a few times, then look after it until it has ended."""
    for _ in range(plan["holds"]):
        await clients._pause()
        try:
            await clients._surely(handle.hold)
        except (RunEnded, NotHoldable):
            break
        clients.operated.append(Operated(handle.id, "held"))
        await clients._pause()
        if plan["signals"]:
            await clients._signal(handle, "go", 0)
        if not await _released(clients, handle):
            break
    for _ in range(_LOOKS_MAX):
        row = await clients._surely(handle.info)
        if row.status is Status.FAILED:
            return await clients._wait(handle, plan)
        if row.status.terminal:
            return None
        if row.held:  # by a hold that was executed late
            await _released(clients, handle)
        await clients._pause()
    return None


def _crashed(row: RunRow) -> bool:
    """It failed only because its workers died."""
    return row.error is not None and msgspec.json.decode(row.error)["code"] == "WORKER_CRASHED"


async def _released(clients: SimulatedClients, handle: RunHandle[Any]) -> bool:
    try:
        await clients._surely(handle.release)
    except RunEnded:
        return False
    return True


async def force(clients: SimulatedClients, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
    await clients._pause()
    if plan["asks"]:  # its cleanup hangs, or is just slow
        await clients._surely(lambda: handle.cancel("enough"))
        await clients._pause()
    await clients._surely(lambda: handle.cancel("now", force=True))
    clients.operated.append(Operated(handle.id, "forced"))
    await clients._ended(handle)


async def skip(clients: SimulatedClients, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
    """Skip the step that failed; a run that lost its workers is retried instead."""
    skips = 0
    while (row := await clients._ended(handle)).status is Status.FAILED and skips < 3:
        await clients._pause()
        if _crashed(row):
            await clients._retry_once(handle)
            continue
        try:
            await clients._surely(lambda: handle.skip(GIVEN))
            skips += 1
        except NotSkippable:
            pass  # the first, unanswered one was executed


async def set_variables(clients: SimulatedClients, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
    """Set the variable to 0, 1, 2 ..., each once it is acknowledged; then let the run continue."""
    done = 0
    for _ in range(_LOOKS_MAX):
        row = await clients._surely(handle.info)
        if row.status is Status.FAILED and _crashed(row):
            await clients._retry_once(handle)
        elif row.status.terminal:
            return
        elif done == plan["n"]:
            await _go(clients, handle)
        elif row.status is Status.SUSPENDED:
            done += await _set(clients, handle, done)
        await clients._pause()


async def _set(clients: SimulatedClients, handle: RunHandle[Any], number: int) -> bool:
    id = f"{handle.id}-{number}"
    try:
        await clients._surely(lambda: handle.set_variable("v", number, id=id))
    except (NotSettable, RunEnded):
        return False  # it has just moved, or failed
    clients.operated.append(Operated(handle.id, "set", f"variable/{id}"))
    return True


async def _go(clients: SimulatedClients, handle: RunHandle[Any]) -> None:
    try:
        await clients._surely(lambda: handle.event("go", None, id="go"))
    except RunEnded:
        pass


# Expected results


def _steady(rng: random.Random) -> dict[str, Any]:
    seconds = rng.choice((0.05, 0.9, 3.0))
    return {"n": rng.randint(2, 6), "seconds": seconds, "holds": rng.randint(1, 3), "signals": False}


def _cancelled(rng: random.Random) -> dict[str, Any]:
    return {"seconds": rng.choice((0.1, 3.0, 900.0)), "asks": rng.random() < 0.4}


OPERATORS: tuple[Shape, ...] = (  # a world of their own
    Shape(
        steady,
        _steady,
        lambda p: Wanted(fits=lambda output: output == [f"t{i}" for i in range(p["n"])]),
        "holds",
    ),
    Shape(
        w.signalled,
        lambda rng: {"n": (n := rng.randint(1, 3)), "holds": n, "signals": True},
        lambda p: Wanted(fits=lambda output: output == [0] * p["n"]),
        "holds",
    ),
    Shape(w.cancelled, _cancelled, lambda p: Wanted(("cancelled",)), "forces"),
    Shape(w.abandoned, _cancelled, lambda p: Wanted(("cancelled",)), "forces"),
    Shape(
        stuck,
        lambda rng: {},
        lambda p: Wanted(fits=lambda output: output == ["before", GIVEN, "after"]),
        "skips",
    ),
    Shape(
        WAITING,
        lambda rng: {"n": rng.randint(1, 3)},
        lambda p: Wanted(fits=lambda output: output == {"v": p["n"] - 1}),
        "sets_variables",
    ),
)
