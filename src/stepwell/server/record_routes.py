"""Routes of records: collections, and what is in them."""

from __future__ import annotations

from stepwell.server import records
from stepwell.server.route_kinds import API, change, read

_COLLECTION = f"{API}/records/{{collection}}"
_ITEMS = f"{_COLLECTION}/items"
_RECORD = f"{_ITEMS}/{{record_id}}"
_DATA = {"data": {"email": "ann@example.com", "city": "Rome"}}

RECORDS = (
    read(f"{API}/records", records.list_collections, "records"),
    read(_COLLECTION, records.get_collection, "records", errors=(404,)),
    change(
        "PUT",
        _COLLECTION,
        records.define_collection,
        "edit",
        "records",
        errors=(404, 409, 413, 422),
        example={"schema": {"type": "object", "required": ["email"]}, "key": "email", "find": ["city"]},
    ),
    change("DELETE", _COLLECTION, records.drop_collection, "edit", "records", errors=(404, 409)),
    change(
        "POST",
        f"{_COLLECTION}/restore",
        records.restore_records,
        "edit",
        "records",
        errors=(404, 409, 413, 422),
        body_max=8 * 1024 * 1024,
        example={"records": []},
    ),
    read(f"{_COLLECTION}/by-key", records.get_record_by_key, "records", errors=(404, 422)),
    read(_ITEMS, records.find_records, "records", errors=(404, 422)),
    change(
        "POST",
        _ITEMS,
        records.create_record,
        "run",
        "records",
        status=201,
        errors=(404, 409, 413, 422),
        example=_DATA,
    ),
    read(_RECORD, records.get_record, "records", errors=(404,)),
    change(
        "PATCH",
        _RECORD,
        records.update_record,
        "run",
        "records",
        errors=(404, 409, 413, 422),
        example=_DATA,
    ),
    change(
        "PUT", _RECORD, records.replace_record, "run", "records", errors=(404, 409, 413, 422), example=_DATA
    ),
    change("DELETE", _RECORD, records.delete_record, "run", "records", errors=(404, 409)),
)
