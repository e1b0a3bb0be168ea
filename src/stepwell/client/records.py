"""Records: typed values that a workspace keeps, in collections, in the database of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from stepwell.client.store_access import StoreAccess
from stepwell.domain.records import (
    PAGE_MAX,
    RESTORED_MAX,
    VERSION_MAX,
    Action,
    Collection,
    Decide,
    Record,
    RecordFilter,
    RecordPlace,
    check_indexed,
    checked_collection_name,
    checked_data,
    checked_fields,
    checked_record_id,
    checked_schema,
    checked_where,
    collection_not_found,
    creating,
    deleting,
    record_not_found,
    record_of,
    restoring,
    term_of,
    updating,
)
from stepwell.domain.search import Page
from stepwell.domain.suggest import did_you_mean
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import CollectionChanged, InvalidInput, RecordChanged, RecordNotFound, excerpt
from stepwell.store.record_store import RecordStore

_CLEARED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """A collection: the schema of its records, and the fields by which they are found."""

    name: str
    version: int  # counts the changes of the definition
    schema: Any
    key: str
    find: tuple[str, ...]
    records: int
    created_at: float
    created_by: str
    updated_at: float
    updated_by: str


class RecordChange(NamedTuple):
    """A change of one record: which record, and what changes."""

    place: RecordPlace
    decide: Decide


class Records:
    """`engine.records`: the collections of this workspace and their records."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    # Collections

    async def define(
        self,
        name: str,
        *,
        schema: Any = True,
        key: str = "",
        find: Sequence[str] = (),
        expected: int | None = None,
        by: str = "",
    ) -> CollectionInfo:
        """Create a collection, or change its definition. The same definition changes nothing.

        Every record must fit `schema`, a JSON Schema; a new schema applies to records written from now on.
        `key` is a field that no two records share. `find` are further fields to find records by. Neither
        can change while there are records. With `expected`, only that version of the definition is changed;
        0 means that the collection must be new.
        """
        body, (key, find) = checked_schema(schema), checked_fields(key, find)
        wanted, by = checked_collection_name(name), checked_text(by, "by")
        store, workspace = self._access.store, self._access.workspace
        if expected is not None:
            whole_number(expected, "expected", 0, VERSION_MAX)
        while True:
            present, now = await store.read_collection(workspace, wanted), await store.now()
            version = present.version if present is not None else 0
            checked_expected(version, expected, wanted)
            if present is not None and (present.schema, present.key, present.find) == (body, key, find):
                return info_of(present)
            base = present or Collection(
                name=wanted, workspace=workspace, created_at=now, created_by=by, version=0
            )
            changed = replace(
                base, version=version + 1, schema=body, key=key, find=find, updated_at=now, updated_by=by
            )
            put = partial(store.put_collection, changed, expected=version)
            if await self._access.call_idempotent(put):
                return info_of(changed)
            # Somebody changed it meanwhile: try with the next version, unless one is expected.

    async def collections(self, *, before: str = "", limit: int = 100) -> Page[CollectionInfo]:
        """List the collections by name. The `next` of a page is the `before` of the following page."""
        count = whole_number(limit, "limit", 1, PAGE_MAX)
        rows = await self._access.store.list_collections(
            self._access.workspace, after=checked_text(before, "before"), limit=count + 1
        )
        more = rows[count - 1].name if len(rows) > count else ""
        return Page([info_of(row) for row in rows[:count]], more)

    async def collection(self, name: str) -> CollectionInfo:
        """Return a collection by name. CollectionNotFound: there is none."""
        return info_of(await self._read(name))

    async def drop(self, name: str, *, with_records: bool = False, by: str = "") -> bool:
        """Delete a collection. False if there is none. CollectionChanged: it has records, which may stay."""
        wanted, store, workspace = checked_collection_name(name), self._access.store, self._access.workspace
        checked_text(by, "by")
        while True:
            if with_records:
                clear = partial(store.clear_collection, workspace, wanted, limit=_CLEARED_AT_ONCE)
                while await self._access.call_idempotent(clear):
                    pass
            try:
                drop = partial(store.drop_collection, workspace, wanted)
                done, repeated = await self._access.retry_call(drop)
                return done or repeated
            except CollectionChanged:
                if not with_records:
                    raise
                # Somebody created a record meanwhile.

    # Records

    async def create(self, collection: str, data: Mapping[str, Any], *, id: str = "") -> Record:
        """Create a record. With `id` the call may be repeated: the same data returns the same record."""
        change = creation(self._access.workspace, collection, data, id or self._access.ids.run_id())
        record: Record = await self._access.call_idempotent(_Calls(self._access.store, change).make)
        return record

    async def get(self, collection: str, id: str = "", *, key: Any = None) -> Record:
        """Return the record with this id or key. RecordNotFound: there is none."""
        place = place_of("update", self._access.workspace, collection, id, key)
        record = await self._there(place)
        if record is None:
            await self._read(collection)
            raise record_not_found(place.collection, place.id)
        return record

    async def find(
        self,
        collection: str,
        where: Mapping[str, Any] | None = None,
        *,
        before: str = "",
        limit: int = 100,
    ) -> Page[Record]:
        """Find records by their indexed fields, oldest first; without `where`, all records.

        The `next` of a page is the `before` of the following page.
        """
        count, terms = whole_number(limit, "limit", 1, PAGE_MAX), checked_where(where)
        check_indexed(await self._read(collection), terms)
        wanted = RecordFilter(
            collection=collection,
            workspace=self._access.workspace,
            terms=terms,
            after=checked_text(before, "before"),
            limit=count + 1,
        )
        rows = await self._access.store.find_records(wanted)
        more = rows[count - 1].id if len(rows) > count else ""
        return Page([record_of(row) for row in rows[:count]], more)

    async def update(
        self, collection: str, id: str, data: Mapping[str, Any], *, version: int = 0, whole: bool = False
    ) -> Record:
        """Set the fields in `data`. With `whole` the record has these fields and no others.

        With `version`, only that version is changed. RecordChanged: the record has another one.
        """
        change = revision(self._access.workspace, collection, id, None, data, version=version, whole=whole)
        calls = _Calls(self._access.store, change)
        try:
            record: Record = await self._access.call_idempotent(calls.make)
        except RecordChanged:
            # An earlier attempt whose answer was lost may have made this change.
            there = await self._there(change.place) if calls.repeated and version else None
            if there is None or there.version != version + 1 or {**there.data, **data} != there.data:
                raise
            return there
        return record

    async def delete(self, collection: str, id: str, *, version: int = 0) -> bool:
        """Delete a record. False if there is none. With `version`, only that version is deleted."""
        calls = _Calls(
            self._access.store, deletion(self._access.workspace, collection, id, None, version=version)
        )
        try:
            return bool(await self._access.call_idempotent(calls.make)) or calls.repeated
        except RecordNotFound:
            if not calls.repeated:
                raise
            return True

    async def restore(self, collection: str, records: Sequence[Record]) -> int:
        """Write records with their ids, versions and times, as an export has them.

        Records whose id exists stay as they are. Takes up to 500 records and returns how many were written.
        """
        if len(records) > RESTORED_MAX:
            raise InvalidInput(
                f"{len(records):,} records are too many for one call",
                hint=f"restore at most {RESTORED_MAX} at a time",
            )
        name, written = checked_collection_name(collection), 0
        for record in records:
            place = RecordPlace("restore", self._access.workspace, name, checked_record_id(record.id))
            change = RecordChange(place, restoring(replace(record, collection=name)))
            calls = _Calls(self._access.store, change)
            written += bool(await self._access.call_idempotent(calls.make)) or calls.repeated
        return written

    # Parts

    async def _there(self, place: RecordPlace) -> Record | None:
        stored = await self._access.store.read_record(
            place.workspace, place.collection, id=place.id, keys=place.keys
        )
        return None if stored is None else record_of(stored)

    async def _read(self, name: str) -> Collection:
        wanted, store, workspace = checked_collection_name(name), self._access.store, self._access.workspace
        collection = await store.read_collection(workspace, wanted)
        if collection is None:
            error = collection_not_found(wanted)
            names = [row.name for row in await store.list_collections(workspace)]
            error.hint = did_you_mean(wanted, names) or error.hint
            raise error
        return collection


