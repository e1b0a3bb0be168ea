"""TriggerStore: the part of a store that keeps triggers, and fires those that are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepwell.domain.triggers.trigger import FIRE_MAX, SCHEDULE, Fire, Fired, Firing, Trigger, TriggerFilter


class TriggerStore(Protocol):
    async def put_trigger(self, trigger: Trigger, *, expected: int) -> bool:
        """Create it if 0 is expected, else replace the one of its name if that has this revision.

        False, with nothing written: its name is taken, or another revision is stored. Replacing keeps what
        firing wrote (`state`, `last_run`). Repeated after an unknown outcome, the call returns True if the
        first one wrote it.
        """
        ...

    async def read_trigger(self, workspace: str, type: str, name: str) -> Trigger | None: ...

    async def list_triggers(self, filter: TriggerFilter) -> Sequence[Trigger]:
        """Return the next triggers, sorted by name; those of all types are sorted by type first."""
        ...

    async def drop_trigger(self, workspace: str, type: str, name: str) -> bool:
        """Delete it. False if there is none. The runs that it started continue."""
        ...

    async def fire_due(
        self, fire: Fire, *, type: str = SCHEDULE, match: str = "", limit: int = FIRE_MAX
    ) -> Fired:
        """Start the runs of due triggers of that type, and set when they are due next, in one transaction.

        With `match`, only triggers with that key are read. `fire` decides what each of them does; it is a
        pure function, and may be called on another thread. Triggers that another scheduler is firing are
        left to it, so each slot is decided once. A run whose key exists is not started again, nor is one of
        a workflow that was disabled meanwhile. After an unknown outcome, nothing needs to be repeated: what
        is still due was not fired.
        """
        ...

    async def advance_trigger(self, firing: Firing, *, before: bytes) -> bool:
        """Start the runs of one trigger and write its new state, in one transaction.

        False, with nothing written: its state is no longer `before`, or it was paused or deleted. So a
        worker that has lost its lease on a trigger writes nothing. Repeated after an unknown outcome, the
        call returns True if the state is the new one. Runs are started as by `fire_due`.
        """
        ...
