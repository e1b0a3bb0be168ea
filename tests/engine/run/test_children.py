"""Child runs: started with the parent's commit, awaited, detached, failing, cancelled, limited in depth."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, Engine, RunFailed, RunHandle, SyncContext, workflow
from stepwell.domain.status import Status
from stepwell.engine.run import parking
from stepwell.errors import ChildFailed
from tests.engines import DEAF, SETTINGS, Engines, all_events, crash, kinds, reaches, suspended, until


@workflow
async def double(ctx: Context, n: int) -> int:
    return await ctx.step(lambda: 2 * n)


@workflow
async def waits(ctx: Context, name: str) -> str:
    return f"{name}: {await ctx.signal('go')}"


@workflow
async def breaks(ctx: Context, word: str) -> None:
    await ctx.step(fail, word)


def fail(word: str) -> None:
    raise ValueError(word)


async def run_of(engine: Engine, name: str) -> Any:
    async def there() -> Any:
        return [row for row in await engine.runs() if row.workflow == name]

    [row] = await until(there)
    return engine.handle(row.id)


@pytest.mark.req("K18")
async def test_parent_gets_the_childs_result(engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context, n: int) -> list[int]:
        one = await ctx.run(double, n)
        child = await ctx.start(double, one)
        return [one, await child, *await ctx.all(*(ctx.run(double, k) for k in range(5)))]

    async with engines.new(parent, double) as engine:
        run = await engine.start(parent, 1)

        assert await run.result() == [2, 4, 0, 2, 4, 6, 8]
        children = [row for row in await engine.runs() if row.workflow == "double"]
        assert len(children) == 7
        assert {row.parent for row in children} == {run.id}
        assert {row.root for row in children} == {run.id}


@pytest.mark.req("K18")
async def test_parent_sleeps_while_it_waits_and_is_woken_by_the_end(engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        return await ctx.run(waits, "kid")

    async with engines.new(parent, waits) as engine:
        run = await engine.start(parent)
        await suspended(run)
        child = await run_of(engine, "waits")
        await suspended(child)
        await child.signal("go", "home")

        assert await run.result() == "kid: home"


@pytest.mark.req("K18")
async def test_childs_error_is_raised_in_the_parent(engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        try:
            await ctx.run(breaks, "porcelain")
        except ChildFailed as error:
            return f"{error.code} {'porcelain' in str(error)} {error.path}"
        return "?"

    async with engines.new(parent, breaks) as engine:
        assert await (await engine.start(parent)).result() == "CHILD_FAILED True 0/child:breaks#1"


@pytest.mark.req("K18")
async def test_cancelled_child_is_an_error_in_the_parent(engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        try:
            return await ctx.run(waits, "kid")
        except ChildFailed as error:
            return str(error)

    async with engines.new(parent, waits) as engine:
        run = await engine.start(parent)
        child = await run_of(engine, "waits")
        await suspended(child)
        await child.cancel()

        assert "cancelled" in await run.result()


@pytest.mark.req("K18", "K5")
async def test_crashed_parent_finds_the_child_it_had_started(engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        return await ctx.run(waits, "kid")

    dying = engines.new(parent, waits)
    await dying.open()
    run = await dying.start(parent)
    await suspended(run)
    await crash(dying)
    async with engines.new(parent, waits) as engine:
        child = await run_of(engine, "waits")  # exactly one
        await child.signal("go", "on")

        assert await engine.handle(run.id).result(15) == "kid: on"


@pytest.mark.req("K18")
async def test_child_that_ended_before_it_is_awaited_is_no_news_lost(replayed_engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> int:
        child = await ctx.start(double, 21)
        await ctx.sleep(0.1)
        await ctx.step(str, 1)
        return await child.result()

    async with replayed_engines.new(parent, double) as engine:
        assert await (await engine.start(parent)).result() == 42


@pytest.mark.req("K18")
async def test_detached_child_has_its_own_root_and_no_result_here(engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        child = await ctx.start(double, 1, detached=True)
        try:
            await child.result()
        except Exception as error:
            return str(error)
        return "?"

    async with engines.new(parent, double) as engine:
        assert "detached" in await (await engine.start(parent)).result()
        child = await run_of(engine, "double")
        info = await child.info()
        assert (info.parent, info.root) == ("", child.id)
        assert await child.result() == 2


@pytest.mark.req("K18")
async def test_depth_is_limited_with_a_hint(memory_engines: Engines) -> None:
    @workflow
    async def deeper(ctx: Context, n: int) -> int:
        return await ctx.run(deeper, n + 1)

    async with memory_engines.new(deeper) as engine:
        with pytest.raises(RunFailed, match="nested") as caught:
            await (await engine.start(deeper, 0)).result()

        assert len(await engine.runs()) == 11
        assert "child_depth_max" in str(caught.value)


@pytest.mark.req("K18", "F4")
async def test_failing_sibling_cancels_the_other_children(engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.all(ctx.run(waits, "kid"), ctx.run(breaks, "x"))

    async with engines.new(parent, waits, breaks, settings=DEAF) as engine:
        run = await engine.start(parent)
        with pytest.raises(RunFailed):
            await run.result()
        child = await run_of(engine, "waits")

        async def cancelled() -> bool:
            return await child.status() is Status.CANCELLED

        await until(cancelled)


@pytest.mark.req("K11", "K18")
async def test_retry_of_a_parent_runs_its_failed_child_again(engines: Engines) -> None:
    broken = True
    done: list[str] = []

    def work(word: str) -> str:
        done.append(word)
        if broken and word == "b":
            raise ValueError(word)
        return word

    @workflow
    async def kid(ctx: Context, word: str) -> str:
        return await ctx.step(work, word)

    @workflow
    async def parent(ctx: Context) -> list[str]:
        return [await ctx.run(kid, word) for word in "abc"]

    async with engines.new(parent, kid) as engine:
        run = await engine.start(parent)
        with pytest.raises(RunFailed):
            await run.result()
        broken = False
        await run.retry()

        assert await run.result() == ["a", "b", "c"]
        assert done == ["a", "b", "b", "c"]


@pytest.mark.req("K11", "K18")
async def test_retry_does_not_wait_for_a_child_that_the_failure_had_cancelled(engines: Engines) -> None:
    broken = True

    async def work() -> str:
        if broken:
            raise ValueError("broken")
        return "fine"

    @workflow
    async def parent(ctx: Context) -> list[Any]:
        return list(await asyncio.gather(ctx.run(waits, "kid"), ctx.step(work)))

    async with engines.new(parent, waits) as engine:
        run = await engine.start(parent)
        with pytest.raises(RunFailed):
            await run.result()
        broken = False
        await run.retry()

        async def waiting_child() -> Any:
            rows = [r for r in await engine.runs(status=Status.SUSPENDED) if r.workflow == "waits"]
            return rows

        [row] = await until(waiting_child)
        await engine.handle(row.id).signal("go", "on")

        assert await run.result() == ["kid: on", "fine"]


@pytest.mark.req("K11", "K15", "K17")
@pytest.mark.parametrize("verb", ["signal", "event", "approval"])
async def test_retry_opens_the_waits_again_that_the_failure_had_closed(engines: Engines, verb: str) -> None:
    broken = True

    async def work() -> str:
        if broken:
            raise ValueError("broken")
        return "fine"

    @workflow
    async def parent(ctx: Context) -> list[Any]:
        async def wait() -> Any:
            if verb == "signal":
                return await ctx.signal("go")
            return await (ctx.event("go") if verb == "event" else ctx.approval(str))

        async def fail_late() -> str:
            await ctx.sleep(0.05)
            return await ctx.step(work)

        return list(await asyncio.gather(wait(), fail_late()))

    async with engines.new(parent) as engine:
        run = await engine.start(parent)
        with pytest.raises(RunFailed):
            await run.result()
        broken = False
        await run.retry()
        await suspended(run)
        if verb == "signal":
            await run.signal("go", "x")
        elif verb == "event":
            await engine.emit("go", "x")
        else:
            await run.decide("x")

        assert await run.result(15) == ["x", "fine"]


@pytest.mark.req("K18", "F1")
async def test_plain_functions_have_children_too(replayed_engines: Engines) -> None:
    @workflow
    def parent(ctx: SyncContext, n: int) -> list[int]:
        child = ctx.start(double, n)
        return [ctx.run(double, 5), child.result()]

    async with replayed_engines.new(parent, double) as engine:
        assert await (await engine.start(parent, 4)).result() == [10, 8]


@pytest.mark.req("K18", "K2")
async def test_child_exists_exactly_when_the_parents_log_says_so(engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.all(*(ctx.run(double, n) for n in range(20)))

    async with engines.new(parent, double) as engine:
        run = await engine.start(parent)
        await run.result()

        said = {e.data["run"] for e in await all_events(run) if e.kind == "child_started"}
        assert said == {row.id for row in await engine.runs() if row.parent == run.id}
        assert (await kinds(run)).count("child_ended") == 20


@pytest.mark.req("K18")
async def test_a_parent_stays_for_its_children_while_that_costs_less_than_a_replay(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it has just written something: it waits from then on, and does not leave at once."""
    monkeypatch.setattr(parking, "_REPLAY_SECONDS", 100.0)

    @workflow
    async def child(ctx: Context, number: int) -> int:
        await ctx.signal("go")
        return number

    @workflow
    async def parent(ctx: Context) -> list[int]:
        return await ctx.all(ctx.run(child, 1), ctx.run(child, 2))

    patient = replace(SETTINGS, keep_lease_seconds=600)
    async with memory_engines.new(parent, child, settings=patient) as engine:
        run = await engine.start(parent)
        children = await until(lambda: children_of(run))
        for each in children:
            await suspended(engine.handle(each))
            await engine.handle(each).signal("go")

        assert await run.result(30) == [1, 2]
        assert (await kinds(run)).count("claimed") == 1


