"""Collections and records of the SQLite store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

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
from stepwell.errors import StepwellError
from stepwell.store.sqlite.session import Row, Session, as_list


def put_collection(session: Session, collection: Collection, *, expected: int) -> bool:
    c = collection
    present = read_collection(session, c.workspace, c.name)
    if present is not None and present.is_same_put(c):
        return True
    if (0 if present is None else present.version) != expected:
        return False
    if present is None:
        [[count]] = session.rows("count_collections", c.workspace)
        check_place_for_more(c.workspace, count)
        session.run(
            "create_collection",
            *(c.workspace, c.name, c.version, c.schema, c.key, as_list(c.find)),
            *(c.created_at, c.created_by, c.updated_at, c.updated_by),
        )
        return True
    check_redefinition(present, c)
    session.run(
        "replace_collection",
        *(c.workspace, c.name, expected, c.version, c.schema, c.key, as_list(c.find)),
        *(c.updated_at, c.updated_by),
    )
    return True


def read_collection(session: Session, workspace: str, name: str) -> Collection | None:
    row = session.row("read_collection", workspace, name)
    return None if row is None else _collection(row)


def list_collections(
    session: Session, workspace: str, *, after: str = "", limit: int = 100
) -> Sequence[Collection]:
    return [_collection(row) for row in session.rows("list_collections", workspace, after, limit)]


def drop_collection(session: Session, workspace: str, name: str) -> bool:
    present = read_collection(session, workspace, name)
    if present is None:
        return False
    if present.records:
        raise not_empty(present)
    session.run("drop_collection", workspace, name)
    return True


def clear_collection(session: Session, workspace: str, name: str, *, limit: int = 1000) -> int:
    places = [(workspace, name, row[0]) for row in session.rows("first_records", workspace, name, limit)]
    session.many("drop_record_terms", places)
    session.many("drop_record", places)
    session.run("count_records", workspace, name, -len(places))
    return len(places)


def change_record(session: Session, place: RecordPlace, decide: Decide) -> Any:
    """Return the result, or the error. Errors come before any write, so other calls need no rollback."""
    try:
        return change(session, place, decide)
    except StepwellError as error:
        return error


def change(session: Session, place: RecordPlace, decide: Decide) -> Any:
    collection = read_collection(session, place.workspace, place.collection)
    if collection is None:
        raise collection_not_found(place.collection)
    present = read_record(session, place.workspace, place.collection, id=place.id, keys=place.keys)
    write = decide(collection, present, session.now)
    put = write.put
    where = (place.workspace, place.collection)
    if put is not None:
        if put.key is not None:
            rival = read_record(session, *where, keys=(put.key, *write.rivals))
            if rival is not None and rival.id != put.id:
                raise key_taken(collection)
        _write(session, put, is_new=present is None)
    elif write.drop and present is not None:
        session.run("drop_record_terms", *where, present.id)
        session.run("drop_record", *where, present.id)
        session.run("count_records", *where, -1)
    return write.result


def _write(session: Session, put: StoredRecord, *, is_new: bool) -> None:
    where = (put.workspace, put.collection)
    if not is_new:
        session.run("drop_record_terms", *where, put.id)
    session.run(
        "put_record", *where, *(put.id, put.version, put.body, put.key, put.created_at, put.updated_at)
    )
    session.many("put_record_term", [(*where, field, term, put.id) for field, term in put.terms])
    if is_new:
        session.run("count_records", *where, 1)


def read_record(
    session: Session, workspace: str, collection: str, *, id: str = "", keys: Sequence[str] = ()
) -> StoredRecord | None:
    if id:
        row = session.row("read_record", workspace, collection, id)
    else:
        row = session.row("read_record_by_key", workspace, collection, as_list(keys))
    return None if row is None else _record(row)


def find_records(session: Session, filter: RecordFilter) -> Sequence[StoredRecord]:
    values = (filter.workspace, filter.collection, filter.after, filter.limit)
    if not filter.terms:
        return [_record(row) for row in session.rows("list_records", *values)]
    first, *others = filter.terms
    return [_record(row) for row in session.rows("find_records", *values, *first, as_list(others))]


def _collection(row: Row) -> Collection:
    values = dict(zip(Collection.__struct_fields__, row, strict=True))
    values["find"] = msgspec.json.decode(values["find"], type=tuple[str, ...])
    return Collection(**values)


def _record(row: Row) -> StoredRecord:
    workspace, collection, id, version, body, key, created_at, updated_at = row
    return StoredRecord(
        workspace=workspace,
        collection=collection,
        id=id,
        version=version,
        body=body,
        key=key,
        created_at=created_at,
        updated_at=updated_at,
    )
