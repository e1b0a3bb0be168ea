"""A transactional step: the user's writes and its event are committed together, exactly once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from stepwell import Context, Retry, RunFailed, StepContext, Workflow, failpoints, step, workflow
from stepwell.errors import InvalidDefinition, InvalidRequest
from tests.engine.run.transactional_runs import paying
from tests.engines import SHORT_LEASE, Engines, all_events, crash, kinds, log, until

ROOT = Path(__file__).parents[3]
TABLE = "CREATE TABLE IF NOT EXISTS payments (who text NOT NULL CHECK (who <> 'bad'))"


class Ledger:
    """The user's own table in the engine's database."""

    def __init__(self, engines: Engines) -> None:
        self.kind = engines.kind
        self.database = str(engines.database)

    async def make(self) -> None:
        await self._run(f"{TABLE}; DELETE FROM payments")

    async def names(self) -> list[str]:
        if self.kind == "sqlite":
            connection = apsw.Connection(self.database)
            try:
                return [who for (who,) in connection.execute("SELECT who FROM payments")]
            finally:
                connection.close()
        connection = await asyncpg.connect(self.database)
        try:
            return [row["who"] for row in await connection.fetch("SELECT who FROM payments")]
        finally:
            await connection.close()

    async def _run(self, script: str) -> None:
        if self.kind == "sqlite":
            connection = apsw.Connection(self.database)
            connection.execute(script)
            connection.close()
        else:
            connection = await asyncpg.connect(self.database)
            await connection.execute(script)
            await connection.close()

    def step(self, **options: Any) -> Any:
        """Writes a name, and fails after that if `fails` says so."""
        fails: list[BaseException] = options.pop("fails", [])

        def pay_sqlite(connection: Any, who: str) -> str:
            connection.execute("INSERT INTO payments (who) VALUES (?)", (who,))
            if fails:
                raise fails.pop()
            return f"paid {who}"

        async def pay_postgres(connection: Any, who: str) -> str:
            await connection.execute("INSERT INTO payments (who) VALUES ($1)", who)
            if fails:
                raise fails.pop()
            return f"paid {who}"

        body: Any = pay_sqlite if self.kind == "sqlite" else pay_postgres
        return step(transactional=True, name="pay", **options)(body)


class Held:
    """A run on PostgreSQL whose first attempt waits, after it has written, until the gate opens."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun = 0

    def workflow(self) -> Workflow[None, int]:
        @step(transactional=True)
        async def pay(connection: Any) -> int:
            self.begun += 1
            await connection.execute("INSERT INTO payments (who) VALUES ($1)", f"try {self.begun}")
            if self.begun == 1:
                await self.gate.wait()
            return self.begun

        @workflow
        async def order(ctx: Context) -> int:
            return await ctx.step(pay)

        return order


@pytest.fixture
def ledger(durable_engines: Engines) -> Ledger:
    return Ledger(durable_engines)


def test_transactional_step_has_no_context_of_its_own() -> None:
    with pytest.raises(InvalidDefinition, match="book is transactional") as refused:

        @step(transactional=True)
        def book(connection: Any, ctx: StepContext, n: int) -> int:
            return n

    assert "ctx.save" in refused.value.hint


@pytest.mark.req("K14")
async def test_writes_and_event_are_committed_together(durable_engines: Engines, ledger: Ledger) -> None:
    pay = ledger.step()

    @workflow
    async def order(ctx: Context, who: str) -> list[Any]:
        await ctx.step(str, 1)
        return [await ctx.step(pay, who), await ctx.step(str, 2)]

    async with durable_engines.new(order) as engine:
        await ledger.make()
        run = await engine.start(order, "ana")

        assert await run.result() == ["paid ana", "2"]
        assert await ledger.names() == ["ana"]
        assert "step_completed 0/pay#1" in await log(run)


@pytest.mark.req("K14", "K9")
async def test_failed_attempt_leaves_no_write(durable_engines: Engines, ledger: Ledger) -> None:
    pay = ledger.step(retry=Retry(3, delay=0), fails=[ValueError("a"), ValueError("b")])

    @workflow
    async def order(ctx: Context) -> str:
        return str(await ctx.step(pay, "ana"))

    async with durable_engines.new(order) as engine:
        await ledger.make()
        run = await engine.start(order)

        assert await run.result() == "paid ana"
        assert await ledger.names() == ["ana"]
        assert [e.attempt for e in await all_events(run) if e.path] == [1, 2, 3]


@pytest.mark.req("K14", "K11")
async def test_refused_write_fails_the_step_and_rolls_back(durable_engines: Engines, ledger: Ledger) -> None:
    pay = ledger.step()

    @workflow
    async def order(ctx: Context) -> list[str]:
        return [str(await ctx.step(pay, "ana")), str(await ctx.step(pay, "bad"))]

    async with durable_engines.new(order) as engine:
        await ledger.make()
        run = await engine.start(order)
        with pytest.raises(RunFailed):
            await run.result()

        assert await ledger.names() == ["ana"]
        assert (await kinds(run)).count("step_completed") == 1


@pytest.mark.req("K14")
async def test_result_that_cannot_be_kept_rolls_the_writes_back(
    durable_engines: Engines, ledger: Ledger
) -> None:
    def odd_sqlite(connection: Any) -> Any:
        connection.execute("INSERT INTO payments (who) VALUES ('ana')")
        return object()

    async def odd_postgres(connection: Any) -> Any:
        await connection.execute("INSERT INTO payments (who) VALUES ('ana')")
        return object()

    odd: Any = odd_sqlite if durable_engines.kind == "sqlite" else odd_postgres
    pay = step(transactional=True)(odd)

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step(pay)

    async with durable_engines.new(order) as engine:
        await ledger.make()
        with pytest.raises(RunFailed) as caught:
            await (await engine.start(order)).result()

        assert caught.value.cause_code == "STEP_FAILED"
        assert await ledger.names() == []


