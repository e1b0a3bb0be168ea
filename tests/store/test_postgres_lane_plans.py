"""Claims look at what they take, however many tickets wait, with lanes and without.

The plans are made while the tables are empty, as those of a worker that starts with a new database are, or
while the planner knows of no lanes; and then looked at on full ones: which index they go through and how
many rows each part of them made.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from stepwell.domain.lanes import Lane
from stepwell.store.postgres.database import statements
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS, Connection
from stepwell.store.postgres.store import PostgresStore

WAITING = 100_000
ROWS_MAX = 400  # of any part of a plan; 50 are taken, and 50 spare ones looked at
FULL = Lane("default", "order", "default", "", 50, 10).text
LATE = Lane("default", "order", "late", "", 50, 10).text

# Half of them wait without a lane; the other half in lanes: due at a full limit, or suspended.
FILLED = """
INSERT INTO stepwell.tickets (
    run_id, path, queue, needs, workspace, lane, priority, started, ending, not_before, due_at,
    head, base, at, wakes, losses, lost_lease
)
SELECT 'q' || n, '', CASE n % 4 WHEN 3 THEN 'late' ELSE 'default' END, 'order@1', 'default',
    CASE n % 4 WHEN 1 THEN $1 WHEN 3 THEN $2 ELSE '' END, 0, n % 4 = 3, false, 0,
    CASE n % 4 WHEN 3 THEN 1e12 ELSE n END, 1, 1, 0, 0, 0, ''
FROM generate_series(1, $3::int) AS n
WHERE (n % 2 = 1) = $4
"""

# The planner of a store's own connections; filling tables may take long on a slow machine.
PATIENT = ENGINE_SETTINGS | {"statement_timeout": "0", "lock_timeout": "0"}

WORKER = "w1"
LEASES = [f"lease{number}" for number in range(50)]
QUEUES, NEEDS = ["default", "late"], ["order@1", "other@1"]
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "claim_due": (1e9, WORKER, QUEUES, NEEDS, LEASES, 50, 100, False, 12),
    "claim_due without lanes": (1e9, WORKER, QUEUES, NEEDS, LEASES, 50, 100, False, 12),
    "hold_worker": (1e9, WORKER, LEASES),
    "open_lanes": (False,),
    "leased_lanes": (),
    "lane_tickets": ([FULL, LATE], NEEDS, [51, 51], False, 1000, 51),
    "open_tickets": (QUEUES, NEEDS, False, 51),
    "take_tickets": (WORKER, LEASES[:2], ["q1", "q2"], ["", ""], 1e9),
    "give_lanes_owned": (["default"], ["order"], True),
    "give_lanes_open": (["default"], ["order@1"], False, 100),
}
BY_INDEX = {"Index Scan", "Index Only Scan"}
WITHOUT_LANES = "UPDATE stepwell.tickets SET lane = '' WHERE lane <> ''"


def literal(value: Any) -> str:
    if isinstance(value, list):
        kind = "int" if value and isinstance(value[0], int) else "text"
        return f"ARRAY[{', '.join(map(literal, value))}]::{kind}[]"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def parts(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from parts(below)


def call(name: str) -> str:
    values = ", ".join(map(literal, ARGUMENTS[name]))
    return f"EXECUTE {name.split(maxsplit=1)[0]}({values})" if values else f"EXECUTE {name}"


async def explained(connection: Connection, name: str) -> list[dict[str, Any]]:
    """Every part of its plan, with what it did; nothing of that stays."""
    await connection.execute("BEGIN")
    try:
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {call(name)}")
    finally:
        await connection.execute("ROLLBACK")
    return list(parts(json.loads(text)[0]["Plan"]))


async def planned(connection: Connection) -> None:
    texts = statements("stepwell")
    for name in {name.split()[0] for name in ARGUMENTS}:
        await connection.execute(f"PREPARE {name} AS {texts[name]}")
        await explained(connection, name)


async def plans(url: str, *, empty: bool) -> dict[str, list[dict[str, Any]]]:
    store = PostgresStore(url)
    await store.open()
    await store.close()
    connection = await asyncpg.connect(url, server_settings=PATIENT)
    try:
        await connection.execute(
            "SET statement_timeout = 0; SET lock_timeout = 0"
        )  # a slow machine may take long
        await connection.execute(
            "INSERT INTO stepwell.workers (id, name, queues, needs, lease_seconds, lease_until)"
            f" VALUES ('{WORKER}', '', ARRAY['default'], ARRAY['order@1'], 1e9, 1e12)"
        )
        if empty:
            await planned(connection)
        await connection.execute(FILLED, FULL, LATE, WAITING, False)
        if not empty:
            await connection.execute("VACUUM ANALYZE stepwell.tickets")
            await planned(connection)
        await connection.execute(FILLED, FULL, LATE, WAITING, True)
        results = {name: await explained(connection, name) for name in ARGUMENTS if " " not in name}
        await connection.execute(WITHOUT_LANES)
        await connection.execute("VACUUM stepwell.tickets")  # as the server does of itself, a little later
        results["claim_due without lanes"] = await explained(connection, "claim_due without lanes")
        return results
    finally:
        await connection.close()


def took(plan: list[dict[str, Any]]) -> int:
    return sum(part["Actual Rows"] for part in plan if part["Node Type"] == "ModifyTable")


@pytest.mark.slow
@pytest.mark.req("K16", "K19")
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "without lanes"])
def test_claims_go_through_indexes_and_read_little(postgres_url: str, empty: bool) -> None:
    results = asyncio.run(plans(postgres_url, empty=empty))

    read = {
        name: max(part["Actual Rows"] * part["Actual Loops"] for part in plan)
        for name, plan in results.items()
    }
    walked = {
        (name, part["Node Type"])
        for name, plan in results.items()
        for part in plan
        if part.get("Relation Name") in ("tickets", "runs", "events") and part["Node Type"] != "ModifyTable"
        if part["Node Type"] not in BY_INDEX
    }
    assert walked == set()
    assert {name: rows for name, rows in read.items() if rows > ROWS_MAX} == {}
    # With lanes due it takes nothing, and leaves all to the others; without any it does the work alone.
    assert (took(results["claim_due"]), took(results["claim_due without lanes"])) == (0, 50)
    assert took(results["take_tickets"]) == 2
