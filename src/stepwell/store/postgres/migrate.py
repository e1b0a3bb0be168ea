"""Migrate: bring a database to this version's schema, or say why it cannot be used.

Migrations only go forward. Each is one transaction under an advisory lock, so several processes may
open a new database at once, and a killed one leaves only whole migrations.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from stepwell.errors import StepwellError, StoreMoved, StoreUnusable
from stepwell.store import queries
from stepwell.store.postgres.database import PACKAGE, in_schema, roll_back
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS, Connection
from stepwell.store.postgres.pool.dsn import Address
from stepwell.store.postgres.pool.errors import pooled, translated

SERVER_MIN = 14  # MATERIALIZED, and lookups in long IN lists by hash
WAIT_SECONDS = 60  # for another process that is migrating

_TABLE = """
CREATE SCHEMA IF NOT EXISTS stepwell;
CREATE TABLE IF NOT EXISTS stepwell.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""


class Migration(NamedTuple):
    number: int
    name: str
    text: str


def migrations() -> list[Migration]:
    unsorted = [
        Migration(int(entry.name[:4]), entry.name, entry.read_text(encoding="utf-8"))
        for entry in (files(PACKAGE) / "migrations").iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(unsorted)


@cache
def newest() -> int:
    """Return the number of the last migration that this version knows."""
    return migrations()[-1].number


async def prepare(connection: Connection, address: Address, *, receiving: bool = False) -> None:
    """Check the server, then apply the missing migrations. Only a move may open a database that it fills."""
    try:
        await _check_server(connection, address)
        known = migrations()
        while await applied(connection, address) < known[-1].number:
            await _apply_next(connection, address, known)
        if not receiving:
            await _check_received(connection, address)
    except StepwellError:
        raise
    except Exception as error:
        raise translated(error, address.redacted) from error


async def _check_received(connection: Connection, address: Address) -> None:
    if (
        await connection.fetchval("SELECT to_regclass($1)", in_schema("stepwell.moved", address.schema))
        is None
    ):
        return
    text = queries.load(PACKAGE, "move")["read_receiving"]
    place = await connection.fetchval(in_schema(text, address.schema))
    if place is not None:
        raise StoreMoved(
            f"the database is being filled from {place}",
            hint=f"finish it: stepwell move {place} {address.plain}",
            database=address.redacted,
        )


async def _check_server(connection: Connection, address: Address) -> None:
    version = connection.get_server_version()
    if version.major < SERVER_MIN:
        raise StoreUnusable(
            f"the server is PostgreSQL {version.major}",
            hint=f"Stepwell needs {SERVER_MIN} or later",
            database=address.redacted,
        )
    encoding, plans = await connection.fetchrow(
        "SELECT current_setting('server_encoding'), current_setting('plan_cache_mode')"
    )
    if not address.poll_only and plans != ENGINE_SETTINGS["plan_cache_mode"]:
        raise pooled("it drops session settings", address.redacted)
    if encoding != "UTF8":
        raise StoreUnusable(
            f"the encoding of the database is {encoding}",
            hint="create it with: createdb -E UTF8 -T template0 ...",
            database=address.redacted,
        )


async def applied(connection: Connection, address: Address) -> int:
    """Return the number of the last migration; 0 for an empty database."""
    table = in_schema("stepwell.migrations", address.schema)
    if await connection.fetchval("SELECT to_regclass($1)", table) is None:
        return 0
    number = int(await connection.fetchval(f"SELECT coalesce(max(number), 0) FROM {table}"))
    newest = migrations()[-1].number
    if number > newest:
        raise StoreUnusable(
            f"the tables were written by a newer Stepwell (migration {number}; this one knows {newest})",
            hint="upgrade Stepwell here, or use another database or ?schema=",
            database=address.redacted,
        )
    return number


async def _apply_next(connection: Connection, address: Address, known: list[Migration]) -> None:
    await connection.execute("BEGIN")
    try:
        await connection.execute(
            f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'; SET LOCAL statement_timeout = 0;"
            f"SELECT pg_advisory_xact_lock({zlib.crc32(f'stepwell/{address.schema}'.encode())})"
        )
        if await applied(connection, address) == 0:
            schema = _TABLE.replace("EXISTS stepwell;", f'EXISTS "{address.schema}";')
            await connection.execute(in_schema(schema, address.schema))
        last = await applied(connection, address)
        migration = next((m for m in known if m.number > last), None)
        if migration is not None:
            await connection.execute(in_schema(migration.text, address.schema), timeout=600)
            await connection.execute(
                in_schema("INSERT INTO stepwell.migrations (number, name) VALUES ($1, $2)", address.schema),
                migration.number,
                migration.name,
            )
        await connection.execute("COMMIT")
    except BaseException:
        await roll_back(connection)
        raise
