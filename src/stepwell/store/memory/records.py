"""Collections and records of the memory store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.domain.records import (
    Collection,
    Decide,
    RecordFilter,
    RecordPlace,
    RecordWrite,
    StoredRecord,
    check_place_for_more,
    check_redefinition,
    collection_not_found,
    key_taken,
    not_empty,
)
from stepwell.errors import StoreUnavailable
from stepwell.store.memory.tables import Tables
from stepwell.store.memory.verb import transaction


class DeferredBody:
    """A body of `transact` that decides when it is called, and writes together with the step's event."""

    def __init__(self, decide: Callable[[], RecordWrite], write: Callable[[RecordWrite], None]) -> None:
        self._decide = decide
        self._write = write
        self._decided: RecordWrite | None = None

    def __call__(self, connection: object) -> Any:
        self._decided = self._decide()
        return self._decided.result

    def check(self) -> None:
        """Start over if others changed the record while the step waited for its turn."""
        if self._decide() != self._decided:
            raise StoreUnavailable("the record was changed meanwhile; nothing was written")

    def write(self) -> None:
        assert self._decided is not None
        self._write(self._decided)


class MemoryRecords(Tables):
    @transaction("collections")
    async def put_collection(self, collection: Collection, *, expected: int) -> bool:
        c, place = collection, (collection.workspace, collection.name)
        present = self._collections.get(place)
        if present is not None and present.is_same_put(c):
            return True
        if (0 if present is None else present.version) != expected:
            return False
        if present is None:
            check_place_for_more(c.workspace, sum(other[0] == c.workspace for other in self._collections))
            self._collections[place] = replace(c, records=0)
            return True
        check_redefinition(present, c)
        self._collections[place] = replace(
            c, records=present.records, created_at=present.created_at, created_by=present.created_by
        )
        return True

    async def read_collection(self, workspace: str, name: str) -> Collection | None:
        return self._collections.get((workspace, name))

    async def list_collections(
        self, workspace: str, *, after: str = "", limit: int = 100
    ) -> Sequence[Collection]:
        places = sorted(place for place in self._collections if place[0] == workspace and place[1] > after)
        return [self._collections[place] for place in places[:limit]]

    @transaction("collections")
    async def drop_collection(self, workspace: str, name: str) -> bool:
        present = self._collections.get((workspace, name))
        if present is None:
            return False
        if present.records:
            raise not_empty(present)
        del self._collections[workspace, name]
        return True

    @transaction("collections")
    async def clear_collection(self, workspace: str, name: str, *, limit: int = 1000) -> int:
        places = sorted(place for place in self._records if place[:2] == (workspace, name))[:limit]
        for place in places:
            del self._records[place]
        self._count_records((workspace, name), -len(places))
        return len(places)

    @transaction("records")
    async def change_record(self, place: RecordPlace, decide: Decide) -> Any:
        write = self._decided(place, decide, self._clock())
        self._write(place, write)
        return write.result

    def record_change(self, place: RecordPlace, decide: Decide) -> Callable[[Any], Any]:
        now = self._clock()
        return DeferredBody(
            lambda: self._decided(place, decide, now), lambda write: self._write(place, write)
        )

    def _decided(self, place: RecordPlace, decide: Decide, now: float) -> RecordWrite:
        collection = self._collections.get((place.workspace, place.collection))
        if collection is None:
            raise collection_not_found(place.collection)
        present = self._record(place.workspace, place.collection, place.id, place.keys)
        write = decide(collection, present, now)
        if write.put is not None and write.put.key is not None:
            keys = (write.put.key, *write.rivals)
            rival = self._record(place.workspace, place.collection, "", keys)
            if rival is not None and rival.id != write.put.id:
                raise key_taken(collection)
        return write

    def _write(self, place: RecordPlace, write: RecordWrite) -> None:
        where = (place.workspace, place.collection)
        if write.put is not None:
            if (*where, write.put.id) not in self._records:
                self._count_records(where, 1)
            self._records[*where, write.put.id] = write.put
        elif write.drop:
            present = self._record(*where, place.id, place.keys)
            if present is not None:
                del self._records[*where, present.id]
                self._count_records(where, -1)

    def _count_records(self, place: tuple[str, str], more: int) -> None:
        if place in self._collections:
            collection = self._collections[place]
            self._collections[place] = replace(collection, records=collection.records + more)

    async def read_record(
        self, workspace: str, collection: str, *, id: str = "", keys: Sequence[str] = ()
    ) -> StoredRecord | None:
        return self._record(workspace, collection, id, keys)

    def _record(self, workspace: str, collection: str, id: str, keys: Sequence[str]) -> StoredRecord | None:
        if id:
            return self._records.get((workspace, collection, id))
        matching = (
            record
            for place, record in self._records.items()
            if place[:2] == (workspace, collection) and record.key is not None and record.key in keys
        )
        return next(matching, None)

    async def find_records(self, filter: RecordFilter) -> Sequence[StoredRecord]:
        matching = [
            record
            for place, record in sorted(self._records.items())
            if place[:2] == (filter.workspace, filter.collection)
            and record.id > filter.after
            and set(filter.terms) <= set(record.terms)
        ]
        return matching[: filter.limit]
