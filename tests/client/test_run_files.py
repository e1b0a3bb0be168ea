"""Runs as files: export, delete, import; and what is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell import Context, Engine, RunFailed, RunHandle, Workflow, failpoints, workflow
from stepwell.domain.status import Status
from stepwell.errors import (
    InvalidFile,
    InvalidInput,
    NotForkable,
    NotRemovable,
    RunCancelled,
    RunExists,
    RunNotFound,
)
from stepwell.store.memory import MemoryStore
from stepwell.store.payloads import Compression
from tests.engines import SETTINGS, Engines, suspended


class Shop:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.broken = True

    def workflow(self) -> Workflow[int, int]:
        async def charge(n: int) -> int:
            self.done.append("charge")
            return n

        async def ship(n: int) -> int:
            self.done.append("ship")
            if self.broken:
                raise ValueError("no van")
            return n + 1

        @workflow
        async def order(ctx: Context, n: int) -> int:
            return await ctx.step(ship, await ctx.step(charge, n))

        return order


@workflow
async def asking(ctx: Context, n: int) -> int:
    n = await ctx.step(lambda: n + 1)
    return n + await ctx.signal("more", int)


@workflow
async def above(ctx: Context, n: int) -> int:
    return await ctx.run(asking, n)


async def rows(run: RunHandle[Any]) -> list[Any]:
    return [row async for row in run.log()]


@pytest.mark.req("K29")
async def test_export_delete_import_gives_the_same_log_and_goes_on(engines: Engines) -> None:
    shop = Shop()
    order = shop.workflow()

    async with engines.new(order) as engine:
        run = await engine.start(order, 1, key="order-1")
        with pytest.raises(RunFailed):
            await run.result()
        before, info = await rows(run), await run.info()
        file = await engine.export(run)
        await run.delete()
        with pytest.raises(RunNotFound):
            await run.info()
        again = await engine.import_run(file)

        assert again.id == run.id
        assert await rows(again) == before
        assert await again.info() == replace(info, trigger="import", number=2)
        shop.broken = False
        await again.retry()
        assert await again.result() == 2
        assert shop.done == ["charge", "ship", "ship"]
        assert (await engine.start(order, 1, key="order-1")).id == run.id


@pytest.mark.req("R2", "K29")
@pytest.mark.parametrize("moment", ["before", "ambiguous"])
async def test_what_a_call_of_ours_did_whose_answer_was_lost_is_done(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    shop = Shop()
    order = shop.workflow()

    async with engines.new(order) as engine:
        run = await engine.start(order, 1)
        with pytest.raises(RunFailed):
            await run.result()
        file = await engine.export(run)
        lost = ",".join(f"{verb}.{moment}=raise" for verb in ("remove", "restore", "retry"))
        monkeypatch.setattr(failpoints, "hit", failpoints.parse(lost))

        await run.delete()
        with pytest.raises(RunNotFound):
            await run.delete()
        again = await engine.import_run(file)
        with pytest.raises(RunExists):
            await engine.import_run(file)
        shop.broken = False
        await again.retry()

        assert await again.result() == 2
        assert [row.kind for row in await rows(again)].count("retried") == 1


@pytest.mark.req("K29", "K30")
async def test_an_unfinished_run_goes_on_in_another_database(engines: Engines) -> None:
    async with engines.new(asking) as engine:
        run = await engine.start(asking, 1)
        await suspended(run)
    async with engines.client() as client:
        run = client.handle(run.id)
        await run.signal("more", 40)  # in the inbox, as nobody works
        file = await client.export(run)
        before = await rows(run)

        async with Engine(MemoryStore(time.time), workflows=[asking], settings=SETTINGS) as elsewhere:
            moved = await elsewhere.import_run(file)

            assert await moved.result(15) == 42
            assert (await rows(moved))[: len(before)] == before
        assert await rows(run) == before


@pytest.mark.req("K29", "K18")
async def test_a_tree_is_one_file_and_goes_on_as_one(engines: Engines) -> None:
    async with engines.new(above, asking) as engine:
        run = await engine.start(above, 1)
        await suspended(run)
        [wait] = await run.waits()
        await suspended(engine.handle(wait.key))
        file = await engine.export(run)

        elsewhere = Engine(MemoryStore(time.time), workflows=[above, asking], settings=SETTINGS)
        async with elsewhere:
            moved = await elsewhere.import_run(file)
            await elsewhere.handle(wait.key).signal("more", 40)
            assert await moved.result(15) == 42


@pytest.mark.req("K29")
async def test_the_file_is_json_that_a_person_can_read(memory_engines: Engines) -> None:
    async with memory_engines.new(asking) as engine:
        run = await engine.start(asking, 1)
        await suspended(run)

        found = json.loads(await engine.export(run))

    assert (found["format"], found["version"]) == ("stepwell-run", 1)
    [entry] = found["runs"]
    assert entry["workflow"] == "asking"
    assert entry["log"][0]["payload"]["input"] == 1
    assert entry["tickets"][0]["due_at"] is None


@pytest.mark.req("K29", "K32")
async def test_a_file_holds_plain_values_whatever_the_databases_codec(durable_engines: Engines) -> None:
    async with durable_engines.new(asking, codec=Compression()) as engine:
        run = await engine.start(asking, 1)
        await suspended(run)
        file = await engine.export(run)
        assert b'"input":1' in file

    elsewhere = Engine(MemoryStore(time.time), workflows=[asking], settings=SETTINGS, codec=Compression())
    async with elsewhere:
        moved = await elsewhere.import_run(file)
        await moved.signal("more", 3)
        assert await moved.result(15) == 5


@pytest.mark.req("K29")
async def test_a_run_that_exists_is_not_imported(engines: Engines) -> None:
    shop = Shop()
    order = shop.workflow()

    async with engines.new(order) as engine:
        run = await engine.start(order, 1, key="mine")
        with pytest.raises(RunFailed):
            await run.result()
        file = await engine.export(run)

        with pytest.raises(RunExists, match=run.id):
            await engine.import_run(file)
        renamed = file.replace(run.id.encode(), b"0" * 32)
        with pytest.raises(RunExists, match="'mine'"):
            await engine.import_run(renamed)

        assert [row.id for row in await engine.runs()] == [run.id]


def broken_files(file: bytes) -> list[tuple[bytes, str]]:
    good = json.loads(file)

    def changed(**values: Any) -> bytes:
        return json.dumps({**good, "runs": [{**good["runs"][0], **values}]}).encode()

    log, [ticket] = good["runs"][0]["log"], good["runs"][0]["tickets"]
    message = {"key": "k", "n": 1, "name": "", "at": 1.0}
    return [
        (b"", "not an exported run"),
        (b"\xff\x00", "not an exported run"),
        (b"[1]", "not an exported run"),
        (b'{"format":"other"}', "'other'"),
        (json.dumps({**good, "version": 99}).encode(), "version 99"),
        (json.dumps({**good, "version": 0}).encode(), "the version of its format"),
        (json.dumps({**good, "runs": []}).encode(), "no run"),
        (json.dumps({**good, "runs": good["runs"] * 2}).encode(), "twice"),
        # What is kept beside the log must say the same
        (changed(workflow="other"), "'other', but 'asking' in its log"),
        (changed(version="7"), "its version is '7'"),
        (changed(kind="machine"), "its kind is 'machine'"),
        (changed(log=[log[0], {**log[0], "seq": 2}, *log[2:]]), "begins twice"),
        (changed(status="completed", tickets=[]), "it is completed, but its log ends with suspended"),
        (changed(log=log[1:]), "not numbered"),
        (changed(log=[]), "begin"),
        (changed(log=[{**log[0], "kind": "claimed"}, *log[1:]]), "cannot be read"),
        (changed(log=[*log[:-1], {**log[-1], "kind": "invented"}]), "invented"),
        (changed(status="completed"), "tickets"),
        (changed(status="asleep"), "not an exported run"),
        (changed(tickets=[]), "tickets"),
        (changed(tickets=[{**ticket, "head": 1}]), "ends at 1"),
        (changed(tickets=[{**ticket, "wakes": -1}]), "not numbered up to -1"),
        (changed(inbox=[{**message, "n": 9, "kind": "x", "payload": 5}]), "not numbered up to"),
        (changed(log=[*log[:-1], {**log[-1], "at": 1e18}]), "impossible time"),
        # What every worker reads before it knows whose it is
        (changed(tickets=[{**ticket, "base": 99}]), "from event 99"),
        (changed(tickets=[ticket, ticket]), "tickets"),
        (changed(tickets=[{**ticket, "priority": 10**12}]), "out of bounds"),
        (changed(lane="[1, 2]"), "limits or messages"),
        (changed(lane="nonsense"), "limits or messages"),
        (changed(queue="a\x00b"), "NUL"),
        (changed(inbox=[{**message, "kind": "cancel", "payload": 5}]), "limits or messages"),
        (changed(inbox=[{**message, "kind": "decide", "payload": {}}]), "limits or messages"),
        (changed(id=""), "without id"),
        (changed(input=None, key=7), "not an exported run"),
    ]


@pytest.mark.req("K29", "X9")
async def test_a_file_that_is_wrong_is_refused_and_nothing_is_written(engines: Engines) -> None:
    async with engines.new(asking) as engine:
        run = await engine.start(asking, 1)
        await suspended(run)
        files = broken_files(await engine.export(run))
        await run.cancel()
        with pytest.raises(Exception, match="cancelled"):
            await run.result()
        await run.delete()

        for file, words in files:
            with pytest.raises(InvalidFile, match=words):
                await engine.import_run(file)

        assert list(await engine.runs()) == []


@pytest.mark.req("K29")
async def test_only_what_has_ended_can_be_deleted(engines: Engines) -> None:
    async with engines.new(above, asking) as engine:
        run = await engine.start(above, 1)
        await suspended(run)
        [wait] = await run.waits()
        child = engine.handle(wait.key)
        await suspended(child)

        with pytest.raises(NotRemovable, match=f"run {run.id} cannot be deleted: it is suspended"):
            await run.delete()
        with pytest.raises(NotRemovable, match=run.id):
            await child.delete()
        await child.signal("more", 1)
        await run.result()
        await run.delete()

        assert list(await engine.runs()) == []
        with pytest.raises(RunNotFound):
            await child.delete()
        with pytest.raises(RunNotFound):
            await engine.export(run)


@pytest.mark.req("K29")
async def test_the_run_that_still_lives_below_is_named(engines: Engines) -> None:
    fails = True

    @workflow
    async def deepest(ctx: Context, n: int) -> None:
        if fails:
            raise ValueError("no van")
        await ctx.signal("van")

    @workflow
    async def deep(ctx: Context, n: int) -> None:
        await ctx.run(deepest, n)

    @workflow
    async def top(ctx: Context, n: int) -> None:
        await ctx.run(deep, n)

    async with engines.new(top, deep, deepest) as engine:
        run = await engine.start(top, 1)
        with pytest.raises(RunFailed):
            await run.result()
        [row] = await engine.runs(workflow="deepest")
        fails = False
        child = engine.handle(row.id)
        await child.retry()
        await suspended(child)

        with pytest.raises(NotRemovable, match=rf"run {child.id} \(deepest\) below it is suspended") as told:
            await run.delete()

        assert child.id in told.value.hint
        await child.cancel()
        with pytest.raises(RunCancelled):
            await child.result()
        await run.delete()
        assert list(await engine.runs()) == []


@pytest.mark.req("K29", "K7")
async def test_status_of_what_was_brought_back_is_what_it_was(engines: Engines) -> None:
    async with engines.new(asking) as engine:
        run = await engine.start(asking, 1)
        await suspended(run)
        await run.signal("more", 1)
        await run.result()
        file = await engine.export(run)
        await run.delete()

        again = await engine.import_run(file.decode())

        assert await again.status() is Status.COMPLETED
        assert await again.result() == 3


@pytest.mark.req("K29")
async def test_a_run_that_is_brought_back_here_has_not_ended_any_more(memory_engines: Engines) -> None:
    @workflow
    async def asks(ctx: Context) -> Any:
        return await ctx.signal("go")

    async with memory_engines.new(asks) as engine:
        run = await engine.start(asks)
        await suspended(run)
        file = await engine.export(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        await run.delete()

        again = await engine.import_run(file)
        await again.signal("go", "on")

        assert await again.result() == await run.result() == "on"


@pytest.mark.req("K29", "K26", "K24")
async def test_what_is_no_file_and_no_place_is_told(memory_engines: Engines) -> None:
    @workflow
    async def short(ctx: Context) -> None: ...

    async with memory_engines.new(short) as engine:
        run = await engine.start(short)
        await run.result()

        with pytest.raises(InvalidFile, match="a NoneType is not an exported run"):
            await engine.import_run(None)  # type: ignore[arg-type]  # the test
        with pytest.raises(NotForkable):
            await engine.fork(run, at="1")  # type: ignore[call-overload]  # the test
        with pytest.raises(InvalidInput):
            await run.state(at="1")  # type: ignore[arg-type]  # the test
