"""A named SQLite file: what a statement leaves behind when nobody waits for it any longer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from stepwell.databases.errors import QueryError
from stepwell.databases.sqlite import SqliteDatabase
from stepwell.databases.statement import Statement

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) AS n FROM n"


@pytest.mark.req("BI-Q05")
async def test_a_cancelled_query_stops_and_leaves_its_connection_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    apsw.Connection(str(path)).execute("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7)")
    database = SqliteDatabase(str(path))
    try:
        for pause in (0.0, 0.2):  # before the thread has begun, and while it works
            asking = asyncio.create_task(
                database.query(Statement.parsed(ENDLESS), {}, rows_max=10, seconds=600, read_only=True)
            )
            await asyncio.sleep(pause)
            asking.cancel()
            await asyncio.wait({asking}, timeout=10)
            assert asking.cancelled()
            answer = await database.query(
                Statement.parsed("SELECT id FROM orders"), {}, rows_max=10, seconds=10, read_only=True
            )
            assert answer == {"rows": [{"id": 7}], "count": 1}
    finally:
        await database.close()


@pytest.mark.req("BI-Q06")
async def test_one_value_cannot_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    apsw.Connection(str(path)).execute("CREATE TABLE orders (id INTEGER)")
    database = SqliteDatabase(str(path))
    try:
        for sql in ("SELECT zeroblob(900000000) AS a", "SELECT printf('%.*c', 900000000, 'x') AS a"):
            with pytest.raises(QueryError) as refusal:
                await database.query(Statement.parsed(sql), {}, rows_max=10, seconds=10, read_only=True)
            assert refusal.value.code == "RESULT_TOO_LARGE"
    finally:
        await database.close()