async def children_of(run: RunHandle[Any]) -> list[str]:
    found = [event.data["run"] async for event in run.events() if event.kind == "child_started"]
    return found if len(found) == 2 else []


@workflow
async def asks_again(ctx: Context) -> list[Any]:
    good, bad = await ctx.start(double, 2), await ctx.start(breaks, "no")
    found: list[Any] = [await good]
    for _ in range(2):
        try:
            await bad
        except ChildFailed as error:
            found.append("no" in error.message)
    await ctx.sleep(0.001)
    return [*found, await good, *await asyncio.gather(good.result(), good.result())]


@workflow
async def asked_at_once(ctx: Context) -> list[int]:
    child = await ctx.start(double, 2)
    return list(await asyncio.gather(child.result(), child.result(), child.result()))


@workflow
def asks_again_plainly(ctx: SyncContext) -> list[int]:
    child = ctx.start(double, 2)
    return [child.result(), child.result()]


@pytest.mark.req("K18", "F2")
async def test_a_child_may_be_awaited_more_than_once(replayed_engines: Engines) -> None:
    programs = (asks_again, asked_at_once, asks_again_plainly, double, breaks)
    async with replayed_engines.new(*programs) as engine:
        runs = [await engine.start(flow) for flow in programs[:3]]

        assert await runs[0].result(30) == [4, True, True, 4, 4, 4]
        assert await runs[1].result(30) == [4, 4, 4]
        assert await runs[2].result(30) == [4, 4]


