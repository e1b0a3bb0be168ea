"""Starting needs no workflow code; keys, schemas, priorities and delays are honoured at once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

import pytest

from stepwell import Context, workflow
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput, KeyConflict
from tests.engines import SETTINGS, Engines, kinds, reaches, until


@dataclass
class Order:
    id: int
    items: list[str]


@workflow
async def fulfil(ctx: Context, order: Order) -> str:
    return f"{order.id}: {', '.join(order.items)}"


@pytest.mark.req("K8")
async def test_run_is_started_by_name_without_its_code(engines: Engines) -> None:
    async with engines.new(fulfil), engines.client() as client:
        run = await client.start("fulfil", {"id": 1, "items": ["tea"]})
        assert await run.result(15) == "1: tea"


@pytest.mark.req("K8")
@pytest.mark.parametrize(
    ("bad", "field"),
    [({"id": "one", "items": []}, "id"), ({"id": 1, "items": [2]}, "items"), ({"id": 1}, ""), (None, "")],
)
async def test_input_is_checked_at_once_against_the_stored_schema(
    engines: Engines, bad: object, field: str
) -> None:
    async with engines.new(fulfil), engines.client() as client:
        with pytest.raises(InvalidInput) as caught:
            await client.start("fulfil", bad)

        assert caught.value.code == "INVALID_INPUT"
        assert field in str(caught.value)
        assert caught.value.hint
        assert list(await client.runs()) == []


@pytest.mark.req("K8")
async def test_started_run_waits_on_disk_for_a_worker(durable_engines: Engines) -> None:
    async with durable_engines.new(fulfil):
        pass
    async with durable_engines.client() as client:
        run = await client.start("fulfil", {"id": 7, "items": ["x"]})
        assert await run.status() is Status.PENDING
    async with durable_engines.new(fulfil) as engine:
        assert await engine.handle(run.id).result(15) == "7: x"


@pytest.mark.req("K6", "K21")
async def test_same_key_and_input_is_the_same_run(engines: Engines) -> None:
    async with engines.new(fulfil) as engine:
        order = Order(1, ["tea"])
        first = await engine.start(fulfil, order, key="order-1")
        again = await engine.start(fulfil, order, key="order-1")
        await first.result()
        later = await engine.start(fulfil, order, key="order-1")

        assert first.id == again.id == later.id
        assert await later.result() == "1: tea"
        assert (await kinds(first)).count("accepted") == 1
        found = await engine.find("order-1")
        assert found is not None
        assert found.id == first.id


@pytest.mark.req("K21")
async def test_same_key_with_other_input_is_a_conflict_and_changes_nothing(engines: Engines) -> None:
    async with engines.new(fulfil) as engine:
        first = await engine.start(fulfil, Order(1, ["tea"]), key="order-1")

        with pytest.raises(KeyConflict) as caught:
            await engine.start(fulfil, Order(1, ["coffee"]), key="order-1")

        assert caught.value.context["run"] == first.id
        assert await first.result() == "1: tea"
        assert len(await engine.runs()) == 1


@pytest.mark.req("K21")
async def test_same_key_of_another_workflow_is_a_conflict(engines: Engines) -> None:
    @workflow
    async def other(ctx: Context, order: Order) -> int:
        return order.id

    async with engines.new(fulfil, other) as engine:
        await engine.start(fulfil, Order(1, []), key="k")

        with pytest.raises(KeyConflict):
            await engine.start(other, Order(1, []), key="k")


@pytest.mark.req("K6", "K21")
async def test_many_starters_with_one_key_get_one_run(engines: Engines) -> None:
    async with engines.new(fulfil) as one, engines.client() as two:
        handles = await asyncio.gather(
            *(
                engine.start("fulfil", {"id": 5, "items": []}, key="once")
                for engine in (one, two)
                for _ in range(10)
            )
        )

        assert len({handle.id for handle in handles}) == 1
        assert len(await one.runs()) == 1


@pytest.mark.req("K21")
async def test_delayed_run_does_not_begin_early(engines: Engines) -> None:
    async with engines.new(fulfil) as engine:
        began = time.monotonic()
        run = await engine.start(fulfil, Order(1, []), delay=0.3)
        assert await run.status() is Status.PENDING
        await run.result()

        assert 0.29 <= time.monotonic() - began < 5


@pytest.mark.req("K21")
async def test_message_does_not_bring_a_delayed_start_forward(engines: Engines) -> None:
    @workflow
    async def listens(ctx: Context) -> str:
        return str(await ctx.signal("hello"))

    async with engines.new(listens) as engine:
        began = time.monotonic()
        run = await engine.start(listens, delay=0.4)
        await run.signal("hello", "you")
        assert await run.result() == "you"

        assert time.monotonic() - began >= 0.39


@pytest.mark.req("K21")
async def test_higher_priority_goes_first(engines: Engines) -> None:
    order: list[int] = []

    @workflow
    async def ranked(ctx: Context, rank: int) -> None:
        await ctx.step(order.append, rank)

    async with engines.new(ranked, worker=False) as client:
        for rank in (0, 5, 1, 9):
            await client.start(ranked, rank, priority=rank)
    async with engines.new(ranked, settings=replace(SETTINGS, slots=1)):
        await until(lambda: len(order) == 4)

    assert order == [9, 5, 1, 0]


@pytest.mark.req("K8", "K22")
async def test_unknown_version_stays_queued_and_runs_when_a_worker_has_it(engines: Engines) -> None:
    @workflow(name="greet", version="1")
    async def old(ctx: Context, name: str) -> str:
        return f"hello {name}"

    @workflow(name="greet", version="2")
    async def new(ctx: Context, name: str) -> str:
        return f"hi {name}"

    async with engines.new(old) as engine:
        early = await engine.start(new, "ana")  # only the client has version 2
        done = await engine.start(old, "ana")
        assert await done.result() == "hello ana"
        assert await early.status() is Status.PENDING
        assert (await early.why()).code == "no_worker"
    async with engines.new(new) as engine:
        assert await engine.handle(early.id).result(15) == "hi ana"


@pytest.mark.req("K22")
async def test_versions_run_side_by_side_and_a_run_keeps_its_own(engines: Engines) -> None:
    @workflow(name="greet", version="1")
    async def old(ctx: Context, name: str) -> str:
        return f"{await ctx.signal('go')} old {name}"

    @workflow(name="greet", version="2")
    async def new(ctx: Context, name: str) -> str:
        return f"{await ctx.signal('go')} new {name}"

    async with engines.new(old) as engine:
        first = await engine.start("greet", "a")
        await reaches(first, Status.SUSPENDED)
    async with engines.new(old, new) as engine:
        second = await engine.start("greet", "b")  # the newest that is known
        third = await engine.start("greet", "c", version="1")
        for run in (first, second, third):
            await engine.handle(run.id).signal("go", "on")
        assert await engine.handle(first.id).result(15) == "on old a"
        assert await second.result() == "on new b"
        assert await third.result() == "on old c"


@pytest.mark.req("K8")
async def test_worker_takes_only_from_its_queues(engines: Engines) -> None:
    @workflow(queue="slow")
    async def heavy(ctx: Context) -> str:
        return "heavy"

    async with engines.new(heavy) as engine:
        run = await engine.start(heavy)
        light = await engine.start(heavy, queue="default")
        assert await light.result() == "heavy"
        assert await run.status() is Status.PENDING
    async with engines.new(heavy, queues=["slow"]) as engine:
        assert await engine.handle(run.id).result(15) == "heavy"


@pytest.mark.req("K21")
async def test_start_many_tells_a_conflict_after_the_others_beside_it_were_started(engines: Engines) -> None:
    @workflow
    async def double(ctx: Context, number: int) -> int:
        return 2 * number

    keys = [f"k{n}" for n in range(1100)]
    async with engines.new(double, worker=False) as engine:
        await engine.start(double, 9999, key="k300")
        with pytest.raises(KeyConflict, match="k300"):
            await engine.start_many(double, range(1100), keys=keys)

        missing = [key for key in keys[:500] if await engine.store.find_run("default", key) is None]
        assert missing == []


@pytest.mark.req("K8", "K2")
async def test_start_many_starts_all_of_them(engines: Engines) -> None:
    @workflow
    async def double(ctx: Context, n: int) -> int:
        return 2 * n

    async with engines.new(double) as engine:
        runs = await engine.start_many(double, range(1200), keys=[f"k{n}" for n in range(1200)])

        assert [await run.result() for run in runs] == [2 * n for n in range(1200)]


@pytest.mark.req("K8")
async def test_a_run_is_shown_as_started_when_it_was(engines: Engines) -> None:
    async def charge() -> None:
        await asyncio.sleep(0.05)

    @workflow
    async def pays(ctx: Context) -> None:
        await ctx.step(charge)
        await ctx.step(charge)

    async with engines.new(pays) as engine:
        run = await engine.start(pays)
        await run.result()
        [first, *_] = [event async for event in run.events() if event.kind == "step_completed"]
        row = await run.info()

    assert row.started_at is not None
    assert row.created_at <= row.started_at <= first.at.timestamp()
