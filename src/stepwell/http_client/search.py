"""HttpSearch: lists of runs and open waits, and counts, from a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar, Unpack

import msgspec

from stepwell.client.options import HistogramOptions, ListOptions
from stepwell.client.search import (
    LIMIT_MAX,
    DecidedInfo,
    RunBucket,
    RunCounts,
    Search,
    WaitInfo,
    checked_filter,
    checked_histogram,
    checked_whats,
)
from stepwell.client.store_access import StoreAccess
from stepwell.domain.access import AuditEntry
from stepwell.domain.commit import NEVER, RunRow
from stepwell.domain.search import Page
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import InvalidInput
from stepwell.http_client.connection import Connection, Params
from stepwell.http_client.rows import Fields, fields_of, listed, row_of, run_row

T = TypeVar("T")

_PAGE_MAX = 1000
_RUN_ID = re.compile("[0-9a-f]{32}")


class _List(NamedTuple, Generic[T]):
    path: str
    name: str  # the name of the list in the answer
    read: Callable[[Fields], T]


class HttpSearch(Search):
    def __init__(self, access: StoreAccess, connection: Connection) -> None:
        super().__init__(access)
        self._connection = connection

    async def runs(self, **filter: Unpack[ListOptions]) -> Page[RunRow]:
        wanted, before = checked_filter(filter)
        params: dict[str, str | int | Sequence[str]] = {
            "workflow": wanted.workflow,
            "version": wanted.version,
            "queue": wanted.queue,
            "status": [str(one) for one in wanted.statuses],
            "key": wanted.key,
            "key_prefix": wanted.prefix,
            "id_prefix": wanted.id_prefix,
            "parent": wanted.parent,
            "trigger": wanted.trigger,
            "tag": [f"{name}={value}" for name, value in wanted.tags],
            "error": filter.get("error", ""),
        }
        if wanted.since > 0:
            params["since"] = repr(wanted.since)
        if wanted.until < NEVER:
            params["until"] = repr(wanted.until)
        rows = _List("/runs", "runs", lambda fields: run_row(fields, self._access.workspace))
        return await self._pages(rows, params, before, wanted.limit)

    async def counts(self, *, workflow: str, queue: str) -> RunCounts:
        params = {"workflow": checked_text(workflow, "workflow"), "queue": checked_text(queue, "queue")}
        return msgspec.json.decode(await self._connection.get("/counts", params), type=RunCounts)

    async def histogram(self, **asked: Unpack[HistogramOptions]) -> list[RunBucket]:
        # "Now" is the time of the server's clock.
        filter, statuses = checked_histogram(asked, now=NEVER)
        params: dict[str, str | int | Sequence[str]] = {
            "since": repr(filter.since),
            "buckets": filter.buckets,
            "workflow": filter.workflow,
            "version": filter.version,
            "queue": filter.queue,
            "status": [str(one) for one in statuses],
        }
        if asked.get("until") is not None:
            params["until"] = repr(filter.until)
        answer = msgspec.json.decode(await self._connection.get("/histogram", params), type=_Buckets)
        return [RunBucket(start=each.start.timestamp(), statuses=each.statuses) for each in answer.buckets]

    async def waits(self, *, what: str | Sequence[str], name: str, before: str, limit: int) -> Page[WaitInfo]:
        params = {"what": checked_whats(what), "name": checked_text(name, "name")}
        return await self._pages(_List("/waits", "waits", _wait), params, before, limit)

    async def approvals(
        self, *, name: str, assignee: str, roles: Collection[str], before: str, limit: int
    ) -> Page[WaitInfo]:
        params = {
            "name": checked_text(name, "name"),
            "assignee": checked_text(assignee, "assignee"),
            "role": [checked_text(role, "role") for role in roles],
        }
        return await self._pages(_List("/approvals", "waits", _wait), params, before, limit)

    async def decided(self, *, before: str, limit: int) -> Page[DecidedInfo]:
        return await self._pages(_List("/approvals/decided", "approvals", _decided), {}, before, limit)

    async def audit(self, *, before: str, limit: int) -> Page[AuditEntry]:
        def entry(fields: Fields) -> AuditEntry:
            return row_of(AuditEntry, fields, workspace=self._access.workspace)

        return await self._pages(_List("/audit", "entries", entry), {}, before, limit)

    async def _pages(self, asked: _List[T], params: Params, before: str, limit: int) -> Page[T]:
        """Read as many pages of the server as one page of the caller needs."""
        whole_number(limit, "limit", 0, LIMIT_MAX, wrong=InvalidInput)
        place = checked_text(before, "before") if len(before) <= _PAGE_MAX else before
        rows: Page[T] = Page()
        while len(rows) < limit:
            where = {"before" if _RUN_ID.fullmatch(place) else "cursor": place} if place else {}
            size = min(limit - len(rows), _PAGE_MAX)
            data = await self._connection.get(asked.path, {**params, **where, "limit": size})
            rows += [asked.read(fields) for fields in listed(data, asked.name)]
            rows.next = place = msgspec.json.decode(fields_of(data)["cursor"], type=str | None) or ""
            if not place:
                break
        return rows


class _Bucket(msgspec.Struct):
    start: datetime
    statuses: dict[str, int]


class _Buckets(msgspec.Struct):
    buckets: list[_Bucket]


class _DecidedTimes(msgspec.Struct):
    opened_at: datetime
    decided_at: datetime


def _decided(fields: Fields) -> DecidedInfo:
    times = msgspec.json.decode(msgspec.json.encode(fields), type=_DecidedTimes)
    rest = {name: value for name, value in fields.items() if name not in _DecidedTimes.__struct_fields__}
    info = msgspec.json.decode(msgspec.json.encode(rest), type=DecidedInfo)
    return replace(info, opened_at=times.opened_at.timestamp(), decided_at=times.decided_at.timestamp())


class _WaitTimes(msgspec.Struct):
    opened_at: datetime
    due_at: datetime | None


def _wait(fields: Fields) -> WaitInfo:
    times = msgspec.json.decode(msgspec.json.encode(fields), type=_WaitTimes)
    rest = {name: value for name, value in fields.items() if name not in _WaitTimes.__struct_fields__}
    wait = msgspec.json.decode(msgspec.json.encode(rest), type=WaitInfo)
    due_at = None if times.due_at is None else times.due_at.timestamp()
    return replace(wait, opened_at=times.opened_at.timestamp(), due_at=due_at)
