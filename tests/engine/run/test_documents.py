"""Documents, checkpoints, and the state of a run at any moment of its past."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from stepwell import Context, Machine, Retry, RunFailed, StepContext, SyncContext, step, transition, workflow
from stepwell.domain.status import Status
from stepwell.errors import DocumentNotFound, InvalidInput, PayloadTooLarge
from tests.engine.execution.process_steps import save_apart
from tests.engines import Engines, all_events, kinds, log, suspended


@dataclass
class Invoice:
    number: str
    total: Decimal


@step
async def bill(me: StepContext, number: str) -> str:
    me.save("invoice", Invoice(number, Decimal("1.50")))
    me.save("note", {"for": number})
    return number


@workflow
async def billing(ctx: Context) -> list[Any]:
    await ctx.step(bill, "a")
    first = await ctx.document("invoice", Invoice)
    await ctx.step(bill, "b")
    second = await ctx.document("invoice", Invoice)
    return [first.number, second.number, str(second.total), await ctx.document("note")]


@pytest.mark.req("K25")
async def test_a_step_keeps_named_typed_versioned_values(engines: Engines) -> None:
    async with engines.new(billing) as engine:
        run = await engine.start(billing)
        assert await run.result() == ["a", "b", "1.50", {"for": "b"}]

        found = await run.documents()
        assert [(d.id, d.type, d.path) for d in found] == [
            ("invoice@2", "Invoice", "0/bill#2"),
            ("note@2", "dict", "0/bill#2"),
        ]
        assert await run.document("invoice", Invoice) == Invoice("b", Decimal("1.50"))
        assert await run.document("invoice", Invoice, version=1) == Invoice("a", Decimal("1.50"))
        assert await run.document("note") == {"for": "b"}
        with pytest.raises(DocumentNotFound, match="invoice version 3"):
            await run.document("invoice", version=3)
        with pytest.raises(DocumentNotFound):
            await run.document("receipt")


@pytest.mark.req("K25", "K2")
async def test_documents_are_written_with_their_step_and_replayed(replayed_engines: Engines) -> None:
    async with replayed_engines.new(billing) as engine:
        run = await engine.start(billing)
        assert await run.result() == ["a", "b", "1.50", {"for": "b"}]

        events = [e for e in await log(run) if e.endswith("bill#1")]
    assert events == [
        "document_saved 0/bill#1",
        "document_saved 0/bill#1",
        "step_completed 0/bill#1",
    ]


@pytest.mark.req("K25")
async def test_what_a_failed_attempt_saved_is_never_seen(engines: Engines) -> None:
    @step(retry=Retry(2, delay=0))
    async def flaky(me: StepContext) -> str:
        me.save("draft", me.attempt)
        if me.attempt == 1:
            raise ValueError("no")
        return "ok"

    @step
    async def hopeless(me: StepContext) -> str:
        me.save("lost", 1)
        raise ValueError("no")

    @workflow
    async def trying(ctx: Context) -> str:
        await ctx.step(flaky)
        return await ctx.step(hopeless)

    async with engines.new(trying) as engine:
        run = await engine.start(trying)
        with pytest.raises(RunFailed):
            await run.result()

        assert [(d.id, await run.document(d.name)) for d in await run.documents()] == [("draft@1", 2)]
        assert (await kinds(run)).count("document_saved") == 1


@pytest.mark.req("K25", "K24")
async def test_a_document_is_visible_from_its_checkpoint_on(engines: Engines) -> None:
    async with engines.new(billing) as engine:
        run = await engine.start(billing)
        await run.result()
        first, second = await run.checkpoints()

        assert (first.version, first.place, first.documents) == (1, "0/bill#1", ("invoice@1", "note@1"))
        assert (second.version, second.place, second.documents) == (2, "0/bill#2", ("invoice@2", "note@2"))
        assert await run.documents(at=first.seq - 1) == []
        assert [d.id for d in await run.documents(at=first.seq)] == ["invoice@1", "note@1"]
        assert (await run.document("invoice", Invoice, at=first.seq)).number == "a"
        with pytest.raises(InvalidInput, match=r"invoice@. of run .* is not of type int") as misfit:
            await run.document("invoice", int)
        assert misfit.value.hint == "it was saved as Invoice; leave the type out to get its JSON"
        with pytest.raises(InvalidInput, match="no event 99"):
            await run.documents(at=99)


@pytest.mark.req("K24")
async def test_state_at_any_seq_is_what_it_was_then(engines: Engines) -> None:
    async def double(n: int) -> int:
        return n * 2

    @workflow
    async def waiting(ctx: Context) -> int:
        n = await ctx.step(double, 1)
        n += await ctx.signal("more", int)
        return await ctx.step(double, n)

    async with engines.new(waiting) as engine:
        run = await engine.start(waiting)
        await suspended(run)
        while_waiting = await run.state()
        seq = (await all_events(run))[-1].seq
        await run.signal("more", 5)
        assert await run.result() == 14

        assert await run.state(at=seq) == while_waiting
        assert while_waiting.status is Status.SUSPENDED
        assert {path: bytes(raw) for path, raw in while_waiting.outputs.items()} == {"0/double#1": b"2"}
        now = await run.state()
        assert {path: bytes(raw) for path, raw in now.outputs.items()} == {
            "0/double#1": b"2",
            "0/double#2": b"14",
        }
        assert (await run.state(at=1)).status is Status.PENDING
        assert [bytes(c.state) for c in await run.checkpoints()] == [b"2", b"14"]
        assert [c.forkable for c in await run.checkpoints()] == [True, True]


@pytest.mark.req("K25", "F6", "F7")
async def test_steps_elsewhere_save_documents_too(engines: Engines) -> None:
    @step(queue="gpu")
    async def far(me: StepContext) -> str:
        me.save("far", "away")
        return "far"

    @step
    def threaded(me: StepContext) -> str:
        me.save("thread", "here")
        return "thread"

    @workflow
    async def all_of_them(ctx: Context) -> list[str]:
        return [await ctx.step(far), await ctx.step(threaded), await ctx.step(save_apart, "x")]

    async with engines.new(all_of_them, steps=[far], queues=["default", "gpu"]) as engine:
        run = await engine.start(all_of_them)
        await run.result(30)

        assert [(d.name, await run.document(d.name)) for d in await run.documents()] == [
            ("apart", "x"),
            ("far", "away"),
            ("thread", "here"),
        ]


@pytest.mark.req("K25", "F10")
async def test_workflow_code_saves_and_a_new_generation_still_sees_it(replayed_engines: Engines) -> None:
    async def nothing() -> None: ...

    @workflow
    async def counting(ctx: Context, n: int) -> list[int]:
        ctx.save("count", n)
        await ctx.step(nothing)
        if n < 2:
            ctx.continue_as_new(n + 1)
        return [await ctx.document("count", int), n]

    async with replayed_engines.new(counting) as engine:
        run = await engine.start(counting, 0)

        assert await run.result() == [2, 2]
        assert [d.id for d in await run.documents()] == ["count@3"]


@pytest.mark.req("K25", "F1")
async def test_plain_workflow_functions_have_documents(engines: Engines) -> None:
    @workflow
    def plain(ctx: SyncContext) -> int:
        ctx.save("n", 4)
        ctx.step(lambda: None)
        return ctx.document("n", int)

    async with engines.new(plain) as engine:
        assert await (await engine.start(plain)).result() == 4


@pytest.mark.req("K25", "K32")
async def test_a_document_that_is_too_large_fails_its_step(memory_engines: Engines) -> None:
    @step
    async def large(me: StepContext) -> None:
        me.save("big", "x" * 3_000_000)

    @workflow
    async def saving(ctx: Context) -> None:
        await ctx.step(large)

    async with memory_engines.new(saving) as engine:
        run = await engine.start(saving)
        with pytest.raises(RunFailed, match="document big") as failure:
            await run.result()

        assert failure.value.cause_code in (PayloadTooLarge.code, "STEP_FAILED")
        assert await run.documents() == []


@pytest.mark.req("K26", "K25")
async def test_a_fork_has_the_documents_of_what_it_took_over(engines: Engines) -> None:
    async with engines.new(billing) as engine:
        run = await engine.start(billing)
        await run.result()
        first = (await run.checkpoints())[0]
        new = await engine.fork(run, at=first.seq)
        early = await engine.fork(run, at=first.seq - 1)

        assert (await new.result())[0] == "a"
        assert [d.id for d in await new.documents()] == ["invoice@2", "note@2"]
        await early.result()
        assert [d.id for d in await early.documents()] == ["invoice@2", "note@2"]


@dataclass
class Case:
    tries: int = 0
    notes: list[str] = field(default_factory=list)


broken = [True]


@step
async def attach(me: StepContext, what: str) -> str:
    me.save("file", what)
    return what


class Files(Machine[Case]):
    @transition("start", "open")
    async def begin(self, ctx: Context) -> None:
        ctx.save("summary", "empty")
        self.state.notes.append(await ctx.step(attach, "one"))

    @transition("open", "end")
    async def fill(self, ctx: Context) -> None:
        ctx.save("summary", "half")
        await ctx.step(attach, "two")
        self.state.tries += 1
        if broken[0]:
            ctx.save("trace", "of a failure")
            raise ValueError("no")
        self.state.notes.append(await ctx.document("summary", str))


@pytest.mark.req("K25", "M3")
async def test_documents_of_a_machine_change_with_its_checkpoint_only(engines: Engines) -> None:
    broken[0] = True

    async with engines.new(Files) as engine:
        run = await engine.start(Files)
        with pytest.raises(RunFailed):
            await run.result(15)
        assert [d.id for d in await run.documents()] == ["file@1", "summary@1"]
        assert await run.document("file") == "one"
        broken[0] = False
        await run.retry()

        result = await run.result(15)
        assert result == Case(1, ["one", "empty"])  # within a visit its own saves are not visible yet
        assert [(d.id, await run.document(d.name)) for d in await run.documents()] == [
            ("file@2", "two"),
            ("summary@2", "half"),
        ]
        assert [sorted(c.documents) for c in await run.checkpoints()] == [
            ["file@1", "summary@1"],
            ["file@2", "summary@2"],
        ]
        kept = [e.data["documents"] for e in await all_events(run) if e.kind == "transition_completed"]
        assert [sorted(ids) for ids in kept] == [["file@1", "summary@1"], ["file@2", "summary@2"]]


@pytest.mark.req("K26", "K25", "M3")
async def test_a_fork_of_a_machine_has_the_documents_of_its_checkpoint(engines: Engines) -> None:
    broken[0] = False

    async with engines.new(Files) as engine:
        run = await engine.start(Files)
        await run.result(15)
        first, last = await run.checkpoints()
        new = await engine.fork(run, at=first.seq)
        over = await engine.fork(run, at=last.seq)

        await new.result(15)
        await over.result(15)
        for fork in (new, over):
            assert [(d.id, await fork.document(d.name)) for d in await fork.documents()] == [
                ("file@2", "two"),
                ("summary@2", "half"),
            ]
            assert [sorted(c.documents) for c in await fork.checkpoints()] == [
                ["file@1", "summary@1"],
                ["file@2", "summary@2"],
            ]


@pytest.mark.req("K26", "K25")
async def test_what_workflow_code_saved_is_not_saved_again_by_a_fork(replayed_engines: Engines) -> None:
    async def nothing() -> None: ...

    @workflow
    async def saving(ctx: Context) -> int:
        ctx.save("n", 1)
        await ctx.step(nothing)
        ctx.save("n", 2)
        return await ctx.document("n", int)

    async with replayed_engines.new(saving) as engine:
        run = await engine.start(saving)
        await run.result()
        [checkpoint] = await run.checkpoints()
        new = await engine.fork(run, at=checkpoint.seq)

        assert await new.result() == 2
        assert [d.id for d in await new.documents()] == ["n@2"]
