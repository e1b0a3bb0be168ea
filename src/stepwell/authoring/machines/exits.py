"""Exit: a checked transition, as the program of a machine uses it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepwell.domain.codec import PLAIN, Codec, codec_for
from stepwell.domain.machine import Transition
from stepwell.domain.steps import annotations_of
from stepwell.errors import NoWayOut

START = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """One way out of one or several places; `moves` is it as the engine knows it, by its source."""

    name: str
    function: Callable[..., Any]
    sources: tuple[str, ...]
    target: str
    waits: bool
    schema: Any  # of what must come along; Any: anything
    when: Callable[..., Any] | None
    takes: int  # parameters of the method after self
    takes_input: int  # parameters of `when`
    priority: int
    moves: dict[str, Transition]

    @property
    def payload_type(self) -> Any:
        """What its third parameter is said to be."""
        if self.waits and self.schema is not Any:
            return self.schema
        if self.takes < 2:
            return Any
        names = list(inspect.signature(self.function).parameters)
        return annotations_of(self.function).get(names[2], Any)

    def holds(self, state: Callable[[], Any], input: Callable[[], Any]) -> bool:
        if self.when is None:
            return True
        seen = (state(), input()) if self.takes_input > 1 else (state(),)
        try:
            answer = self.when(*seen)
            if inspect.iscoroutine(answer):
                answer.close()  # that it was never awaited is what is told here
                raise TypeError("it gave a coroutine, which always counts as yes")
            return bool(answer)
        except Exception as error:
            raise NoWayOut(
                f"when= of {self.name} raised {type(error).__name__}: {error}",
                hint="a guard sees (state, input) only; mend it and retry the run",
            ) from error


@dataclass(slots=True)
class Exits:
    """The ways out of a place, in the order in which they are looked at."""

    automatic: list[Exit] = field(default_factory=list)
    waiting: list[Exit] = field(default_factory=list)


def by_place(exits: list[Exit]) -> dict[str, Exits]:
    found: dict[str, Exits] = {}
    for exit in sorted(exits, key=lambda e: (-e.priority, e.when is None)):
        for place in exit.sources:
            ways = found.setdefault(place, Exits())
            (ways.waiting if exit.waits else ways.automatic).append(exit)
    return found


def input_type(exits: list[Exit]) -> Any:
    """The type of the machine's input: what its automatic transitions take."""
    takers = [exit for exit in exits if not exit.waits and exit.takes > 1]
    if takers:
        return takers[0].payload_type
    guarded = any(exit.when is not None and exit.takes_input > 1 for exit in exits)
    return Any if guarded else type(None)


def codec_of(annotation: Any) -> Codec:
    return PLAIN if annotation is Any else codec_for(annotation)
