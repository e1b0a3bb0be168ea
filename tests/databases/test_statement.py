"""One statement, its names and its quotes: BI-Q02, BI-Q04, BI-T12."""

from __future__ import annotations

import pytest

from stepwell.databases.errors import QueryError
from stepwell.databases.statement import Statement


@pytest.mark.req("N19")
@pytest.mark.parametrize(
    ("sql", "numbered"),
    [
        ("SELECT :a, :b, :a", "SELECT $1, $2, $1"),
        ("SELECT ':a', \":b\", :c", "SELECT ':a', \":b\", $1"),
        ("SELECT now()::text, :a::int", "SELECT now()::text, $1::int"),
        ("SELECT 'it''s :x' -- :y\n, :z", "SELECT 'it''s :x' -- :y\n, $1"),
        ("SELECT /* :y ; */ :z;", "SELECT /* :y ; */ $1"),
        ("SELECT $$ ; :x $$, :z", "SELECT $$ ; :x $$, $1"),
        ("SELECT $q$ ; :x $q$, :z ; -- done", "SELECT $q$ ; :x $q$, $1 ; -- done"),
        ("SELECT E'a\\'; :x', :z", "SELECT E'a\\'; :x', $1"),
        ("SELECT a[1], :z", "SELECT a[1], $1"),
    ],
)
def test_names_become_numbers_outside_quotes(sql: str, numbered: str) -> None:
    assert Statement.parsed(sql).numbered() == numbered


@pytest.mark.req("N19", "X3")
@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT 1; DROP TABLE x", "SQL_ONE_STATEMENT"),
        ("SELECT 1;;SELECT 2", "SQL_ONE_STATEMENT"),
        ("SELECT 1; 'x'", "SQL_ONE_STATEMENT"),
        ("SELECT 1; :a", "SQL_ONE_STATEMENT"),
        ("SELECT 'open", "SQL_ERROR"),
        ("SELECT /* open", "SQL_ERROR"),
        ("SELECT \0", "SQL_ERROR"),
        (" ; ", "SQL_ERROR"),
        ("SELECT {{ctx.input.column}} FROM t", "SQL_TEMPLATE"),
        ("x" * 70_000, "SQL_ERROR"),
    ],
)
def test_anything_but_one_whole_statement_is_refused(sql: str, code: str) -> None:
    with pytest.raises(QueryError) as refused:
        Statement.parsed(sql)
    assert refused.value.code == code


@pytest.mark.req("N19")
@pytest.mark.parametrize("params", [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3}])
def test_missing_and_unused_values_are_named(params: dict[str, int]) -> None:
    with pytest.raises(QueryError) as refused:
        Statement.parsed("SELECT :a, :b").values(params)
    assert refused.value.code == "SQL_PARAMS"
    assert "b" in refused.value.message or "c" in refused.value.message
