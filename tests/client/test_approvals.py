"""Approvals: several people, the starter barred, other assignees, reminders; each decision says who."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from stepwell import (
    Context,
    Machine,
    SyncClient,
    WaitTimedOut,
    step,
    transition,
    workflow,
)
from stepwell.authoring.graphs.format.python_builder import GraphBuilder
from stepwell.domain.approvals import denies
from stepwell.domain.commit import Delivery, Message
from stepwell.errors import (
    AlreadyDecided,
    InvalidInput,
    NotAssigned,
    OutcomeUnknown,
    RunFailed,
    StarterBarred,
)
from stepwell.store.base import INBOX_READ_MAX
from tests.engines import SHORT_LEASE, Engines, all_events, crash, suspended, until

pytestmark = pytest.mark.req("N12", "K15")

Answer: Any = Literal["approved", "denied"]


@workflow
async def two_must(ctx: Context) -> str:
    return await ctx.approval(Answer, required=2, title="Pay?", assignees=["ann", "bob", "role:finance"])


@workflow
async def not_mine(ctx: Context) -> str:
    return await ctx.approval(Answer, bar_starter=True)


async def decided(run: Any) -> list[tuple[str, str]]:
    """Who decided what, according to the log."""
    return [
        (event.data["by"], event.data["payload"])
        for event in await all_events(run)
        if event.kind == "received" and event.data["what"] == "decide" and not event.data.get("rejected")
    ]


async def wait_of(run: Any) -> Any:
    [wait] = await run.waits()
    return wait


async def approved_by(run: Any, *names: str) -> None:
    async def so_far() -> bool:
        waits = await run.waits()
        return bool(waits) and waits[0].approved_by == list(names)

    await until(so_far)


async def test_as_many_people_as_required_must_approve(engines: Engines) -> None:
    async with engines.new(two_must) as engine:
        run = await engine.start(two_must)
        await run.waiting_for("approval")

        await run.decide("approved", by="ann", reason="checked")
        await approved_by(run, "ann")
        await suspended(run)
        wait = await wait_of(run)
        await run.decide("approved", by="eve", roles=["finance"])

        assert await run.result(timeout=30) == "approved"
        assert (wait.required, wait.title, wait.approved_by) == (2, "Pay?", ["ann"])
        assert await decided(run) == [("ann", "approved"), ("eve", "approved")]


async def test_one_who_denies_is_enough(engines: Engines) -> None:
    async with engines.new(two_must) as engine:
        run = await engine.start(two_must)
        await run.waiting_for("approval")
        await run.decide("approved", by="ann")
        await run.decide("denied", by="bob")

        assert await run.result(timeout=30) == "denied"


async def test_a_person_counts_once(engines: Engines) -> None:
    async with engines.new(two_must) as engine:
        run = await engine.start(two_must)
        await run.waiting_for("approval")
        await run.decide("approved", by="ann")
        with contextlib.suppress(AlreadyDecided):  # unless the first one is not taken yet
            await run.decide("approved", by="ann")
        await approved_by(run, "ann")
        with pytest.raises(AlreadyDecided, match="ann has already approved"):
            await run.decide("denied", by="ann")
        with pytest.raises(InvalidInput, match="anonymous"):
            await run.decide("approved", roles=["finance"])
        with pytest.raises(NotAssigned):
            await run.decide("approved", by="mallory")
        await suspended(run)

        assert (await wait_of(run)).approved_by == ["ann"]


async def test_approvals_count_across_workers_and_replays(durable_engines: Engines) -> None:
    first = durable_engines.new(two_must, settings=SHORT_LEASE)
    await first.open()
    run = await first.start(two_must)
    await run.waiting_for("approval")
    await run.decide("approved", by="ann")
    await approved_by(run, "ann")
    await crash(first)

    async with durable_engines.new(two_must, settings=SHORT_LEASE) as second:
        again = second.handle(run.id)
        await again.decide("approved", by="bob")
        assert await again.result(timeout=30) == "approved"


async def test_approvals_count_when_the_code_is_replayed(replayed_engines: Engines) -> None:
    @workflow
    async def twice(ctx: Context) -> list[str]:
        first = await ctx.approval(Answer, required=3, name="first")
        return [first, await ctx.approval(Answer, required=2, name="first")]

    async with replayed_engines.new(twice) as engine:
        run = await engine.start(twice)
        for question, people in (("0/approval:first#1", "abc"), ("0/approval:first#2", "ab")):
            await run.waiting_for(question)
            for name in people:
                await run.decide("approved", by=name, path=question)

        assert await run.result(timeout=30) == ["approved", "approved"]


async def test_approvals_still_count_after_a_retry(memory_engines: Engines) -> None:
    broken = True

    @step
    async def flaky() -> None:
        if broken:
            raise ValueError("no luck")

    @workflow
    async def side_by_side(ctx: Context) -> str:
        async def fail_later() -> None:
            await ctx.signal("go")
            await ctx.step(flaky)

        answer, _ = await ctx.all(ctx.approval(Answer, required=2), fail_later())
        return str(answer)

    async with memory_engines.new(side_by_side) as engine:
        run = await engine.start(side_by_side)
        await run.waiting_for("approval")
        await run.decide("approved", by="ann")
        await until(lambda: _has(run, "ann"))
        await run.signal("go")
        with pytest.raises(RunFailed):
            await run.result(timeout=30)
        broken = False
        await run.retry()
        assert (await run.waiting_for("approval")).approved_by == ["ann"]
        await run.decide("approved", by="bob")

        assert await run.result(timeout=30) == "approved"


async def test_after_a_timeout_people_approve_anew(memory_engines: Engines) -> None:
    limit = 0.3

    @workflow
    async def hurried(ctx: Context) -> str:
        return await ctx.approval(Answer, required=2, timeout=limit)

    async with memory_engines.new(hurried) as engine:
        run = await engine.start(hurried)
        await run.waiting_for("approval")
        await run.decide("approved", by="ann")
        with pytest.raises(RunFailed):
            await run.result(timeout=30)
        limit = 600.0
        await run.retry()
        await run.waiting_for("approval")
        await run.decide("approved", by="bob")
        await until(lambda: _has(run, "bob"))
        assert (await wait_of(run)).approved_by == ["bob"]
        await run.decide("approved", by="carl")

        assert await run.result(timeout=30) == "approved"


async def _has(run: Any, name: str) -> bool:
    return any(name in wait.approved_by for wait in await run.waits())


async def test_the_starter_may_be_barred(engines: Engines) -> None:
    async with engines.new(not_mine) as engine:
        run = await engine.start(not_mine, by="ann")
        await run.waiting_for("approval")
        with pytest.raises(StarterBarred, match="ann started the run"):
            await run.decide("approved", by="ann")
        with pytest.raises(InvalidInput):
            await run.decide("approved")
        await run.decide("approved", by="bob")

        assert await run.result(timeout=30) == "approved"
        assert await decided(run) == [("bob", "approved")]


async def test_the_starter_of_the_parent_is_barred_too(memory_engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        return await ctx.run(not_mine)

    async with memory_engines.new(parent, not_mine) as engine:
        top = await engine.start(parent, by="ann")
        wait = await top.waiting_for("not_mine")
        run = engine.handle(wait.key)
        await run.waiting_for("approval")
        with pytest.raises(StarterBarred):
            await run.decide("approved", by="ann")
        await run.decide("denied", by="bob")

        assert await top.result(timeout=30) == "denied"


async def test_an_approval_is_reassigned(engines: Engines) -> None:
    async with engines.new(two_must) as engine:
        run = await engine.start(two_must)
        await run.waiting_for("approval")
        await run.decide("approved", by="ann")
        await run.reassign(["carl"], by="boss", reason="ann and bob are away")

        async def reassigned() -> bool:
            return bool((await wait_of(run)).assignees == ["carl"])

        await until(reassigned)
        with pytest.raises(NotAssigned, match="bob may not"):
            await run.decide("approved", by="bob")
        await run.decide("approved", by="carl")

        assert await run.result(timeout=30) == "approved"
        [fact] = [event.data for event in await all_events(run) if event.kind == "wait_reassigned"]
        assert fact == {"assignees": ["carl"], "by": "boss", "reason": "ann and bob are away"}


async def test_a_reminder_is_recorded_with_who(engines: Engines) -> None:
    async with engines.new(not_mine) as engine:
        run = await engine.start(not_mine)
        await run.waiting_for("approval")
        wait = await run.remind(by="boss", reason="it is urgent")

        async def reminded() -> bool:
            return (await wait_of(run)).reminded_at is not None

        await until(reminded)
        assert wait.path == "0/approval:approval#1"
        [fact] = [event for event in await all_events(run) if event.kind == "wait_reminded"]
        assert (fact.path, fact.data) == (wait.path, {"by": "boss", "reason": "it is urgent"})
        await suspended(run)


async def test_only_an_open_approval_is_reassigned_or_reminded_of(engines: Engines) -> None:
    async with engines.new(not_mine) as engine:
        run = await engine.start(not_mine)
        await run.waiting_for("approval")
        with pytest.raises(InvalidInput):
            await run.reassign("ann")
        await run.decide("approved", by="bob")
        await run.result(timeout=30)
        with pytest.raises(Exception, match="there is nothing left to decide"):
            await run.reassign(["ann"])
        with pytest.raises(Exception, match="there is nothing left to decide"):
            await run.remind()


async def test_a_transition_asks_several_people(engines: Engines) -> None:
    class Refund(Machine[dict[str, Any]]):
        @transition("start", "end")
        async def ask(self, ctx: Context) -> None:
            self.state["answer"] = await ctx.approval(Answer, required=2, bar_starter=True)

    async with engines.new(Refund) as engine:
        run = await engine.start(Refund, by="ann")
        await run.waiting_for("approval")
        with pytest.raises(StarterBarred):
            await run.decide("approved", by="ann")
        await run.decide("approved", by="bob")
        await until(lambda: _has(run, "bob"))
        await suspended(run)
        await run.decide("approved", by="carl")
        result = await run.result(timeout=30)

    assert result["answer"] == "approved"


@pytest.mark.parametrize(
    ("answers", "taken"),
    [(["approved", "approved"], "yes"), (["approved", {"response": "denied", "comment": "too much"}], "no")],
)
async def test_a_node_asks_several_people(engines: Engines, answers: list[Any], taken: str) -> None:
    graph = GraphBuilder("pay")
    ask = graph.node("approval", id="ask", message="Pay?", required=2, barStarter=True)
    graph.node("start") >> ask
    ask["approved"] >> graph.node("end", id="yes", output={"taken": "yes"})
    ask["denied"] >> graph.node("end", id="no", output={"taken": "no"})

    async with engines.new(graph) as engine:
        run = await engine.start("pay", by="ann")
        await run.waiting_for("ask")
        with pytest.raises(StarterBarred):
            await run.decide("approved", by="ann")
        for answer, who in zip(answers, ("bob", "carl"), strict=True):
            await run.decide(answer, by=who)

        assert await run.result(timeout=30) == {"taken": taken}


async def test_a_timeout_ends_it_whatever_was_approved(memory_engines: Engines) -> None:
    @workflow
    async def soon(ctx: Context) -> str:
        try:
            return await ctx.approval(Answer, required=2, timeout=0.5)
        except WaitTimedOut:
            return "nobody"

    async with memory_engines.new(soon) as engine:
        run = await engine.start(soon)
        await run.waiting_for("approval")
        await run.decide("approved", by="ann")

        assert await run.result(timeout=30) == "nobody"


async def test_of_many_at_once_each_is_recorded_once(engines: Engines) -> None:
    @workflow
    async def ten(ctx: Context) -> str:
        return await ctx.approval(Answer, required=10)

    async with engines.new(ten) as engine:
        run = await engine.start(ten)
        await run.waiting_for("approval")
        async with asyncio.TaskGroup() as group:
            for i in range(10):
                group.create_task(run.decide("approved", by=f"p{i}"))

        assert await run.result(timeout=30) == "approved"
        assert sorted(who for who, _ in await decided(run)) == sorted(f"p{i}" for i in range(10))


async def test_a_decision_beyond_the_number_is_told_so(engines: Engines) -> None:
    """Nobody takes messages yet, so the wait is open for all of them; the order of arrival counts."""
    async with engines.new(two_must) as engine:
        run = await engine.start(two_must)
        await run.waiting_for("approval")
        await run.hold(by="boss")
        await until(lambda: _held(run))
        await run.decide("approved", by="ann")
        await run.decide("approved", by="bob")
        with pytest.raises(AlreadyDecided, match="bob decided") as beyond:
            await run.decide("denied", by="eve", roles=["finance"])
        await run.release(by="boss")

        assert await run.result(timeout=30) == "approved"
        assert await decided(run) == [("ann", "approved"), ("bob", "approved")]
        assert beyond.value.context["decision"] == "approved"


async def test_a_decision_whose_answer_was_lost_is_not_refused(engines: Engines) -> None:
    """The client sends it again when the run has taken it and asks the next question, or has ended."""

    @workflow
    async def two_questions(ctx: Context) -> list[str]:
        return [await ctx.approval(Answer, name="first"), await ctx.approval(Answer, name="second")]

    async with engines.new(two_questions) as engine:
        run = await engine.start(two_questions)
        deliver = engine.store.deliver

        async def unanswered(messages: Sequence[Message]) -> Sequence[Delivery]:
            engine.store.deliver = deliver  # type: ignore[method-assign]
            await deliver(messages)
            engine.notifier.notify_work(run.id)
            await until(lambda: _took(run, messages[0].key))
            raise OutcomeUnknown("the answer was lost")

        for name in ("first", "second"):
            await run.waiting_for(name)
            engine.store.deliver = unanswered  # type: ignore[method-assign]
            await run.decide("approved", by="ann")

        assert await run.result(timeout=30) == ["approved", "approved"]
        assert await decided(run) == [("ann", "approved"), ("ann", "approved")]


async def _took(run: Any, key: str) -> bool:
    return any(event.data.get("received") == key for event in await all_events(run))


async def test_a_decision_behind_many_messages_counts(memory_engines: Engines) -> None:
    async with memory_engines.new(two_must) as engine:
        run = await engine.start(two_must)
        await run.waiting_for("approval")
        await run.hold()
        await until(lambda: _held(run))
        for number in range(INBOX_READ_MAX):
            await run.signal("other", number)
        await run.decide("approved", by="ann")
        await run.decide("approved", by="bob")
        with pytest.raises(AlreadyDecided, match="bob decided"):
            await run.decide("approved", by="eve", roles=["finance"])
        await run.release()

        assert await run.result(timeout=30) == "approved"


async def _held(run: Any) -> bool:
    return bool((await run.info()).held)


@dataclass
class Form:
    approved: bool
    comment: str = ""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'"denied"', True),
        (b'"approved"', False),
        (b"false", True),
        (b"true", False),
        (b'{"response":"denied"}', True),
        (b'{"response":"approved"}', False),
        (b'{"approved":false}', True),
        (b'{"approved":true}', False),
        (b"null", False),
        (b"[]", False),
    ],
)
def test_which_answers_deny(answer: bytes, expected: bool) -> None:
    assert denies(answer) is expected


async def test_a_form_says_whether_it_approves(memory_engines: Engines) -> None:
    @workflow
    async def forms(ctx: Context) -> Form:
        return await ctx.approval(Form, required=2)

    async with memory_engines.new(forms) as engine:
        run = await engine.start(forms)
        await run.waiting_for("approval")
        await run.decide(Form(True), by="ann")
        await run.decide(Form(False, "no"), by="bob")

        assert await run.result(timeout=30) == Form(False, "no")


@pytest.mark.parametrize("required", [0, -1, 101, True, "2", 1.5])
async def test_a_wrong_number_is_refused(memory_engines: Engines, required: Any) -> None:
    @workflow
    async def wrong(ctx: Context) -> Any:
        return await ctx.approval(Answer, required=required)

    async with memory_engines.new(wrong) as engine:
        run = await engine.start(wrong)
        with pytest.raises(RunFailed, match=r"required of ctx\.approval"):
            await run.result(timeout=30)


def test_sync_code_reassigns_and_reminds(sqlite: Engines) -> None:
    with SyncClient(engine=sqlite.new(not_mine)) as client:
        run = client.start(not_mine)
        run.waiting_for("approval")
        run.reassign(["bob"], by="boss")
        assert run.remind(by="boss").path == "0/approval:approval#1"
        run.waiting_for("approval")
        run.decide("approved", by="bob")

        assert run.result(timeout=30) == "approved"


async def test_an_approval_that_only_the_run_can_refuse_does_not_count(memory_engines: Engines) -> None:
    @dataclass
    class Small:
        approved: bool
        amount: int

        def __post_init__(self) -> None:
            if self.amount > 10:
                raise ValueError("too much")

    @workflow
    async def forms(ctx: Context) -> Any:
        return (await ctx.approval(Small, required=2)).amount

    async with memory_engines.new(forms) as engine:
        run = await engine.start(forms)
        await run.waiting_for("approval")
        await run.decide({"approved": True, "amount": 1000}, by="ann")
        await until(lambda: _refused(run))
        assert (await wait_of(run)).approved_by == []
        await run.decide({"approved": True, "amount": 1}, by="ann")
        await run.decide({"approved": True, "amount": 2}, by="bob")

        assert await run.result(timeout=30) == 2


async def _refused(run: Any) -> bool:
    return bool((await run.state()).refused)
