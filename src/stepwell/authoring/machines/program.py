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
    from stepwell.domain.codec import Codec
    from stepwell.domain.events import Problem
    from stepwell.domain.machine import Here, MachineRun

_MEND = (
    "keep places, transitions and fields that live runs need, or make the change a new version=... of the "
    "class; then retry the run"
)


async def run_machine(plan: Plan, ctx: Any, input: bytes) -> bytes:
    """Lead the machine to one of its ends; its state there is the result."""
    at: MachineRun = ctx
    at.declare(plan.triggers)
    here = at.here
    while True:
        place = here.place or START
        state = here.state
        if state is None:
            state = Raw(plan.initial)
        if place in plan.ends:
            return bytes(state)
        visit = Visit(plan, place, state, input)
        exit, payload = visit.automatic(here), input
        if exit is None:
            exit, payload = await visit.triggered(at)
        move = exit.moves[place]
        attempt = Attempt(visit, exit, here.routed_by, payload)
        await at.transit(move, attempt.run_in_thread if move.threaded else attempt.run, state)


class Visit:
    """The machine at a place, and the ways out of it."""

    __slots__ = ("exits", "input", "place", "plan", "state")

    def __init__(self, plan: Plan, place: str, state: Raw, input: bytes) -> None:
        exits = plan.places.get(place)
        if exits is None:
            raise CodeChanged(f"the machine is at {place!r}, which is no place of it any more", hint=_MEND)
        self.plan = plan
        self.place = place
        self.state = state
        self.input = input
        self.exits = exits

    def automatic(self, here: Here) -> Exit | None:
        """The first way out whose guard holds; what was begun or triggered is not chosen again."""
        exits = self.exits.automatic
        if here.triggered:
            return None
        if here.chosen:
            return self._begun(exits, here.chosen, "which does not leave it by itself any more")
        if exits and exits[0].when is None:
            return exits[0]
        return next((exit for exit in exits if self._holds(exit)), None)

    async def triggered(self, at: MachineRun) -> tuple[Exit, bytes]:
        """The way out that somebody chooses, or has chosen, and what came with it."""
        waiting = self.exits.waiting
        if not at.here.triggered:
            waiting = [exit for exit in waiting if self._holds(exit)]
            if not waiting:
                raise self._no_way_out()
        choices = {exit.name: self.plan.payloads[exit.name] for exit in waiting}
        name, payload = await at.triggered(self.place, choices)
        return self._begun(waiting, name, "which cannot be triggered there any more"), bytes(payload)

    def read(self, codec: Codec, data: Raw | bytes) -> Any:
        """They were checked when they were written: where they cannot be read, the type is another."""
        try:
            return codec.decode(data)
        except InvalidInput as error:
            raise CodeChanged(
                f"what the machine has at {self.place!r} does not fit its types: {error.message}", hint=_MEND
            ) from error

    def _holds(self, exit: Exit) -> bool:
        plan = self.plan
        return exit.holds(
            lambda: self.read(plan.state, self.state), lambda: self.read(plan.input, self.input)
        )

    def _begun(self, exits: list[Exit], name: str, gone: str) -> Exit:
        """The way out that was chosen, whatever its guard or its rivals would say by now."""
        for exit in exits:
            if exit.name == name:
                return exit
        raise CodeChanged(f"the machine has begun to leave {self.place!r} by {name!r}, {gone}", hint=_MEND)

    def _no_way_out(self) -> NoWayOut:
        names = ", ".join(exit.name for exit in [*self.exits.automatic, *self.exits.waiting])
        return NoWayOut(
            f"no transition can leave {self.place!r}: when= of {names} does not hold",
            hint="give one of them no when=, or mend the guard and retry the run",
        )


class Attempt:
    """The method as the engine runs it: over a fresh copy of the state, which it gives back as JSON."""

    __slots__ = ("_error", "_exit", "_payload", "_visit")

    def __init__(self, visit: Visit, exit: Exit, error: Problem | None, payload: bytes) -> None:
        self._visit = visit
        self._exit = exit
        self._error = error
        self._payload = payload

    def _prepared(self, ctx: Any) -> tuple[Any, tuple[Any, ...]]:
        visit, exit, plan = self._visit, self._exit, self._visit.plan
        machine = plan.machine()
        if self._error is not None:
            machine.error = self._error
        machine.state = visit.read(plan.state, visit.state)
        if exit.takes < 2:
            return machine, (ctx,)[: exit.takes]
        codec = plan.payloads[exit.name] if exit.waits else plan.input
        return machine, (ctx, visit.read(codec, self._payload))

    async def run(self, ctx: Any) -> bytes:
        machine, arguments = self._prepared(ctx)
        returned = await self._exit.function(machine, *arguments)
        if returned is not None:
            raise _returned(self._exit, returned)
        return self._kept(machine.state)

    def run_in_thread(self, ctx: Any) -> bytes:
        machine, arguments = self._prepared(ctx)
        returned = self._exit.function(machine, *arguments)
        if returned is not None:
            raise _returned(self._exit, returned)
        return self._kept(machine.state)

    def _kept(self, state: Any) -> bytes:
        try:
            return self._visit.plan.state.encode(state)
        except InvalidInput as error:
            method = self._exit.function
            error.message = f"self.state after {self._exit.name} ({where(method)}): {error.message}"
            raise


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
