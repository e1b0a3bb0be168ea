"""Records: typed values that a workspace keeps in collections, and the rules for changing them.

A store reads the collection and the record, calls a change with them, and writes what it returns. So the
rules are written once, here, and apply in the transaction of the write.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from stepwell.domain.codec import PLAIN
from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.domain.schema import Schema, schema_fault
from stepwell.domain.text import checked_text
from stepwell.errors import (
    CollectionChanged,
    CollectionNotFound,
    InvalidInput,
    NotSerialisable,
    RecordChanged,
    RecordExists,
    RecordInvalid,
    RecordLimit,
    RecordNotFound,
    excerpt,
)

COLLECTIONS_MAX = 100  # collections of a workspace
RECORDS_MAX = 100_000  # records of a collection
RECORD_BYTES_MAX = 65_536
SCHEMA_BYTES_MAX = 65_536
FIND_MAX = 8  # indexed fields of a collection
VALUE_MAX = 256  # characters of an indexed value
PAGE_MAX = 1000
RESTORED_MAX = 500  # records in one call
VERSION_MAX = 2**53

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
Action = Literal["create", "restore", "update", "delete"]


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of records with one schema. `key` is unique; `find` are further indexed fields."""

    name: str
    workspace: str = DEFAULT_WORKSPACE
    version: int = 1  # counts the changes of its definition
    schema: bytes = b"true"
    key: str = ""
    find: tuple[str, ...] = ()
    records: int = 0
    created_at: float = 0.0
    created_by: str = ""
    updated_at: float = 0.0
    updated_by: str = ""

    @property
    def indexed(self) -> tuple[str, ...]:
        return (self.key, *self.find) if self.key else self.find

    def is_same_put(self, other: Collection) -> bool:
        """Return whether both come from one call, repeated because its first answer was lost."""
        return replace(self, records=0) == replace(other, records=0)


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as a store keeps it. `body` is its JSON; `terms` are its indexed values by field."""

    workspace: str
    collection: str
    id: str
    version: int
    body: bytes
    terms: tuple[tuple[str, str], ...] = ()
    key: str | None = None  # the indexed value of its key field
    created_at: float = 0.0
    updated_at: float = 0.0


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A record: its data, and the version and times by which changes are compared."""

    collection: str
    id: str
    version: int
    data: dict[str, Any]
    created_at: float
    updated_at: float


class FoundRecords(msgspec.Struct, frozen=True, kw_only=True):
    """A page of records. `next` is where the following page begins; '' on the last one."""

    records: list[Record]
    next: str = ""


class RecordPlace(NamedTuple):
    """Which record to change: the one with this id, or with this key."""

    action: Action
    workspace: str
    collection: str
    id: str = ""
    keys: tuple[str, ...] = ()  # possible indexed values of the key; any of them fits


