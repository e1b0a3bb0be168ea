"""Steps that read and change records: `await ctx.step(create_record, "customers", {...})`.

The worker has their functions (`handlers/records.py`). A change is written in the transaction that records
the step, so it happens once, however often a worker dies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn, ParamSpec, TypeVar

from stepwell.authoring.functions.step import Step
from stepwell.domain.records import FoundRecords, Record
from stepwell.domain.steps import describe
from stepwell.errors import InvalidRequest

P = ParamSpec("P")
R = TypeVar("R")


def _provided(function: Callable[P, Awaitable[R]]) -> Step[P, R, Awaitable[R]]:
    return Step(describe(function, provided=True, transactional=True))


def _without_worker() -> NoReturn:
    raise InvalidRequest(
        "records are in the database of an engine", hint="run the workflow on an Engine, or fake the step"
    )


@_provided
async def create_record(collection: str, data: Mapping[str, object], *, id: str = "") -> Record:
    """Create a record. RECORD_EXISTS: the collection has one of this id or key."""
    _without_worker()


@_provided
async def get_record(collection: str, id: str = "", *, key: object = None) -> Record:
    """Return the record with this id or key. RECORD_NOT_FOUND: there is none."""
    _without_worker()


@_provided
async def find_records(
    collection: str, where: Mapping[str, object] | None = None, *, before: str = "", limit: int = 100
) -> FoundRecords:
    """Find records by their indexed fields; pass `next` as `before` to read the following page."""
    _without_worker()


@_provided
async def update_record(
    collection: str,
    id: str = "",
    data: Mapping[str, object] | None = None,
    *,
    key: object = None,
    version: int = 0,
    whole: bool = False,
) -> Record:
    """Set fields of a record. With `version`, only if the record has that version (else RECORD_CHANGED)."""
    _without_worker()


@_provided
async def delete_record(collection: str, id: str = "", *, key: object = None, version: int = 0) -> bool:
    """Delete a record. False if there is none."""
    _without_worker()
