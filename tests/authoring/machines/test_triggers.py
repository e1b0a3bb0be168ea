"""Triggers are decisions: they fit the machine's place, one wins, the others hear who was faster."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Machine, RunHandle, transition, workflow
from stepwell.errors import (
    AlreadyDecided,
    ChildFailed,
    Conflict,
    InvalidInput,
    MessageConflict,
    NotSerialisable,
    RunEnded,
    WrongPlace,
)
from tests.authoring.machines.approvals import Approval, Review
from tests.engines import Engines, all_events, suspended, until

ROOT = Path(__file__).parents[3]


@pytest.mark.req("M4", "K15")
async def test_a_trigger_that_fits_no_current_place_is_a_conflict(engines: Engines) -> None:
    async with engines.new(Review) as engine:
        run = await engine.start(Review)
        await suspended(run)

        with pytest.raises(WrongPlace) as caught:
            await run.trigger("publish")

        assert "'draft'" in caught.value.message
        assert caught.value.hint == "it waits for: submit"
        with pytest.raises(Conflict):
            await run.trigger("no such thing")


@pytest.mark.req("M4", "K15")
async def test_a_payload_is_checked_before_anything_is_written(engines: Engines) -> None:
    async with engines.new(Review) as engine:
        run = await engine.start(Review)
        await suspended(run)
        await run.trigger("submit")
        await until(lambda: _offers(run, "approve"))
        before = len(await all_events(run))

        with pytest.raises(InvalidInput) as caught:
            await run.trigger("approve", {"by": 7})

        assert caught.value.context["field"] == "by"
        assert len(await all_events(run)) == before
        await run.trigger("approve", {"by": "ana"})
        await until(lambda: _offers(run, "publish"))


@dataclass
class Approved:
    by: str = ""


class Typed(Machine[Approved]):
    @transition("start", "review")
    async def open(self, ctx: Context) -> None: ...

    @transition("review", "end", wait=Approved)
    async def approve(self, ctx: Context, approved: Approved) -> None:
        self.state = approved

    @transition("review", "end", wait=True)
    async def drop(self, ctx: Context) -> None: ...


@pytest.mark.req("M4", "K24")
async def test_a_payload_may_be_a_value_of_its_type_and_the_state_is_read_as_one(
    memory_engines: Engines,
) -> None:
    async with memory_engines.new(Typed) as engine:
        run = await engine.start(Typed, None)
        await suspended(run)
        with pytest.raises(NotSerialisable):
            await run.trigger("drop", Approved("ana"))  # nothing says that it would come back as one
        await run.trigger("approve", Approved("ana"))

        assert await run.result(15) == Approved("ana")
        checkpoint = (await run.state()).checkpoint
        assert checkpoint is not None
        assert (checkpoint.read(Approved), checkpoint.read()) == (Approved("ana"), {"by": "ana"})


@pytest.mark.req("M4", "K15")
async def test_a_second_click_never_answers_the_next_question(engines: Engines) -> None:
    """`rework` leads back to the same place: the same trigger fits again, for another question."""
    async with engines.new(Review) as engine, engines.client() as other:
        run = await engine.start(Review)
        await suspended(run)
        await run.trigger("submit")
        await until(lambda: _offers(run, "rework"))
        slow = (other if engines.kind != "memory" else engine).handle(run.id)
        message = await _held(slow, "rework", {"by": "bo"})  # his page shows the first question
        await run.trigger("rework", {"by": "ana"}, by="ana")
        await until(lambda: _offers(run, "submit"))
        await run.trigger("submit")
        await until(lambda: _offers(run, "rework"))

        with pytest.raises(AlreadyDecided, match=r"ana decided 'rework' at 20"):
            await message

        await run.trigger("approve", {"by": "cy"}, by="cy")
        await until(lambda: _offers(run, "publish"))
        assert (await _state(run))["reworks"] == 1


async def _held(run: Any, name: str, payload: Any) -> Any:
    """A trigger that read what is open now, and is sent when it is awaited."""
    deliver = run._client.deliver
    ready, go = asyncio.Event(), asyncio.Event()

    async def later(message: Any) -> Any:
        ready.set()
        await go.wait()
        return await deliver(message)

    client = run._client
    client.deliver = later
    task = asyncio.get_running_loop().create_task(run.trigger(name, payload, by="bo"))
    await ready.wait()
    del client.deliver

    async def send() -> None:
        go.set()
        await task

    return send()


@pytest.mark.req("M4", "K15")
async def test_after_the_end_a_trigger_hears_who_decided(engines: Engines) -> None:
    async with engines.new(Review) as engine:
        run = await engine.start(Review)
        await _through(run)
        await run.result(15)

        with pytest.raises(RunEnded, match=r"completed at 'published'.*cy decided 'publish'"):
            await run.trigger("approve", {"by": "late"})


async def _through(run: Any) -> None:
    await until(lambda: _offers(run, "submit"))
    await run.trigger("submit")
    await until(lambda: _offers(run, "approve"))
    await run.trigger("approve", {"by": "ana"}, by="ana")
    await until(lambda: _offers(run, "publish"))
    await run.trigger("publish", by="cy")


@pytest.mark.req("M4")
async def test_a_signal_is_kept_until_a_place_takes_it(engines: Engines) -> None:
    """The other policy: what comes early waits."""
    async with engines.new(Review) as engine:
        run = await engine.start(Review)
        await run.signal("publish")
        await run.signal("approve", {"by": "early"})
        await until(lambda: _offers(run, "submit"))
        await run.trigger("submit")

        result = await run.result(15)
    assert result == {"approved_by": "early", "reworks": 0}


@pytest.mark.req("M4", "K15")
def test_two_people_in_two_processes_and_exactly_one_wins(durable_engines: Engines) -> None:
    wins, losses = [], []
    for _ in range(5):
        run_id, workers = asyncio.run(_prepared(durable_engines)), []
        for person, name in (("ana", "approve"), ("bo", "rework")):
            command = [
                sys.executable,
                "-m",
                "tests.authoring.machines.approvals",
                str(durable_engines.database),
                run_id,
                name,
                person,
            ]
            workers.append(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:  # both have read the same open question
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        said = [worker.communicate(timeout=30)[0].strip() for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0]
        wins.append([line for line in said if line == "won"])
        losses += [line for line in said if line != "won"]

    assert [len(found) for found in wins] == [1] * 5
    for line in losses:
        assert line.startswith(("ALREADY_DECIDED", "WRONG_PLACE"))
        assert "ana decided 'approve' at 20" in line or "bo decided 'rework' at 20" in line


async def _prepared(durable_engines: Engines) -> str:
    async with durable_engines.new(Review) as engine:
        run = await engine.start(Review)
        await until(lambda: _offers(run, "submit"))
        await run.trigger("submit")
        await until(lambda: _offers(run, "approve"))
        return run.id


async def _offers(run: Any, name: str) -> bool:
    return any(c.name == name for wait in await run.waits() for c in wait.choices)


async def _state(run: Any) -> Any:
    import msgspec

    checkpoint = (await run.state()).checkpoint
    return msgspec.json.decode(checkpoint.state)


@pytest.mark.req("M4", "K28")
async def test_what_it_waits_for_is_told(engines: Engines) -> None:
    async with engines.new(Review) as engine:
        run = await engine.start(Review)
        await suspended(run)
        await run.trigger("submit")
        await until(lambda: _offers(run, "approve"))
        await suspended(run)

        reason, info, [wait] = await run.why(), await run.info(), await run.waits()

    assert reason.text == "waits for approve or rework to be triggered at 'review'"
    assert info.where_at == "at review: waiting for approve or rework"
    assert [choice.name for choice in wait.choices] == ["approve", "rework"]
    assert wait.choices[0].form["$defs"]["Approval"]["properties"]["by"] == {"type": "string"}


@pytest.mark.req("M4")
async def test_a_payload_that_only_the_code_refuses_leaves_the_question_open(memory_engines: Engines) -> None:
    """Signals are not checked at the door: one that does not fit is set aside, the place still waits."""

    class Asks(Machine[dict[str, str]]):
        @transition("start", "end", wait=Approval)
        async def approve(self, ctx: Context, approval: Approval) -> None:
            self.state["by"] = approval.by

    async with memory_engines.new(Asks) as engine:
        run = await engine.start(Asks)
        await suspended(run)
        await run.signal("approve", {"by": 7})
        await run.signal("approve", {"by": "ana"})

        assert await run.result(15) == {"by": "ana"}
        rejected = [e.data for e in await all_events(run) if e.data.get("rejected")]
    assert len(rejected) == 1


@pytest.mark.req("M4", "K18")
async def test_a_sub_workflow_calls_back(engines: Engines) -> None:
    """The child lives over several transitions; its result triggers the one that waits for it."""

    @workflow
    async def check(ctx: Context, n: int) -> dict[str, str]:
        return {"by": await ctx.signal("word", str)}

    class Delegates(Machine[dict[str, str]]):
        @transition("start", "checking")
        async def ask(self, ctx: Context) -> None:
            child = await ctx.start(check, 1, trigger="checked")
            self.state["child"] = child.id

        @transition("checking", "waiting")
        async def go_on(self, ctx: Context) -> None: ...

        @transition("waiting", "end", wait=Approval)
        async def checked(self, ctx: Context, approval: Approval) -> None:
            self.state["by"] = approval.by

        @transition("waiting", "end", wait=True)
        async def skip(self, ctx: Context) -> None: ...

    async with engines.new(Delegates, check) as engine:
        run = await engine.start(Delegates)
        await suspended(run)
        child = (await _state(run))["child"]
        assert child in (await run.why()).text
    async with engines.new(Delegates, check) as engine:
        await engine.handle(child).signal("word", "bo")

        assert (await engine.handle(run.id, Delegates).result(15))["by"] == "bo"


@pytest.mark.req("M4", "K18")
async def test_a_call_back_that_comes_early_is_kept(replayed_engines: Engines) -> None:
    @workflow
    async def quick(ctx: Context) -> str:
        return "soon"

    class Delegates(Machine[dict[str, str]]):
        @transition("start", "checking")
        async def ask(self, ctx: Context) -> None:
            child = await ctx.start(quick, None, trigger="checked")
            await child

        @transition("checking", "waiting", wait=True)
        async def go_on(self, ctx: Context) -> None: ...

        @transition("waiting", "end", wait=str)
        async def checked(self, ctx: Context, word: str) -> None:
            self.state["word"] = word

    async with replayed_engines.new(Delegates, quick) as engine:
        run = await engine.start(Delegates)
        await until(lambda: _offers(run, "go_on"))
        await run.trigger("go_on")

        assert await run.result(15) == {"word": "soon"}


@pytest.mark.req("M4", "K28")
@pytest.mark.parametrize("early", [True, False])
async def test_why_tells_of_a_call_back_that_triggers_nothing(replayed_engines: Engines, early: bool) -> None:
    """A child fails, the next one's result is of the wrong type, before or after the machine waits."""

    @workflow
    async def check(ctx: Context, fails: bool) -> int:
        if not early:
            await ctx.signal("go")
        if fails:
            raise ValueError("no")
        return 7

    class Delegates(Machine[dict[str, Any]]):
        @transition("start", "waiting")
        async def ask(self, ctx: Context) -> None:
            child = await ctx.start(check, not self.state, trigger="checked")
            self.state["child"] = child.id
            if early:
                with suppress(ChildFailed):
                    await child

        @transition("waiting", "end", wait=Approval)
        async def checked(self, ctx: Context, approval: Approval) -> None: ...

        @transition("waiting", "start", wait=True)
        async def again(self, ctx: Context) -> None: ...

    async def child_of(run: RunHandle[Any], version: int) -> str:
        await until(lambda: _version_is(run, version))
        child = str((await _state(run))["child"])
        if not early:
            await engine.handle(child).signal("go")
        return child

    async with replayed_engines.new(Delegates, check) as engine:
        run = await engine.start(Delegates)
        failed = await child_of(run, 1)
        await until(lambda: _says(run, f"(checked: child run {failed} ended as failed and triggers nothing)"))
        await run.trigger("again")
        await child_of(run, 3)
        await until(lambda: _says(run, "child:check#1 does not fit: Expected `object`, got `int`)"))

        assert failed not in (await run.why()).text


