"""Opening a database: new, in use by others, of another version, or not usable at all."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from stepwell.errors import SettingsInvalid, StoreUnavailable, StoreUnusable
from stepwell.store import queries
from stepwell.store.postgres.database import PACKAGE
from stepwell.store.postgres.store import PostgresStore

DESCRIBED = """
SELECT 'column ' || c.table_name || '.' || c.column_name || ' ' || c.data_type || ' ' || c.is_nullable || ' '
    || concat_ws(' ', c.column_default, c.collation_name, c.generation_expression)
FROM information_schema.columns AS c WHERE c.table_schema = 'stepwell'
UNION ALL
SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'stepwell'
UNION ALL
SELECT 'options ' || relname || ' ' || coalesce(reloptions::text, '') FROM pg_class
WHERE relnamespace = 'stepwell'::regnamespace AND relkind = 'r'
UNION ALL
SELECT 'view ' || viewname || ' ' || definition FROM pg_views WHERE schemaname = 'stepwell'
UNION ALL
SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'stepwell'::regnamespace
UNION ALL
SELECT 'check ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'stepwell'::regnamespace
UNION ALL
SELECT 'contact ' || c::text FROM stepwell.contact AS c
"""


async def execute(url: str, text: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(text)
    await connection.close()


async def described(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(DESCRIBED)
    await connection.close()
    return sorted(row[0] for row in rows)


async def opened(url: str) -> None:
    store = PostgresStore(url)
    try:
        await store.open()
    finally:
        await store.close()


def test_schema_equals_all_migrations_applied(postgres_url: str) -> None:
    async def story() -> tuple[list[str], list[str]]:
        await opened(postgres_url)
        migrated = await described(postgres_url)
        await execute(postgres_url, "DROP SCHEMA stepwell CASCADE; CREATE SCHEMA stepwell")
        await execute(postgres_url, queries.text(PACKAGE, "schema.sql"))
        return migrated, await described(postgres_url)

    migrated, written = asyncio.run(story())

    assert migrated == written


def test_several_processes_may_open_a_new_database_at_once(postgres_url: str) -> None:
    async def story() -> None:
        await asyncio.gather(*(opened(postgres_url) for _ in range(5)))

    asyncio.run(story())


def test_stores_in_different_schemas_do_not_see_each_other(postgres_url: str) -> None:
    async def story() -> None:
        await asyncio.gather(opened(f"{postgres_url}?schema=one"), opened(f"{postgres_url}?schema=two"))
        await execute(postgres_url, "DROP SCHEMA one CASCADE")
        await opened(f"{postgres_url}?schema=two")

    asyncio.run(story())


def test_tables_of_a_newer_version_are_refused(postgres_url: str) -> None:
    async def story() -> None:
        await opened(postgres_url)
        await execute(postgres_url, "INSERT INTO stepwell.migrations (number, name) VALUES (9999, 'later')")
        await opened(postgres_url)

    with pytest.raises(StoreUnusable, match="newer"):
        asyncio.run(story())


def test_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        asyncio.run(opened("postgresql://nobody@127.0.0.1:1/none"))


def test_database_that_is_not_there_is_unusable(postgres_url: str) -> None:
    url = urlunsplit(urlsplit(postgres_url)._replace(path="/missing"))

    with pytest.raises(StoreUnusable, match="does not exist"):
        asyncio.run(opened(url))


def test_role_without_permission_is_told_what_it_needs(postgres_url: str) -> None:
    async def story() -> None:
        await execute(postgres_url, "DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN PASSWORD 'weak'")
        parts = urlsplit(postgres_url)
        address = f"weak:weak@{parts.hostname}:{parts.port}"
        try:
            await opened(urlunsplit(parts._replace(netloc=address)))
        finally:
            await execute(postgres_url, "DROP ROLE weak")

    with pytest.raises(StoreUnusable, match="permission denied"):
        asyncio.run(story())


@pytest.mark.parametrize("options", ["schema=No-Such", "poll_only=yes"])
def test_options_that_cannot_be_are_refused(options: str) -> None:
    with pytest.raises(SettingsInvalid):
        PostgresStore(f"postgresql://localhost/app?{options}")
