"""The program of a machine: from its last checkpoint, one transition after the other.

It runs automatic transitions until a place where it must be triggered, an end, or an error. What it
knows of the past is the checkpoint alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from stepwell.authoring.machines.exits import START, Exit
from stepwell.errors import NoWayOut

if TYPE_CHECKING:
    from stepwell.authoring.machines.machine import Plan
    from stepwell.domain.moves import MachineRun


async def run_machine(plan: Plan, ctx: Any, input: bytes) -> bytes:
    """Lead the machine to one of its ends; its state there is the result."""
    at: MachineRun = ctx.machine()
    while True:
        place = at.place or START
        state = plan.initial if at.state is None else bytes(at.state)
        if place in plan.ends:
            return state
        exit, payload = await _next(plan, at, place, state, input)
        await at.transit(exit.moves[place], _attempt(plan, exit, at, state, payload))


async def _next(plan: Plan, at: MachineRun, place: str, state: bytes, input: bytes) -> tuple[Exit, bytes]:
    exits = plan.places[place]
    certain = exits.certain
    if certain is not None:
        return certain, input
    if at.chosen:
        for exit in exits.automatic:
            if exit.name == at.chosen:
                return exit, input
    for exit in exits.automatic:
        if exit.holds(plan.state.decode(state), lambda: plan.input.decode(input)):
            return exit, input
    waiting = {
        exit.name: exit
        for exit in exits.waiting
        if exit.holds(plan.state.decode(state), lambda: plan.input.decode(input))
    }
    if not waiting:
        names = ", ".join(exit.name for exit in [*exits.automatic, *exits.waiting])
        raise NoWayOut(
            f"no transition can leave {place!r}: when= of {names} does not hold",
            hint="give one of them no when=, or mend the guard and retry the run",
        )
    name, payload = await at.triggered(place, {name: plan.payloads[name] for name in waiting})
    return waiting[name], bytes(payload)


def _attempt(
    plan: Plan, exit: Exit, at: MachineRun, state: bytes, payload: bytes | Raw
) -> Callable[[Any], Any]:
    """The method as the engine runs it: over a fresh copy of the state, which it gives back as JSON."""
    error = at.error

    def prepared(ctx: Any) -> tuple[Any, tuple[Any, ...]]:
        machine = plan.machine()
        machine.state = plan.state.decode(state)
        if error is not None:
            machine.error = error
        if exit.takes < 2:
            return machine, (ctx,)[: exit.takes]
        codec = plan.payloads[exit.name] if exit.waits else plan.input
        return machine, (ctx, codec.decode(payload))

    async def attempt(ctx: Any) -> bytes:
        machine, arguments = prepared(ctx)
        await exit.function(machine, *arguments)
        return plan.state.encode(machine.state)

    def threaded_attempt(ctx: Any) -> bytes:
        machine, arguments = prepared(ctx)
        exit.function(machine, *arguments)
        return plan.state.encode(machine.state)

    return threaded_attempt if exit.moves[next(iter(exit.moves))].threaded else attempt
