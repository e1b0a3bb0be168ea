"""What steps, waits and recovery cost, in calls of the store and of Python functions: the same anywhere."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.domain.commit import Claims
from stepwell.store.base import Store
from stepwell.store.open import open_store
from stepwell.store.sqlite.database_file import migrations
from stepwell.store.sqlite.session import QUERIES
from tests.engines import SHORT_LEASE, Engines, crash, suspended, until

CALLS_A_STEP = 243  # of Python and C functions, when it is alone in its worker; 235 when this was written
VERBS = ("start", "claim", "commit", "deliver", "read_inbox", "read_log", "read_run", "read_tickets")


class Counted:
    """Stands before a store's verbs and counts how often each is asked; keeps what was claimed."""

    def __init__(self, store: Store) -> None:
        self.asked: Counter[str] = Counter()
        self.claims: list[Claims] = []
        for verb in VERBS:
            setattr(store, verb, self._counting(verb, getattr(store, verb)))

    def _counting(self, verb: str, ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counting(*args: Any, **kwargs: Any) -> Any:
            self.asked[verb] += 1
            answer = await ask(*args, **kwargs)
            if verb == "claim" and answer.claims:
                self.claims.append(answer)
            return answer

        return counting


class CallMeter:
    """Counts calls of Python functions in this thread between two marks of the workflow's code."""

    def __init__(self) -> None:
        self.calls = 0
        self.marks: list[int] = []

    def __enter__(self) -> CallMeter:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, arg: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1

    def mark(self) -> None:
        self.marks.append(self.calls)


meter = CallMeter()


@step
async def work(number: int) -> int:
    return number * 2


@workflow
async def many_steps(ctx: Context, count: int) -> int:
    total = 0
    for number in range(count):
        total += await ctx.step(work, number)
        meter.mark()
    return total


@workflow
async def steps_then_signal(ctx: Context, count: int) -> int:
    total = 0
    for number in range(count):
        total += await ctx.step(work, number)
    return total + await ctx.signal("go", int)


@workflow
async def sleeper(ctx: Context, seconds: float) -> str:
    await ctx.sleep(seconds)
    return "awake"


@pytest.mark.req("W1", "W7")
async def test_step_costs_one_commit_and_nothing_else(durable_engines: Engines) -> None:
    store = _store(durable_engines)
    counted = Counted(store)
    async with Engine(store, workflows=[many_steps]) as engine:
        assert await engine.run(many_steps, 100) == 9900

    # The end goes with the last step's result.
    assert counted.asked["commit"] == 100
    assert counted.asked["read_log"] == counted.asked["read_inbox"] == 0
    assert counted.asked["start"] == 1


@pytest.mark.req("W7")
async def test_late_step_costs_no_more_python_than_an_early_one(memory_engines: Engines) -> None:
    """Everything in this thread is counted, so the median of many steps is taken."""
    async with memory_engines.new(many_steps) as engine:
        await engine.run(many_steps, 10)
        with meter:
            meter.marks.clear()
            await engine.run(many_steps, 2_000)
    costs = [after - before for before, after in zip(meter.marks, meter.marks[1:], strict=False)]

    early, late = sorted(costs[50:150])[50], sorted(costs[-100:])[50]

    assert early > 0
    assert late <= early * 1.05


@pytest.mark.req("W1")
async def test_step_that_logs_nothing_costs_few_calls(memory_engines: Engines) -> None:
    async with memory_engines.new(many_steps) as engine:
        await engine.run(many_steps, 10)
        with meter:
            meter.marks.clear()
            await engine.run(many_steps, 500)
    costs = sorted(after - before for before, after in zip(meter.marks, meter.marks[1:], strict=False))

    assert 0 < costs[len(costs) // 2] <= CALLS_A_STEP


@pytest.mark.req("W1")
def test_commit_of_a_running_run_on_sqlite_opens_no_index(tmp_path: Path) -> None:
    """Of all columns of a ticket it names only those that no index has, nor any condition of one."""
    connection = apsw.Connection(str(tmp_path / "db"))
    for _, text in migrations():
        connection.execute(text)

    opened = {name: _opened_to_write(connection, QUERIES[name]) for name in ("write_grown", "write_parked")}

    assert opened["write_grown"] == 1  # the table itself
    assert opened["write_parked"] > 5


def _opened_to_write(connection: apsw.Connection, statement: str) -> int:
    values = [None] * max(int(number) for number in re.findall(r"\?(\d+)", statement))
    rows = connection.execute(f"EXPLAIN {statement}", values)
    return sum(row[1] == "OpenWrite" for row in rows)


@pytest.mark.req("W8")
def test_engine_with_graphs_loads_no_http_client_before_it_calls_one(tmp_path: Path) -> None:
    """What is loaded is looked at by every full garbage collection."""
    code = (
        "import asyncio, sys\n"
        "from stepwell import Engine, GraphBuilder\n"
        "g = GraphBuilder('g')\n"
        "g.start() >> g.end('end')\n"
        "async def main():\n"
        "    async with Engine(sys.argv[1], workflows=[g]) as engine:\n"
        "        await (await engine.start('g', {})).result()\n"
        "asyncio.run(main())\n"
        "print(sorted({'anyio', 'h11', 'httpcore2', 'ssl'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "db")], capture_output=True, text=True, check=True
    )

    assert "httpcore2" not in done.stdout
    assert "anyio" not in done.stdout


@pytest.mark.req("W7")
async def test_recovery_reads_the_whole_log_with_the_claim(durable_engines: Engines) -> None:
    steps = 300
    lost = durable_engines.new(steps_then_signal)
    await lost.open()
    run = await lost.start(steps_then_signal, steps)
    await suspended(run)
    await crash(lost)

    store = _store(durable_engines)
    counted = Counted(store)
    async with Engine(store, workflows=[steps_then_signal], settings=SHORT_LEASE) as engine:
        again = engine.handle(run.id, steps_then_signal)
        await again.signal("go", 1)
        assert await again.result(15) == sum(range(steps)) * 2 + 1

    claimed = [claim for claims in counted.claims for claim in claims.claims]
    assert len(claimed) == 1
    assert len(claimed[0].log) == claimed[0].head > steps
    assert counted.asked["read_log"] == 0
    assert counted.asked["commit"] == 1


@pytest.mark.req("W5")
async def test_sleeping_run_holds_nothing_in_its_worker(durable_engines: Engines) -> None:
    count = 50
    async with durable_engines.new(sleeper) as engine:
        assert engine.worker is not None
        runs = await engine.start_many(sleeper, [1.0] * count)
        async with asyncio.TaskGroup() as group:
            for run in runs:
                group.create_task(suspended(run))
        await until(lambda: engine.worker is not None and not engine.worker.active)

        assert [await run.result(15) for run in runs] == ["awake"] * count


@pytest.mark.req("W4")
async def test_parallel_steps_share_commits(durable_engines: Engines) -> None:
    @workflow
    async def fan(ctx: Context, count: int) -> int:
        return sum(await ctx.map(work, range(count), limit=count))

    store = _store(durable_engines)
    counted = Counted(store)
    async with Engine(store, workflows=[fan]) as engine:
        assert await engine.run(fan, 500) == sum(range(500)) * 2

    assert counted.asked["commit"] < 50


@pytest.mark.req("W3")
async def test_many_starts_share_transactions(durable_engines: Engines) -> None:
    store = _store(durable_engines)
    counted = Counted(store)
    async with Engine(store, worker=False) as engine:
        runs = await engine.start_many(sleeper, [1.0] * 1_000)

    assert len({run.id for run in runs}) == 1_000
    assert counted.asked["start"] == 2


@pytest.mark.req("W2")
async def test_short_run_costs_four_round_trips(durable_engines: Engines) -> None:
    """Start, claim, the step's result with the run's end; the result needs no look when it ends here."""
    store = _store(durable_engines)
    counted = Counted(store)
    async with Engine(store, workflows=[many_steps]) as engine:
        await engine.run(many_steps, 1)
        counted.asked.clear()
        assert await engine.run(many_steps, 1) == 0

        assert counted.asked["start"] == counted.asked["commit"] == 1
        assert counted.asked["claim"] <= 2  # the one that finds it, and one that finds no more
        assert counted.asked["read_run"] == 0


def _store(engines: Engines) -> Store:
    assert isinstance(engines.database, str)
    return open_store(engines.database)