@pytest.mark.req("K14", "F2")
async def test_transactional_steps_side_by_side_with_others(durable_engines: Engines, ledger: Ledger) -> None:
    pay = ledger.step()

    @workflow
    async def order(ctx: Context) -> list[Any]:
        async def branch(n: int) -> list[Any]:
            return [await ctx.step(str, n), await ctx.step(pay, f"p{n}"), await ctx.step(str, -n)]

        return list(await asyncio.gather(*(branch(n) for n in range(8))))

    async with durable_engines.new(order) as engine:
        await ledger.make()
        run = await engine.start(order)

        assert await run.result() == [[str(n), f"paid p{n}", str(-n)] for n in range(8)]
        assert sorted(await ledger.names()) == [f"p{n}" for n in range(8)]
        events = await all_events(run)
        assert [e.seq for e in events] == list(range(1, len(events) + 1))


@pytest.mark.req("K14", "K3")
async def test_worker_that_lost_its_lease_meanwhile_writes_nothing(postgres: Engines) -> None:
    ledger, held = Ledger(postgres), Held()
    order = held.workflow()
    old = postgres.new(order)
    await old.open()
    await ledger.make()
    run = await old.start(order)
    await until(lambda: held.begun == 1)
    assert old.worker is not None
    await old.store.deregister(old.worker.id)  # found dead while it is in its transaction
    async with postgres.new(order) as engine:
        assert await engine.handle(run.id).result(15) == 2
        held.gate.set()
        await old.close()

    assert await ledger.names() == ["try 2"]


@pytest.mark.req("K14", "R2")
@pytest.mark.parametrize("moment", ["before", "mid", "after", "ambiguous"])
async def test_fault_of_the_store_leaves_exactly_one_write(
    durable_engines: Engines, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    pay = ledger.step(retry=Retry(3, delay=0))

    @workflow
    async def order(ctx: Context) -> str:
        return str(await ctx.step(pay, "ana"))

    async with durable_engines.new(order, settings=SHORT_LEASE) as engine:
        await ledger.make()
        monkeypatch.setattr(failpoints, "hit", failpoints.parse(f"transact.{moment}=raise"))
        monkeypatch.setattr("stepwell.engine.worker.releaser._AGAIN_SECONDS", 0.1)
        run = await engine.start(order)

        assert await run.result(20) == "paid ana"
        assert await ledger.names() == ["ana"]
        assert (await kinds(run)).count("step_completed") == 1


@pytest.mark.req("K14", "K4", "R2")
@pytest.mark.parametrize("moment", ["before", "mid", "after"])
async def test_killed_process_leaves_exactly_one_write(
    durable_engines: Engines, ledger: Ledger, moment: str
) -> None:
    async with durable_engines.new(paying, worker=False) as client:
        await ledger.make()
        run = await client.start(paying, durable_engines.kind)
    command = [
        sys.executable,
        "-m",
        "tests.engine.run.transactional_runs",
        str(durable_engines.database),
        run.id,
    ]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}

    killed = await asyncio.to_thread(
        subprocess.run, command, env={**env, "STEPWELL_FAILPOINTS": f"transact.{moment}=kill"}, cwd=ROOT
    )
    second = await asyncio.to_thread(subprocess.run, command, env=env, cwd=ROOT, capture_output=True)

    assert killed.returncode == -9
    assert second.stdout.strip() == b"1"
    assert await ledger.names() == ["ana"]


@pytest.mark.req("K14")
async def test_step_cannot_end_the_transaction_itself(sqlite: Engines) -> None:
    def sly(connection: Any) -> None:
        connection.execute("COMMIT")

    pay = step(transactional=True)(sly)

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step(pay)

    async with sqlite.new(order) as engine:
        with pytest.raises(RunFailed) as caught:
            await (await engine.start(order)).result()

    assert "transaction" in str(caught.value)
    assert caught.value.hint


@pytest.mark.req("K14")
async def test_on_sqlite_it_is_a_plain_function(sqlite: Engines) -> None:
    async def late(connection: Any) -> None: ...

    pay = step(transactional=True)(late)

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step(pay)

    async with sqlite.new(order) as engine:
        with pytest.raises(RunFailed, match="plain function") as caught:
            await engine.run(order, None)

    assert "`def`" in caught.value.hint


@pytest.mark.req("K14")
async def test_transactional_step_cannot_go_to_a_queue(sqlite: Engines) -> None:
    with pytest.raises(InvalidDefinition, match="transactional"):
        step(transactional=True, queue="gpu")(lambda connection: None)
    pay = step(transactional=True)(lambda connection: None)

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step.on(queue="gpu")(pay)

    async with sqlite.new(order) as engine:
        with pytest.raises(RunFailed, match="transactional"):
            await (await engine.start(order)).result()


@pytest.mark.req("K14", "K3")
async def test_crash_before_the_turn_repeats_the_whole_transaction(postgres: Engines) -> None:
    ledger, held = Ledger(postgres), Held()
    order = held.workflow()
    dying = postgres.new(order)
    await dying.open()
    await ledger.make()
    run = await dying.start(order)
    await until(lambda: held.begun == 1)
    await crash(dying)
    async with postgres.new(order) as engine:
        assert await engine.handle(run.id).result(15) == 2
    assert await ledger.names() == ["try 2"]


def test_refusal_is_a_stepwell_error() -> None:
    assert InvalidRequest("x").code
