"""Concurrency in workflow code: branches keep their own results, whatever order they finished in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Retry, RunFailed, StepContext, WaitTimedOut, step, workflow
from stepwell.errors import StepError
from tests.engines import DEAF, Engines, all_events, crash, suspended, until


async def charge(who: str) -> str:
    return f"charge({who})"


@pytest.mark.req("F2", "K5")
async def test_branches_that_finish_in_another_order_on_replay_get_their_own_results(
    engines: Engines,
) -> None:
    """Hazard 1: two branches `charge, ship`; first B is faster, after the crash A would be."""
    gates = {"A": asyncio.Event(), "B": asyncio.Event()}
    done: list[str] = []

    async def ship(who: str) -> str:
        done.append(who)
        await gates[who].wait()
        return f"ship({who})"

    async def branch(ctx: Context, who: str) -> list[str]:
        return [who, await ctx.step(charge, who), await ctx.step(ship, who)]

    @workflow
    async def both(ctx: Context) -> list[Any]:
        return list(await asyncio.gather(branch(ctx, "A"), branch(ctx, "B")))

    dying = engines.new(both)
    await dying.open()
    run = await dying.start(both)
    await until(lambda: len(done) == 2)
    gates["B"].set()

    async def b_is_recorded() -> bool:
        return [e.path for e in await all_events(run) if e.kind == "step_completed"].count("0~2/ship#1") == 1

    await until(b_is_recorded)
    await crash(dying)
    gates["A"].set()
    async with engines.new(both) as engine:
        found = await engine.handle(run.id).result(15)

    assert found == [["A", "charge(A)", "ship(A)"], ["B", "charge(B)", "ship(B)"]]
    assert done.count("B") == 1


@pytest.mark.req("F2")
@pytest.mark.parametrize("style", ["gather", "group", "create_task"])
async def test_nested_branches_replay_the_same(replayed_engines: Engines, style: str) -> None:
    async def leaf(name: str) -> str:
        await asyncio.sleep(0.001 * (hash(name) % 5))
        return name

    async def run_all(*work: Any) -> list[Any]:
        if style == "gather":
            return list(await asyncio.gather(*work))
        if style == "create_task":
            tasks = [asyncio.create_task(w) for w in work]
            return [await task for task in reversed(tasks)][::-1]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(w) for w in work]
        return [task.result() for task in tasks]

    @workflow
    async def tree(ctx: Context) -> Any:
        async def node(name: str, depth: int) -> list[Any]:
            mine = await ctx.step(leaf, name)
            if depth == 0:
                return [mine]
            children = await run_all(*(node(f"{name}{i}", depth - 1) for i in range(3)))
            await ctx.sleep(0.001)
            return [mine, await ctx.step(leaf, f"{name}!"), *children]

        return await node("r", 2)

    async with replayed_engines.new(tree) as engine:
        found = await (await engine.start(tree)).result()

    def expected(name: str, depth: int) -> list[Any]:
        if depth == 0:
            return [name]
        return [name, f"{name}!", *(expected(f"{name}{i}", depth - 1) for i in range(3))]

    assert found == expected("r", 2)


@pytest.mark.req("F2")
async def test_loops_count_their_steps(replayed_engines: Engines) -> None:
    seen: list[int] = []

    async def note(n: int) -> int:
        seen.append(n)
        return n

    @workflow
    async def loops(ctx: Context) -> list[int]:
        return [await ctx.step(note, n) for n in range(20) if n % 3]

    async with replayed_engines.new(loops) as engine:
        wanted = [n for n in range(20) if n % 3]
        assert await (await engine.start(loops)).result() == wanted

    assert seen == wanted


@pytest.mark.req("F2")
async def test_asyncio_primitives_between_branches_work(replayed_engines: Engines) -> None:
    @workflow
    async def pipe(ctx: Context) -> list[str]:
        queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)
        lock, ready = asyncio.Lock(), asyncio.Event()

        async def produce() -> None:
            for who in "abc":
                await queue.put(await ctx.step(charge, who))
            ready.set()
            await queue.put(None)

        async def consume() -> list[str]:
            found = []
            while (item := await queue.get()) is not None:
                async with lock:
                    found.append(await ctx.step(str, item))
            await ready.wait()
            return found

        _, found = await asyncio.gather(produce(), consume())
        return found

    async with replayed_engines.new(pipe) as engine:
        assert await (await engine.start(pipe)).result() == ["charge(a)", "charge(b)", "charge(c)"]


@pytest.mark.req("F4")
async def test_map_keeps_the_order_and_the_limit(replayed_engines: Engines) -> None:
    running, most = 0, 0

    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (7 - n % 7))
        running -= 1
        return n * n

    @workflow
    async def mapped(ctx: Context) -> list[int]:
        return await ctx.map(work, range(60), limit=5)

    async with replayed_engines.new(mapped) as engine:
        assert await (await engine.start(mapped)).result() == [n * n for n in range(60)]

    assert most <= 5


@pytest.mark.req("F4")
@pytest.mark.slow
async def test_map_of_ten_thousand_survives_a_crash_in_the_middle(durable_engines: Engines) -> None:
    seen: dict[int, int] = {}

    async def work(n: int) -> int:
        seen[n] = seen.get(n, 0) + 1
        return -n

    @workflow
    async def mapped(ctx: Context, count: int) -> int:
        found = await ctx.map(work, range(count), limit=100)
        assert found == [-n for n in range(count)]
        return len(found)

    count = 10_000
    dying = durable_engines.new(mapped)
    await dying.open()
    run = await dying.start(mapped, count)
    await until(lambda: len(seen) > 4000, seconds=40)
    await crash(dying)
    assert len(seen) < count
    async with durable_engines.new(mapped) as engine:
        assert await engine.handle(run.id).result(40) == count

    twice = [n for n, times in seen.items() if times > 1]
    assert len(seen) == count
    assert len(twice) <= 1000  # only what was under way and not yet on disk


@pytest.mark.req("F4")
async def test_failing_item_stops_the_map(replayed_engines: Engines) -> None:
    async def work(n: int) -> int:
        if n == 3:
            raise ValueError("three")
        return n

    @workflow
    async def mapped(ctx: Context) -> str:
        try:
            await ctx.map(work, range(1000), limit=2)
        except StepError as error:
            return error.path
        return "?"

    async with replayed_engines.new(mapped) as engine:
        assert await (await engine.start(mapped)).result() == "0/work#1[3]"


@pytest.mark.req("F4")
async def test_empty_map_and_all(replayed_engines: Engines) -> None:
    @workflow
    async def nothing(ctx: Context) -> list[Any]:
        return [await ctx.map(charge, []), await ctx.all()]

    async with replayed_engines.new(nothing) as engine:
        assert await (await engine.start(nothing)).result() == [[], []]


@pytest.mark.req("F4")
async def test_all_runs_together_and_its_first_error_cancels_the_rest(replayed_engines: Engines) -> None:
    stopped = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def bad() -> None:
        raise ValueError("bad")

    @workflow
    async def many(ctx: Context) -> list[Any]:
        good = await ctx.all(*(ctx.step(charge, who) for who in "ab"))
        try:
            await ctx.all(ctx.step(endless), ctx.step(bad), ctx.sleep("1h"))
        except StepError as error:
            return [*good, error.error_type]
        return []

    async with replayed_engines.new(many) as engine:
        assert await (await engine.start(many)).result() == ["charge(a)", "charge(b)", "ValueError"]
        await asyncio.wait_for(stopped.wait(), 5)


@pytest.mark.req("F4")
async def test_first_cancels_the_losers_and_remembers_who_won(engines: Engines) -> None:
    stopped = asyncio.Event()
    started = 0

    async def endless() -> str:
        nonlocal started
        started += 1
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    async def quick() -> str:
        return "quick"

    @workflow
    async def race(ctx: Context) -> list[str]:
        winner = await ctx.first(ctx.step(endless), ctx.step(quick), ctx.signal("never"), ctx.sleep("1h"))
        await ctx.signal("go")
        return [str(winner), "after"]

    async with engines.new(race) as engine:
        run = await engine.start(race)
        await suspended(run)
        await stopped.wait()
        assert [wait.name for wait in await run.waits()] == ["go"]
    async with engines.new(race) as engine:
        again = engine.handle(run.id)
        await again.signal("go")
        assert await again.result(15) == ["quick", "after"]

    assert started == 1


@pytest.mark.req("F4", "K18")
async def test_child_that_loses_is_cancelled(engines: Engines) -> None:
    @workflow
    async def slow(ctx: Context) -> str:
        return str(await ctx.signal("never"))

    @workflow
    async def race(ctx: Context) -> Any:
        return await ctx.first(ctx.run(slow, None), ctx.signal("go"))

    async with engines.new(race, slow, settings=DEAF) as engine:
        run = await engine.start(race)

        async def child() -> Any:
            return [row for row in await engine.runs() if row.workflow == "slow"]

        [row] = await until(child)
        await suspended(engine.handle(row.id))
        await run.signal("go", "signal")
        assert await run.result() == "signal"

        async def cancelled() -> bool:
            return (await engine.handle(row.id).status()).value == "cancelled"

        await until(cancelled)


@pytest.mark.req("F4", "F3")
async def test_first_as_a_timeout_for_a_step(replayed_engines: Engines) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    @workflow
    async def race(ctx: Context) -> str:
        async def late() -> str:
            await ctx.sleep(0.05)
            return "too slow"

        return str(await ctx.first(ctx.step(endless), late()))

    async with replayed_engines.new(race) as engine:
        assert await (await engine.start(race)).result() == "too slow"


@pytest.mark.req("F2")
async def test_error_in_one_branch_fails_the_run_with_its_step(replayed_engines: Engines) -> None:
    async def bad() -> None:
        raise ValueError("bad")

    @workflow
    async def group(ctx: Context) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ctx.step(charge, "a"))
            tasks.create_task(ctx.step(bad))

    async with replayed_engines.new(group) as engine:
        with pytest.raises(RunFailed, match="0~2/bad#1"):
            await (await engine.start(group)).result()


@pytest.mark.req("K9", "K16", "F3")
@pytest.mark.parametrize("what", ["sleep", "timeout", "retry"])
async def test_time_passes_while_another_branch_works(replayed_engines: Engines, what: str) -> None:
    release = asyncio.Event()

    async def long_work() -> str:
        await release.wait()
        return "worked"

    @step(retry=Retry(2, delay=0.05))
    async def second_try(me: StepContext) -> int:
        if me.attempt == 1:
            raise ValueError("again")
        return me.attempt

    async def let_go() -> str:
        release.set()
        return "let go"

    @workflow
    async def both(ctx: Context) -> list[Any]:
        async def wait() -> str:
            if what == "sleep":
                await ctx.sleep(0.05)
            elif what == "retry":
                await ctx.step(second_try)
            else:
                with pytest.raises(WaitTimedOut):
                    await ctx.signal("never", timeout=0.05)
            return await ctx.step(let_go)

        return list(await asyncio.gather(ctx.step(long_work), wait()))

    async with replayed_engines.new(both) as engine:
        assert await (await engine.start(both)).result(10) == ["worked", "let go"]
