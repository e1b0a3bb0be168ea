"""Collections and records of the PostgreSQL store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from stepwell.domain.records import (
    Collection,
    Decide,
    RecordFilter,
    RecordPlace,
    StoredRecord,
    check_place_for_more,
    check_redefinition,
    collection_not_found,
    key_taken,
    not_empty,
)
from stepwell.errors import InvalidInput
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import ANSWER_SECONDS, Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.reads import PgReads

T = TypeVar("T")


class PgRecords:
    def __init__(self, db: Database, reads: PgReads) -> None:
        self._db = db
        self._sql = db.sql
        self._reads = reads

    # Collections

    async def put_collection(self, collection: Collection, *, expected: int) -> bool:
        async def work(connection: Connection) -> bool:
            await connection.execute(self._sql["lock_collections"], collection.workspace)
            return await self._put(connection, collection, expected)

        return await self._write("collections", work)

    async def _put(self, connection: Connection, c: Collection, expected: int) -> bool:
        present = await self._locked(connection, c.workspace, c.name, "lock_collection")
        if present is not None and present.is_same_put(c):
            return True
        if (0 if present is None else present.version) != expected:
            return False
        changed = (c.version, c.schema, c.key, list(c.find))
        if present is None:
            count = await connection.fetchval(self._sql["count_collections"], c.workspace)
            check_place_for_more(c.workspace, count)
            times = (c.created_at, c.created_by, c.updated_at, c.updated_by)
            await connection.execute(self._sql["create_collection"], c.workspace, c.name, *changed, *times)
            return True
        check_redefinition(present, c)
        who = (c.updated_at, c.updated_by)
        await connection.execute(self._sql["replace_collection"], c.workspace, c.name, *changed, *who)
        return True

    async def read_collection(self, workspace: str, name: str) -> Collection | None:
        rows = await self._reads.fetch("read_collection", workspace, name)
        return _collection(rows[0]) if rows else None

    async def list_collections(
        self, workspace: str, *, after: str = "", limit: int = 100
    ) -> Sequence[Collection]:
        rows = await self._reads.fetch("list_collections", workspace, after, limit)
        return [_collection(row) for row in rows]

    async def drop_collection(self, workspace: str, name: str) -> bool:
        async def work(connection: Connection) -> bool:
            present = await self._locked(connection, workspace, name, "lock_collection")
            if present is not None and present.records:
                raise not_empty(present)
            await connection.execute(self._sql["drop_collection"], workspace, name)
            return present is not None

        return await self._write("collections", work)

    async def clear_collection(self, workspace: str, name: str, *, limit: int = 1000) -> int:
        async def work(connection: Connection) -> int:
            await self._locked(connection, workspace, name, "lock_collection")
            gone = await connection.fetch(self._sql["clear_collection"], workspace, name, limit)
            await connection.execute(self._sql["count_records"], workspace, name, -len(gone))
            return len(gone)

        return await self._write("collections", work)

    # Records

    async def change_record(self, place: RecordPlace, decide: Decide) -> Any:
        return await self._write("records", lambda connection: self._change(connection, place, decide))

    def record_change(self, place: RecordPlace, decide: Decide) -> Callable[[Any], Any]:
        async def body(connection: Connection) -> Any:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._change(connection, place, decide)

        return body

    async def _change(self, connection: Connection, place: RecordPlace, decide: Decide) -> Any:
        where = (place.workspace, place.collection)
        lock = "read_collection" if place.action == "update" else "lock_collection"
        collection = await self._locked(connection, *where, lock)
        if collection is None:
            raise collection_not_found(place.collection)
        present = await self._record(connection, place, lock=True)
        now = await connection.fetchval(self._sql["read_clock"], self._db.now())
        write = decide(collection, present, now)
        put = write.put
        if put is not None:
            if put.key is not None:
                keys = place._replace(id="", keys=(put.key, *write.rivals))
                rival = await self._record(connection, keys)
                if rival is not None and rival.id != put.id:
                    raise key_taken(collection)
            try:
                await connection.execute(self._sql["put_record"], *_values(put))
            except asyncpg.UniqueViolationError:  # somebody wrote it after we read it
                raise key_taken(collection) from None
        elif write.drop and present is not None:
            await connection.execute(self._sql["drop_record"], *where, present.id)
        more = int(put is not None and present is None) - int(write.drop)
        if more:
            await connection.execute(self._sql["count_records"], *where, more)
        return write.result

    async def read_record(
        self, workspace: str, collection: str, *, id: str = "", keys: Sequence[str] = ()
    ) -> StoredRecord | None:
        if id:
            rows = await self._reads.fetch("read_record", workspace, collection, id)
        else:
            rows = await self._reads.fetch("read_record_by_key", workspace, collection, list(keys))
        return _record(rows[0]) if rows else None

    async def find_records(self, filter: RecordFilter) -> Sequence[StoredRecord]:
        values = (filter.workspace, filter.collection, filter.after, filter.limit)
        if not filter.terms:
            rows = await self._reads.fetch("list_records", *values)
        else:
            first, *others = filter.terms
            more = ([field for field, _ in others], [term for _, term in others])
            rows = await self._reads.fetch("find_records", *values, *first, *more)
        return [_record(row) for row in rows]

    # Parts

    async def _locked(
        self, connection: Connection, workspace: str, name: str, lock: str
    ) -> Collection | None:
        row = await connection.fetchrow(self._sql[lock], workspace, name)
        return None if row is None else _collection(row)

    async def _record(
        self, connection: Connection, place: RecordPlace, *, lock: bool = False
    ) -> StoredRecord | None:
        verb = "lock" if lock else "read"
        where = (place.workspace, place.collection)
        if place.id:
            row = await connection.fetchrow(self._sql[f"{verb}_record"], *where, place.id)
        else:
            row = await connection.fetchrow(self._sql[f"{verb}_record_by_key"], *where, list(place.keys))
        return None if row is None else _record(row)

    async def _write(self, name: str, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await self._db.write(name, self._db.side_slots, work)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this value: {error}") from error


def _collection(row: Any) -> Collection:
    return Collection(**dict(row) | {"find": tuple(row["find"])})


def _record(row: Any) -> StoredRecord:
    return StoredRecord(**dict(row))


def _values(put: StoredRecord) -> tuple[Any, ...]:
    return (
        *(put.workspace, put.collection, put.id, put.version, put.body, put.key),
        *(put.created_at, put.updated_at),
        [field for field, _ in put.terms],
        [term for _, term in put.terms],
    )
