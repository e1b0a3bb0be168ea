"""Workers: their leases, and the tickets of those that died."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from stepwell.domain.commit import Beat, DrainRequest, Owned, Reaped, WorkerInfo
from stepwell.domain.ids import WorkerId
from stepwell.store.base import REAP_CHUNK
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.search import PgSearch


class PgWorkers:
    def __init__(self, db: Database, search: PgSearch) -> None:
        self._db = db
        self._sql = db.sql
        self._search = search

    async def register(self, worker: WorkerInfo) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(
                self._sql["register"],
                self._db.now(),
                worker.id,
                worker.name,
                list(worker.queues),
                list(worker.needs),
                worker.lease_seconds,
                worker.leaving,
            )

        await self._db.write("register", self._db.lease_slots, work, single=True)

    async def heartbeat(self, worker: WorkerId) -> Beat | None:
        async def work(connection: Connection) -> Beat | None:
            rows = await connection.fetch(self._sql["heartbeat"], self._db.now(), worker)
            if not rows:
                return None
            owned = [Owned(*row[:4]) for row in rows if row["run_id"] is not None]
            return Beat(owned, rows[0]["draining"])

        return await self._db.write("heartbeat", self._db.lease_slots, work, single=True)

    async def drain(self, worker: WorkerId, request: DrainRequest) -> bool | None:
        async def work(connection: Connection) -> bool | None:
            now = await connection.fetchval(self._sql["now"], self._db.now())
            asked = msgspec.json.encode(replace(request, at=now))
            answer: bool | None = await connection.fetchval(self._sql["drain_worker"], worker, asked)
            return answer

        return await self._db.write("drain", self._db.side_slots, work, again=False)

    async def deregister(self, worker: WorkerId) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(self._sql["forget_worker"], worker)
            await connection.execute(self._sql["free_own"], self._db.now(), worker)

        await self._db.write("deregister", self._db.side_slots, work)

    async def reap(self) -> Reaped:
        """Delete dead workers, then free their tickets in later statements, which see all their claims.

        A claim by a worker that is being deleted waits for this transaction and then takes nothing. Most
        calls find no dead worker, with one statement.
        """
        await self._search.fold_counts()
        any_dead, solo_due = await self._db.lease_slots.run(self._look)
        if not any_dead:
            return Reaped(0, 0, solo_due)

        async def first(connection: Connection) -> tuple[int, int, list[str], int]:
            buried = await connection.fetch(self._sql["bury_workers"], self._db.now())
            left = await self._free_left(connection, [worker for worker, leaving in buried if leaving])
            owners = [row[0] for row in await connection.fetch(self._sql["find_dead_owners"])]
            freed = await self._free(connection, owners) if owners else 0
            return len(buried), left, owners, freed

        buried, left, owners, freed = await self._db.write("reap", self._db.side_slots, first)
        tickets = left + freed
        while freed == REAP_CHUNK:  # tickets that are locked right now are left to the next call
            freed = await self._db.write(
                "reap", self._db.side_slots, lambda c: self._free(c, owners), single=True
            )
            tickets += freed
        _, solo_due = await self._db.side_slots.run(self._look)
        return Reaped(buried, tickets, solo_due)

    async def _free(self, connection: Connection, owners: Sequence[str], *, losses: int = 1) -> int:
        return int(
            await connection.fetchval(self._sql["free_lost"], self._db.now(), owners, REAP_CHUNK, losses)
        )

    async def _free_left(self, connection: Connection, owners: Sequence[str]) -> int:
        """Free all of them now: once their rows are gone, nothing says that they were leaving."""
        tickets = 0
        while owners:
            freed = await self._free(connection, owners, losses=0)
            tickets += freed
            if freed < REAP_CHUNK:
                break
        return tickets

    async def _look(self, connection: Connection) -> tuple[bool, bool]:
        """Whether any worker is dead, and whether a ticket waits to be taken alone."""
        row = await connection.fetchrow(self._sql["look_for_dead"], self._db.now())
        return row["any_dead"], row["solo_due"]
