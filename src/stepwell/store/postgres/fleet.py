"""Fleet: which workers live, and what happens to the tickets of those that do not."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import Owned, Reaped, WorkerInfo
from stepwell.domain.ids import WorkerId
from stepwell.store.base import REAP_CHUNK
from stepwell.store.postgres.connection import Connection
from stepwell.store.postgres.session import Session


class PostgresFleet(Session):
    async def register(self, worker: WorkerInfo) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(
                self._sql["register"],
                self._now(),
                worker.id,
                worker.name,
                list(worker.queues),
                list(worker.needs),
                worker.lease_seconds,
            )

        await self._write("register", self._side_lanes, work, single=True)

    async def heartbeat(self, worker: WorkerId) -> Sequence[Owned] | None:
        async def work(connection: Connection) -> Sequence[Owned] | None:
            rows = await connection.fetch(self._sql["heartbeat"], self._now(), worker)
            if not rows:
                return None
            return [Owned(*row) for row in rows if row["run_id"] is not None]

        return await self._write("heartbeat", self._side_lanes, work, single=True)

    async def deregister(self, worker: WorkerId) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(self._sql["forget_worker"], worker)
            await connection.execute(self._sql["free_own"], self._now(), worker)

        await self._write("deregister", self._side_lanes, work)

    async def reap(self) -> Reaped:
        """Each statement is a transaction of its own: a later one must see what claims did meanwhile."""
        buried = await self._write("reap", self._side_lanes, self._bury, single=True)
        owners = await self._side_lanes.run(self._dead_owners)
        tickets = 0
        while owners:
            freed = await self._write("reap", self._side_lanes, lambda c: self._free(c, owners), single=True)
            tickets += freed
            if freed == 0:  # the rest is locked at this instant and left to the next sweep
                break
        return Reaped(buried, tickets, await self._side_lanes.run(self._is_solo_due))

    async def _bury(self, connection: Connection) -> int:
        return len(await connection.fetch(self._sql["bury_workers"], self._now()))

    async def _dead_owners(self, connection: Connection) -> list[str]:
        return [row[0] for row in await connection.fetch(self._sql["find_dead_owners"])]

    async def _free(self, connection: Connection, owners: Sequence[str]) -> int:
        return int(await connection.fetchval(self._sql["free_lost"], self._now(), owners, REAP_CHUNK))

    async def _is_solo_due(self, connection: Connection) -> bool:
        return bool(await connection.fetchval(self._sql["is_solo_due"], self._now()))
