"""HttpRecords: the records of the workspace, behind a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from stepwell.client.records import CollectionInfo, Records, checked_version, place_of
from stepwell.client.store_access import StoreAccess
from stepwell.domain.codec import PLAIN
from stepwell.domain.records import (
    PAGE_MAX,
    RESTORED_MAX,
    VERSION_MAX,
    Record,
    checked_collection_name,
    checked_data,
    checked_fields,
    checked_record_id,
    checked_schema,
    checked_where,
)
from stepwell.domain.search import Page
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import (
    CollectionChanged,
    InvalidInput,
    RecordChanged,
    RecordNotFound,
)
from stepwell.http_client.connection import Connection, Params
from stepwell.http_client.rows import Fields, fields_of, flag_of, listed, row_of


class HttpRecords(Records):
    def __init__(self, access: StoreAccess, connection: Connection) -> None:
        super().__init__(access)
        self._connection = connection

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
        definition, (key, find) = checked_schema(schema), checked_fields(key, find)
        body = {"schema": Raw(definition), "key": key, "find": find, "by": checked_text(by, "by")}
        if expected is not None:
            whole_number(expected, "expected", 0, VERSION_MAX)
        match = str(expected) if expected else ""
        answer = await self._connection.call(
            "PUT",
            _path(name),
            body={**body, "new": expected == 0},
            match=match,
            settled=CollectionChanged if expected is not None else None,
        )
        return _info(fields_of(answer.content)) if answer.content else await self.collection(name)

    async def collections(self, *, before: str = "", limit: int = 100) -> Page[CollectionInfo]:
        content = await self._connection.get("/records", _page(before, limit))
        return Page([_info(fields) for fields in listed(content, "collections")], _next(content))

    async def collection(self, name: str) -> CollectionInfo:
        return _info(fields_of(await self._connection.get(_path(name))))

    async def drop(self, name: str, *, with_records: bool = False, by: str = "") -> bool:
        params = {"with_records": "true" if with_records else "false", "by": checked_text(by, "by")}
        answer = await self._connection.call("DELETE", _path(name), params=params)
        return flag_of(answer.content, "changed") or answer.repeated

    async def create(self, collection: str, data: Mapping[str, Any], *, id: str = "") -> Record:
        # with an id, the request may be repeated
        body = {"data": Raw(checked_data(data)), "id": checked_record_id(id or self._access.ids.run_id())}
        answer = await self._connection.post(f"{_path(collection)}/items", body)
        return _record(fields_of(answer.content))

    async def get(self, collection: str, id: str = "", *, key: Any = None) -> Record:
        place_of("update", self._access.workspace, collection, id, key)
        if key is None:
            return _record(fields_of(await self._connection.get(_item(collection, id))))
        params = {"key": PLAIN.encode(key).decode()}
        return _record(fields_of(await self._connection.get(f"{_path(collection)}/by-key", params)))

    async def find(
        self,
        collection: str,
        where: Mapping[str, Any] | None = None,
        *,
        before: str = "",
        limit: int = 100,
    ) -> Page[Record]:
        checked_where(where)
        params = {**_page(before, limit), **({"where": PLAIN.encode(dict(where)).decode()} if where else {})}
        content = await self._connection.get(f"{_path(collection)}/items", params)
        return Page([_record(fields) for fields in listed(content, "records")], _next(content))

    async def update(
        self, collection: str, id: str, data: Mapping[str, Any], *, version: int = 0, whole: bool = False
    ) -> Record:
        body, expected = {"data": Raw(checked_data(data))}, checked_version(version)
        answer = await self._connection.call(
            "PUT" if whole else "PATCH",
            _item(collection, id),
            body=body,
            match=str(expected) if expected else "",
            settled=RecordChanged if expected else None,
        )
        if answer.content:
            return _record(fields_of(answer.content))
        return await self.get(collection, id)

    async def delete(self, collection: str, id: str, *, version: int = 0) -> bool:
        expected = checked_version(version)
        answer = await self._connection.call(
            "DELETE",
            _item(collection, id),
            match=str(expected) if expected else "",
            settled=RecordNotFound,
        )
        return answer.repeated or flag_of(answer.content, "changed")

    async def restore(self, collection: str, records: Sequence[Record]) -> int:
        if len(records) > RESTORED_MAX:
            raise InvalidInput(
                f"{len(records):,} records are too many for one call",
                hint=f"restore at most {RESTORED_MAX} at a time",
            )
        rows = [
            {
                "id": checked_record_id(record.id),
                "version": record.version,
                "data": Raw(checked_data(record.data)),
                "created_at": _time(record.created_at),
                "updated_at": _time(record.updated_at),
            }
            for record in records
        ]
        answer = await self._connection.post(f"{_path(collection)}/restore", {"records": rows})
        return msgspec.json.decode(fields_of(answer.content)["written"], type=int)


def _path(name: str) -> str:
    return f"/records/{quote(checked_collection_name(name), safe='')}"


def _item(collection: str, id: str) -> str:
    return f"{_path(collection)}/items/{quote(checked_record_id(id), safe='')}"


def _page(before: str, limit: int) -> Params:
    count = whole_number(limit, "limit", 1, PAGE_MAX)
    return {"cursor": checked_text(before, "before"), "limit": count}


def _next(content: bytes) -> str:
    return msgspec.json.decode(fields_of(content)["cursor"], type=str | None) or ""


def _info(fields: Fields) -> CollectionInfo:
    return row_of(CollectionInfo, fields, schema=msgspec.json.decode(fields["schema"]))


def _record(fields: Fields) -> Record:
    return row_of(Record, fields, data=PLAIN.decode(fields["data"]))


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
