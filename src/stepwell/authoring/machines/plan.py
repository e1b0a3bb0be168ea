"""MachinePlan: the checked transitions of a machine's class, by place, and the types they use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from stepwell.domain.codec import PLAIN, Codec, codec_for
from stepwell.domain.machine import Transition


@dataclass(slots=True)
class OutgoingTransitions:
    """The transitions that leave a place, in the order in which their guards are evaluated."""

    automatic: list[Transition] = field(default_factory=list)
    waiting: list[Transition] = field(default_factory=list)


class MachinePlan:
    """A checked machine. `transitions` are in the order of the class, `outgoing` is by place."""

    def __init__(
        self,
        machine: type,
        transitions: list[Transition],
        ends: frozenset[str],
        state_type: Callable[[], Any],
    ) -> None:
        self.machine = machine
        self.transitions = transitions
        self.outgoing = by_source(transitions)
        self.ends = ends
        self.triggers = frozenset(transition.name for transition in transitions if transition.waits)
        self._state_type = state_type

    # Types are resolved at first use, so that they may be defined further down in the module.

    @cached_property
    def input(self) -> Codec:
        return codec_of(_input_type(self.transitions))

    @cached_property
    def state(self) -> Codec:
        return codec_of(self._state_type())

    @cached_property
    def payloads(self) -> dict[str, Codec]:
        return {transition.name: codec_of(transition.payload_type) for transition in self.transitions}

    @cached_property
    def initial(self) -> bytes:
        """The state before the first transition, as JSON."""
        return self.state.encode(self._state_type()())


def by_source(transitions: Iterable[Transition]) -> dict[str, OutgoingTransitions]:
    """Higher priority first, then those with a guard."""
    outgoing: dict[str, OutgoingTransitions] = {}
    for transition in sorted(transitions, key=lambda t: (-t.priority, t.when is None)):
        for place in transition.sources:
            leaving = outgoing.setdefault(place, OutgoingTransitions())
            ordered = leaving.waiting if transition.waits else leaving.automatic
            ordered.append(replace(transition, source=place))
    return outgoing


def _input_type(transitions: list[Transition]) -> Any:
    """The type of the machine's input: the payload type of its automatic transitions."""
    takers = takes_input(transitions)
    if takers:
        return takers[0].payload_type
    guarded = any(t.when is not None and t.guard_parameters > 1 for t in transitions)
    return Any if guarded else type(None)


def takes_input(transitions: Iterable[Transition]) -> list[Transition]:
    """The transitions whose method takes the machine's input."""
    return [transition for transition in transitions if not transition.waits and transition.parameters > 1]


def codec_of(annotation: Any) -> Codec:
    return PLAIN if annotation is Any else codec_for(annotation)