async def _version_is(run: RunHandle[Any], version: int) -> bool:
    checkpoint = (await run.state()).checkpoint
    return checkpoint is not None and checkpoint.version == version


async def _says(run: RunHandle[Any], words: str) -> bool:
    return words in (await run.why()).text


@pytest.mark.req("M4", "K15")
async def test_of_several_triggers_that_were_kept_the_first_one_counts(replayed_engines: Engines) -> None:
    """Also over a checkpoint, and whatever order the transitions are written in."""

    class Early(Machine[list[str]]):
        @transition("start", "hall", wait=True)
        async def enter(self, ctx: Context) -> None: ...

        @transition("hall", "room", wait=True)
        async def walk(self, ctx: Context) -> None: ...

        @transition("room", "end", wait=str)
        async def left(self, ctx: Context, why: str) -> None:
            self.state.append(f"left {why}")

        @transition("room", "end", wait=str)
        async def right(self, ctx: Context, why: str) -> None:
            self.state.append(f"right {why}")

    async with replayed_engines.new(Early) as engine:
        run = await engine.start(Early)
        for name, why in (("right", 7), ("right", "b"), ("left", "c"), ("right", "d")):
            await run.signal(name, why)
        await until(lambda: _offers(run, "enter"))
        await run.trigger("enter")
        await until(lambda: _offers(run, "walk"))
        await run.trigger("walk")

        assert await run.result(15) == ["right b"]


