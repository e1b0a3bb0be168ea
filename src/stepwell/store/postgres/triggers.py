"""Triggers of the PostgreSQL store: what starts runs by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from stepwell.domain.commit import Definition, NewRun
from stepwell.domain.triggers.trigger import (
    FIRE_MAX,
    SCHEDULE,
    DueTrigger,
    Fire,
    Fired,
    Firing,
    Trigger,
    TriggerFilter,
)
from stepwell.errors import InvalidInput
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.reads import PgReads
from stepwell.store.postgres.starts import PgStarts


class PgTriggers:
    def __init__(self, db: Database, reads: PgReads, starts: PgStarts) -> None:
        self._db = db
        self._sql = db.sql
        self._reads = reads
        self._starts = starts

    async def put_trigger(self, trigger: Trigger, *, expected: int) -> bool:
        t = trigger
        if expected:
            name, values = (
                "replace_trigger",
                (
                    *(
                        t.workspace,
                        t.type,
                        t.name,
                        expected,
                        t.workflow,
                        t.version,
                        t.settings,
                        t.start,
                        t.match,
                    ),
                    *(t.paused, t.slot, t.next_at, t.origin, t.revision, t.updated_at, t.updated_by),
                ),
            )
        else:
            name, values = "create_trigger", _values(t)

        async def work(connection: Connection) -> bool:
            return await connection.fetchval(self._sql[name], *values) is not None

        try:
            put = await self._db.write("put_trigger", self._db.side_slots, work, single=True)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this trigger: {error}") from error
        if put:
            return True
        current = await self.read_trigger(*trigger.place)
        return current is not None and current.is_same_put(trigger)

    async def read_trigger(self, workspace: str, type: str, name: str) -> Trigger | None:
        rows = await self._reads.fetch("read_trigger", workspace, type, name)
        return _trigger(rows[0]) if rows else None

    async def list_triggers(self, filter: TriggerFilter) -> Sequence[Trigger]:
        values = (filter.workspace, filter.type, filter.after, filter.origin, filter.limit)
        if not filter.type:
            place = (filter.workspace, filter.origin, filter.limit)
            rows = await self._reads.fetch("list_declared_triggers", *place)
        elif filter.workflow:
            extra = (filter.workflow, filter.match)
            rows = await self._reads.fetch("list_triggers_of_workflow", *values, *extra)
        elif filter.match:
            rows = await self._reads.fetch("list_triggers_matched", *values, filter.match)
        else:
            rows = await self._reads.fetch("list_triggers", *values)
        return [_trigger(row) for row in rows]

    async def drop_trigger(self, workspace: str, type: str, name: str) -> bool:
        async def work(connection: Connection) -> bool:
            return await connection.fetchval(self._sql["drop_trigger"], workspace, type, name) is not None

        return await self._db.write("drop_trigger", self._db.side_slots, work, single=True)

    # Firing

    async def fire_due(
        self, fire: Fire, *, type: str = SCHEDULE, match: str = "", limit: int = FIRE_MAX
    ) -> Fired:
        which = (type, match)

        async def look(connection: Connection) -> Fired:
            return await self._look(connection, which)

        looked = await self._db.rated_slots.run(look)
        if looked.next_in is None or looked.next_in > 0:
            return looked

        async def work(connection: Connection) -> Fired:
            return await self._fire(connection, fire, which, limit)

        return await self._db.write("fire_due", self._db.rated_slots, work)

    async def _look(self, connection: Connection, which: tuple[str, str]) -> Fired:
        """Return when the next trigger is due."""
        now, next_at = await connection.fetchrow(self._sql["next_trigger"], self._db.now(), *which)
        return Fired(0, [], None if next_at is None else max(0.0, next_at - now), now)

    async def _fire(self, connection: Connection, fire: Fire, which: tuple[str, str], limit: int) -> Fired:
        now = (await self._look(connection, which)).now
        rows = await connection.fetch(self._sql["due_triggers"], now, limit, *which)
        firings = fire(await self._due(connection, rows), now) if rows else []
        runs = [run for firing in firings for run in firing.runs]
        if runs:
            await self._starts.write_starts(connection, runs, await self._numbers(connection, runs))
        if firings:
            await connection.execute(self._sql["fire_triggers"], *_columns(firings))
        left = await self._look(connection, which)
        return Fired(len(firings), runs, left.next_in, left.now)

    async def advance_trigger(self, firing: Firing, *, before: bytes) -> bool:
        trigger, values = firing.trigger, (firing.slot, firing.next_at, firing.state, firing.last_run)

        async def work(connection: Connection) -> bool:
            sql = self._sql["advance_trigger"]
            if await connection.fetchval(sql, trigger.id, *values, before) is None:
                return False
            if firing.runs:
                numbers = await self._numbers(connection, firing.runs)
                await self._starts.write_starts(connection, firing.runs, numbers)
            return True

        if await self._db.write("advance_trigger", self._db.side_slots, work):
            return True
        current = await self.read_trigger(*trigger.place)
        return current is not None and current.is_advanced(firing)

    async def _due(self, connection: Connection, rows: Sequence[Any]) -> list[DueTrigger]:
        triggers = [_trigger(row) for row in rows]
        wanted = list(dict.fromkeys((t.workspace, t.workflow, t.version) for t in triggers))
        columns = [list(column) for column in zip(*wanted, strict=True)]
        stored = await connection.fetch(self._sql["definitions_of_triggers"], *columns)
        definitions = {wanted[row["i"] - 1]: _definition(row) for row in stored}
        disabled = {tuple(row) for row in await connection.fetch(self._sql["disabled_workflows"])}
        return [
            DueTrigger(
                t,
                definitions.get((t.workspace, t.workflow, t.version)),
                (t.workspace, t.workflow) in disabled,
                row["live"],
            )
            for t, row in zip(triggers, rows, strict=True)
        ]

    async def _numbers(self, connection: Connection, runs: Sequence[NewRun]) -> dict[str, int]:
        """Number the runs in this transaction: reserving numbers in another needs a second connection."""
        counts = sorted(Counter((run.workspace, run.workflow) for run in runs).items())
        columns = [[c[0][0] for c in counts], [c[0][1] for c in counts], [c[1] for c in counts]]
        last = {
            tuple(row)[:2]: row[2] for row in await connection.fetch(self._sql["reserve_numbers"], *columns)
        }
        left = dict(counts)
        numbers: dict[str, int] = {}
        for run in runs:
            scope = (run.workspace, run.workflow)
            left[scope] -= 1
            numbers[run.id] = last[scope] - left[scope]
        return numbers


def _columns(firings: Sequence[Firing]) -> list[list[Any]]:
    rows = [(f.trigger.id, f.slot, f.next_at, f.state, f.last_run) for f in firings]
    return [list(column) for column in zip(*rows, strict=True)]


def _values(t: Trigger) -> tuple[Any, ...]:
    return (
        *(t.id, t.type, t.name, t.workflow, t.version, t.workspace, t.settings, t.start, t.match, t.paused),
        *(t.slot, t.next_at, t.origin, t.revision, t.created_at, t.created_by, t.updated_at, t.updated_by),
        *(t.state, t.last_run),
    )


def _trigger(row: Any) -> Trigger:
    values = dict(row)
    values.pop("live", None)
    return Trigger(match=values.pop("matches"), **values)


def _definition(row: Any) -> Definition:
    values = dict(row)
    del values["i"]
    return Definition(**values)
