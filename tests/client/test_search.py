"""Finding: runs by any filter, open waits and approvals of all runs, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell import Context, Engine, RunFailed, SyncClient, WaitTimedOut, workflow
from stepwell.domain.search import WaitFilter, WaitRow
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, suspended, until


@workflow
async def refunding(ctx: Context, amount: int) -> bool:
    return await ctx.approval(bool, name="refund", title=f"Refund {amount}?", assignees=["ana"], timeout=3600)


@workflow
async def listening(ctx: Context) -> Any:
    return await ctx.signal("go")


@workflow
async def refused(ctx: Context, what: str) -> None:
    raise ConnectionError(f"connection to {what} REFUSED")


@workflow
async def parent(ctx: Context) -> None:
    await ctx.run(listening)


@pytest.mark.req("K40")
async def test_runs_are_found_by_tag_key_trigger_time_and_parent(engines: Engines) -> None:
    async with engines.new(listening, parent) as engine:
        one = await engine.start(listening, key="order-1", tags={"customer": "7"}, trigger="schedule")
        two = await engine.start(listening, key="order-2", tags={"customer": "7", "vip": "yes"})
        tree = await engine.start(parent)
        child = (await tree.waiting_for("listening")).key
        began = (await one.info()).created_at

        async def found(**filter: Any) -> list[str]:
            return [row.id for row in await engine.runs(**filter)]

        assert await found(tags={"customer": "7"}) == [two.id, one.id]
        assert await found(tags={"customer": "7", "vip": "yes"}) == [two.id]
        assert await found(key="order-1") == [one.id]
        assert await found(key_prefix="order-") == [two.id, one.id]
        assert await found(trigger="schedule") == [one.id]
        assert await found(trigger="child", parent=tree.id) == [child]
        assert await found(until=began) == []
        assert len(await found(since=began)) == 4
        assert len(await found(since=datetime.fromtimestamp(began - 1, tz=UTC))) == 4


@pytest.mark.req("K40")
async def test_failed_runs_are_found_by_words_of_their_error(engines: Engines) -> None:
    async with engines.new(refused) as engine:
        runs = [await engine.start(refused, where) for where in ("db-1", "mail")]
        for run in runs:
            with pytest.raises(RunFailed):
                await run.result()

        assert [row.id for row in await engine.runs(error="refused Connection")] == [
            run.id for run in runs[::-1]
        ]
        assert [row.id for row in await engine.runs(error="connection to mail")] == [runs[1].id]
        assert await engine.runs(error="refuse") == []
        with pytest.raises(InvalidInput, match="no words"):
            await engine.runs(error="?!")


@pytest.mark.req("K40")
async def test_pages_lead_to_each_other(engines: Engines) -> None:
    async with engines.new(listening) as engine:
        runs = [run.id for run in await engine.start_many(listening, [None] * 7, tags={"a": "b"})]

        for filter in ({}, {"workflow": "listening"}, {"tags": {"a": "b"}}, {"status": list(Status)}):
            pages, before = [], ""
            while True:
                page = await engine.runs(limit=3, before=before, **filter)
                pages.append([row.id for row in page])
                before = page.next
                if not before:
                    break
            assert pages == [runs[:-4:-1], runs[-4:-7:-1], runs[:1]]
        with pytest.raises(InvalidInput, match="no such run"):
            await engine.runs(before="f" * 32)


@pytest.mark.req("K40")
async def test_runs_are_counted_by_status_workflow_and_queue(engines: Engines) -> None:
    async with engines.new(listening, refused) as engine:
        waiting = await engine.start(listening)
        await suspended(waiting)
        failed = await engine.start(refused, "db")
        with pytest.raises(RunFailed):
            await failed.result()
        await engine.start(listening, queue="nobody")

        counts = await engine.counts()
        assert counts.total == 3
        assert counts.statuses == {"suspended": 1, "failed": 1, "pending": 1}
        assert counts.workflows == {"listening": {"suspended": 1, "pending": 1}, "refused": {"failed": 1}}
        assert counts.queues == {"default": {"suspended": 1, "failed": 1}, "nobody": {"pending": 1}}
        assert (await engine.counts(workflow="refused")).statuses == {"failed": 1}
        assert (await engine.counts(queue="nobody")).total == 1
        assert (await engine.within("other").counts()).total == 0


@pytest.mark.req("S1")
async def test_runs_are_counted_in_buckets_of_time(engines: Engines) -> None:
    async with engines.new(listening, refused) as engine:
        waiting = await engine.start(listening)
        await suspended(waiting)
        failed = await engine.start(refused, "db")
        with pytest.raises(RunFailed):
            await failed.result()
        began = (await waiting.info()).created_at
        span: Any = {"since": began, "until": began + 600, "buckets": 10}

        buckets = await engine.histogram(**span)
        assert [round(each.start - began) for each in buckets] == [60 * place for place in range(10)]
        assert [each.statuses for each in buckets] == [{"suspended": 1, "failed": 1}] + [{}] * 9
        only = await engine.histogram(**span, status="failed", workflow="refused")
        assert only[0].statuses == {"failed": 1}
        assert (await engine.within("other").histogram(**span))[0].statuses == {}
        with pytest.raises(InvalidInput, match="before it begins"):
            await engine.histogram(since=began, until=began)
        with pytest.raises(InvalidInput, match="buckets"):
            await engine.histogram(since=began, buckets=0)


async def found(assignee: str, engine: Engine) -> bool:
    return len(await engine.approvals(assignee=assignee)) == 1


@pytest.mark.req("K40", "N12")
async def test_open_approvals_of_all_runs_are_listed_with_their_question(engines: Engines) -> None:
    async with engines.new(refunding, listening) as engine:
        runs = []
        for amount in (10, 20):
            runs.append(await engine.start(refunding, amount))
            await runs[-1].waiting_for("refund")
        await (await engine.start(listening)).waiting_for("go")

        newest, oldest = await engine.approvals()
        assert (newest.run, oldest.run) == (runs[1].id, runs[0].id)
        assert (newest.title, newest.assignees, newest.workflow) == ("Refund 20?", ("ana",), "refunding")
        assert (newest.number, newest.what, newest.name) == (2, "approval", "refund")
        assert newest.form == {"type": "boolean"}
        assert newest.due_at == pytest.approx(newest.opened_at + 3600)
        assert len(await engine.approvals(assignee="ana")) == 2
        assert await engine.approvals(assignee="bo", roles=["clerk"]) == []
        assert await engine.approvals(name="other") == []
        first = await engine.approvals(limit=1)
        assert [wait.run for wait in await engine.approvals(limit=1, before=first.next)] == [runs[0].id]
        assert await engine.within("other").approvals() == []

        await runs[0].reassign(["bo"], by="boss")
        await until(lambda: found("bo", engine))
        assert [wait.assignees for wait in await engine.approvals()] == [("ana",), ("bo",)]

        await runs[1].decide(True, by="ana")
        assert await runs[1].result() is True
        assert [wait.run for wait in await engine.approvals()] == [runs[0].id]


@pytest.mark.req("K40", "N12")
async def test_open_approvals_of_a_person_are_found_among_those_of_others(memory_engines: Engines) -> None:
    @workflow
    async def asking(ctx: Context, name: str) -> bool:
        return await ctx.approval(bool, assignees=[name])

    async with memory_engines.new(asking) as engine:
        people = ["ana", *["bo"] * 300, "ana", "ana"]
        runs = [run.id for run in await engine.start_many(asking, people)]
        await until(lambda: _asked(engine, len(people)))
        reads, list_waits = 0, engine.store.list_waits

        async def counted(filter: WaitFilter) -> Sequence[WaitRow]:
            nonlocal reads
            reads += 1
            return await list_waits(filter)

        engine.store.list_waits = counted  # type: ignore[method-assign]
        mine = await engine.approvals(assignee="ana", limit=10)
        assert {wait.run for wait in mine} == {runs[0], *runs[-2:]}
        assert (mine.next, reads <= 3) == ("", True)
        pages, before = [], ""
        while True:
            page = await engine.approvals(assignee="ana", limit=1, before=before)
            pages += [wait.run for wait in page]
            before = page.next
            if not before:
                break
        assert pages == [wait.run for wait in mine]


async def _asked(engine: Engine, count: int) -> bool:
    return len(await engine.approvals(limit=1000)) == count


@workflow
async def publishing(ctx: Context) -> str:
    try:
        return await ctx.approval(str, name="publish", timeout=0.3)
    except WaitTimedOut:
        return "nobody"


@pytest.mark.req("K40", "N12")
async def test_decided_approvals_of_all_runs_say_who_decided_what(engines: Engines) -> None:
    async with engines.new(refunding, publishing) as engine:
        runs = []
        for amount, answer, by in ((10, True, "ana"), (20, False, "ana")):
            run = await engine.start(refunding, amount)
            await run.waiting_for("refund")
            await run.decide(answer, by=by, reason=f"because of {amount}")
            await run.result()
            runs.append(run)
        late = await engine.start(publishing)
        assert await late.result() == "nobody"

        timed_out, denied, approved = await engine.decided_approvals()
        assert (approved.run, approved.title, approved.decision) == (runs[0].id, "Refund 10?", "approved")
        assert (approved.by, approved.reason, approved.answer) == ("ana", "because of 10", True)
        assert approved.opened_at < approved.decided_at
        assert (denied.run, denied.decision, denied.workflow, denied.number) == (
            *(runs[1].id, "denied", "refunding", 2),
        )
        assert (timed_out.run, timed_out.decision, timed_out.by) == (late.id, "timed_out", "")
        first = await engine.decided_approvals(limit=1)
        rest = await engine.decided_approvals(before=first.next)
        assert [one.run for one in rest] == [runs[1].id, runs[0].id]
        assert await engine.within("other").decided_approvals() == []

        exported = await engine.export(runs[0])
        await runs[0].delete()
        assert [one.run for one in await engine.decided_approvals()] == [late.id, runs[1].id]
        await engine.import_run(exported)
        [again] = [one for one in await engine.decided_approvals() if one.run == runs[0].id]
        assert replace(again, number=1) == approved


@pytest.mark.req("K40")
async def test_open_waits_are_listed_until_they_are_answered(engines: Engines) -> None:
    @workflow
    async def paying(ctx: Context) -> None:
        await ctx.event("paid", key="7")

    async with engines.new(listening, paying) as engine:
        one, two = await engine.start(listening), await engine.start(paying)
        await one.waiting_for("go")
        await two.waiting_for("paid")

        waits = {wait.run: (wait.what, wait.name, wait.key) for wait in await engine.waits()}
        assert waits == {one.id: ("signal", "go", ""), two.id: ("event", "paid", "7")}
        assert [wait.run for wait in await engine.waits(what="signal", name="go")] == [one.id]
        await one.signal("go", 1)
        await one.result()
        assert [wait.run for wait in await engine.waits()] == [two.id]
        with pytest.raises(InvalidInput, match="what is 'timer'"):
            await engine.waits(what="timer")


@pytest.mark.req("K40")
async def test_a_node_that_waits_for_an_event_is_one_open_wait(engines: Engines) -> None:
    nodes = [START, a("W", "wait", mode="event", event="paid"), a("Z", "end", output={})]
    async with engines.new(chart(nodes, "S>W W>Z", name="pays")) as engine:
        run = await engine.start("pays", {})
        await run.waiting_for("W")
        await suspended(run)

        assert [(wait.what, wait.name, wait.path) for wait in await engine.waits()] == [
            ("event", "paid", "0/W")
        ]
        assert [(wait.what, wait.name, wait.path) for wait in await run.waits()] == [("event", "paid", "0/W")]
        assert "signal" not in (await run.why()).text
        await run.event("paid", {})
        await run.result(timeout=30)


@pytest.mark.req("K40")
def test_sync_code_finds_and_counts(durable_engines: Engines) -> None:
    with SyncClient(engine=durable_engines.new(refunding)) as client:
        run = client.start(refunding, 10, tags={"a": "b"})
        run.waiting_for("refund")

        assert [row.id for row in client.runs(tags={"a": "b"})] == [run.id]
        assert client.counts().total == 1
        assert [wait.run for wait in client.approvals()] == [run.id]
        assert [wait.run for wait in client.waits()] == [run.id]


@pytest.mark.req("K40")
@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": {"a": 1}},
        {"tags": "a"},
        {"since": "yesterday"},
        {"until": datetime(2026, 1, 1)},
        {"since": float("nan")},
        {"error": 5},
        {"before": "x/y"},
        {"key_prefix": 5},
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(
    memory_engines: Engines, wrong: dict[str, Any]
) -> None:
    async with memory_engines.new(listening, worker=False) as engine:
        with pytest.raises(InvalidInput):
            await engine.runs(**wrong)
