"""Branches of a transition's body: what they save counts, and those of ctx verbs let it park."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, Engine, Machine, RunHandle, StepContext, step, transition
from stepwell.errors import RunCancelled, RunFailed
from tests.engines import PATIENCE, SETTINGS, Engines, kinds, suspended, until

SOON = 0.05


@step
async def filed(ctx: StepContext, name: str) -> str:
    ctx.save(name, name.upper())
    return name


class Shelf(Machine[list[str]]):
    @transition("start", "end")
    async def fill(self, ctx: Context) -> None:
        async def branch(name: str) -> str:
            ctx.save(f"direct-{name}", name)
            return await ctx.step(filed, name)

        self.state += await ctx.all(branch("a"), branch("b"))


@pytest.mark.req("M9", "K25")
async def test_documents_that_branches_save_are_kept(replayed_engines: Engines) -> None:
    async with replayed_engines.new(Shelf) as engine:
        run = await engine.start(Shelf, None)

        assert await run.result(15) == ["a", "b"]
        saved = {document.name: bytes(document.value) for document in await run.documents()}
        assert saved == {"a": b'"A"', "b": b'"B"', "direct-a": b'"a"', "direct-b": b'"b"'}


class Shaky(Machine[list[Any]]):
    @transition("start", "end")
    async def go(self, ctx: Context) -> None:
        async def fails() -> None:
            await ctx.step(lambda: None)
            raise ValueError("the second")

        self.state = await ctx.all()
        await ctx.all(ctx.signal("never"), fails())


@pytest.mark.req("M9", "M3")
async def test_the_error_of_a_branch_is_told_while_one_before_it_waits(replayed_engines: Engines) -> None:
    async with replayed_engines.new(Shaky) as engine:
        run = await engine.start(Shaky, None)

        with pytest.raises(RunFailed, match="the second"):
            await run.result(15)


class Waiting(Machine[list[Any]]):
    """Its input says how it waits for several things at once; one of them ends early."""

    @transition("start", "end")
    async def wait(self, ctx: Context, how: str) -> None:
        async def soon() -> str:
            await ctx.sleep(SOON)
            return "soon"

        async def signal() -> Any:
            return await ctx.signal("go")

        if how == "all":
            self.state = await ctx.all(soon(), signal())
        elif how == "gather":
            self.state = list(await asyncio.gather(soon(), signal()))
        elif how == "tasks":
            waiting = [asyncio.create_task(soon()), asyncio.create_task(signal())]
            self.state = [await task for task in waiting]
        elif how == "wait":
            left = {asyncio.create_task(soon()), asyncio.create_task(signal())}
            while left:
                ended, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                self.state += [task.result() for task in ended]
        else:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(soon()), group.create_task(signal())]
            self.state = [task.result() for task in tasks]


@pytest.mark.req("M9", "K14")
async def test_a_body_parks_when_the_branches_that_are_left_wait(memory_engines: Engines) -> None:
    async with memory_engines.new(Waiting) as engine:
        run = await engine.start(Waiting, "all")

        async def fired() -> bool:
            return "timer_fired" in await kinds(run)

        await suspended(run)
        await until(fired)
        await suspended(run)  # again, although a branch has ended
        await run.signal("go", "gone")

        assert set(await run.result(15)) == {"soon", "gone"}


@pytest.mark.req("M9")
@pytest.mark.parametrize("how", ["gather", "tasks", "wait", "group"])
async def test_a_body_that_waits_for_tasks_of_its_own_keeps_its_lease(
    memory_engines: Engines, how: str
) -> None:
    async with memory_engines.new(Waiting) as engine:
        run = await engine.start(Waiting, how)

        async def fired() -> bool:
            return "timer_fired" in await kinds(run)

        await until(fired)
        await run.signal("go", "gone")

        assert set(await run.result(15)) == {"soon", "gone"}
        assert (await kinds(run)).count("claimed") == 1


class Racing(Machine[list[Any]]):
    @transition("start", "end")
    async def race(self, ctx: Context) -> None:
        async def both() -> list[Any]:
            return list(await ctx.all(ctx.signal("one"), ctx.signal("two")))

        self.state = await ctx.first(both(), ctx.signal("never"))


@pytest.mark.req("M9", "K14")
async def test_a_body_parks_in_verbs_inside_verbs(memory_engines: Engines) -> None:
    async with memory_engines.new(Racing) as engine:
        run = await engine.start(Racing)
        for name in ("one", "two"):
            await suspended(run)
            await run.signal(name, name)

        assert await run.result(15) == ["one", "two"]
        assert (await kinds(run)).count("claimed") > 1


HEARD: list[Any] = []


class Watchful(Machine[list[Any]]):
    """Its input says what it does besides waiting for the log."""

    @transition("start", "end")
    async def wait(self, ctx: Context, how: str) -> None:
        if how == "errors":  # it would see the engine's own error when the run is released
            HEARD.append(await asyncio.gather(ctx.signal("go"), return_exceptions=True))
        elif how == "plain":  # a branch that never uses ctx
            HEARD.append(await ctx.all(ctx.signal("go"), asyncio.sleep(0.1, "slept")))
        elif how == "timeout":
            try:
                async with asyncio.timeout(0.2):
                    await ctx.signal("never")
            except TimeoutError:
                HEARD.append("in time")
        elif how == "queue":
            queue = asyncio.Queue[Any]()

            async def fill() -> None:
                queue.put_nowait(await ctx.signal("go"))

            async with asyncio.TaskGroup() as group:
                group.create_task(fill())
                HEARD.append(await queue.get())


@pytest.mark.req("M9", "M3")
@pytest.mark.parametrize(("how", "heard"), [("errors", [["gone"]]), ("plain", [["gone", "slept"]])])
async def test_the_code_of_a_body_that_is_left_does_not_go_on(
    memory_engines: Engines, how: str, heard: list[Any]
) -> None:
    HEARD.clear()
    async with memory_engines.new(Watchful, settings=replace(SETTINGS, grace_seconds=0.2)) as engine:
        run = await engine.start(Watchful, how)
        await until(lambda: _opened(run))
        await asyncio.sleep(0.2)  # the plain branch is over
    async with memory_engines.new(Watchful) as engine:
        run = engine.handle(run.id)
        await run.signal("go", "gone")
        await run.result(15)

        assert heard == HEARD


async def _opened(run: RunHandle[Any], waits: int = 1) -> bool:
    return (await kinds(run)).count("wait_opened") >= waits


@pytest.mark.req("M9")
async def test_a_body_with_a_timeout_of_asyncio_keeps_its_place_until_it_comes(
    memory_engines: Engines,
) -> None:
    HEARD.clear()
    async with memory_engines.new(Watchful) as engine:
        run = await engine.start(Watchful, "timeout")

        await run.result(15)

        assert HEARD == ["in time"]
        assert (await kinds(run)).count("claimed") == 1


@pytest.mark.req("M9")
async def test_a_body_that_waits_for_what_anybody_may_send_keeps_its_place(memory_engines: Engines) -> None:
    """A queue may be filled from outside the run, and nobody would hear it if the body were left."""
    HEARD.clear()
    async with memory_engines.new(Watchful) as engine:
        run = await engine.start(Watchful, "queue")

        await until(lambda: _opened(run))
        await run.signal("go", "gone")
        await run.result(15)

        assert HEARD == ["gone"]
        assert (await kinds(run)).count("claimed") == 1


class Group(Machine[list[str]]):
    """Named by the order of their making, although the second asks first."""

    @transition("start", "end")
    async def both(self, ctx: Context) -> None:
        async def late() -> str:
            await asyncio.sleep(0.02)
            return await ctx.step(filed, "late")

        async def early() -> str:
            first = await ctx.step(filed, "early")
            await ctx.sleep(SOON)
            return first

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(late()), group.create_task(early())]
        self.state = [task.result() for task in tasks]


@pytest.mark.req("M9", "K5")
async def test_branches_of_a_group_keep_their_answers_when_the_body_begins_again(
    replayed_engines: Engines,
) -> None:
    async with replayed_engines.new(Group) as engine:
        run = await engine.start(Group, None)

        assert await run.result(15) == ["late", "early"]
        paths = {e.path: e.data["result"] async for e in run.events() if e.kind == "step_completed"}
        assert paths == {"0/both@1~1/filed#1": "late", "0/both@1~2/filed#1": "early"}


WORK = "abcdefgh"


class Named(Machine[list[str]]):
    @transition("start", "end")
    async def each(self, ctx: Context, names: str) -> None:
        async def one(name: str) -> str:
            return await ctx.step(filed, name)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(what), name=name) for what, name in zip(WORK, names, strict=True)]
        await ctx.signal("go")
        self.state = [task.result() for task in tasks]


@pytest.mark.req("M9", "K5")
@pytest.mark.parametrize("names", ["stuvwxyz", "zyxwvuts", "xxxxxxxx", "xyxyxyxy"])
async def test_steps_of_tasks_with_names_are_not_repeated(replayed_engines: Engines, names: str) -> None:
    async with replayed_engines.new(Named) as engine:
        run = await engine.start(Named, names)
        await suspended(run)
        await run.signal("go")

        assert await run.result(15) == list(WORK)
        steps = [(e.path, e.data["result"]) async for e in run.events() if e.kind == "step_completed"]
        by_name = [what for _, what in sorted(zip(names, WORK, strict=True))]
        assert sorted(steps) == [(f"0/each@1~{n}/filed#1", what) for n, what in enumerate(by_name, 1)]


class Outside(Machine[list[str]]):
    @transition("start", "end")
    async def use(self, ctx: Context, where: str) -> None:
        if where == "thread":
            await asyncio.to_thread(ctx.now)
            return
        done = asyncio.get_running_loop().create_future()

        def callback() -> None:
            try:
                done.set_result(ctx.now())
            except Exception as error:
                done.set_exception(error)

        asyncio.get_running_loop().call_soon(callback)
        await done


@pytest.mark.req("M9")
@pytest.mark.parametrize("where", ["thread", "callback"])
async def test_ctx_outside_the_tasks_of_a_body_is_told(memory_engines: Engines, where: str) -> None:
    async with memory_engines.new(Outside) as engine:
        run = await engine.start(Outside, where)

        with pytest.raises(RunFailed, match="use uses ctx outside its own tasks") as told:
            await run.result(15)

        assert told.value.cause_code == "NOT_DURABLE"
        assert "plain `def`" in told.value.hint


CLEANED: list[str] = []


def clean(what: str) -> None:
    CLEANED.append(what)


class Careful(Machine[list[str]]):
    """Waits for several things, and cleans up in the ways that asyncio has."""

    @transition("start", "end")
    async def wait(self, ctx: Context, how: str) -> None:
        async def never(name: str) -> None:
            try:
                await ctx.signal(name)
            finally:
                await ctx.step(clean, name)

        try:
            if how == "wait":
                await asyncio.wait([asyncio.create_task(never("a")), asyncio.create_task(never("b"))])
            elif how == "gather":
                await asyncio.gather(never("a"), never("b"), return_exceptions=True)
            else:
                await ctx.all(never("a"), never("b"))
        finally:
            await ctx.all(ctx.step(clean, "left"), ctx.step(clean, "right"))


@pytest.mark.req("K13", "M9")
@pytest.mark.parametrize("how", ["wait", "gather", "all"])
async def test_a_cancel_reaches_every_branch_of_a_body(memory_engines: Engines, how: str) -> None:
    CLEANED.clear()
    async with memory_engines.new(Careful) as engine:
        run = await engine.start(Careful, how)
        await (suspended(run) if how == "all" else until(lambda: _opened(run, waits=2)))

        await run.cancel()

        with pytest.raises(RunCancelled):
            await run.result(30)
        assert sorted(CLEANED) == ["a", "b", "left", "right"]


@step
async def same_number(number: int) -> int:
    return number


@pytest.mark.req("M6")
async def test_a_look_at_long_transitions_does_not_park_what_is_just_being_asked(
    memory_engines: Engines,
) -> None:
    """The look came between a branch's question and its way to the workflow's loop."""
    engines: list[Engine] = []

    class Slow(Machine[int]):
        @transition("start", "end", timeout=None)
        async def go(self, ctx: Context) -> None:
            time.sleep(0.25)  # noqa: ASYNC251  # nobody looks meanwhile; the next look notes it as long

            async def ask(number: int) -> int:
                if number == 1:
                    worker = engines[0].worker
                    assert worker is not None
                    asyncio.get_running_loop().call_soon(worker._look_at_steps)
                return await ctx.step(same_number, number)

            self.state = sum(await asyncio.gather(ask(1), ask(2)))

    async with memory_engines.new(Slow) as engine:
        engines.append(engine)
        run = await engine.start(Slow)
        async with asyncio.timeout(PATIENCE):
            assert await run.result() == 3
