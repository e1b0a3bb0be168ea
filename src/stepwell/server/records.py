"""Routes of records: collections of the caller's workspace, and what is in them."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import Header, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from stepwell.client.records import CollectionInfo
from stepwell.domain.records import FIND_MAX, PAGE_MAX, RESTORED_MAX, VERSION_MAX, Record
from stepwell.errors import InvalidInput, excerpt
from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.refusal import Refusal
from stepwell.server.runs import RequestBody, Time

_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
CollectionPath = Annotated[
    str, Path(pattern=_NAME, max_length=64, description="name of a collection", examples=["customers"])
]
RecordPath = Annotated[str, Path(pattern=_NAME, max_length=64, description="id of a record")]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", description="version that was read, in double quotes")
]
Data = Annotated[
    dict[str, Any], Field(description="the fields of the record", examples=[{"email": "a@x.eu"}])
]
By = Annotated[str, Query(max_length=500, description="local mode only: who does it")]


class CollectionBody(RequestBody):
    """A collection. This is the whole definition: what is left out gets its default."""

    definition: Any = Field(
        default=True, alias="schema", description="JSON Schema of its records", examples=[{"type": "object"}]
    )
    key: str = Field(default="", max_length=500, description="a field that no two records share")
    find: list[Annotated[str, Field(max_length=500)]] = Field(
        default=[], max_length=FIND_MAX, description="further fields to find by"
    )
    new: bool = Field(default=False, description="refuse to change a collection that is there")
    by: str = Field(default="", max_length=500, description="local mode only: who defines it")


class CollectionView(BaseModel):
    """A collection of records."""

    name: str
    version: int = Field(description="counts the changes of the definition; send it as If-Match")
    definition: Any = Field(alias="schema")
    key: str
    find: list[str]
    records: int = Field(description="how many there are")
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


class CollectionPage(BaseModel):
    collections: list[CollectionView]
    cursor: str | None


class CollectionDropped(BaseModel):
    name: str
    changed: bool = Field(description="false: there was none")


class NewRecordBody(RequestBody):
    data: Data
    id: str = Field(default="", max_length=64, description="makes a repeat harmless; else a new one")


class RecordDataBody(RequestBody):
    data: Data


class RecordView(BaseModel):
    """A record with its version."""

    collection: str
    id: str
    version: int = Field(description="send it as If-Match to change what was read")
    data: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class RecordPage(BaseModel):
    records: list[RecordView]
    cursor: str | None


class RecordDeleted(BaseModel):
    id: str
    changed: bool = Field(description="false: there was none")


class RestoredRecord(RequestBody):
    id: str = Field(max_length=64)
    version: int = Field(ge=1, le=VERSION_MAX)
    data: Data
    created_at: Time = Field(strict=False)
    updated_at: Time = Field(strict=False)


class RestoreBody(RequestBody):
    records: list[RestoredRecord] = Field(max_length=RESTORED_MAX)


class RecordsRestored(BaseModel):
    written: int = Field(description="records written; those whose id existed stayed as they were")


# Collections


async def list_collections(
    request: Request,
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> CollectionPage:
    """List the collections by name."""
    caller = caller_of(request)
    purpose = ("collections", caller.principal.workspace)
    before = cursors.read_text(cursor, *purpose) if cursor else ""
    page = await caller.engine.records.collections(before=before, limit=limit)
    after = cursors.write(page.next, *purpose) if page.next else None
    return CollectionPage(collections=[_collection(info) for info in page], cursor=after)


async def get_collection(request: Request, response: Response, collection: CollectionPath) -> CollectionView:
    """Return a collection: its schema, what it is found by, and how many records it has."""
    info = await caller_of(request).engine.records.collection(collection)
    response.headers["ETag"] = f'"{info.version}"'
    return _collection(info)


async def define_collection(
    request: Request,
    response: Response,
    collection: CollectionPath,
    body: CollectionBody,
    if_match: IfMatch = None,
) -> CollectionView:
    """Create a collection, or change its definition. The same definition changes nothing."""
    caller = caller_of(request)
    info = await caller.engine.records.define(
        collection,
        schema=body.definition,
        key=body.key,
        find=body.find,
        expected=0 if body.new else _version(if_match) or None,
        by=caller.who(body.by),
    )
    response.headers["ETag"] = f'"{info.version}"'
    return _collection(info)


async def drop_collection(
    request: Request,
    collection: CollectionPath,
    with_records: Annotated[bool, Query(description="delete its records, too")] = False,
    by: By = "",
) -> CollectionDropped:
    """Delete a collection. If it has records, it is kept unless they are to be deleted too."""
    caller = caller_of(request)
    done = await caller.engine.records.drop(collection, with_records=with_records, by=caller.who(by))
    return CollectionDropped(name=collection, changed=done)


# Records


async def find_records(
    request: Request,
    collection: CollectionPath,
    where: Annotated[
        str,
        Query(
            max_length=4000,
            description="indexed fields and their values, as JSON",
            examples=['{"city":"Rome"}'],
        ),
    ] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> RecordPage:
    """Find records by indexed fields, oldest first. Without `where`, list all."""
    caller = caller_of(request)
    purpose = ("records", caller.principal.workspace, collection, where)
    before = cursors.read_text(cursor, *purpose) if cursor else ""
    wanted = _json(where, "where") if where else None
    page = await caller.engine.records.find(collection, wanted, before=before, limit=limit)
    after = cursors.write(page.next, *purpose) if page.next else None
    return RecordPage(records=[_record(record) for record in page], cursor=after)


async def get_record(
    request: Request, response: Response, collection: CollectionPath, record_id: RecordPath
) -> RecordView:
    """Return a record with its version."""
    return _tagged(response, await caller_of(request).engine.records.get(collection, record_id))


async def get_record_by_key(
    request: Request,
    response: Response,
    collection: CollectionPath,
    key: Annotated[str, Query(max_length=1000, description="value of the key field, as JSON")],
) -> RecordView:
    """Return the record whose key field has this value."""
    record = await caller_of(request).engine.records.get(collection, key=_json(key, "key"))
    return _tagged(response, record)


async def create_record(
    request: Request, response: Response, collection: CollectionPath, body: NewRecordBody
) -> RecordView:
    """Create a record. With an `id`, the same data may be sent again."""
    records = caller_of(request).engine.records
    return _tagged(response, await records.create(collection, body.data, id=body.id))


async def update_record(
    request: Request,
    response: Response,
    collection: CollectionPath,
    record_id: RecordPath,
    *,
    body: RecordDataBody,
    if_match: IfMatch = None,
) -> RecordView:
    """Set the fields in the body. The others stay."""
    records, version = caller_of(request).engine.records, _version(if_match)
    return _tagged(response, await records.update(collection, record_id, body.data, version=version))


async def replace_record(
    request: Request,
    response: Response,
    collection: CollectionPath,
    record_id: RecordPath,
    *,
    body: RecordDataBody,
    if_match: IfMatch = None,
) -> RecordView:
    """Give a record the fields of the body, and no others."""
    records, version = caller_of(request).engine.records, _version(if_match)
    record = await records.update(collection, record_id, body.data, version=version, whole=True)
    return _tagged(response, record)


async def delete_record(
    request: Request, collection: CollectionPath, record_id: RecordPath, if_match: IfMatch = None
) -> RecordDeleted:
    """Delete a record. With If-Match, only if it has that version."""
    records = caller_of(request).engine.records
    done = await records.delete(collection, record_id, version=_version(if_match))
    return RecordDeleted(id=record_id, changed=done)


async def restore_records(request: Request, collection: CollectionPath, body: RestoreBody) -> RecordsRestored:
    """Write records with their ids, versions and times, as an export has them."""
    records = [
        Record(
            collection=collection,
            id=each.id,
            version=each.version,
            data=each.data,
            created_at=_seconds(each.created_at),
            updated_at=_seconds(each.updated_at),
        )
        for each in body.records
    ]
    return RecordsRestored(written=await caller_of(request).engine.records.restore(collection, records))


def _collection(info: CollectionInfo) -> CollectionView:
    values = asdict(info)
    for name in ("created_at", "updated_at"):
        values[name] = views.moment(values[name]) or views.BEGINNING
    return CollectionView(**values)


def _record(record: Record) -> RecordView:
    return RecordView(
        collection=record.collection,
        id=record.id,
        version=record.version,
        data=record.data,
        created_at=views.moment(record.created_at) or views.BEGINNING,
        updated_at=views.moment(record.updated_at) or views.BEGINNING,
    )


def _tagged(response: Response, record: Record) -> RecordView:
    response.headers["ETag"] = f'"{record.version}"'
    return _record(record)


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _json(text: str, name: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidInput(
            f"{name} is {excerpt(text)}, which is not JSON", hint='such as {"city": "Rome"}', field=name
        ) from None


def _version(if_match: str | None) -> int:
    """Return the version in an If-Match header. A header that cannot be read is an error."""
    if if_match is None or if_match == "*":
        return 0
    match = re.fullmatch(r'"([1-9][0-9]{0,14})"', if_match)
    if match is None:
        raise Refusal(400, "PARAM_INVALID", "If-Match is not an ETag", hint='send one: "3"', field="If-Match")
    return int(match[1])