class RecordWrite(NamedTuple):
    """The effect of a change: write a record, delete it, or do nothing; and the result."""

    result: Any
    put: StoredRecord | None = None
    drop: bool = False
    rivals: tuple[str, ...] = ()  # further key terms that no other record may have


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records to find, in the order of their ids: those that have all these terms."""

    collection: str
    workspace: str = DEFAULT_WORKSPACE
    terms: tuple[tuple[str, str], ...] = ()
    after: str = ""
    limit: int = 100


# Called in the transaction, maybe on another thread, with the collection, the current record and the time.
Decide = Callable[[Collection, StoredRecord | None, float], RecordWrite]


# Changes


def creating(id: str, data: bytes) -> Decide:
    """Create a record. If the same one exists, the call was repeated, and it is returned."""

    def decide(collection: Collection, present: StoredRecord | None, now: float) -> RecordWrite:
        if present is not None:
            if present.version == 1 and present.body == data:
                return RecordWrite(record_of(present))
            raise RecordExists(
                f"{collection.name} has a record {excerpt(id)}", collection=collection.name, record=id
            )
        check_room(collection)
        stored = _fitting(
            collection,
            StoredRecord(
                workspace=collection.workspace,
                collection=collection.name,
                id=id,
                version=1,
                body=data,
                created_at=now,
                updated_at=now,
            ),
        )
        return RecordWrite(record_of(stored), stored)

    return decide


def updating(id: str, data: bytes, *, version: int = 0, whole: bool = False) -> Decide:
    """Set the fields in `data`, or with `whole` all fields. Version 0 means any version."""

    def decide(collection: Collection, present: StoredRecord | None, now: float) -> RecordWrite:
        present = _expected(collection, present, id, version)
        body = data
        if not whole:
            body = PLAIN.encode({**PLAIN.decode(present.body), **PLAIN.decode(data)})
        at = max(now, present.updated_at)
        stored = _fitting(collection, replace(present, version=present.version + 1, body=body, updated_at=at))
        return RecordWrite(record_of(stored), stored)

    return decide


def deleting(id: str, *, version: int = 0) -> Decide:
    """Delete a record. The result is False if there is none and no version is expected."""

    def decide(collection: Collection, present: StoredRecord | None, now: float) -> RecordWrite:
        if present is None and not version:
            return RecordWrite(False)
        _expected(collection, present, id, version)
        return RecordWrite(True, drop=True)

    return decide


def restoring(record: Record) -> Decide:
    """Write a record with its version and times. False if its id exists; that record stays."""
    row = StoredRecord(
        workspace="",
        collection=record.collection,
        id=checked_record_id(record.id),
        version=record.version,
        body=checked_data(record.data),
        created_at=record.created_at,
        updated_at=record.updated_at,
    )

    def decide(collection: Collection, present: StoredRecord | None, now: float) -> RecordWrite:
        if present is not None:
            return RecordWrite(False)
        check_room(collection)
        return RecordWrite(True, _fitting(collection, replace(row, workspace=collection.workspace)))

    return decide


def check_room(collection: Collection) -> None:
    if collection.records >= RECORDS_MAX:
        raise RecordLimit(
            f"{collection.name} has {collection.records:,} records, which is the limit",
            hint="delete records that are no longer needed, or use a database of your own (query)",
            collection=collection.name,
        )


def _expected(collection: Collection, present: StoredRecord | None, id: str, version: int) -> StoredRecord:
    if present is None:
        raise record_not_found(collection.name, id)
    if version and present.version != version:
        raise RecordChanged(
            f"record {excerpt(present.id)} of {collection.name} has version {present.version}, not {version}",
            collection=collection.name,
            record=present.id,
            version=present.version,
        )
    return present


def _fitting(collection: Collection, row: StoredRecord) -> StoredRecord:
    """Return the row with its indexed values. RecordInvalid if the data does not fit the collection."""
    _check_size(row.body)
    data = PLAIN.decode(row.body)
    try:
        compiled(collection.schema).check(data)
    except InvalidInput as error:
        raise RecordInvalid(
            f"the record does not fit {collection.name}: {error.message}",
            collection=collection.name,
            field=error.context.get("field", ""),
        ) from None
    terms = tuple((field, term_of(field, data[field])) for field in collection.indexed if field in data)
    if collection.key and data.get(collection.key) is None:
        raise RecordInvalid(
            f"the record has no {collection.key}, the key of {collection.name}",
            collection=collection.name,
            field=collection.key,
        )
    return replace(row, terms=terms, key=dict(terms).get(collection.key))


def record_of(stored: StoredRecord) -> Record:
    return Record(
        collection=stored.collection,
        id=stored.id,
        version=stored.version,
        data=PLAIN.decode(stored.body),
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


# Errors that stores raise as well


def collection_not_found(name: str) -> CollectionNotFound:
    return CollectionNotFound(f"there is no collection {excerpt(name)}", collection=name)


def record_not_found(collection: str, id: str) -> RecordNotFound:
    which = f"record {excerpt(id)}" if id else "record with this key"
    named = {"record": id} if id else {}
    return RecordNotFound(f"{collection} has no {which}", collection=collection, **named)


def key_taken(collection: Collection) -> RecordExists:
    return RecordExists(
        f"another record of {collection.name} has this {collection.key}",
        collection=collection.name,
        field=collection.key,
    )


def check_place_for_more(workspace: str, collections: int) -> None:
    if collections >= COLLECTIONS_MAX:
        raise RecordLimit(
            f"workspace {excerpt(workspace)} has {collections} collections, which is the limit",
            hint="delete one that is no longer needed",
        )


def not_empty(collection: Collection) -> CollectionChanged:
    return CollectionChanged(
        f"{collection.name} has {collection.records:,} records",
        hint="delete it with its records: with_records=True",
        collection=collection.name,
    )


def check_redefinition(present: Collection, wanted: Collection) -> None:
    """Refuse to change the indexed fields while there are records, whose indexes are already written."""
    if present.records and (present.key, present.find) != (wanted.key, wanted.find):
        raise CollectionChanged(
            f"{present.name} has {present.records:,} records, so its key and its find fields cannot change",
            hint="define another collection and copy the records, or delete them first",
            collection=present.name,
        )


# Values


@functools.lru_cache(maxsize=256)
def compiled(schema: bytes) -> Schema:
    """Return the checks of a schema. Their time grows linearly with the value, whatever its patterns are."""
    return Schema(schema.decode(), linear=True)


def checked_collection_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidInput(
            f"a collection cannot be called {excerpt(name)}",
            hint="use 1 to 64 letters, digits, '_', '-' and '.', and begin with a letter, a digit or '_'",
            field="collection",
        )
    return name


def checked_record_id(id: object) -> str:
    if not isinstance(id, str) or not _NAME.match(id):
        raise InvalidInput(
            f"a record cannot have the id {excerpt(id)}",
            hint="use 1 to 64 letters, digits, '_', '-' and '.'; to look for a value, give key=",
            field="id",
        )
    return id


def checked_schema(schema: object) -> bytes:
    """Return the schema as JSON. InvalidInput if it is not a JSON Schema that is safe to check with."""
    fault = "" if isinstance(schema, dict | bool) else "it is not an object"
    data = b""
    if not fault:
        data = _encoded(schema, "the schema")
        fault = f"it is larger than {SCHEMA_BYTES_MAX:,} bytes" if len(data) > SCHEMA_BYTES_MAX else ""
    if not fault:
        fault = schema_fault(data.decode(), linear=True)
    if fault:
        raise InvalidInput(
            f"the schema cannot be used: {fault}",
            hint="give a self-contained JSON Schema, its patterns without look-arounds and back-references",
            field="schema",
        )
    return data


def checked_fields(key: str, find: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the key field and the other indexed fields, each once."""
    if isinstance(find, str):
        raise InvalidInput(f"find is {excerpt(find)}", hint='give a list: find=["status"]', field="find")
    fields = [key, *find] if key else [*find]
    for field in fields:
        if not checked_text(field, "find"):
            raise InvalidInput(f"{excerpt(field)} is not the name of a field", field="find")
    if len(fields) > FIND_MAX or len(set(fields)) < len(fields):
        raise InvalidInput(
            "these fields cannot be indexed",
            hint=f"name at most {FIND_MAX} fields, each once; the key is indexed anyway",
            field="find",
        )
    return (key, tuple(find))


