"""The program of a machine: from its last checkpoint, one transition after the other.

It runs automatic transitions until a place where it must be triggered, an end, or an error. What it
knows of the past is the checkpoint alone.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from stepwell.authoring.machines.checks import where
from stepwell.authoring.machines.exits import START, Exit
from stepwell.errors import CodeChanged, InvalidDefinition, InvalidInput, NoWayOut

if TYPE_CHECKING:
    from stepwell.authoring.machines.machine import Plan
    from stepwell.domain.events import Problem
    from stepwell.domain.moves import MachineRun

_MEND = (
    "keep places and fields that live runs need, or make the change a new version=... of the class; "
    "then retry the run"
)


async def run_machine(plan: Plan, ctx: Any, input: bytes) -> bytes:
    """Lead the machine to one of its ends; its state there is the result."""
    at: MachineRun = ctx.machine(plan.triggers)
    here = at.here
    while True:
        place = here.place or START
        state = here.state
        if state is None:
            state = Raw(plan.initial)
        if place in plan.ends:
            return bytes(state)
        exit, payload = _automatic(plan, place, here.chosen, state, input), input
        if exit is None:
            exit, payload = await _triggered(plan, at, place, state, input)
        move = exit.moves[place]
        attempt = Attempt(plan, exit, here.routed_by, state, payload)
        await at.transit(move, attempt.run_in_thread if move.threaded else attempt.run, state)


def _automatic(plan: Plan, place: str, chosen: str, state: Raw, input: bytes) -> Exit | None:
    """The first way out whose guard holds; what was begun is not chosen again."""
    try:
        exits = plan.places[place].automatic
    except KeyError:
        raise CodeChanged(
            f"the machine is at {place!r}, which is no place of it any more", hint=_MEND
        ) from None
    if exits and exits[0].when is None:
        return exits[0]
    if chosen:
        for exit in exits:
            if exit.name == chosen:
                return exit
    try:
        for exit in exits:
            if exit.holds(plan.state.decode(state), lambda: plan.input.decode(input)):
                return exit
    except InvalidInput as error:
        raise _unreadable(place, error) from error
    return None


async def _triggered(plan: Plan, at: MachineRun, place: str, state: Raw, input: bytes) -> tuple[Exit, bytes]:
    exits = plan.places[place]
    try:
        waiting = {
            exit.name: exit
            for exit in exits.waiting
            if exit.holds(plan.state.decode(state), lambda: plan.input.decode(input))
        }
    except InvalidInput as error:
        raise _unreadable(place, error) from error
    if not waiting:
        names = ", ".join(exit.name for exit in [*exits.automatic, *exits.waiting])
        raise NoWayOut(
            f"no transition can leave {place!r}: when= of {names} does not hold",
            hint="give one of them no when=, or mend the guard and retry the run",
        )
    name, payload = await at.triggered(place, {name: plan.payloads[name] for name in waiting})
    return waiting[name], bytes(payload)


class Attempt:
    """The method as the engine runs it: over a fresh copy of the state, which it gives back as JSON."""

    __slots__ = ("_error", "_exit", "_payload", "_plan", "_state")

    def __init__(self, plan: Plan, exit: Exit, error: Problem | None, state: Raw, payload: bytes) -> None:
        self._plan = plan
        self._exit = exit
        self._error = error
        self._state = state
        self._payload = payload

    def _prepared(self, ctx: Any) -> tuple[Any, tuple[Any, ...]]:
        plan, exit = self._plan, self._exit
        machine = plan.machine()
        if self._error is not None:
            machine.error = self._error
        try:
            machine.state = plan.state.decode(self._state)
            if exit.takes < 2:
                return machine, (ctx,)[: exit.takes]
            codec = plan.payloads[exit.name] if exit.waits else plan.input
            return machine, (ctx, codec.decode(self._payload))
        except InvalidInput as error:
            raise _unreadable(", ".join(exit.sources), error) from error

    async def run(self, ctx: Any) -> bytes:
        machine, arguments = self._prepared(ctx)
        returned = await self._exit.function(machine, *arguments)
        if returned is not None:
            raise _returned(self._exit, returned)
        return self._plan.state.encode(machine.state)

    def run_in_thread(self, ctx: Any) -> bytes:
        machine, arguments = self._prepared(ctx)
        returned = self._exit.function(machine, *arguments)
        if returned is not None:
            raise _returned(self._exit, returned)
        return self._plan.state.encode(machine.state)


def _unreadable(place: str, error: InvalidInput) -> CodeChanged:
    """They were checked when they were written: it is the type that is another."""
    return CodeChanged(
        f"what the machine has at {place!r} does not fit its types: {error.message}", hint=_MEND
    )


def _returned(exit: Exit, value: object) -> InvalidDefinition:
    """Whoever returns something thinks that it goes somewhere."""
    if isinstance(value, Coroutine):
        value.close()  # that it was never awaited is what is told here
        hint = "it was not awaited: declare the transition with async def, and await in it"
    else:
        hint = "change self.state instead, or leave the value out; then retry the run: its steps are kept"
    return InvalidDefinition(
        f"transition {exit.name} ({where(exit.function)}) returned a value "
        f"({type(value).__name__}), which goes nowhere",
        hint=hint,
    )
