"""What workflow code sees beside transactional steps comes in the order of the log, so a replay agrees."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from stepwell import Context, RunHandle, step, workflow
from tests.engines import Engines, all_events, suspended, until

_LOCK = 7301  # of PostgreSQL's advisory locks, as the user's trigger takes it
_TRIGGER = f"""
DROP TABLE IF EXISTS slow_payments;
CREATE TABLE slow_payments (who text NOT NULL);
CREATE OR REPLACE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock({_LOCK}); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON slow_payments
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_for_test();
"""


class SlowPayment:
    """A transactional step that has its turn in the log and keeps it until `let_go` is called."""

    def __init__(self, engines: Engines) -> None:
        self._kind = engines.kind
        self._database = str(engines.database)
        self._go = threading.Event()
        self._holder: asyncpg.Connection | None = None
        self.begun = threading.Event()

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[SlowPayment]:
        if self._kind == "postgres":
            self._holder = await asyncpg.connect(self._database)
            await self._holder.execute(_TRIGGER)
            await self._holder.execute(f"SELECT pg_advisory_lock({_LOCK})")
        try:
            yield self
        finally:
            self._go.set()
            if self._holder is not None:
                await self._holder.close()

    async def has_its_turn(self) -> bool:
        """SQLite: the body runs inside the turn. PostgreSQL: the trigger waits in the commit."""
        if self._kind == "sqlite":
            return self.begun.is_set()
        waiting = await asyncpg.connect(self._database)
        try:
            return bool(
                await waiting.fetchval(
                    "SELECT count(*) FROM pg_locks WHERE objid = $1 AND NOT granted", _LOCK
                )
            )
        finally:
            await waiting.close()

    async def let_go(self) -> None:
        self._go.set()
        if self._holder is not None:
            await self._holder.execute(f"SELECT pg_advisory_unlock({_LOCK})")

    def step(self) -> Any:
        def pay_sqlite(connection: Any) -> str:
            self.begun.set()
            self._go.wait(20)
            return "paid"

        async def pay_postgres(connection: Any) -> str:
            await connection.execute("INSERT INTO slow_payments (who) VALUES ('ana')")
            return "paid"

        body: Any = pay_sqlite if self._kind == "sqlite" else pay_postgres
        return step(transactional=True, name="pay")(body)


async def completed(run: RunHandle[Any], *names: str) -> list[str]:
    """The names of completed steps in the order of the log."""
    paths = [e.path for e in await all_events(run) if e.kind == "step_completed"]
    return [path.split("/")[-1].split("#")[0] for path in paths if any(name in path for name in names)]


@pytest.mark.req("K14", "F2")
async def test_answer_that_comes_while_a_transaction_is_written_waits_behind_it(
    durable_engines: Engines,
) -> None:
    payment = SlowPayment(durable_engines)
    pay, beside_may_end, beside_ended = payment.step(), asyncio.Event(), asyncio.Event()

    async def beside() -> str:
        await beside_may_end.wait()
        asyncio.get_running_loop().call_soon(beside_ended.set)
        return "beside"

    @workflow
    async def order(ctx: Context) -> list[str]:
        seen: list[str] = []

        async def branch(name: str, function: Any) -> None:
            await ctx.step(function)
            seen.append(name)

        await ctx.all(branch("pay", pay), branch("beside", beside))
        live = await ctx.step(str, ",".join(seen))
        await ctx.signal("go")
        return [live, ",".join(seen)]

    async with durable_engines.new(order) as engine, payment.ready():
        run = await engine.start(order)
        await until(payment.has_its_turn)
        beside_may_end.set()
        await beside_ended.wait()
        await asyncio.sleep(0.05)  # its answer is known to the engine now, and must not be told yet
        await payment.let_go()
        await suspended(run)
    async with durable_engines.new(order) as another:
        run = another.handle(run.id)
        await run.signal("go")
        live, replayed = await run.result()

        assert live == "pay,beside"
        assert replayed == live
        assert await completed(run, "pay", "beside") == live.split(",")


@pytest.mark.req("K14", "F2")
async def test_many_branches_with_transactional_steps_replay_in_the_order_they_were_seen(
    durable_engines: Engines,
) -> None:
    chance = random.Random(11)

    def pay_sqlite(connection: Any, n: int) -> int:
        return n

    async def pay_postgres(connection: Any, n: int) -> int:
        await connection.fetchval("SELECT pg_sleep($1::float8)", chance.random() / 100)
        return n

    body: Any = pay_sqlite if durable_engines.kind == "sqlite" else pay_postgres
    pay = step(transactional=True, name="pay")(body)

    async def work(n: int) -> int:
        await asyncio.sleep(chance.random() / 50)
        return n

    @workflow
    async def order(ctx: Context) -> list[str]:
        seen: list[str] = []

        async def branch(n: int) -> None:
            for turn in range(3):
                await ctx.step(pay if (n + turn) % 2 else work, n)
                seen.append(f"{n}.{turn}")

        await ctx.all(*(branch(n) for n in range(10)))
        live = await ctx.step(str, " ".join(seen))
        await ctx.signal("go")
        return [live, " ".join(seen)]

    async with durable_engines.new(order) as engine:
        run = await engine.start(order)
        await suspended(run)
    async with durable_engines.new(order) as another:
        run = another.handle(run.id)
        await run.signal("go")
        live, replayed = await run.result()

        assert len(live.split()) == 30
        assert replayed == live
