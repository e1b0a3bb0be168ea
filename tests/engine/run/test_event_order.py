"""A run takes every broadcast event of a name and key since its start, each once, in the order of all."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from stepwell import Context, Engine, Machine, RunHandle, transition, workflow
from stepwell.domain import events as ev
from stepwell.domain.commit import LogRow
from stepwell.errors import WaitTimedOut
from stepwell.store.memory import MemoryStore
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, all_events, crash, suspended, until


@workflow
async def collects(ctx: Context, count: int) -> list[Any]:
    return [await ctx.event("tick", key="k") for _ in range(count)]


async def received(run: RunHandle[Any]) -> list[Any]:
    """What it took, as its log has it."""
    return [event.data["payload"] for event in await all_events(run) if event.kind == "received"]


async def until_taken(run: RunHandle[Any], count: int) -> None:
    async def there() -> bool:
        return len(await received(run)) >= count

    await until(there)


@pytest.mark.req("K35", "K17")
async def test_loop_takes_every_event_of_a_burst_in_order(engines: Engines) -> None:
    async with engines.new(collects) as engine:
        run = await engine.start(collects, 12)
        await suspended(run)
        for n in range(12):
            assert await engine.emit("tick", n, key="k")

        assert await run.result(30) == list(range(12))
        assert await received(run) == list(range(12))


@pytest.mark.req("K35")
async def test_events_that_were_emitted_before_any_wait_count_from_the_runs_start(engines: Engines) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def ask() -> None:
        begun.set()
        await gate.wait()

    @workflow
    async def late(ctx: Context) -> list[Any]:
        await ctx.step(ask)
        await ctx.step(str, 1)
        return [await ctx.event("tick", key="k") for _ in range(3)]

    async with engines.new(late) as engine:
        await engine.emit("tick", "before it", key="k")
        run = await engine.start(late)
        await begun.wait()
        for n in range(3):
            await engine.emit("tick", n, key="k")
        gate.set()

        assert await run.result(30) == [0, 1, 2]


@pytest.mark.req("K35")
async def test_events_of_one_name_have_one_order_for_all_runs(engines: Engines) -> None:
    """From several processes at once, under several keys: whoever waits for any key sees the same."""

    @workflow
    async def any_key(ctx: Context) -> list[Any]:
        return [await ctx.event("tick") for _ in range(24)]

    async with engines.new(any_key, collects) as engine, engines.client() as other, engines.client() as third:
        wide = [await engine.start(any_key) for _ in range(2)]
        narrow = await engine.start(collects, 12)
        for run in (*wide, narrow):
            await suspended(run)

        async def emit(source: Engine, name: str) -> None:
            for n in range(8):
                await source.emit("tick", [name, n], key="k" if n % 2 else name)

        await asyncio.gather(emit(engine, "a"), emit(other, "b"), emit(third, "c"))
        first, second = [await run.result(60) for run in wide]
        keyed = await narrow.result(30)

    assert first == second
    for name in "abc":
        assert [n for source, n in first if source == name] == list(range(8))
    assert keyed == [[source, n] for source, n in first if n % 2]


@pytest.mark.req("K35")
async def test_two_awaited_events_never_arrive_swapped(postgres: Engines) -> None:
    async with postgres.new(_pair) as engine:
        runs = []
        for number in range(40):
            run = await engine.start(_pair, f"k{number}")
            runs.append(run)
            await suspended(run)
            await engine.emit("tick", 0, key=f"k{number}")
            await engine.emit("tick", 1, key=f"k{number}")

        assert [await run.result(30) for run in runs] == [[0, 1]] * 40


@workflow
async def _pair(ctx: Context, key: str) -> list[Any]:
    return [await ctx.event("tick", key=key) for _ in range(2)]


@pytest.mark.req("K35", "K4")
async def test_loop_goes_on_behind_its_last_event_after_a_crash(engines: Engines) -> None:
    dying = engines.new(collects)
    await dying.open()
    run = await dying.start(collects, 6)
    await suspended(run)
    for n in range(2):
        await dying.emit("tick", n, key="k")
    await until_taken(run, 2)
    await crash(dying)
    async with engines.client() as client:
        for n in range(2, 6):
            await client.emit("tick", n, key="k")
    async with engines.new(collects) as engine:
        assert await engine.handle(run.id).result(30) == list(range(6))


@pytest.mark.req("K35", "F3")
async def test_loop_over_events_replays(replayed_engines: Engines) -> None:
    async with replayed_engines.new(collects) as engine:
        run = await engine.start(collects, 5)
        for n in range(5):
            await engine.emit("tick", n, key="k")

        assert await run.result(30) == list(range(5))


@pytest.mark.req("K35", "F10")
async def test_cursor_goes_along_into_the_next_generation(engines: Engines) -> None:
    @workflow
    async def generations(ctx: Context, got: list[Any]) -> list[Any]:
        got = [*got, await ctx.event("tick", key="k")]
        if len(got) < 7:
            ctx.continue_as_new(got)
        return got

    async with engines.new(generations) as engine:
        run = await engine.start(generations, [])
        for n in range(7):
            await engine.emit("tick", n, key="k")

        assert await run.result(30) == list(range(7))


@pytest.mark.req("K35", "F10")
async def test_event_for_a_wait_that_the_run_left_behind_is_taken_by_the_next_generation(
    engines: Engines,
) -> None:
    @workflow
    async def leaves(ctx: Context, generation: int) -> Any:
        waiting = asyncio.ensure_future(ctx.event("tick", key="k"))
        if generation:
            return await waiting
        await ctx.signal("go")
        ctx.continue_as_new(1)

    async with engines.new(leaves) as engine:
        run = await engine.start(leaves, 0)
        await suspended(run)
    async with engines.client() as client:
        await client.handle(run.id).signal("go")
        await client.emit("tick", 5, key="k")
    async with engines.new(leaves) as engine:
        assert await engine.handle(run.id).result(30) == 5


@pytest.mark.req("K35")
async def test_tasks_that_wait_for_the_same_share_the_events(engines: Engines) -> None:
    @workflow
    async def shared(ctx: Context) -> list[list[Any]]:
        async def take(count: int) -> list[Any]:
            return [await ctx.event("tick", key="k") for _ in range(count)]

        return list(await asyncio.gather(take(3), take(4), take(3)))

    async with engines.new(shared) as engine:
        run = await engine.start(shared)
        await suspended(run)
        for n in range(10):
            await engine.emit("tick", n, key="k")

        parts = await run.result(30)
        assert sorted(n for part in parts for n in part) == list(range(10))
        assert all(part == sorted(part) for part in parts)
        assert await received(run) == list(range(10))


@pytest.mark.req("K35")
async def test_event_counts_once_for_waits_with_and_without_its_key(engines: Engines) -> None:
    @workflow
    async def mixed(ctx: Context) -> list[list[Any]]:
        async def take(key: str, count: int) -> list[Any]:
            return [await ctx.event("tick", key=key) for _ in range(count)]

        both = await asyncio.gather(take("", 4), take("k", 2))
        return [*both, await take("", 3)]

    async with engines.new(mixed) as engine:
        run = await engine.start(mixed)
        for n in range(9):
            await engine.emit("tick", n, key="k" if n % 2 else "j")

        parts = await run.result(30)
        assert sorted(n for part in parts for n in part) == list(range(9))
        assert all(before < after for part in parts for before, after in pairwise(part))
        assert all(n % 2 for n in parts[1])


@pytest.mark.req("K35")
async def test_wait_that_timed_out_leaves_the_next_event_to_the_next_wait(engines: Engines) -> None:
    @workflow
    async def patient(ctx: Context) -> list[Any]:
        got: list[Any] = []
        while len(got) < 2:
            try:
                got.append(await ctx.event("tick", key="k", timeout=0.05))
            except WaitTimedOut:
                await ctx.signal("again")
        return got

    async with engines.new(patient) as engine:
        run = await engine.start(patient)
        await until(lambda: _timed_out(run))
        await suspended(run)
        await engine.emit("tick", 0, key="k")
        await engine.emit("tick", 1, key="k")
        for _ in range(3):  # more than it needs: what is left over is of no matter
            await run.signal("again")

        assert await run.result(30) == [0, 1]


async def _timed_out(run: RunHandle[Any]) -> bool:
    return any(event.data.get("outcome") == "timed_out" for event in await all_events(run))


@pytest.mark.req("K35", "K17")
async def test_event_that_came_in_time_wins_although_nobody_worked_then(durable_engines: Engines) -> None:
    @workflow
    async def limited(ctx: Context) -> Any:
        return await ctx.event("tick", key="k", timeout=1.0)

    async with durable_engines.new(limited) as engine:
        run = await engine.start(limited)
        await suspended(run)
        late = asyncio.get_running_loop().time() + 1.2
    async with durable_engines.client() as client:
        await client.emit("tick", "in time", key="k")
        await until(lambda: asyncio.get_running_loop().time() > late)
    async with durable_engines.new(limited) as engine:
        assert await engine.handle(run.id).result(30) == "in time"


class Counter(Machine[dict[str, Any]]):
    """Takes one event in each round; an attempt that fails behind an event has it already."""

    ends = frozenset({"done"})

    @transition("start", "counting")
    async def open(self, ctx: Context, rounds: int) -> None:
        self.state.update(rounds=rounds, got=[])

    @transition("counting", "done", when=lambda state: len(state["got"]) >= state["rounds"])
    async def stop(self, ctx: Context) -> None:
        pass

    @transition("counting", "counting")
    async def count(self, ctx: Context) -> None:
        self.state["got"].append(await ctx.event("tick", key="k"))


@pytest.mark.req("K35")
async def test_machine_takes_an_event_in_each_round(engines: Engines) -> None:
    async with engines.new(Counter) as engine:
        run = await engine.start(Counter, 6)
        await suspended(run)
        for n in range(3):
            await engine.emit("tick", n, key="k")
        await until_taken(run, 3)
    async with engines.client() as client:
        for n in range(3, 6):
            await client.emit("tick", n, key="k")
    async with engines.new(Counter) as engine:
        assert (await engine.handle(run.id).result(30))["got"] == list(range(6))


@pytest.mark.req("K35", "N11")
async def test_wait_nodes_of_a_graph_take_one_event_after_the_other(engines: Engines) -> None:
    waits = [a(f"W{n}", "wait", event="tick", key="k", outputVariable=f"w{n}") for n in range(4)]
    output = {f"w{n}": f"{{{{ctx.w{n}}}}}" for n in range(4)}
    body = chart([START, *waits, a("Z", "end", output=output)], "S>W0 W0>W1 W1>W2 W2>W3 W3>Z")
    async with engines.new(body) as engine:
        run = await engine.start("chart", {})
        await suspended(run)
        for n in range(4):
            await engine.emit("tick", {"n": n}, key="k")

        assert await run.result(timeout=30) == {f"w{n}": {"n": n} for n in range(4)}


# Logs of older versions


def _as_before(row: LogRow, last_at: float) -> LogRow:
    """The row as it was written when a wait looked back to the run's last event."""
    fact = ev.read(row).fact
    if isinstance(fact, ev.WaitOpened):
        fact = msgspec.structs.replace(fact, since=last_at)
    elif isinstance(fact, ev.Received):
        fact = msgspec.structs.replace(fact, at=0.0)
    elif isinstance(fact, ev.Continued | ev.TransitionCompleted):
        fact = msgspec.structs.replace(fact, cursors=[])
    else:
        return row
    return row._replace(payload=ev.written(fact).payload)


