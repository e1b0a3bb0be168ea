"""RecordStore: the part of a store that keeps collections and their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from stepwell.domain.records import Collection, Decide, RecordFilter, RecordPlace, StoredRecord


class RecordStore(Protocol):
    async def put_collection(self, collection: Collection, *, expected: int) -> bool:
        """Create it if 0 is expected, else change the one of its name if that has this version.

        False, with nothing written: its name is taken, or another version is stored. RecordLimit: the
        workspace is full. CollectionChanged: it has records, and other fields would be indexed. `records`
        is ignored. Repeated after an unknown outcome, the call returns True if the first one wrote it.
        """
        ...

    async def read_collection(self, workspace: str, name: str) -> Collection | None: ...

    async def list_collections(
        self, workspace: str, *, after: str = "", limit: int = 100
    ) -> Sequence[Collection]:
        """List by name; `after` is the last name of a page."""
        ...

    async def drop_collection(self, workspace: str, name: str) -> bool:
        """Delete an empty collection. False if there is none. CollectionChanged: it has records."""
        ...

    async def clear_collection(self, workspace: str, name: str, *, limit: int = 1000) -> int:
        """Delete its first records, at most `limit`; return how many there were."""
        ...

    async def change_record(self, place: RecordPlace, decide: Decide) -> Any:
        """Read the collection and the record, and write what `decide` makes of them; return its result.

        All of it is one transaction without changes in between. `decide` is a pure function, and may be
        called on another thread. If it raises, its error is raised, and nothing is written.
        CollectionNotFound: there is none. RecordExists: another record has that key.
        """
        ...

    def record_change(self, place: RecordPlace, decide: Decide) -> Callable[[Any], Any]:
        """Return the same change as a body for `transact`, to be written with a step's event."""
        ...

    async def read_record(
        self, workspace: str, collection: str, *, id: str = "", keys: Sequence[str] = ()
    ) -> StoredRecord | None:
        """Return the record with this id, or with one of these keys."""
        ...

    async def find_records(self, filter: RecordFilter) -> Sequence[StoredRecord]:
        """Return the next records, sorted by id."""
        ...
