"""Mailbox: events sent to this run. Each goes to the earliest wait that it matches (GR-P3).

A wait for an event listens twice: to broadcasts, and to this mailbox. An event that arrives before
its wait is kept for it; one event satisfies exactly one wait.
"""

from __future__ import annotations

from typing import Any

from stepwell.authoring.graphs.nodes.waits import EventRequest
from stepwell.authoring.graphs.run.state import Command, CommandKind

EventMessage = dict[str, Any]


class Mailbox:
    def __init__(self) -> None:
        self._early: dict[str, list[EventMessage]] = {}  # by name: no wait has matched them yet
        self._waiters: dict[str, dict[Command, None]] = {}  # by name, in the order of waiting
        self._listening: dict[str, Command] = {}
        self._count: dict[str, int] = {}

    def add(self, waiter: Command) -> EventMessage | None:
        """Add a wait; return the earliest kept event that it matches."""
        request: EventRequest = waiter.data
        early = self._early.get(request.name, [])
        event = next((event for event in early if _matches(request, event)), None)
        self._waiters.setdefault(request.name, {})[waiter] = None
        if event is not None:
            early.remove(event)
        return event

    def listen(self, name: str) -> Command | None:
        """The command that listens for the next event, if a wait needs one and none is open."""
        if name in self._listening or not self._waiters.get(name):
            return None
        number = self._count[name] = self._count.get(name, 0) + 1
        command = Command(CommandKind.MAILBOX, f"@event:{name}#{number}", None, name)
        self._listening[name] = command
        return command

    def receive(self, command: Command, event: EventMessage) -> Command | None:
        """An event arrived: return the wait that gets it, or keep it."""
        name: str = command.data
        del self._listening[name]
        waiter = next((w for w in self._waiters.get(name, ()) if _matches(w.data, event)), None)
        if waiter is None:
            self._early.setdefault(name, []).append(event)
        return waiter

    def remove(self, waiter: Command) -> Command | None:
        """A wait is over; return the listening command if that was the last wait for its name."""
        name = waiter.data.name
        waiters = self._waiters.get(name, {})
        waiters.pop(waiter, None)
        return None if waiters else self._listening.pop(name, None)


def _matches(request: EventRequest, event: EventMessage) -> bool:
    return request.key in ("", str(event.get("key", "")))