@pytest.mark.req("M4", "K6")
async def test_signals_that_wait_over_checkpoints_are_known_after_a_restart(
    replayed_engines: Engines,
) -> None:
    """Each is taken once, even if a claim reads the log from a later checkpoint. Repetitions do nothing."""

    class Slow(Machine[dict[str, Any]]):
        @transition("start", "a")
        async def open(self, ctx: Context) -> None:
            self.state["got"] = [await ctx.signal("word")]

        @transition("a", "b", wait=True)
        async def one(self, ctx: Context) -> None: ...

        @transition("b", "c", wait=True)
        async def two(self, ctx: Context) -> None:
            self.state["got"].append(await ctx.signal("word"))

        @transition("c", "end", wait=str)
        async def word(self, ctx: Context, text: str) -> None:
            self.state["got"].append(text)

    async with replayed_engines.new(Slow) as engine:
        run = await engine.start(Slow)
        for n in range(3):
            await run.signal("word", f"{n}", id=f"{n}")
        await until(lambda: _offers(run, "one"))
        await run.signal("word", "0", id="0")
        with pytest.raises(MessageConflict):
            await run.signal("word", "another", id="0")
        await run.trigger("one")
        await until(lambda: _offers(run, "two"))
        await run.trigger("two")

        assert await run.result(15) == {"got": ["0", "1", "2"]}
