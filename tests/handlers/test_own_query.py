"""The `query` node on the engine's own database: its statement and its record are written together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg
import pytest

from stepwell import Context, Engine, InvalidGraph, failpoints, graph, step, workflow
from stepwell.databases.connections import Connections
from stepwell.errors import SettingsInvalid
from stepwell.store.sqlite.transactions import OUR_VIEWS, OURS
from tests.engines import Engines
from tests.handlers.test_http import ERROR_EDGE
from tests.handlers.test_query import query_graph

pytestmark = [pytest.mark.req("N19", "X3")]


@step(transactional=True)
def create_on_sqlite(connection: Any) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS item (id integer PRIMARY KEY, name text)")


@workflow
async def prepare(ctx: Context) -> None:
    await ctx.step(create_on_sqlite)


@asynccontextmanager
async def opened(engines: Engines) -> AsyncIterator[Engine]:
    """An engine whose database has a table `item`, and a connection `shop` to it."""
    role = ""
    if engines.kind == "postgres":
        role = "item_writer"
        connection = await asyncpg.connect(str(engines.database))
        await connection.execute(
            f"""DO $$ BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
            DROP TABLE IF EXISTS item; CREATE TABLE item (id integer PRIMARY KEY, name text, price numeric);
            GRANT SELECT, INSERT, UPDATE, DELETE ON item TO {role}"""
        )
        await connection.close()
    address = f"engine:?role={role}" if role else "engine:"
    async with engines.new(prepare, looking, connections={"shop": address, "file": "sqlite:x.db"}) as engine:
        if not role:
            await engine.run(prepare)
        yield engine


async def asked(engine: Engine, sql: str, params: Any = None, **data: Any) -> Any:
    node = {"sql": sql, "transactional": True, "readOnly": False, "params": params or {}, **data}
    run = await engine.start_graph(query_graph({"retry": {"maxAttempts": 1}, **node}, ERROR_EDGE), {})
    return (await run.result(60))["result"]


ADD = "INSERT INTO item (id, name) VALUES (:id, :name)"


async def test_rows_are_written_with_the_record_of_the_node(durable_engines: Engines) -> None:
    async with opened(durable_engines) as engine:
        wrote = await asked(engine, ADD, {"id": 1, "name": "'; DROP TABLE item; --"})
        given = await asked(engine, "UPDATE item SET name = 'tea' WHERE id = 1 RETURNING id, name")
        read = await asked(engine, "SELECT name FROM item")

        assert wrote == {"rows": [], "count": 1}
        assert given == {"rows": [{"id": 1, "name": "tea"}], "count": 1}
        assert read["rows"] == [{"name": "tea"}]
        assert await asked(engine, ADD, {"id": 1, "name": "again"}) == "SQL_ERROR"


@pytest.mark.req("K14", "R2")
@pytest.mark.parametrize("moment", ["before", "mid", "after", "ambiguous"])
async def test_a_statement_happens_once_when_its_commit_breaks(
    durable_engines: Engines, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async with opened(durable_engines) as engine:
        monkeypatch.setattr(failpoints, "hit", failpoints.parse(f"transact.{moment}=raise"))
        data = {"sql": ADD, "transactional": True, "readOnly": False, "params": {"id": 1, "name": "x"}}
        body = query_graph(data)
        run = await engine.start_graph(body, {})

        assert (await run.result(60))["result"] == {"rows": [], "count": 1}
        assert (await asked(engine, "SELECT count(*) AS n FROM item"))["rows"] == [{"n": 1}]


REFUSED = [
    "SELECT name, body FROM {ours}secrets",
    "SELECT * FROM {ours}runs",
    "SELECT * FROM {ours}run_view",
    "SELECT (SELECT count(*) FROM {ours}events) AS n",
    "WITH x AS (SELECT id FROM {ours}credentials) SELECT * FROM x",
    "INSERT INTO item (id, name) SELECT 7, id FROM {ours}runs",
    "UPDATE {ours}records SET version = 9",
    "DELETE FROM {ours}events",
    "DROP TABLE item",
    "CREATE TABLE more (a integer)",
    "ALTER TABLE item ADD COLUMN more text",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "PRAGMA journal_mode = DELETE",
    "ATTACH 'x.db' AS x",
    "VACUUM",
    "DO $$ BEGIN DELETE FROM item; END $$",
    "VALUES (1)",
    "CALL anything()",
    "COPY item TO PROGRAM 'id'",
    "SET ROLE none",
    "RESET ROLE",
    "SELECT set_config('role', 'none', false)",
    "SELECT query_to_xml('select * from stepwell.runs', true, true, '')",
    "SELECT U&\"s\\0065t_config\"('role', 'none', false)",
    "SELECT load_extension('x')",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM pragma_table_info('runs')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
]


async def test_tables_of_ours_and_all_but_rows_stay_closed(durable_engines: Engines) -> None:
    ours = "stepwell." if durable_engines.kind == "postgres" else ""
    async with opened(durable_engines) as engine:
        await asked(engine, ADD, {"id": 1, "name": "x"})
        for sql in REFUSED:
            code = await asked(engine, sql.format(ours=ours))
            assert code in ("SQL_FORBIDDEN", "SQL_ERROR"), (sql, code)

        assert (await asked(engine, "SELECT count(*) AS n FROM item"))["rows"] == [{"n": 1}]


@step(transactional=True)
async def look(connection: Any) -> list[str]:
    row = await connection.fetchrow("SELECT 1.50::numeric, now()::date, current_user = session_user")
    return [type(value).__name__ for value in row[:2]] + [str(row[2])]


@workflow
async def looking(ctx: Context) -> list[str]:
    return await ctx.step(look)


async def test_a_connection_is_as_before_after_a_statement(postgres: Engines) -> None:
    async with opened(postgres) as engine:
        for _ in range(6):
            await asked(engine, "SELECT 1.50::numeric AS n, id FROM item")
            await asked(engine, "SELECT broken")

        assert await engine.run(looking) == ["Decimal", "date", "True"]


async def test_a_statement_leaves_no_table_that_would_hide_another_one(postgres: Engines) -> None:
    async with opened(postgres) as engine:
        await asked(engine, ADD, {"id": 1, "name": "x"})
        for name in ("item", "runs"):
            hidden = await asked(engine, f"SELECT 99 AS id, 'y' AS name INTO TEMP {name}")
            assert hidden == "SQL_FORBIDDEN"

        for _ in range(6):  # on each of its connections
            assert (await asked(engine, "SELECT id FROM item"))["rows"] == [{"id": 1}]


async def test_another_database_has_transactions_of_its_own(durable_engines: Engines) -> None:
    async with opened(durable_engines) as engine:
        assert await asked(engine, "SELECT 1 AS a", connection="file") == "SQL_CONNECTION"
        assert await asked(engine, "SELECT 1 AS a", transactional=False) == "SQL_CONNECTION"
        assert await asked(engine, "SELECT 1 AS a", connection="none") == "SQL_CONNECTION"


async def test_an_engine_in_memory_has_no_tables(memory_engines: Engines) -> None:
    async with memory_engines.new(connections={"shop": "engine:"}) as engine:
        assert await asked(engine, "SELECT 1 AS a") == "SQL_CONNECTION"


async def test_postgres_needs_a_role_for_statements(postgres: Engines) -> None:
    async with postgres.new(connections={"shop": "engine:"}) as engine:
        assert await asked(engine, "SELECT 1 AS a") == "SQL_CONNECTION"


async def test_a_statement_that_takes_too_long_is_ended(postgres: Engines) -> None:
    async with opened(postgres) as engine:
        assert await asked(engine, "SELECT pg_sleep(60)::text AS x", timeoutMs=300) == "SQL_TIMEOUT"
        assert (await asked(engine, "SELECT 1 AS one"))["rows"] == [{"one": 1}]


@pytest.mark.parametrize("data", [{"readOnly": True}, {"readOnly": False, "queue": "far"}])
def test_what_cannot_be_transactional_is_found_when_the_graph_is_saved(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidGraph, match="INVALID_DATA"):
        graph(query_graph({"sql": "SELECT 1", "transactional": True, **data}))


@pytest.mark.parametrize("url", ["engine:app.db", "engine:?role=a b", 'engine:?role=a"b', "engine:?user=x"])
def test_a_wrong_address_of_the_engine_is_refused(url: str) -> None:
    with pytest.raises(SettingsInvalid):
        Connections({"shop": url})


async def test_every_table_of_ours_is_closed_on_sqlite(sqlite: Engines) -> None:
    async with sqlite.new() as engine:
        await engine.records.define("x")
    rows = apsw.Connection(str(sqlite.database)).execute("SELECT type, name FROM sqlite_schema").fetchall()

    tables = {name for kind, name in rows if kind == "table" and not str(name).startswith("sqlite_")}
    assert tables - OURS == set()
    assert {name for kind, name in rows if kind == "view"} == set(OUR_VIEWS)
