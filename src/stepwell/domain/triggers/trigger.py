"""Trigger: what starts runs of a workflow by itself, as a store keeps it.

A trigger has a type, a workflow, settings and state. A store reads the same columns for all types: when the
trigger is due, and what finds it. Settings and state are JSON that only its type reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain.commit import DEFAULT_WORKSPACE, Definition, NewRun
from stepwell.domain.events import NULL

SCHEDULE = "schedule"
FIRE_MAX = 250  # triggers fired in one transaction


class TriggerStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a trigger passes to the runs that it starts."""

    input: Raw = NULL
    config: Raw = NULL  # id of the source's event
    tags: dict[str, str] = {}
    queue: str = ""
    priority: int | None = None
    timeout: float | None = None


class Pause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who paused a trigger, when and why."""

    by: str = ""
    reason: str = ""
    at: float = 0.0


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger. `start`, `paused` and `state` are values, which a codec encodes; the rest stays plain."""

    id: str
    type: str
    name: str  # unique among the triggers of a type in a workspace
    workflow: str
    version: str = ""  # '': the latest version when it fires
    workspace: str = DEFAULT_WORKSPACE
    settings: bytes = b"{}"
    start: bytes = b"{}"  # JSON of TriggerStart
    match: str = ""  # the key by which it is found, such as the name of an event
    paused: bytes | None = None  # JSON of Pause
    slot: float | None = None  # the next time that its schedule names
    next_at: float | None = None  # when it is due; None: not by time, or while it is paused
    origin: str = ""  # the workflow that declares it; '': a person created it
    revision: int = 1  # number of changes by people
    created_at: float = 0.0
    created_by: str = ""
    updated_at: float = 0.0
    updated_by: str = ""
    # Written when it fires
    state: bytes = b"{}"
    last_run: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        return (self.workspace, self.type, self.name)

    def is_due(self, now: float) -> bool:
        return self.next_at is not None and self.next_at <= now

    def is_same_put(self, other: Trigger) -> bool:
        """Return whether both come from one call, repeated because its first answer was lost."""
        mine = (self.id, self.revision, self.updated_at, self.updated_by)
        return mine == (other.id, other.revision, other.updated_at, other.updated_by)

    def is_advanced(self, firing: Firing) -> bool:
        """Return whether it has the state of this firing, which was repeated because its answer was lost."""
        return self.paused is None and (self.id, self.state) == (firing.trigger.id, firing.state)


class TriggerFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which triggers to list, by name; `after` is the last name of the previous page.

    Without a type, lists the triggers of all types that a workflow declares: then only `origin` counts.
    """

    type: str = ""
    workspace: str = DEFAULT_WORKSPACE
    workflow: str = ""
    match: str = ""
    origin: str = ""
    after: str = ""
    limit: int = 100

    def fits(self, trigger: Trigger) -> bool:
        wanted = {"workflow": self.workflow, "match": self.match, "origin": self.origin}
        if not self.type:
            return (trigger.workspace, trigger.origin) == (self.workspace, self.origin)
        return (
            (trigger.workspace, trigger.type) == (self.workspace, self.type)
            and trigger.name.encode() > self.after.encode()
            and all(not value or getattr(trigger, name) == value for name, value in wanted.items())
        )


class DueTrigger(NamedTuple):
    """A due trigger, with what the store knows about it in the same transaction."""

    trigger: Trigger
    definition: Definition | None  # definition of its workflow; None: there is none
    disabled: bool  # its workflow accepts no new runs
    live: bool  # the last run that it started has not ended


class Firing(NamedTuple):
    """What a due trigger does: the runs that it starts, and its changed row."""

    trigger: Trigger
    runs: Sequence[NewRun]
    slot: float | None
    next_at: float | None
    state: bytes
    last_run: str

    @property
    def changed(self) -> Trigger:
        """Return the trigger as it is afterwards."""
        return replace(
            self.trigger, slot=self.slot, next_at=self.next_at, state=self.state, last_run=self.last_run
        )


class Fired(NamedTuple):
    """`triggers` fired and started `runs`. The next is due in `next_in` seconds; None: none is, by time."""

    triggers: int
    runs: Sequence[NewRun]
    next_in: float | None
    now: float


Fire = Callable[[Sequence[DueTrigger], float], Sequence[Firing]]
