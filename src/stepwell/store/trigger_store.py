"""TriggerStore: the part of a store that keeps what starts runs by itself, and fires what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepwell.domain.triggers.trigger import FIRE_MAX, SCHEDULE, Fire, Fired, Firing, Trigger, TriggerFilter


class TriggerStore(Protocol):
    async def put_trigger(self, trigger: Trigger, *, expected: int) -> bool:
        """Create it if 0 is expected, else replace the one of its name if that has this revision.

        False: its name is taken, or another revision is stored, and stays. Replacing keeps what firing wrote
        (`state`, `last_run`). Repeated after an unknown outcome, the call is True if it was put.
        """
        ...

    async def read_trigger(self, workspace: str, type: str, name: str) -> Trigger | None: ...

    async def list_triggers(self, filter: TriggerFilter) -> Sequence[Trigger]:
        """The next ones, sorted by name; those of all types are sorted by type first."""
        ...

    async def drop_trigger(self, workspace: str, type: str, name: str) -> bool:
        """Delete it; False: there is none. The runs that it started continue."""
        ...

    async def fire_due(
        self, fire: Fire, *, type: str = SCHEDULE, match: str = "", limit: int = FIRE_MAX
    ) -> Fired:
        """Start the runs of triggers of that type that are due, and set when they are due next.

        All in one transaction. With `match` only those that it finds are looked at. `fire` says what each of
        them does; it is a pure function, and may be called on another thread. Those that another scheduler
        fires at this moment are left to it; so each slot is decided once. A run whose key exists is not
        started again, and one of a workflow that is disabled meanwhile is not started. After an unknown
        outcome nothing needs to be repeated: what is still due was not fired.
        """
        ...

    async def advance_trigger(self, firing: Firing, *, before: bytes) -> bool:
        """Start the runs of one trigger and write its new state, in one transaction.

        False: its state is no longer `before`, or it was paused or deleted; nothing was written. So a worker
        whose lease on a trigger has passed to another one writes nothing. Repeated after an unknown outcome,
        the call is True if the state is the new one. Runs are started as `fire_due` starts them.
        """
        ...
