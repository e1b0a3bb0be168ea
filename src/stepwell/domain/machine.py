"""A machine's transitions, and the calls that a machine makes to the engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Raw

from stepwell.domain.codec import Codec
from stepwell.domain.duration import DefaultTimeout
from stepwell.domain.events import Problem
from stepwell.domain.retry import ONCE, Retry
from stepwell.domain.steps import annotations_of
from stepwell.errors import NoWayOut

START = "start"  # the place where every machine begins
TRANSITION_TIMEOUT = DefaultTimeout(300.0)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A transition of a machine, from its declaration to the commit that completes it.

    `@transition` fills in what the author wrote. Checking the class replaces that with checked values and
    adds what the method's signature says; only checked transitions run.
    """

    name: str
    function: Callable[..., Any]
    sources: tuple[str, ...]
    source: str = ""  # the one of `sources` that this value leaves; '' before the places are known
    target: str
    wait: Any = False  # False: taken automatically; True or the payload's type: waits to be triggered
    when: Callable[..., Any] | None = None
    priority: int = 0
    retry: Retry = ONCE
    timeout: float | None = TRANSITION_TIMEOUT  # of one attempt; durable waits in it do not count
    on_error: str = ""
    on_timeout: str = ""
    parameters: int = 0  # of the method, after self
    guard_parameters: int = 0  # of `when`
    threaded: bool = False  # the method is a plain function and runs in a thread
    mistakes: tuple[str, ...] = ()  # that the decorator saw; reported with all others

    @property
    def waits(self) -> bool:
        return self.wait is not False

    @property
    def payload_type(self) -> Any:
        """The type of the method's third parameter: the trigger's payload, or the machine's input."""
        if not isinstance(self.wait, bool):
            return self.wait
        if self.parameters < 2:
            return Any
        names = list(inspect.signature(self.function).parameters)
        return annotations_of(self.function).get(names[2], Any)

    def destinations(self) -> Iterator[tuple[str, str]]:
        """Each place it can lead to, with the option that names the place."""
        yield "target", self.target
        if self.on_error:
            yield "on_error", self.on_error
        if self.retry.then:
            yield "Retry(then)", self.retry.then
        if self.on_timeout:
            yield "on_timeout", self.on_timeout

    def after_failure(self, *, timed_out: bool) -> str:
        """The place to go to after the last attempt failed; '': stay here, and the run fails."""
        return (self.on_timeout if timed_out else "") or self.on_error or self.retry.then

    def guard_holds(self, state: Callable[[], Any], input: Callable[[], Any]) -> bool:
        """Evaluate `when`; state and input are read only if there is a guard."""
        if self.when is None:
            return True
        arguments = (state(), input()) if self.guard_parameters > 1 else (state(),)
        try:
            result = self.when(*arguments)
            if inspect.iscoroutine(result):
                result.close()  # the error below reports that it was never awaited
                raise TypeError("it returned a coroutine, which is always true")
            return bool(result)
        except Exception as error:
            raise NoWayOut(
                f"when= of {self.name} raised {type(error).__name__}: {error}",
                hint="a guard sees only (state, input); fix it and retry the run",
            ) from error


class MachineState(Protocol):
    """Where a machine is: its last checkpoint, and what has begun since."""

    place: str  # '': it has not left its start
    state: Raw | None
    routed_by: Problem | None  # the failure that led to this place
    chosen: str  # the transition that an earlier process began at this place
    triggered: bool  # an earlier process received the trigger that leaves this place


class MachineCalls(Protocol):
    """What a machine calls on the engine: read where it is, wait for a trigger, take a transition."""

    @property
    def current(self) -> MachineState:
        """Always the same object; it changes as the machine moves."""
        ...

    def declare(self, triggers: Collection[str]) -> None:
        """Name the transitions that can be triggered, at any place of the machine."""
        ...

    async def wait_for_trigger(self, place: str, choices: Mapping[str, Codec]) -> tuple[str, Raw]:
        """Wait until one of these transitions is triggered; return its name and the payload."""
        ...

    async def transit(self, transition: Transition, body: Callable[[Any], Any], state: Raw) -> None:
        """Run the transition's code, retry it as declared, and move to the next place in one commit.

        `state` is the state before the transition; the machine keeps it if a failure routes it elsewhere.
        `body(ctx)` works on a copy and returns the new state as JSON. Of a failed attempt only completed
        inner steps remain. Raises if the last attempt failed and no other place is declared.
        """
        ...
