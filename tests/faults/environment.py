"""Environment of one fault test: a store, a folder, a ledger."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from tests.faults.fleet import Fleet, LedgerProcess
from tests.faults.workload import KEPT_TABLE


@dataclass(frozen=True, slots=True)
class Environment:
    store: str
    url: str
    folder: Path
    ledger: LedgerProcess

    def fleet(self, module: str = "") -> Fleet:
        return Fleet(self.url, self.folder, ledger=self.ledger.port, module=module)

    def kept(self) -> dict[str, int]:
        """How many rows transactional steps left in the user's table, by run."""
        query = f"SELECT run, count(*) FROM {KEPT_TABLE} GROUP BY run"
        if self.store == "postgres":
            return asyncio.run(_fetched(self.url, query))
        with closing(sqlite3.connect(self.url)) as connection:
            return dict(connection.execute(query).fetchall())


def on_sqlite(folder: Path, ledger: LedgerProcess) -> Environment:
    return Environment("sqlite", str(folder / "app.db"), folder, ledger)


def on_postgres(url: str, folder: Path, ledger: LedgerProcess) -> Environment:
    asyncio.run(_make_table(url))
    return Environment("postgres", url, folder, ledger)


async def _make_table(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE TABLE {KEPT_TABLE} (run text, value int)")
    await connection.close()


async def _fetched(url: str, query: str) -> dict[str, int]:
    connection = await asyncpg.connect(url)
    try:
        return {row[0]: row[1] for row in await connection.fetch(query)}
    finally:
        await connection.close()
