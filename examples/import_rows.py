"""Import 10,000 rows with a graph: bad rows are set aside, the rest goes on, and it shows how far it is.

Run it: it writes rows.csv, imports it into shop.db, and prints the progress and what was set aside. The run
is kept in import_rows.db. A row that is stored again after a crash replaces itself: its number is its key.
"""

from __future__ import annotations

import asyncio
import csv
import functools
import sqlite3
from pathlib import Path
from typing import Any

from stepwell import Engine, Permanent, step

ROWS = 10_000
ROWS_FILE, SHOP, DATABASE = Path("rows.csv"), Path("shop.db"), "import_rows.db"

GRAPH: dict[str, Any] = {
    "name": "import-rows",
    "nodes": [
        {"id": "start", "type": "start"},
        {
            "id": "read",
            "type": "call",
            "data": {"step": "read_rows", "args": ["{{ctx.input.file}}"], "outputVariable": "rows"},
        },
        {
            "id": "rows",
            "type": "loop",
            "data": {
                "items": "ctx.rows",
                "mode": "parallel",
                "concurrency": 50,
                "onItemError": "continue",
                "collect": "ctx.stored",
                "outputVariable": "imported",
            },
        },
        {
            "id": "store",
            "type": "call",
            "parentId": "rows",
            "data": {"step": "store_row", "args": ["{{loop.item}}"], "outputVariable": "stored"},
        },
        {
            "id": "end",
            "type": "end",
            "data": {"output": {"count": "{{ctx.imported.count}}", "failed": "{{ctx.imported.failed}}"}},
        },
    ],
    "edges": [
        {"source": "start", "target": "read"},
        {"source": "read", "target": "rows"},
        {"source": "rows", "target": "end"},
    ],
}


@step
def read_rows(file: str) -> list[dict[str, str]]:
    with open(file, newline="") as rows:
        return list(csv.DictReader(rows))


@step
async def store_row(row: dict[str, str]) -> int:
    if not row["price"].isdigit():
        raise Permanent(f"row {row['number']} has the price {row['price']!r}")
    shop().execute(
        "INSERT OR REPLACE INTO item VALUES (?, ?, ?)", (int(row["number"]), row["name"], int(row["price"]))
    )
    return int(row["number"])


@functools.cache
def shop() -> sqlite3.Connection:
    connection = sqlite3.connect(SHOP, isolation_level=None)  # each row for itself
    connection.execute("PRAGMA synchronous = OFF")  # the run knows which rows are stored
    connection.execute(
        "CREATE TABLE IF NOT EXISTS item (number INTEGER PRIMARY KEY, name TEXT, price INTEGER)"
    )
    return connection


def write_rows() -> None:
    """Every thousandth row has a price that is none."""
    with ROWS_FILE.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["number", "name", "price"])
        for number in range(1, ROWS + 1):
            rows.writerow([number, f"item {number}", "free" if number % 1000 == 0 else number * 10])


async def main() -> None:
    write_rows()
    async with Engine(DATABASE, steps=[read_rows, store_row]) as engine:
        run = await engine.start_graph(GRAPH, {"file": str(ROWS_FILE)})
        result = asyncio.create_task(run.result())
        shown = 0
        while not (await asyncio.wait([result], timeout=0.2))[0]:
            info = await run.info()
            if info.total and info.done and info.done >= shown + ROWS // 4:
                shown = int(info.done) // (ROWS // 4) * (ROWS // 4)
                print(f"{shown:,} of {info.total:,.0f} rows")
        output = await result
    stored, wrong = shop().execute("SELECT count(*) FROM item").fetchone()[0], output["failed"]
    print(f"{output['count']:,} rows: {stored:,} stored, {len(wrong)} set aside: {wrong[0]['message']}, ...")
    shop().close()


if __name__ == "__main__":
    asyncio.run(main())
