"""Mailbox: events sent to the run itself, for the earliest waiter that they fit (GR-P3).

A wait for an event listens twice: to broadcasts, and to this mailbox. Events that came before their
wait count; one event satisfies exactly one wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.authoring.graphs.nodes.waits import EventRequest
from stepwell.authoring.graphs.run.state import Command, CommandKind

if TYPE_CHECKING:
    from stepwell.authoring.graphs.run.frontier import Frontier


class Mailbox:
    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._kept: dict[str, list[dict[str, Any]]] = {}  # by name: came, and nobody wanted them yet
        self._waiters: dict[str, dict[Command, None]] = {}  # by name, in the order of waiting
        self._listening: dict[str, Command] = {}
        self._count: dict[str, int] = {}

    def open(self, waiter: Command) -> None:
        wanted: EventRequest = waiter.data
        kept = self._kept.get(wanted.name, [])
        found = next((event for event in kept if _fits(wanted, event)), None)
        self._waiters.setdefault(wanted.name, {})[waiter] = None
        self._frontier.ask(waiter)
        if found is not None:
            kept.remove(found)
            self._give(waiter, found)
        else:
            self._listen(wanted.name)

    def _listen(self, name: str) -> None:
        if name not in self._listening:
            number = self._count[name] = self._count.get(name, 0) + 1
            ask = Command(CommandKind.MAILBOX, f"@event:{name}#{number}", None, name)
            self._listening[name] = ask
            self._frontier.ask(ask)

    def came(self, ask: Command, event: dict[str, Any]) -> None:
        name: str = ask.data
        del self._listening[name]
        waiter = next((w for w in self._waiters.get(name, ()) if _fits(w.data, event)), None)
        if waiter is None:
            self._kept.setdefault(name, []).append(event)
        else:
            self._give(waiter, event)
        if self._waiters.get(name):
            self._listen(name)

    def _give(self, waiter: Command, event: dict[str, Any]) -> None:
        step = waiter.step
        assert step is not None
        step.event = event
        self._frontier.withdraw(waiter)
        self._frontier.complete(step, step.node.behaviour.answered(event.get("data")))

    def closed(self, waiter: Command) -> None:
        """It was answered, came too late or is not wanted any more."""
        name = waiter.data.name
        waiters = self._waiters.get(name, {})
        waiters.pop(waiter, None)
        if not waiters and name in self._listening:
            self._frontier.withdraw(self._listening.pop(name))


def _fits(wanted: EventRequest, event: dict[str, Any]) -> bool:
    return wanted.key in ("", str(event.get("key", "")))
