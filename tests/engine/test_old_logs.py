"""Runs and databases that an earlier version wrote are read, replayed and continued by this one.

The stores' clock goes on from when the logs were written: otherwise every wait in them would be overdue.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Engine, RunHandle
from stepwell.domain.status import Status
from stepwell.store.base import Store
from stepwell.store.memory import MemoryStore
from stepwell.store.postgres.store import PostgresStore
from stepwell.store.sqlite.store import SqliteStore
from tests.engine.old_logs import flows
from tests.engines import SETTINGS, until

FOLDER = Path(flows.__file__).parent
WRITTEN_AT = 1794961850.0  # just after the last of the logs
BEGAN = time.time()

FULFILLED = (
    "receipt-7 ['label:book', 'label:lamp', 'label:tea'] ['label:left', 'label:right'] None "
    "label:extra ana {'ok': True} {'cents': 5} shipped 7"
)
PAID = {"amount": 42, "log": ["label:opened", "ana", "label:a", "label:b", "go! shipped 42"]}
SOLD = {"text": 'label:tea label:tea ["label:a","label:b"]'}

# What a person does, in this order, to bring each kept run to its end; then its result.
KEPT: dict[str, tuple[list[str], Any]] = {
    "function_at_signal": (["approve", "decide", "pay"], FULFILLED),
    "function_at_approval": (["decide", "pay"], FULFILLED),
    "function_at_event": (["pay"], FULFILLED),
    "function_completed": ([], FULFILLED),
    "function_continued": (["finish"], 3),
    "function_failed": (["retry"], "receipt-7shipped 7"),
    "machine_at_trigger": (["trigger", "go"], PAID),
    "machine_in_body": (["go"], PAID),
    "machine_failed": (["retry"], PAID),
    "machine_completed": ([], PAID),
    "graph_at_approval": (["order", "graph_pay"], SOLD),
    "graph_at_event": (["graph_pay"], SOLD),
    "graph_completed": ([], SOLD),
    "graph_failed": (["retry", "order", "graph_pay"], SOLD),
}


def soon_after() -> float:
    return WRITTEN_AT + time.time() - BEGAN


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    match request.param:
        case "memory":
            return MemoryStore(soon_after)
        case "sqlite":
            return SqliteStore(tmp_path / "app.db", clock=soon_after)
        case _:
            return PostgresStore(request.getfixturevalue("postgres_url"), clock=soon_after)


def engine_on(store: Store) -> Engine:
    return Engine(
        store, workflows=flows.WORKFLOWS, steps=[flows.label], nodes=[flows.stock], settings=SETTINGS
    )


async def until_waiting(run: RunHandle[Any], *, path: str) -> None:
    async def there() -> bool:
        return any(wait.path.endswith(path) for wait in await run.waits())

    await until(there)


async def act(engine: Engine, run: RunHandle[Any], what: str) -> None:
    match what:
        case "approve":
            await run.signal("approve", {"by": "ana"})
        case "decide":
            await until_waiting(run, path="approval#1")
            await run.decide({"ok": True}, by="ana")
        case "pay":
            await until_waiting(run, path="paid#1")
            await engine.emit("paid", {"cents": 5}, key="7")
        case "finish":
            await run.signal("finish")
        case "trigger":
            await run.trigger("approve", {"by": "ana"}, by="ana")
        case "go":
            await run.signal("go", "go!")
        case "order":
            await until_waiting(run, path="ask")
            await run.decide("approved", path="0/ask", by="ana")
        case "graph_pay":
            await until_waiting(run, path="paid")
            await run.event("paid", {"cents": 7})
        case "retry":
            await run.retry()
        case _:
            raise AssertionError(what)


@pytest.mark.req("R8")
@pytest.mark.parametrize("name", KEPT)
async def test_a_kept_run_replays_and_goes_on_to_its_end(store: Store, name: str) -> None:
    actions, result = KEPT[name]

    async with engine_on(store) as engine:
        run = await engine.import_run((FOLDER / f"{name}.json").read_bytes())
        for action in actions:
            await act(engine, run, action)

        assert await run.result() == result
        assert await run.status() is Status.COMPLETED


@pytest.mark.req("R8")
async def test_a_kept_database_is_upgraded_and_its_live_runs_go_on(tmp_path: Path) -> None:
    database = tmp_path / "app.db"
    connection = apsw.Connection(str(database))
    connection.execute((FOLDER / "database.sql").read_text(encoding="utf-8"))
    connection.close()

    async with engine_on(SqliteStore(database, clock=soon_after)) as engine:
        results = []
        for key, actions in [
            ("live-order_graph", ["order", "graph_pay"]),
            ("live-order_flow", ["approve", "decide", "pay"]),
            ("live-Refund", ["trigger", "go"]),
        ]:
            run = await engine.find(key)
            assert run is not None
            for action in actions:
                await act(engine, run, action)
            results.append(await run.result())

    assert results[0] == SOLD
    assert results[1] == FULFILLED
    assert results[2]["amount"] == 43