class _Calls:
    """The attempts of one change: whether an earlier one may have succeeded."""

    def __init__(self, store: RecordStore, change: RecordChange) -> None:
        self._store = store
        self._change = change
        self._count = 0

    @property
    def repeated(self) -> bool:
        return self._count > 1

    async def make(self) -> Any:
        self._count += 1
        return await self._store.change_record(*self._change)


# Changes, checked as far as they can be without the collection


def creation(workspace: str, collection: str, data: Mapping[str, Any], id: str) -> RecordChange:
    place = RecordPlace("create", workspace, checked_collection_name(collection), checked_record_id(id))
    return RecordChange(place, creating(id, checked_data(data)))


def revision(
    workspace: str,
    collection: str,
    id: str,
    key: Any,
    data: Mapping[str, Any],
    *,
    version: int,
    whole: bool,
) -> RecordChange:
    place = place_of("update", workspace, collection, id, key)
    wanted = checked_version(version)
    return RecordChange(place, updating(id, checked_data(data), version=wanted, whole=whole))


def deletion(workspace: str, collection: str, id: str, key: Any, *, version: int) -> RecordChange:
    place = place_of("delete", workspace, collection, id, key)
    return RecordChange(place, deleting(id, version=checked_version(version)))


def checked_version(version: object) -> int:
    return whole_number(
        version, "version", 0, VERSION_MAX, "give the version of the record that was read", wrong=InvalidInput
    )


def place_of(action: Action, workspace: str, collection: str, id: str, key: Any) -> RecordPlace:
    """Return which record is meant, by its id or by its key."""
    name = checked_collection_name(collection)
    if (id != "") == (key is not None):
        raise InvalidInput(
            "give either the id of the record or its key",
            hint="the key is the value of the collection's key field",
            field="id",
        )
    if key is None:
        return RecordPlace(action, workspace, name, checked_record_id(id))
    return RecordPlace(action, workspace, name, keys=(term_of("key", key),))


def checked_expected(version: int, expected: int | None, name: str) -> None:
    if expected is not None and expected != version:
        what = f"has version {version}" if version else "does not exist"
        raise CollectionChanged(
            f"collection {excerpt(name)} {what}, and version {expected} was expected", collection=name
        )


def info_of(collection: Collection) -> CollectionInfo:
    return CollectionInfo(
        name=collection.name,
        version=collection.version,
        schema=msgspec.json.decode(collection.schema),
        key=collection.key,
        find=collection.find,
        records=collection.records,
        created_at=collection.created_at,
        created_by=collection.created_by,
        updated_at=collection.updated_at,
        updated_by=collection.updated_by,
    )
