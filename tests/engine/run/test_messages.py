"""Signals wait for their wait; decisions answer one question; nothing is taken twice or lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from stepwell import Context, RunHandle, workflow
from stepwell.domain.commit import Message
from stepwell.errors import AlreadyDecided, InvalidInput, RunEnded, RunNotFound
from tests.engines import Engines, all_events, crash, kinds, suspended, until


@dataclass
class Approval:
    by: str
    ok: bool = True


@workflow
async def collect(ctx: Context, count: int) -> list[Any]:
    return [await ctx.signal("item") for _ in range(count)]


@pytest.mark.req("K15")
async def test_signal_before_the_wait_is_kept(engines: Engines) -> None:
    @workflow
    async def late(ctx: Context) -> str:
        await ctx.sleep(0.1)
        return str(await ctx.signal("word"))

    async with engines.new(late) as engine:
        run = await engine.start(late)
        await run.signal("word", "early")

        assert await run.result() == "early"


@pytest.mark.req("K15")
async def test_signal_to_a_run_that_no_worker_has_had_is_kept(engines: Engines) -> None:
    async with engines.new(collect, worker=False) as client:
        run = await client.start(collect, 2)
        await run.signal("item", 1)
        await run.signal("item", 2)
    async with engines.new(collect) as engine:
        assert await engine.handle(run.id).result(15) == [1, 2]


@pytest.mark.req("K15")
async def test_signals_come_in_order_per_name(engines: Engines) -> None:
    @workflow
    async def sorts(ctx: Context) -> list[Any]:
        right = [await ctx.signal("b") for _ in range(20)]
        left = [await ctx.signal("a") for _ in range(20)]
        return [left, right]

    async with engines.new(sorts) as engine:
        run = await engine.start(sorts)
        for n in range(20):
            await run.signal("a", n)
            await run.signal("b", -n)

        assert await run.result() == [list(range(20)), [-n for n in range(20)]]


@pytest.mark.req("K15", "K6")
async def test_signal_of_one_id_counts_once_also_after_it_was_taken(engines: Engines) -> None:
    async with engines.new(collect) as engine:
        run = await engine.start(collect, 2)
        for _ in range(3):
            await run.signal("item", "first", id="payment-1")
        await until_taken(run, 1)
        await run.signal("item", "first", id="payment-1")
        await run.signal("item", "second", id="payment-2")

        assert await run.result() == ["first", "second"]


async def until_taken(run: Any, count: int) -> None:
    async def taken() -> bool:
        return (await kinds(run)).count("wait_ended") >= count

    await until(taken)


@pytest.mark.req("K6", "K15")
async def test_duplicate_is_forgotten_neither_by_replay_nor_by_a_crash(engines: Engines) -> None:
    dying = engines.new(collect)
    await dying.open()
    run = await dying.start(collect, 2)
    await run.signal("item", "first", id="one")
    await until_taken(run, 1)
    await suspended(run)
    await crash(dying)
    async with engines.new(collect) as engine:
        again = engine.handle(run.id)
        await again.signal("item", "first", id="one")
        await again.signal("item", "second", id="two")

        assert await again.result(15) == ["first", "second"]


@pytest.mark.req("K15")
async def test_signal_that_does_not_fit_is_set_aside_and_the_wait_goes_on(engines: Engines) -> None:
    @workflow
    async def typed(ctx: Context) -> Approval:
        return await ctx.signal("approve", Approval)

    async with engines.new(typed) as engine:
        run = await engine.start(typed)
        await run.signal("approve", {"wrong": 1})
        await run.signal("approve", {"by": 5})
        await until(lambda: _told(run, "(approve: the last message does not fit: "))
        await run.signal("approve", {"by": "ana"})

        assert await run.result() == Approval("ana")
        rejected = [e.data["rejected"] for e in await all_events(run) if e.data.get("rejected")]
        assert len(rejected) == 2
        assert "by" in rejected[0]


@pytest.mark.req("K15", "F3")
async def test_two_waits_of_one_name_are_served_in_order_of_asking(replayed_engines: Engines) -> None:
    @workflow
    async def pair(ctx: Context) -> list[Any]:
        return list(await asyncio.gather(ctx.signal("x"), ctx.signal("x")))

    async with replayed_engines.new(pair) as engine:
        run = await engine.start(pair)
        await suspended(run)
        await run.signal("x", 1)
        await run.signal("x", 2)

        assert await run.result() == [1, 2]


@pytest.mark.req("K15", "K17")
async def test_no_signal_is_lost_between_wait_and_park(engines: Engines) -> None:
    """Signals meet a run that waits, wakes and parks all the time: each is taken exactly once."""
    count = 60

    async with engines.new(collect) as engine, engines.client() as other:
        run = await engine.start(collect, count)
        far = other.handle(run.id)
        for n in range(0, count, 2):
            await asyncio.gather(run.signal("item", n), far.signal("item", n + 1))
            await asyncio.sleep(0.001 * (n % 7))

        assert sorted(await run.result(20)) == list(range(count))


@pytest.mark.req("K15")
async def test_second_decision_gets_a_conflict_and_never_answers_the_next_wait(engines: Engines) -> None:
    @workflow
    async def twice(ctx: Context) -> list[str]:
        first = await ctx.approval(Approval, title="First?")
        second = await ctx.approval(Approval, title="Second?")
        return [first.by, second.by]

    async with engines.new(twice) as engine:
        run = await engine.start(twice)
        await suspended(run)
        [question] = await run.waits()
        assert question.form["$defs"]["Approval"]["properties"]["by"] == {"type": "string"}
        await run.decide({"by": "ana"}, path=question.path)
        with pytest.raises(AlreadyDecided) as caught:
            await run.decide({"by": "bob"}, path=question.path)
        assert caught.value.hint

        async def second_open() -> Any:
            return [w for w in await run.waits() if w.title == "Second?"]

        await until(second_open)
        with pytest.raises(AlreadyDecided):
            await run.decide({"by": "bob"}, path=question.path)
        await run.decide({"by": "eve"})

        assert await run.result() == ["ana", "eve"]


async def test_who_comes_too_late_is_told_who_decided_even_after_the_end(engines: Engines) -> None:
    @workflow
    async def once(ctx: Context) -> bool:
        return bool(await ctx.approval(bool, title="Ship it?"))

    async with engines.new(once) as engine:
        run = await engine.start(once)
        await suspended(run)
        [question] = await run.waits()
        await run.decide(False, path=question.path, by="ana")
        assert await run.result() is False

        with pytest.raises(AlreadyDecided, match="ana decided at 20") as caught:
            await run.decide(True, path=question.path, by="bob")
        assert caught.value.context["decided_by"] == "ana"
        assert caught.value.context["decision"] == "denied"
        with pytest.raises(RunEnded):
            await run.decide(True, by="bob")


@pytest.mark.req("K15")
async def test_of_many_decisions_at_once_exactly_one_counts(engines: Engines) -> None:
    @workflow
    async def ask(ctx: Context) -> str:
        return (await ctx.approval(Approval)).by

    async with engines.new(ask) as engine, engines.client() as other:
        run = await engine.start(ask)
        await suspended(run)
        path = (await run.waits())[0].path
        people = [f"p{n}" for n in range(8)]
        handles = [run, other.handle(run.id)] * 4

        outcomes = await asyncio.gather(
            *(h.decide({"by": p}, path=path) for h, p in zip(handles, people, strict=True)),
            return_exceptions=True,
        )

        winners = [p for p, outcome in zip(people, outcomes, strict=True) if outcome is None]
        assert len(winners) == 1
        assert all(isinstance(o, AlreadyDecided | RunEnded) for o in outcomes if o is not None)
        assert await run.result() == winners[0]


@pytest.mark.req("K15", "F3")
async def test_decision_that_does_not_fit_the_form_is_refused_at_once(engines: Engines) -> None:
    @workflow
    async def ask(ctx: Context) -> str:
        return (await ctx.approval(Approval)).by

    async with engines.new(ask) as engine:
        run = await engine.start(ask)
        await suspended(run)

        with pytest.raises(InvalidInput, match="by"):
            await run.decide({"by": 5})
        await run.decide({"by": "ana"})

        assert await run.result() == "ana"


class Picky(pydantic.BaseModel):
    """Checks more than its JSON Schema says."""

    by: str

    @pydantic.field_validator("by")
    @classmethod
    def known(cls, by: str) -> str:
        if by == "mallory":
            raise ValueError("not an employee")
        return by


@pytest.mark.req("K15")
async def test_decision_that_only_the_run_can_refuse_leaves_the_question_open(
    replayed_engines: Engines,
) -> None:
    @workflow
    async def ask(ctx: Context) -> str:
        return (await ctx.approval(Picky)).by

    async with replayed_engines.new(ask) as engine:
        run = await engine.start(ask)
        await suspended(run)
        await run.decide({"by": "mallory"})

        async def refused() -> bool:
            return any(e.data.get("rejected") for e in await all_events(run))

        await until(refused)
        await suspended(run)
    async with replayed_engines.new(ask) as engine:
        again = engine.handle(run.id)
        await again.decide({"by": "ana"})

        assert await again.result(15) == "ana"


@pytest.mark.req("K15")
async def test_decision_without_an_open_question_is_refused(engines: Engines) -> None:
    async with engines.new(collect) as engine:
        run = await engine.start(collect, 1)
        await suspended(run)

        with pytest.raises(AlreadyDecided):
            await run.decide({"by": "ana"})
        with pytest.raises(AlreadyDecided):
            await run.decide({"by": "ana"}, path="0/approval:approval#1")


@pytest.mark.req("K15")
async def test_two_open_questions_must_be_told_apart(replayed_engines: Engines) -> None:
    @workflow
    async def both(ctx: Context) -> list[str]:
        found = await asyncio.gather(ctx.approval(Approval, name="a"), ctx.approval(Approval, name="b"))
        return [answer.by for answer in found]

    async with replayed_engines.new(both) as engine:
        run = await engine.start(both)
        await suspended(run)
        with pytest.raises(InvalidInput) as caught:
            await run.decide({"by": "x"})
        paths = {w.name: w.path for w in await run.waits()}
        assert all(path in caught.value.hint for path in paths.values())
        await run.decide({"by": "bob"}, path=paths["b"])
        await run.decide({"by": "ana"}, path=paths["a"])

        assert await run.result() == ["ana", "bob"]


@pytest.mark.req("K6")
async def test_duplicate_child_and_step_results_have_no_effect(memory_engines: Engines) -> None:
    async with memory_engines.new(collect) as engine:
        run = await engine.start(collect, 1)
        await suspended(run)
        for kind, name in [("child", "0/child:x#1"), ("step", "0/x#1"), ("event", "0/event:x#1")]:
            payload = b'{"status":"completed","attempt":1}'
            stray = Message(run_id=run.id, key=f"{kind}/stray", kind=kind, name=name, payload=payload)
            await engine.deliver(stray)
        await run.signal("item", 1)

        assert await run.result() == [1]


@pytest.mark.req("K15")
async def test_signal_to_nobody_is_an_error(engines: Engines) -> None:
    async with engines.new(collect) as engine:
        with pytest.raises(RunNotFound):
            await engine.handle("0" * 32).signal("x")


@pytest.mark.req("K15", "K1")
async def test_signals_that_were_not_taken_are_listed_at_the_end(engines: Engines) -> None:
    async with engines.new(collect) as engine:
        run = await engine.start(collect, 1)
        await suspended(run)
        await asyncio.gather(*(run.signal("item", n, id=f"i{n}") for n in range(3)))
        await run.result()

        [end] = [e for e in await all_events(run) if e.kind == "completed"]
        received = [e for e in await all_events(run) if e.kind == "received"]

    assert len(received) + len(set(end.data.get("unconsumed", [])) - {e.data["key"] for e in received}) <= 3


async def _told(run: RunHandle[Any], words: str) -> bool:
    return words in (await run.why()).text
