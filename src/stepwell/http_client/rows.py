"""Rows: turns the JSON of a server into the values that the client's verbs return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Raw

from stepwell.domain.commit import LogRow, RunRow
from stepwell.domain.status import Status

T = TypeVar("T")
Fields = Mapping[str, Raw]

_NULL = b"null"
_AS_NAMED = {"where_at": "where"}  # fields that have another name in the API
_TRUNCATED = {"truncated", "bytes", "url"}


def fields_of(data: bytes | Raw) -> Fields:
    return msgspec.json.decode(data, type=dict[str, Raw])


def listed(data: bytes, name: str) -> list[Fields]:
    """Return the rows of a list."""
    rows: list[Fields] = msgspec.json.decode(fields_of(data)[name], type=list[dict[str, Raw]])
    return rows


def text_of(fields: Fields, name: str) -> str:
    return msgspec.json.decode(fields[name], type=str)


def flag_of(data: bytes, name: str) -> bool:
    return msgspec.json.decode(fields_of(data)[name], type=bool)


def row_of(kind: type[T], fields: Fields, /, **more: Any) -> T:
    """Return a row with the fields of the answer. Times become numbers, payloads stay JSON."""
    values: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        raw = fields.get(_AS_NAMED.get(name, name))
        if raw is not None and name not in more:
            values[name] = _value(raw, hint)
    return kind(**values, **more)


def run_row(fields: Fields, workspace: str) -> RunRow:
    row = row_of(RunRow, fields, workspace=workspace)
    if row.status is Status.COMPLETED and row.output is None:
        return msgspec.structs.replace(row, output=_NULL)  # the workflow returned None
    return row


def _value(raw: Raw, hint: Any) -> Any:
    kinds = set(get_args(hint)) - {NoneType} or {hint}
    data = bytes(raw)
    if bytes in kinds:
        return None if data == _NULL and NoneType in get_args(hint) else data
    if float in kinds and data.startswith(b'"'):
        return msgspec.json.decode(data, type=datetime).timestamp()
    if any(is_dataclass(kind) for kind in kinds):
        return row_of(next(iter(kinds)), fields_of(data))
    return msgspec.json.decode(data, type=hint)


class EventAnswer(msgspec.Struct):
    """An event as the server sends it."""

    seq: int
    at: datetime
    kind: str
    path: str
    attempt: int
    data: Raw

    def row(self) -> LogRow:
        at = self.at.timestamp()
        return LogRow(self.seq, self.kind, self.path, self.attempt, at, bytes(self.data))

    @property
    def is_truncated(self) -> bool:
        """Whether the payload was cut in a list, so that it must be fetched."""
        data = bytes(self.data)
        return len(data) < 1000 and b'"truncated":' in data and set(fields_of(data)) == _TRUNCATED
