"""The database behind a server, as operators see it: what it contains, and whether it is sound."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.client.database import DatabaseInfo
from stepwell.http_client.client import HttpClient
from stepwell.http_client.rows import fields_of, listed, row_of
from stepwell.store.maintenance import StoreFault

_SECONDS = 600.0  # a check reads every log


async def info(client: HttpClient) -> DatabaseInfo:
    """Return the version of its tables, its size, and how many rows it has."""
    return row_of(DatabaseInfo, fields_of(await client.connection.get("/database")))


async def check(client: HttpClient) -> Sequence[StoreFault]:
    """Return the damage: broken pages, gaps in logs, tickets that do not match their runs."""
    rows = listed(await client.connection.get("/database/faults", read=_SECONDS), "faults")
    return [row_of(StoreFault, fields) for fields in rows]
