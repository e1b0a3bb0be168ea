"""A row of a log that cannot be read: the run is set aside with a reason, and readers hear where it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from stepwell import Context, RunHandle, step, workflow
from stepwell.cli import main
from stepwell.domain.status import Status
from stepwell.errors import LogDamaged, RunFailed
from stepwell.store.memory import MemoryStore
from stepwell.store.payloads import Encryption, PayloadCodec
from tests.engines import Engines, kinds, suspended, ticket, until

SEQ = 3  # the step's result
KEY = Encryption({"a": b"a" * 32}, current="a")


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def asking(ctx: Context, n: int) -> int:
    doubled = await ctx.step(double, n)
    return doubled + await ctx.signal("more", int)


@workflow
async def above(ctx: Context, n: int) -> int:
    return await ctx.run(asking, n)


async def row_of(engines: Engines, run: str, seq: int, payload: bytes | None = None) -> bytes:
    """What the log has there; with `payload`, that is written in its place first."""
    if isinstance(engines.database, MemoryStore):
        log = engines.database._runs[run].log  # type: ignore[index]  # a RunId
        before = log[seq - 1].payload
        if payload is not None:
            log[seq - 1] = log[seq - 1]._replace(payload=payload)
        return before
    if engines.kind == "sqlite":
        connection = apsw.Connection(str(engines.database))
        before = connection.execute("SELECT payload FROM events WHERE run_id = ? AND seq = ?", (run, seq)).get
        if payload is not None:
            changed = "UPDATE events SET payload = ? WHERE run_id = ? AND seq = ?"
            connection.execute(changed, (payload, run, seq))
        connection.close()
        return bytes(before)
    server = await asyncpg.connect(str(engines.database))
    where = "WHERE run_id = $1 AND seq = $2"
    found = await server.fetchval(f"SELECT payload FROM stepwell.events {where}", run, seq)
    if payload is not None:
        await server.execute(f"UPDATE stepwell.events SET payload = $3 {where}", run, seq, payload)
    await server.close()
    return bytes(found)


async def left(engines: Engines, codec: PayloadCodec | None, program: Any = asking) -> str:
    async with engines.new(asking, above, codec=codec) as engine:
        run = await engine.start(program, 4)
        await suspended(run)
        if program is above:
            [child] = [found for found in await engine.runs(workflow="asking") if found.parent]
            await suspended(engine.handle(child.id))
        return run.id


async def failure(run: RunHandle[Any]) -> RunFailed:
    with pytest.raises(RunFailed) as failed:
        await run.result(40)
    return failed.value


@pytest.mark.req("K4")
@pytest.mark.parametrize("codec", [None, KEY], ids=["plain", "encrypted"])
async def test_a_run_with_an_unreadable_row_is_set_aside_and_goes_on_when_it_is_mended(
    engines: Engines, codec: PayloadCodec | None
) -> None:
    run_id = await left(engines, codec)
    right = await row_of(engines, run_id, SEQ)
    await row_of(engines, run_id, SEQ, right[:-3])

    async with engines.new(asking, codec=codec) as engine:
        run = engine.handle(run_id, asking)
        await run.signal("more", 30)
        failed = await failure(run)
        assert failed.cause_code == "LOG_DAMAGED"
        assert f"event {SEQ} (step_completed) of run {run_id} cannot be read" in failed.message
        assert (await run.info()).status is Status.FAILED
        assert await ticket(run) is None  # nobody takes it up again

        other = await engine.start(asking, 1)  # and the others go on
        await other.signal("more", 1)
        assert await other.result(40) == 3

    await row_of(engines, run_id, SEQ, right)
    async with engines.new(asking, codec=codec) as engine:
        run = engine.handle(run_id, asking)
        await run.retry()
        assert await run.result(40) == 38  # with the signal that came meanwhile


@pytest.mark.req("K4")
@pytest.mark.parametrize("codec", [None, KEY], ids=["plain", "encrypted"])
async def test_readers_are_told_where_the_damage_is(engines: Engines, codec: PayloadCodec | None) -> None:
    run_id = await left(engines, codec)
    await row_of(engines, run_id, SEQ, (await row_of(engines, run_id, SEQ))[:-3])

    async with engines.new(worker=False, codec=codec) as client:
        run = client.handle(run_id)
        readers = [run.state(), run.checkpoints(), run.waits(), kinds(run), run.documents()]
        for reader in readers:
            with pytest.raises(LogDamaged) as told:
                await reader
            assert (told.value.run, told.value.seq) == (run_id, SEQ)
            assert told.value.context == {"run": run_id, "seq": SEQ}
        why = await run.why()
        assert why.code == "damaged"
        assert f"event {SEQ} " in why.text


@pytest.mark.req("K4")
async def test_a_first_row_that_cannot_be_read_and_a_parent(engines: Engines) -> None:
    first = await left(engines, None)
    parent = await left(engines, None, above)
    async with engines.client() as client:
        [child] = [r.id for r in await client.runs(workflow="asking") if r.parent]
    await row_of(engines, first, 1, b"{}")
    await row_of(engines, child, SEQ, b"{")

    async with engines.new(asking, above) as engine:
        for run_id in (first, child):
            await engine.handle(run_id).signal("more", 1)
            assert (await failure(engine.handle(run_id))).cause_code == "LOG_DAMAGED"
        assert "cannot be read" in (await failure(engine.handle(parent))).message


@pytest.mark.req("K4", "K42")
async def test_a_key_that_one_worker_lacks_is_no_damage(memory_engines: Engines) -> None:
    """A worker from before a rotation gives such a run back, and one that has the key goes on with it."""
    async with memory_engines.new(asking, codec=KEY) as old:
        rotated = Encryption({"a": b"a" * 32, "b": b"b" * 32}, current="b")
        async with memory_engines.new(worker=False, codec=rotated) as client:
            run = await client.start(asking, 1)
            await until(lambda: _was_owned(run))
            await asyncio.sleep(0.05)
            assert (await run.info()).status is not Status.FAILED
        assert old.worker is not None
    async with memory_engines.new(asking, codec=rotated) as engine:
        await engine.handle(run.id).signal("more", 1)
        assert await engine.handle(run.id).result(40) == 3


async def _was_owned(run: RunHandle[Any]) -> bool:
    found = await ticket(run)
    return found is not None and found.started and not found.lease


@pytest.mark.req("F8", "K4")
def test_check_names_a_damaged_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "damaged_flows.py"
    text = Path(__file__).read_text()
    flows = text[text.index("@step") : text.index("@workflow\nasync def above")]
    source.write_text(f"from stepwell import Context, step, workflow\n{flows}")
    engines = Engines("sqlite", str(tmp_path / "app.db"))
    run_id = asyncio.run(left(engines, None))
    asyncio.run(row_of(engines, run_id, SEQ, b"{"))

    assert main(["check", str(source), "--against", str(engines.database)]) == 1
    assert f"{run_id} asking@1: event {SEQ}" in capsys.readouterr().out
