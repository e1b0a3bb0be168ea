"""The program of a machine: from its last checkpoint, one transition after the other.

It takes automatic transitions until a place where it must be triggered, an end, or an error. Of the past it
reads only the checkpoint.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from msgspec import Raw

from stepwell.authoring.machines.checks import where
from stepwell.authoring.machines.plan import MachinePlan
from stepwell.domain.codec import Codec
from stepwell.domain.events import Problem
from stepwell.domain.machine import START, MachineCalls, MachineState, Transition
from stepwell.errors import CodeChanged, InvalidDefinition, InvalidInput, NoWayOut

_KEEP_IT = (
    "keep the places, transitions and fields that unfinished runs need, or give the class a new version=...; "
    "then retry the run"
)


async def run_machine(plan: MachinePlan, ctx: Any, input: bytes) -> bytes:
    """Take transitions until the machine is at one of its ends; its state there is the result."""
    calls: MachineCalls = ctx
    calls.declare(plan.triggers)
    current = calls.current
    while True:
        place = current.place or START
        state = current.state
        if state is None:
            state = Raw(plan.initial)
        if place in plan.ends:
            return bytes(state)
        selector = TransitionSelector(plan, place, state, input)
        transition, payload = selector.automatic(current), input
        if transition is None:
            transition, payload = await selector.triggered(calls)
        body = TransitionBody(plan, transition, state, current.routed_by, payload)
        await calls.transit(transition, body.run_in_thread if transition.threaded else body.run, state)


class TransitionSelector:
    """Selects the transition by which the machine leaves a place."""

    __slots__ = ("_input", "_leaving", "_place", "_plan", "_state")

    def __init__(self, plan: MachinePlan, place: str, state: Raw, input: bytes) -> None:
        leaving = plan.outgoing.get(place)
        if leaving is None:
            raise CodeChanged(
                f"the machine is at {place!r}, which is no longer one of its places", hint=_KEEP_IT
            )
        self._plan = plan
        self._place = place
        self._state = state
        self._input = input
        self._leaving = leaving

    def automatic(self, current: MachineState) -> Transition | None:
        """The first transition whose guard holds; one that has begun or was triggered is not chosen again."""
        transitions = self._leaving.automatic
        if current.triggered:
            return None
        if current.chosen:
            return self._begun(transitions, current.chosen, "which no longer leaves it automatically")
        if transitions and transitions[0].when is None:
            return transitions[0]
        return next((transition for transition in transitions if self._holds(transition)), None)

    async def triggered(self, calls: MachineCalls) -> tuple[Transition, bytes]:
        """The transition that is triggered, or was triggered in an earlier process, and its payload."""
        waiting = self._leaving.waiting
        if not calls.current.triggered:
            waiting = [transition for transition in waiting if self._holds(transition)]
            if not waiting:
                raise self._no_way_out()
        choices = {transition.name: self._plan.payloads[transition.name] for transition in waiting}
        name, payload = await calls.wait_for_trigger(self._place, choices)
        return self._begun(waiting, name, "which can no longer be triggered there"), bytes(payload)

    def _holds(self, transition: Transition) -> bool:
        plan = self._plan
        return transition.guard_holds(
            lambda: _read(plan.state, self._state, self._place),
            lambda: _read(plan.input, self._input, self._place),
        )

    def _begun(self, transitions: list[Transition], name: str, gone: str) -> Transition:
        """The transition that was chosen, even if its guard or a rival would decide otherwise now."""
        for transition in transitions:
            if transition.name == name:
                return transition
        raise CodeChanged(
            f"the machine has begun to leave {self._place!r} by {name!r}, {gone}", hint=_KEEP_IT
        )

    def _no_way_out(self) -> NoWayOut:
        names = ", ".join(t.name for t in [*self._leaving.automatic, *self._leaving.waiting])
        return NoWayOut(
            f"no transition can leave {self._place!r}: when= of {names} does not hold",
            hint="remove when= from one of them, or fix the guard; then retry the run",
        )


class TransitionBody:
    """A transition's method as the engine runs it: on a fresh copy of the state, returned as JSON."""

    __slots__ = ("_error", "_payload", "_plan", "_state", "_transition")

    def __init__(
        self, plan: MachinePlan, transition: Transition, state: Raw, error: Problem | None, payload: bytes
    ) -> None:
        self._plan = plan
        self._transition = transition
        self._state = state
        self._error = error
        self._payload = payload

    def _prepared(self, ctx: Any) -> tuple[Any, tuple[Any, ...]]:
        """An instance of the machine, and the arguments of the method."""
        plan, transition = self._plan, self._transition
        machine = plan.machine()
        if self._error is not None:
            machine.error = self._error
        machine.state = _read(plan.state, self._state, transition.source)
        if transition.parameters < 2:
            return machine, (ctx,)[: transition.parameters]
        codec = plan.payloads[transition.name] if transition.waits else plan.input
        return machine, (ctx, _read(codec, self._payload, transition.source))

    async def run(self, ctx: Any) -> bytes:
        machine, arguments = self._prepared(ctx)
        returned = await self._transition.function(machine, *arguments)
        if returned is not None:
            raise _returned(self._transition, returned)
        return self._encoded(machine.state)

    def run_in_thread(self, ctx: Any) -> bytes:
        machine, arguments = self._prepared(ctx)
        returned = self._transition.function(machine, *arguments)
        if returned is not None:
            raise _returned(self._transition, returned)
        return self._encoded(machine.state)

    def _encoded(self, state: Any) -> bytes:
        try:
            return self._plan.state.encode(state)
        except InvalidInput as error:
            transition = self._transition
            error.message = (
                f"self.state after {transition.name} ({where(transition.function)}): {error.message}"
            )
            raise


def _read(codec: Codec, data: Raw | bytes, place: str) -> Any:
    """The data was checked when it was written: if it cannot be read now, the type has changed."""
    try:
        return codec.decode(data)
    except InvalidInput as error:
        raise CodeChanged(
            f"the recorded data of the machine at {place!r} does not fit its types: {error.message}",
            hint=_KEEP_IT,
        ) from error


def _returned(transition: Transition, value: object) -> InvalidDefinition:
    """A returned value would be lost, which its author did not expect."""
    if isinstance(value, Coroutine):
        value.close()  # the error reports that it was never awaited
        hint = "it was not awaited: declare the transition with async def, and await the call"
    else:
        hint = "change self.state instead, or return nothing; then retry the run: completed steps are kept"
    return InvalidDefinition(
        f"transition {transition.name} ({where(transition.function)}) returned a value "
        f"({type(value).__name__}), which is ignored",
        hint=hint,
    )
