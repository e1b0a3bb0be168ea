"""Notifications and alerts of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.domain.alerts import (
    Alert,
    AlertFinding,
    AlertQuery,
    LiveGroup,
    TakenAlerts,
    few_and_many,
    oldest,
    settings_of,
)
from stepwell.domain.notifications import (
    GIVEN_UP_SECONDS,
    TAKEN_AT_ONCE,
    PendingNotification,
    TakenNotifications,
)
from stepwell.errors import InvalidInput
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.reads import PgReads


class PgNotifications:
    def __init__(self, db: Database, reads: PgReads) -> None:
        self._db = db
        self._sql = db.sql
        self._reads = reads

    async def take_notifications(
        self, channels: Sequence[str], *, seconds: float, limit: int = TAKEN_AT_ONCE
    ) -> TakenNotifications:
        looked = await self._next(channels)
        if looked.next_in != 0:
            return looked

        async def work(connection: Connection) -> list[Any]:
            asked = (list(channels), seconds, limit)
            rows: list[Any] = await connection.fetch(self._sql["take_notifications"], self._db.now(), *asked)
            return rows

        rows = await self._db.write("notifications", self._db.side_slots, work, single=True)
        left = await self._next(channels)
        return TakenNotifications([PendingNotification(**dict(row)) for row in rows], left.next_in, left.now)

    async def _next(self, channels: Sequence[str]) -> TakenNotifications:
        [row] = await self._reads.fetch("next_notification", self._db.now(), list(channels))
        next_in = None if row["next_at"] is None else max(0.0, row["next_at"] - row["now"])
        return TakenNotifications([], next_in, row["now"])

    async def settle_notification(
        self,
        id: str,
        attempt: int,
        *,
        retry_in: float | None = None,
        error: str = "",
        more: Sequence[PendingNotification] = (),
    ) -> bool:
        async def work(connection: Connection) -> bool:
            asked = (self._db.now(), id, attempt, retry_in, error.replace("\0", ""))
            if await connection.fetchval(self._sql["settle_notification"], *asked) is None:
                return False
            await write_notifications(connection, self._db, more)
            return True

        return await self._db.write("notifications", self._db.side_slots, work)

    async def purge_notifications(self, older_than: float, *, limit: int = 500) -> int:
        async def work(connection: Connection) -> int:
            now = self._db.now()
            ended = len(await connection.fetch(self._sql["purge_notifications"], now, older_than, limit))
            asked = (now, older_than + GIVEN_UP_SECONDS, limit - ended)
            return ended + len(await connection.fetch(self._sql["purge_untaken"], *asked))

        return await self._db.write("notifications", self._db.side_slots, work)

    # Alerts

    async def put_alert(self, alert: Alert) -> None:
        a = alert
        values = (a.id, a.name, a.workspace, a.settings, a.paused, a.incidents, a.created_at, a.created_by)

        async def work(connection: Connection) -> None:
            await connection.fetchval(self._sql["put_alert"], self._db.now(), *values)

        try:
            await self._db.write("alerts", self._db.side_slots, work, single=True)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this alert: {error}") from error

    async def list_alerts(self, workspace: str, *, name: str = "") -> Sequence[Alert]:
        return [Alert(**dict(row)) for row in await self._reads.fetch("list_alerts", workspace, name)]

    async def drop_alert(self, workspace: str, name: str) -> bool:
        async def work(connection: Connection) -> bool:
            return await connection.fetchval(self._sql["drop_alert"], workspace, name) is not None

        return await self._db.write("alerts", self._db.side_slots, work, single=True)

    async def take_alerts(self, *, limit: int = 20) -> TakenAlerts:
        looked = await self._next_alert()
        if looked.next_in != 0:
            return looked

        async def work(connection: Connection) -> list[Alert]:
            rows = await connection.fetch(self._sql["due_alerts"], looked.now, limit)
            due = [Alert(**dict(row)) for row in rows]
            taken = [
                replace(one, check_at=looked.now + settings_of(one).every, turn=one.turn + 1) for one in due
            ]
            if taken:
                columns = (
                    [one.id for one in taken],
                    [one.check_at for one in taken],
                    [one.turn for one in taken],
                )
                await connection.execute(self._sql["take_alerts"], *columns)
            return taken

        taken = await self._db.write("alerts", self._db.side_slots, work)
        return TakenAlerts(taken, (await self._next_alert()).next_in, looked.now)

    async def _next_alert(self) -> TakenAlerts:
        [row] = await self._reads.fetch("next_alert", self._db.now())
        next_in = None if row["check_at"] is None else max(0.0, row["check_at"] - row["now"])
        return TakenAlerts([], next_in, row["now"])

    async def settle_alert(
        self, id: str, turn: int, incidents: bytes, notifications: Sequence[PendingNotification]
    ) -> bool:
        async def work(connection: Connection) -> bool:
            if await connection.fetchval(self._sql["settle_alert"], id, turn, incidents) is None:
                return False
            await write_notifications(connection, self._db, notifications)
            return True

        return await self._db.write("alerts", self._db.side_slots, work)

    async def find(self, query: AlertQuery) -> Sequence[AlertFinding]:
        if query.what == "no_worker":
            return []
        if query.what == "full_queue":
            [row] = await self._reads.fetch("count_waiting", query.workspace, query.queue)
            return [AlertFinding(query.queue, "", query.at, row["n"])] if row["n"] else []
        if query.what == "stuck":
            rows = await self._stuck(query)
        else:
            asked = (query.workspace, query.workflow, query.at, query.limit)
            rows = await self._reads.fetch(f"find_{query.what}", *asked)
        findings: dict[str, list[AlertFinding]] = {}
        for workflow, run, at in rows:
            findings.setdefault(workflow, []).append(AlertFinding(workflow, run, at))
        return oldest(findings.values(), query.limit)

    async def _stuck(self, query: AlertQuery) -> list[Any]:
        groups = await self._reads.fetch("live_groups", query.workspace, query.workflow)
        few, many = few_and_many([LiveGroup(*row) for row in groups], query.few)
        rows: list[Any] = []
        if few:
            columns = [list(column) for column in list(zip(*few, strict=True))[:4]]
            asked = (query.workspace, *columns, query.at, query.few)
            rows += await self._reads.fetch("find_stuck_of_few", *asked)
        if many:
            rows += await self._reads.fetch("find_stuck", query.workspace, many, query.at, query.limit)
        return rows


async def write_notifications(
    connection: Connection, db: Database, rows: Sequence[PendingNotification]
) -> None:
    """Write notifications. One whose id exists stays as it is."""
    if not rows:
        return
    columns = zip(*((r.id, r.workspace, r.kind, r.channel, r.run_id, r.body) for r in rows), strict=True)
    await connection.execute(db.sql["add_notifications"], db.now(), *(list(column) for column in columns))
