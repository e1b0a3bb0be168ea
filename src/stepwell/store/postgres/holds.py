"""Holds of the PostgreSQL store: runs that no worker may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.domain.commit import HoldOutcome
from stepwell.domain.events import written
from stepwell.domain.holds import HOLD, HoldRequest, hold_refusal
from stepwell.domain.ids import RunId
from stepwell.domain.scope_holds import ScopeHold
from stepwell.errors import InvalidInput
from stepwell.store.base import Encode
from stepwell.store.postgres.commits import LAST_PATH
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.messages import PgMessages
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused


class PgHolds:
    def __init__(self, db: Database, messages: PgMessages) -> None:
        self._db = db
        self._sql = db.sql
        self._messages = messages

    async def hold(
        self, run_id: RunId, *, held: bool = True, by: str = "", reason: str = "", encode: Encode = bytes
    ) -> HoldOutcome:
        asked = HoldRequest(held=held, by=by, reason=reason)

        async def work(connection: Connection) -> HoldOutcome:
            tickets = await connection.fetch(self._sql["lock_tickets"], [run_id], [LAST_PATH])
            own = next((row for row in tickets if row["path"] == ""), None)
            if own is None:
                run = await connection.fetchrow(self._sql["read_parent"], run_id)
                return HoldOutcome.UNKNOWN if run is None else HoldOutcome.ENDED
            refusal = hold_refusal(asked, ending=own["ending"], held=own["held"] is not None)
            return refusal or await self._hold(connection, run_id, own, asked, encode)

        try:
            return await self._db.write("hold", self._db.side_slots, work, again=False)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this reason: {error}") from error

    async def _hold(
        self, connection: Connection, run_id: RunId, own: Any, asked: HoldRequest, encode: Encode
    ) -> HoldOutcome:
        now, waiting = await connection.fetchrow(self._sql["run_to_hold"], self._db.now(), run_id, HOLD)
        if own["lease"] is not None or waiting:
            request = asked.message(run_id, own["wakes"], encode)
            await self._messages.write_deliveries(connection, [request])
        else:
            event = written(asked.fact)
            await connection.execute(
                self._sql["append_unowned"], run_id, now, event.kind, encode(event.payload)
            )
        await connection.execute(self._sql["mark_held"], run_id, asked.mark(now, encode))
        return HoldOutcome.CHANGED

    async def hold_scope(self, hold: ScopeHold) -> bool:
        values = (hold.kind, hold.workspace, hold.name, hold.held, hold.by, hold.reason)

        async def work(connection: Connection) -> bool:
            return await connection.fetchval(self._sql["put_hold"], self._db.now(), *values) is not None

        try:
            return await self._db.write("hold_scope", self._db.side_slots, work, single=True, again=False)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this name or reason: {error}") from error

    async def list_holds(self, workspace: str) -> Sequence[ScopeHold]:
        async def work(connection: Connection) -> list[ScopeHold]:
            return [ScopeHold(*row) for row in await connection.fetch(self._sql["list_holds"], workspace)]

        return await self._db.side_slots.read(work)