def _make_old(store: object, run_id: str) -> None:
    assert isinstance(store, MemoryStore)
    log = next(run.log for id, run in store._runs.items() if id == run_id)
    for n, row in enumerate(log):
        log[n] = _as_before(row, log[n - 1].at if n else 0.0)
    for place, wait in list(store._waits.items()):
        if wait.kind == "cursor":
            del store._waits[place]


@workflow
async def renewed(ctx: Context, got: list[Any]) -> list[Any]:
    got = [*got, await ctx.event("tick", key="k"), await ctx.event("tick", key="k")]
    if len(got) < 6:
        ctx.continue_as_new(got)
    return got


@pytest.mark.req("K35", "F3")
@pytest.mark.parametrize("taken", [1, 2, 3])
async def test_log_without_cursors_goes_on_behind_what_it_took(memory_engines: Engines, taken: int) -> None:
    async with memory_engines.new(renewed) as engine:
        run = await engine.start(renewed, [])
        await suspended(run)
        for n in range(taken):
            await engine.emit("tick", n, key="k")
            await until_taken(run, n + 1)
        await suspended(run)
    _make_old(memory_engines.database, run.id)
    async with memory_engines.client() as client:
        for n in range(taken, 6):
            await client.emit("tick", n, key="k")
    async with memory_engines.new(renewed) as engine:
        assert await engine.handle(run.id).result(30) == list(range(6))
