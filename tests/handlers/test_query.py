"""The `query` node in running graphs, on a real SQLite file and a real PostgreSQL: BI-Q01 to BI-Q10."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from stepwell import Engine, InvalidGraph, graph
from stepwell.databases.connections import Connections
from stepwell.databases.errors import QueryError
from stepwell.errors import SettingsInvalid
from tests.engines import Engines
from tests.handlers.test_http import ERROR_EDGE, graph_of

TABLE = "CREATE TABLE item (id integer PRIMARY KEY, name text NOT NULL, price numeric)"
# 16 MB in 20 rows
GROWING = (
    "WITH RECURSIVE n(i, t) AS "
    "(SELECT 1, 'abcdefghijklmnop' UNION ALL SELECT i + 1, t || t FROM n WHERE i < 20) SELECT t FROM n"
)
ROWS = "INSERT INTO item VALUES (1, 'book', 12.5), (2, 'lamp', 40), (3, 'tea', NULL)"


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        connection = apsw.Connection(str(path))
        connection.execute(f"{TABLE}; {ROWS}")
        connection.close()
        return f"sqlite:{path}"
    url: str = request.getfixturevalue("postgres_url")

    async def fill() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(f"{TABLE}; {ROWS}")
        await connection.close()

    asyncio.run(fill())
    return url


def query_graph(data: dict[str, Any], *edges: dict[str, Any]) -> dict[str, Any]:
    body = graph_of({}, *edges)
    node = {"outputVariable": "answer", "connection": "shop", **data}
    body["nodes"][1] = {"id": "call", "type": "query", "data": node}
    return body


async def asked(engine: Engine, sql: str, input: Any = None, **data: Any) -> Any:
    """The output of the node, or the code of its error."""
    body = query_graph({"sql": sql, **data}, ERROR_EDGE)
    run = await engine.start_graph(body, input or {})
    return (await run.result(60))["result"]


@pytest.fixture
def opened(shop: str, memory_engines: Engines) -> Engine:
    return memory_engines.new(connections={"shop": shop})


@pytest.mark.slow
@pytest.mark.req("N19")
async def test_a_graph_asks_a_database(opened: Engine) -> None:
    async with opened as engine:
        sql = "SELECT id, name FROM item WHERE id >= :least ORDER BY id"
        answer = await asked(engine, sql, {"least": 2}, params={"least": "{{ctx.input.least}}"})

        assert answer == {"rows": [{"id": 2, "name": "lamp"}, {"id": 3, "name": "tea"}], "count": 2}


@pytest.mark.slow
@pytest.mark.req("N19", "X3")
async def test_values_are_bound_and_never_become_sql(opened: Engine) -> None:  # BI-Q01
    async with opened as engine:
        evil = "'; DROP TABLE item; --"
        sql = "INSERT INTO item (id, name) VALUES (:id, :name)"
        params = {"id": 9, "name": "{{ctx.input.name}}"}
        wrote = await asked(engine, sql, {"name": evil}, params=params, readOnly=False)
        rows = await asked(engine, "SELECT name FROM item WHERE id = 9")

        assert wrote == {"rows": [], "count": 1}
        assert rows["rows"] == [{"name": evil}]


@pytest.mark.slow
@pytest.mark.req("N19")
@pytest.mark.parametrize(
    ("sql", "data", "code"),
    [
        ("INSERT INTO item VALUES (7, 'x', 1)", {}, "SQL_READ_ONLY"),  # BI-Q09
        ("DELETE FROM item", {}, "SQL_READ_ONLY"),
        ("SELECT * FROM nothing", {}, "SQL_ERROR"),
        ("SELEC 1", {}, "SQL_ERROR"),
        ("SELECT id FROM item", {"maxRows": 2}, "RESULT_TOO_LARGE"),  # BI-Q06
        (GROWING, {}, "RESULT_TOO_LARGE"),  # BI-Q06
        ("SELECT 1 AS a, 2 AS a", {}, "SQL_TYPE"),
        ("SELECT :a + 1 AS a", {"params": {"a": [1, 2]}}, "SQL_PARAMS"),  # BI-Q04
        ("SELECT $1 AS a", {}, "SQL_PARAMS"),
        ("SELECT 1 AS a", {"connection": "shopp"}, "SQL_CONNECTION"),
    ],
)
async def test_a_query_that_cannot_be_answered_says_why(
    opened: Engine, sql: str, data: dict[str, Any], code: str
) -> None:
    async with opened as engine:
        assert await asked(engine, sql, retry={"maxAttempts": 1}, **data) == code
        assert (await asked(engine, "SELECT count(*) AS n FROM item"))["rows"] == [{"n": 3}]


@pytest.mark.slow
@pytest.mark.req("N19")
async def test_a_long_query_is_ended_in_the_database(opened: Engine, shop: str) -> None:  # BI-Q05
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS c FROM n"
    async with opened as engine:
        code = await asked(engine, endless, timeoutMs=300, retry={"maxAttempts": 1})

        assert code == "SQL_TIMEOUT"
        assert (await asked(engine, "SELECT 1 AS one"))["rows"] == [{"one": 1}]
    if shop.startswith("postgres"):
        connection = await asyncpg.connect(shop)
        active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1"
        assert await connection.fetchval(active, "WITH RECURSIVE%") == 0
        await connection.close()


@pytest.mark.slow
@pytest.mark.req("N19", "BI-Q05")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pg_sleep(3600)",
        "SELECT count(*) AS c FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b",
        "SELECT set_config('statement_timeout', '0', false), pg_sleep(3600)",
    ],
)
async def test_bi_q05_sleep_and_products_are_ended_on_the_server(
    memory_engines: Engines, postgres_url: str, sql: str
) -> None:
    async with memory_engines.new(connections={"shop": postgres_url}) as engine:
        code = await asked(engine, sql, timeoutMs=300, retry={"maxAttempts": 1})
        connection = await asyncpg.connect(postgres_url)
        active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1"
        left = await connection.fetchval(active, f"{sql[:40]}%")
        await connection.close()

    assert code == "SQL_TIMEOUT"
    assert left == 0


@pytest.mark.slow
@pytest.mark.req("N19")
async def test_values_come_back_as_json(memory_engines: Engines, postgres_url: str) -> None:  # BI-Q07
    sql = """SELECT 1.10::numeric AS exact, 'infinity'::date AS day, '\\x00ff'::bytea AS bytes,
        NULL AS nothing,
        '{"a": [1]}'::jsonb AS data, ARRAY[1, 2] AS list, 'NaN'::float8 AS odd, true AS yes,
        '2026-01-02 03:04:05+00'::timestamptz::text AS at"""
    async with memory_engines.new(connections={"shop": postgres_url}) as engine:
        answer = await asked(engine, sql)
        ranged = await asked(engine, "SELECT int4range(1, 5) AS r", retry={"maxAttempts": 1})
        digits = await asked(engine, "SELECT (repeat('7', 1000))::numeric AS n, -0.0::float8 AS zero")
        typed = "SELECT :day::date AS day, :n::numeric AS n, :data::jsonb AS data"
        params = {"day": "2026-02-03", "n": 1.5, "data": {"a": 1}}
        back = await asked(engine, typed, params=params)

    row = answer["rows"][0]
    assert (row["exact"], row["day"], row["bytes"], row["nothing"]) == ("1.10", "infinity", "AP8=", None)
    assert (row["data"], row["list"], row["odd"], row["yes"]) == ({"a": [1]}, [1, 2], "nan", True)
    assert ranged == "SQL_TYPE"
    assert digits["rows"][0]["n"] == "7" * 1000
    assert back["rows"] == [{"day": "2026-02-03", "n": "1.5", "data": {"a": 1}}]


@pytest.mark.slow
@pytest.mark.req("N19", "X3")
@pytest.mark.parametrize(
    "sql", ["ATTACH 'other.db' AS other", "PRAGMA writable_schema = 1", "BEGIN", "SELECT load_extension('x')"]
)
async def test_a_statement_cannot_reach_other_files(
    memory_engines: Engines, tmp_path: Path, sql: str
) -> None:  # BI-Q02, BI-Q10
    apsw.Connection(str(tmp_path / "shop.db")).execute("CREATE TABLE t (a)")
    async with memory_engines.new(connections={"shop": f"sqlite:{tmp_path / 'shop.db'}"}) as engine:
        code = await asked(engine, sql, readOnly=False, retry={"maxAttempts": 1})

    assert code in ("SQL_FORBIDDEN", "SQL_ERROR")
    assert not (tmp_path / "other.db").exists()


@pytest.mark.req("N19", "BI-T12")
@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        ({"sql": "SELECT * FROM {{ctx.input.table}}"}, "SQL_TEMPLATE", "sql"),
        ({"sql": "SELECT 1; SELECT 2"}, "SQL_ONE_STATEMENT", "sql"),
        ({"sql": "SELECT :a"}, "SQL_PARAMS", "params"),
        ({"sql": "SELECT 1", "params": {"a": 1}}, "SQL_PARAMS", "params"),
        ({"sql": "SELECT 1", "connection": "postgresql://h/d"}, "INVALID_DATA", "connection"),
        ({"sql": "SELECT 1", "maxRows": 0}, "INVALID_DATA", "maxRows"),
    ],
)
def test_a_wrong_query_is_found_when_the_graph_is_saved(data: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(InvalidGraph) as refused:
        graph(query_graph(data))

    problem = refused.value.problems[0]
    assert (problem.code, problem.node, problem.field) == (code, "call", field)
    assert problem.suggestion


@pytest.mark.req("N19")
async def test_connections_are_named_by_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CONNECTION_SHOP", "sqlite:/nowhere.db")

    monkeypatch.setenv("STEPWELL_CONNECTION_ACME__BOOKS", "sqlite:/nowhere.db")

    assert Connections().of("shop", "default") is not None
    assert Connections(workspace="acme").of("shop", "acme") is not None
    assert Connections().of("books", "acme") is not None
    for name, workspace, hint in (
        ("shop", "acme", "use one of: books"),
        ("books", "default", "use one of: shop"),
        ("shop", "blue", "an operator sets STEPWELL_CONNECTION_BLUE__SHOP"),
    ):
        with pytest.raises(QueryError) as refused:
            Connections().of(name, workspace)
        assert (refused.value.code, refused.value.hint) == ("SQL_CONNECTION", hint)
    for urls in ({"Shop!": "sqlite:x"}, {"shop": "mysql://x"}, {"/shop": "sqlite:x"}):
        with pytest.raises(SettingsInvalid):
            Connections(urls)


@pytest.mark.slow
@pytest.mark.req("N19", "X3")
@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("COPY item TO PROGRAM 'id'", "SQL_FORBIDDEN"),
        ("-- a comment\ncopy item FROM PROGRAM 'id'", "SQL_FORBIDDEN"),
        ("DO $$ BEGIN DELETE FROM item; END $$", "SQL_FORBIDDEN"),
        ("SET ROLE none", "SQL_FORBIDDEN"),
        ("/* a */ LOAD 'x'", "SQL_FORBIDDEN"),
        ("SELECT 1; DELETE FROM item", "SQL_ONE_STATEMENT"),
        ("SELECT 1 /* ; */; -- \nDELETE FROM item", "SQL_ONE_STATEMENT"),
        ("SELECT * FROM item FOR UPDATE", "SQL_READ_ONLY"),  # BI-Q09
        ("SELECT nextval('counter')", "SQL_READ_ONLY"),  # BI-Q09
        ("SELECT setval('counter', 9)", "SQL_READ_ONLY"),
    ],
)
async def test_bi_q02_and_q09_a_statement_of_postgres_does_no_more_than_it_may(
    memory_engines: Engines, postgres_url: str, sql: str, code: str
) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(f"{TABLE}; {ROWS}; CREATE SEQUENCE counter")
    await connection.close()
    body = query_graph({"sql": sql, "retry": {"maxAttempts": 1}}, ERROR_EDGE)
    async with memory_engines.new(connections={"shop": postgres_url}) as engine:
        if code == "SQL_ONE_STATEMENT":
            with pytest.raises(InvalidGraph, match=code):
                await engine.start_graph(body, {})
            return
        answer = (await (await engine.start_graph(body, {})).result(60))["result"]
        rows = await asked(engine, "SELECT count(*) AS n FROM item")

    assert answer == code
    assert rows["rows"] == [{"n": 3}]


@pytest.mark.slow
@pytest.mark.req("N19", "X3")
async def test_bi_q03_a_name_from_data_stays_a_value(opened: Engine) -> None:
    async with opened as engine:
        table = await asked(engine, "SELECT * FROM :t", {"t": "item"}, params={"t": "{{ctx.input.t}}"})
        column = await asked(
            engine, "SELECT :c AS c FROM item", {"c": 'name" FROM item; --'}, params={"c": "{{ctx.input.c}}"}
        )
        with pytest.raises(InvalidGraph, match="SQL_TEMPLATE"):
            await asked(engine, "SELECT * FROM {{ctx.input.t}}", {"t": "item"})

        assert table == "SQL_ERROR"
        assert {row["c"] for row in column["rows"]} == {'name" FROM item; --'}


@pytest.mark.slow
@pytest.mark.req("N19")
@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT id FROM item WHERE id = :id", {"id": 2**70}),
        ("SELECT id FROM item WHERE id = :id", {"id": [1]}),
        ("SELECT id FROM item WHERE id = :id", {"id": {"a": 1}}),
    ],
)
async def test_bi_q04_values_that_do_not_fit_are_refused(opened: Engine, sql: str, params: Any) -> None:
    async with opened as engine:
        wanted = {"id": "{{ctx.input.id}}"}
        assert await asked(engine, sql, params, params=wanted, retry={"maxAttempts": 1}) == "SQL_PARAMS"


@pytest.mark.slow
@pytest.mark.req("N19")
async def test_bi_q06_a_huge_answer_is_refused(opened: Engine, shop: str) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT i FROM n"
    cell = (
        "SELECT hex(zeroblob(3000000)) AS x"
        if shop.startswith("sqlite")
        else "SELECT repeat('x', 3000000) AS x"
    )
    async with opened as engine:
        assert await asked(engine, many, retry={"maxAttempts": 1}) == "RESULT_TOO_LARGE"
        assert await asked(engine, cell, retry={"maxAttempts": 1}) == "RESULT_TOO_LARGE"


@pytest.mark.slow
@pytest.mark.req("N19", "BI-Q06")
@pytest.mark.parametrize("value", ["repeat('x', 1000000)", "jsonb_build_object('x', repeat('x', 1000000))"])
async def test_bi_q06_large_rows_are_not_all_read_before_they_are_counted(
    memory_engines: Engines, postgres_url: str, value: str
) -> None:
    large = f"SELECT {value} AS x FROM generate_series(1, 100)"
    async with memory_engines.new(connections={"shop": postgres_url}) as engine:
        assert (await asked(engine, "SELECT 1 AS one"))["rows"] == [{"one": 1}]
        tracemalloc.start()
        try:
            answer = await asked(engine, large, retry={"maxAttempts": 1})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert answer == "RESULT_TOO_LARGE"
    assert peak < 20_000_000  # of 100,000,000


@pytest.mark.req("N19", "X3")
@pytest.mark.parametrize(
    "name",
    [
        "postgresql://127.0.0.1/app",
        "sqlite:app.db",
        "engine:",
        "../shop",
        "/var/run/postgresql",
        "{{ctx.input.c}}",
    ],
)
async def test_bi_q08_a_graph_cannot_name_an_address(memory_engines: Engines, name: str) -> None:
    body = query_graph({"connection": name, "sql": "SELECT 1"}, ERROR_EDGE)
    async with memory_engines.new(connections={}) as engine:
        try:
            run = await engine.start_graph(body, {"c": "engine:"})
        except InvalidGraph as refused:
            assert "connection" in str(refused)  # noqa: PT017
            return
        assert (await run.result(60))["result"] == "SQL_CONNECTION"


@pytest.mark.slow
@pytest.mark.req("N19", "X5", "BI-Q08")
@pytest.mark.parametrize("transactional", [False, True])
async def test_a_workspace_has_its_own_connections(
    durable_engines: Engines, tmp_path: Path, transactional: bool
) -> None:
    urls = {"shop": "engine:?role=clerk", "acme/books": "engine:?role=clerk"}
    if not transactional:
        urls = {name: f"sqlite:{tmp_path / 'shop.db'}" for name in urls}
        apsw.Connection(str(tmp_path / "shop.db")).execute("CREATE TABLE item (id integer)")
    node = {"sql": "SELECT 1 AS one", "transactional": transactional, "readOnly": not transactional}
    node |= {"retry": {"maxAttempts": 1}}
    async with durable_engines.new(connections=urls) as engine:
        answers = {}
        for workspace in ("default", "acme"):
            for name in ("shop", "books", "acme/books"):
                body = query_graph({**node, "connection": name}, ERROR_EDGE)
                try:
                    run = await engine.within(workspace).start_graph(body, {})
                except InvalidGraph:  # no name of a connection has a slash
                    continue
                answers[workspace, name] = (await run.result(60))["result"]

    refused = {("default", "books"), ("acme", "shop")}
    assert {place for place, answer in answers.items() if answer == "SQL_CONNECTION"} == refused
    assert set(answers) - refused == {("default", "shop"), ("acme", "books")}


@pytest.mark.slow
@pytest.mark.req("N19", "X3", "BI-T12", "BI-Q03")
async def test_a_call_does_not_get_around_the_checks_of_a_node(opened: Engine) -> None:
    config = {"connection": "shop", "sql": "{{ctx.input.sql}}", "params": {}, "maxRows": 9, "readOnly": False}
    call = {"step": "node:query", "args": {"config": {**config, "seconds": 9}}}
    tool = {"prompt": "x", "tools": [{"name": "ask", "description": "asks", "step": "node:query"}]}
    async with opened as engine:
        for kind, data, field in (("call", call, "step"), ("ai", tool, "tools.0.step")):
            body = query_graph({})
            body["nodes"][1] = {"id": "call", "type": kind, "data": data}
            with pytest.raises(InvalidGraph) as refused:
                await engine.start_graph(body, {"sql": "DELETE FROM item"})
            assert [(each.code, each.field) for each in refused.value.problems] == [("UNKNOWN_STEP", field)]
            assert "use a query node" in refused.value.problems[0].suggestion
        rows = await asked(engine, "SELECT count(*) AS n FROM item")

    assert rows["rows"] == [{"n": 3}]


@pytest.mark.slow
@pytest.mark.req("N19", "X3", "BI-Q10")
async def test_bi_q10_no_query_changes_what_the_next_one_sees(opened: Engine, shop: str) -> None:
    async with opened as engine:
        for read_only in (True, False):
            for sql in (
                "CREATE TEMP TABLE item AS SELECT 99 AS id",
                "CREATE TEMP VIEW item AS SELECT 99 AS id",
                *(() if shop.startswith("sqlite") else ("SELECT 99 AS id INTO TEMP item",)),
            ):
                await asked(engine, sql, readOnly=read_only, retry={"maxAttempts": 1})
                rows = await asked(engine, "SELECT count(*) AS n FROM item", readOnly=read_only)
                assert rows["rows"] == [{"n": 3}], sql


@pytest.mark.slow
@pytest.mark.req("N19", "X3", "BI-Q10")
async def test_bi_q10_a_role_that_a_query_takes_ends_with_it(
    memory_engines: Engines, postgres_url: str
) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(
        "DO $$ BEGIN CREATE ROLE clerk; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    await connection.close()
    async with memory_engines.new(connections={"shop": postgres_url}) as engine:
        taken = await asked(engine, "SELECT set_config('role', 'clerk', false) AS role")
        later = await asked(engine, "SELECT current_user = session_user AS own")

    assert taken["rows"] == [{"role": "clerk"}]
    assert later["rows"] == [{"own": True}]


@pytest.mark.slow
@pytest.mark.req("N19", "BI-Q10")
async def test_bi_q10_nothing_stays_open_after_a_query(opened: Engine) -> None:
    async with opened as engine:
        once = {"maxAttempts": 1}
        begun = await asked(engine, "BEGIN", readOnly=False, retry=once)
        broken = await asked(engine, "INSERT INTO item VALUES (1, 'again', 1)", readOnly=False, retry=once)
        fine = await asked(engine, "INSERT INTO item VALUES (8, 'mug', 1)", readOnly=False)
        rows = await asked(engine, "SELECT count(*) AS n FROM item")

    assert begun == "SQL_FORBIDDEN"
    assert broken == "SQL_ERROR"
    assert fine["count"] == 1
    assert rows["rows"] == [{"n": 4}]