def checked_data(data: object) -> bytes:
    """Return the data of a record as JSON. RecordInvalid if it is not an object, or too large."""
    if not isinstance(data, Mapping):
        raise RecordInvalid(f"the data of a record is an object, not {excerpt(data)}", field="data")
    encoded = _encoded(dict(data), "the data")
    _check_size(encoded)
    return encoded


def _check_size(body: bytes) -> None:
    if len(body) > RECORD_BYTES_MAX:
        raise RecordInvalid(
            f"the record has {len(body):,} bytes; the limit is {RECORD_BYTES_MAX:,}",
            hint="keep large data elsewhere, and a reference to it in the record",
            field="data",
        )


def _encoded(value: object, what: str) -> bytes:
    try:
        return PLAIN.encode(value)
    except NotSerialisable as error:
        raise RecordInvalid(f"{what}: {error.message}", hint=error.hint) from None


def checked_where(where: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """Return the filter as terms. `check_indexed` knows whether the collection has such an index."""
    if where is None:
        return ()
    if not isinstance(where, Mapping):
        raise InvalidInput(
            f"where is {excerpt(where)}", hint='give fields and values: {"status": "open"}', field="where"
        )
    return tuple((field, term_of(field, value)) for field, value in where.items())


def check_indexed(collection: Collection, terms: Sequence[tuple[str, str]]) -> None:
    unknown = [field for field, _ in terms if field not in collection.indexed]
    if unknown:
        named = ", ".join(collection.indexed) or "none"
        raise InvalidInput(
            f"{collection.name} cannot find by {', '.join(map(excerpt, unknown))}",
            hint=f"its indexed fields are: {named}; define it with find=[...]",
            collection=collection.name,
            field="where",
        )


def term_of(field: str, value: Any) -> str:
    """Return an indexed value as text, equal for equal values. RecordInvalid if it cannot be indexed."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has a single type of number
    if value is not None and not isinstance(value, str | int | float | bool):
        raise RecordInvalid(
            f"{field} is {excerpt(value)}, which cannot be indexed",
            hint="an indexed field has text, a number, true, false or null",
            field=field,
        )
    term = _encoded(value, field).decode()
    if len(term) > VALUE_MAX or "\0" in term:
        raise RecordInvalid(
            f"{field} is longer than {VALUE_MAX} characters, so it cannot be indexed", field=field
        )
    return term