@pytest.mark.req("K18", "K11")
async def test_the_end_of_a_child_that_came_while_its_parent_failed_counts_when_it_goes_on(
    engines: Engines,
) -> None:
    @workflow(name="parent")
    async def parent(ctx: Context) -> str:
        return await ctx.run(waits, "kid")

    @workflow(name="parent")
    async def changed(ctx: Context) -> str:
        await ctx.sleep("1h")
        return "never"

    async with engines.new(parent, waits) as engine:
        run = await engine.start(parent)
        child = await run_of(engine, "waits")
        await suspended(run)
    async with engines.new(waits) as engine:
        await engine.handle(child.id).signal("go", 1)
        await engine.handle(child.id).result(30)
    async with engines.new(changed) as engine:
        with pytest.raises(RunFailed) as caught:
            await engine.handle(run.id).result(30)
        assert caught.value.cause_code == "CODE_CHANGED"
    async with engines.new(parent, waits) as engine:
        await engine.handle(run.id).retry()

        assert await engine.handle(run.id).result(30) == "kid: 1"
        assert len([row for row in await engine.runs() if row.workflow == "waits"]) == 1


@workflow
async def lasting(ctx: Context, name: str) -> str:
    await ctx.signal("go")
    return name


@workflow
async def ends_before_them(ctx: Context, how: str) -> str:
    await ctx.start(lasting, "kept")
    await ctx.start(lasting, "detached", detached=True)
    await ctx.signal("end")
    if how == "failed":
        raise ValueError("porcelain")
    return how


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
@pytest.mark.req("F4", "K13")
async def test_children_go_on_when_their_parent_completes_and_are_cancelled_when_it_ends_badly(
    engines: Engines, how: str
) -> None:
    async with engines.new(ends_before_them, lasting) as engine:
        run = await engine.start(ends_before_them, how)
        await suspended(run)
        rows = await engine.runs(workflow="lasting")
        kept, detached = (engine.handle(row.id) for row in sorted(rows, key=lambda row: row.parent != run.id))
        await suspended(kept)
        await suspended(detached)
        await (run.cancel() if how == "cancelled" else run.signal("end"))
        await reaches(run, Status(how))

        await detached.signal("go")
        assert await detached.result(30) == "detached"
        if how == "completed":
            await kept.signal("go")
            assert await kept.result(30) == "kept"
        else:
            await reaches(kept, Status.CANCELLED)
