"""EncodedRecords: the part of an encoded store that keeps records.

Bodies are encoded as payloads are. If the codec hides values, indexed values are keyed hashes: equal for
equal values, independent of the current key. Records from before there was a codec stay plain until they
are changed, and are also found by their plain values.
"""

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
)
from stepwell.errors import StoreUnusable
from stepwell.store.base import Encode, Store
from stepwell.store.codec_check import Secret


class EncodedRecords:
    _store: Store
    _secret: Secret | None
    _encode: Encode
    _decode: Encode

    async def change_record(self, place: RecordPlace, decide: Decide) -> Any:
        return await self._store.change_record(self._place(place), self._decided(place, decide))

    def record_change(self, place: RecordPlace, decide: Decide) -> Callable[[Any], Any]:
        return self._store.record_change(self._place(place), self._decided(place, decide))

    async def read_record(
        self, workspace: str, collection: str, *, id: str = "", keys: Sequence[str] = ()
    ) -> StoredRecord | None:
        terms = self._keys(workspace, collection, keys)
        row = await self._store.read_record(workspace, collection, id=id, keys=terms)
        return None if row is None else self._record(row)

    async def find_records(self, filter: RecordFilter) -> Sequence[StoredRecord]:
        hidden = replace(filter, terms=self._terms(filter.workspace, filter.collection, filter.terms))
        rows = list(await self._store.find_records(hidden))
        if hidden.terms != filter.terms:
            rows += await self._store.find_records(filter)  # written before there was a codec
            rows = sorted(rows, key=lambda row: row.id)[: filter.limit]
        return [self._record(row) for row in rows]

    def _place(self, place: RecordPlace) -> RecordPlace:
        return place._replace(keys=self._keys(place.workspace, place.collection, place.keys))

    def _keys(self, workspace: str, collection: str, keys: Sequence[str]) -> tuple[str, ...]:
        """Return all terms that may stand for these keys: their hashes, and the plain values."""
        hidden = [self._term(workspace, collection, "", key) for key in keys]
        return tuple(dict.fromkeys([*hidden, *keys]))

    def _terms(
        self, workspace: str, collection: str, terms: Sequence[tuple[str, str]]
    ) -> tuple[tuple[str, str], ...]:
        return tuple((field, self._term(workspace, collection, field, term)) for field, term in terms)

    def _term(self, workspace: str, collection: str, field: str, term: str) -> str:
        if self._secret is None:
            return term
        return self._secret.mark("record", workspace, collection, field, term)

    def _decided(self, place: RecordPlace, decide: Decide) -> Decide:
        def decide_encoded(collection: Collection, present: StoredRecord | None, now: float) -> RecordWrite:
            write = decide(collection, None if present is None else self._record(present), now)
            return write if write.put is None else self._hidden(write, write.put)

        return decide_encoded

    def _hidden(self, write: RecordWrite, put: StoredRecord) -> RecordWrite:
        where = (put.workspace, put.collection)
        key = None if put.key is None else self._term(*where, "", put.key)
        rivals = write.rivals if key == put.key or put.key is None else (*write.rivals, put.key)
        stored = replace(put, body=self._encode(put.body), key=key, terms=self._terms(*where, put.terms))
        return write._replace(put=stored, rivals=rivals)

    def _record(self, row: StoredRecord) -> StoredRecord:
        try:
            return replace(row, body=self._decode(row.body))
        except StoreUnusable as error:
            error.context |= {"collection": row.collection, "record": row.id}
            raise
        except Exception as error:
            raise StoreUnusable(
                f"a record cannot be decoded: {error}",
                hint="restore it from a backup",
                collection=row.collection,
                record=row.id,
            ) from error
