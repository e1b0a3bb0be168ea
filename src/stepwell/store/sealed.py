"""SealedStore: an encoded store, as a process without its codec sees it.

Names, paths, times and statuses are plain and can be read. Every user value is replaced by `SEALED`, and a
fact by one that says no more than its row does. Writing values is refused, because they would be on disk in
plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.commit import LogRow, RunFilter, RunRow
from stepwell.domain.ids import RunId
from stepwell.domain.records import Decide, RecordFilter, RecordPlace, StoredRecord
from stepwell.domain.search import DecidedFilter, DecidedRow, WaitFilter, WaitRow
from stepwell.domain.step_log import LogLine, LogLineRow
from stepwell.errors import CodecMissing, SearchRefused
from stepwell.store.base import Store
from stepwell.store.encoded import EncodedStore

T = TypeVar("T")

SEALED = {"encrypted": True}
_VALUE = msgspec.json.encode(SEALED)
_PROBLEM = ev.Problem(code="ENCRYPTED", message="encrypted")
_TEXT = "encrypted"
_TAGS = msgspec.json.encode({_TEXT: "true"})
_LINE = msgspec.json.encode(LogLine(_TEXT))
_PLAIN_STARTS = frozenset(
    b'{["-0123456789tfn'
)  # first bytes of JSON; a codec marks its output with another byte
_KEPT_EMPTY = frozenset({"graph", "form", "args"})  # values that are often absent
_NAMED = frozenset({"name", "transition", "step"})  # names that the path shows as well
_KNOWN: dict[tuple[str, str], object] = {  # fields with a fixed set of values
    ("child_ended", "status"): "completed",
    ("compensation_started", "status"): "failed",
}


class _NoCodec:
    """Shows what is plain, and hides everything else."""

    hides = True

    def encode(self, data: bytes) -> NoReturn:
        _refuse()

    def decode(self, data: bytes) -> bytes:
        return _VALUE if is_sealed(data) else data


def is_sealed(data: bytes) -> bool:
    return bool(data) and data[0] not in _PLAIN_STARTS


def sealed(store: Store) -> Store:
    """Return the store without its codec. A store that is not encoded must be opened as it is."""
    wrapped: Any = SealedStore(store)
    result: Store = wrapped
    return result


async def needs_codec(store: Store) -> bool:
    """Return whether the values of this store are encoded. Opens it to see."""
    await store.open(encoded=True)
    try:
        return await store.read_codec_check() is not None
    finally:
        await store.close()


async def _refused(*args: object, **options: object) -> NoReturn:
    _refuse()


def _refuse() -> NoReturn:
    raise CodecMissing("the payloads of this database are encrypted, and this process has no codec for them")


class SealedStore(EncodedStore):
    is_sealed = True  # code that must read runs checks this

    def __init__(self, store: Store) -> None:
        super().__init__(store, _NoCodec())

    async def open(self, *, encoded: bool = False) -> None:
        await self._store.open(encoded=True)

    # Verbs that write values, or export them as if they were complete.
    start = start_within = cancel = force_end = hold = hold_scope = retry = switch = _refused
    commit = transact = deliver = emit = finish_remote = add_log_lines = restore = claim = _refused
    read_tree = change_record = _refused

    def record_change(self, place: RecordPlace, decide: Decide) -> NoReturn:
        _refuse()

    async def read_record(
        self, workspace: str, collection: str, *, id: str = "", keys: Sequence[str] = ()
    ) -> StoredRecord | None:
        return await super().read_record(workspace, collection, id=id, keys=_plain(keys))

    async def find_records(self, filter: RecordFilter) -> Sequence[StoredRecord]:
        _plain(filter.terms)
        return await super().find_records(filter)

    async def list_runs(self, filter: RunFilter) -> Sequence[RunRow]:
        if filter.tags or filter.words:
            what = "tags" if filter.tags else "errors"
            raise SearchRefused(
                f"{what} are encrypted in this database, and this process has no codec for them"
            )
        return await super().list_runs(filter)

    async def list_waits(self, filter: WaitFilter) -> Sequence[WaitRow]:
        return [
            row._replace(opened=_opened(row), reassigned=b"") if is_sealed(row.opened) else row
            for row in await self._store.list_waits(filter)
        ]

    async def list_decided(self, filter: DecidedFilter) -> Sequence[DecidedRow]:
        return [
            row._replace(opened=_sealed_wait("approval", row.name), end=b"", received=b"")
            if is_sealed(row.end)
            else row
            for row in await self._store.list_decided(filter)
        ]

    async def read_log(
        self,
        run_id: RunId,
        *,
        after: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        kinds: Sequence[str] = (),
        path: str = "",
    ) -> Sequence[LogRow]:
        rows = await self._store.read_log(
            run_id, after=after, limit=limit, bytes_max=bytes_max, kinds=kinds, path=path
        )
        return await self._shown(run_id, rows)

    async def read_log_end(self, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
        return await self._shown(run_id, await self._store.read_log_end(run_id, count=count))

    async def _shown(self, run_id: RunId, rows: Sequence[LogRow]) -> Sequence[LogRow]:
        shown = [row._replace(payload=_fact(row)) if is_sealed(row.payload) else row for row in rows]
        if shown and shown[0].seq == 1 and is_sealed(rows[0].payload):
            run = await self._store.read_run(run_id)
            if run is not None:
                shown[0] = shown[0]._replace(payload=_accepted(run))
        return shown

    def _run_row(self, row: RunRow) -> RunRow:
        error = row.error
        if error is not None and is_sealed(error):
            error = msgspec.json.encode(_PROBLEM)
        return super()._run_row(replace(row, error=error))

    def _tags(self, run_id: RunId, tags: bytes) -> bytes:
        plain = all(isinstance(value, str) for value in msgspec.json.decode(tags).values())
        return tags if plain else _TAGS

    def _line(self, run_id: RunId, row: LogLineRow) -> LogLineRow:
        return row._replace(payload=_LINE) if is_sealed(row.payload) else row


def _plain(terms: Sequence[T]) -> Sequence[T]:
    """Refuse to search by indexed values, which only the codec can compute."""
    if terms:
        raise SearchRefused(
            "the records are encrypted in this database, and this process has no codec for them"
        )
    return terms


# Stand-ins for facts


def _fact(row: LogRow) -> bytes:
    """A fact of that kind which says no more than its row."""
    fields = dict(_stand_in(row.kind))
    for name in _NAMED & fields.keys():
        fields[name] = row.path.rpartition("/")[2].partition("#")[0].partition("@")[0] or _TEXT
    return msgspec.json.encode(fields | SEALED)


@cache
def _stand_in(kind: str) -> dict[str, object]:
    fact = _FACTS.get(kind)
    if fact is None:  # a fact of a newer version
        return {}
    given = {}
    for field in msgspec.structs.fields(fact):
        if (kind, field.name) in _KNOWN:
            given[field.name] = _KNOWN[kind, field.name]
        elif field.type is Raw:
            if field.name not in _KEPT_EMPTY:
                given[field.name] = SEALED
        elif field.required:
            given[field.name] = _empty(field.type)
    return given


def _empty(kind: Any) -> object:
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if kind is ev.Problem:
        return _PROBLEM
    return {str: _TEXT, int: 0, float: 0.0, bool: False}.get(kind, [])


def _opened(row: WaitRow) -> bytes:
    return _sealed_wait(row.what, row.name, row.key)


def _sealed_wait(what: str, name: str, key: str = "") -> bytes:
    opened = {"what": what, "name": name, "key": key}
    return msgspec.json.encode(dict(_stand_in(ev.KIND[ev.WaitOpened])) | opened | SEALED)


def _accepted(run: RunRow) -> bytes:
    """How a run began, as far as its row says it. Its kind is left out: the log alone tells the rest."""
    fields = {
        "workflow": run.workflow,
        "version": run.version,
        "input": SEALED,
        "parent": run.parent,
        "root": run.root,
        "key": run.key,
        "test": run.test,
        "workspace": run.workspace,
        "trigger": run.trigger,
        "by": run.started_by,
    }
    return msgspec.json.encode(fields | SEALED)


_FACTS = {kind: fact for fact, kind in ev.KIND.items()}
