"""Moves: what the engine must know of a machine's transition, and what a machine asks of the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Raw

from stepwell.domain.codec import Codec
from stepwell.domain.events import Problem
from stepwell.domain.retry import ONCE, Retry

TRANSITION_TIMEOUT = 300.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A way from one place to another: what happens when its code fails or takes too long."""

    name: str
    source: str
    target: str
    retry: Retry = ONCE
    timeout: float | None = TRANSITION_TIMEOUT  # of one attempt; durable waits in it do not count
    on_error: str = ""
    on_timeout: str = ""
    threaded: bool = False  # its code is a plain function: it runs in a thread

    def instead(self, *, timed_out: bool) -> str:
        """Where the machine goes after the last attempt; '' it stays where it is, failed."""
        return (self.on_timeout if timed_out else "") or self.on_error or self.retry.then


class Here(Protocol):
    """What the last checkpoint says, and what has begun since."""

    place: str  # '' has not left its start
    state: Raw | None
    routed_by: Problem | None  # the failure that led to this place
    chosen: str  # the transition that this visit began with, in a process before this one
    triggered: bool  # somebody chose the way out of this visit, in a process before this one


class MachineRun(Protocol):
    """A machine's run as its checkpoints record it, and the two things that move it."""

    @property
    def here(self) -> Here:
        """Always the same, and as it is at the moment."""
        ...

    def declare(self, triggers: Collection[str]) -> None:
        """The triggers that the machine knows, at any of its places."""
        ...

    async def triggered(self, place: str, choices: Mapping[str, Codec]) -> tuple[str, Raw]:
        """Wait until somebody chooses one of these transitions; its name and what came with it."""
        ...

    async def transit(self, transition: Transition, body: Callable[[Any], Any], state: Raw) -> None:
        """Run the transition's code, again as its retry says, and be at the next place in one commit.

        `state` is what it begins with, and stays with when it goes elsewhere because it failed.
        `body(ctx)` works on a copy and gives the new state as JSON; nothing else of an attempt stays
        but its completed inner steps. Raises when it failed for good and has nowhere else to go.
        """
        ...
