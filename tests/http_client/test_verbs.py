"""Every verb over HTTP gives what the verb of the engine behind the server gives."""

from __future__ import annotations

import asyncio
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from stepwell import Client, Context, RunEvent, RunHandle, Status, workflow
from stepwell.client import database
from stepwell.errors import (
    AlreadyDecided,
    BadCron,
    Conflict,
    DocumentNotFound,
    InvalidDefinition,
    InvalidInput,
    InvalidRequest,
    KeyConflict,
    MessageConflict,
    NotCompensable,
    NotEndedYet,
    NotRemovable,
    NotRetryable,
    NotSettable,
    NotWaitingYet,
    RunCancelled,
    RunEnded,
    RunExists,
    RunFailed,
    RunNotFound,
    StepNotFound,
    TriggerExists,
    TriggerNotFound,
    UnknownWorkflow,
    WorkerNotFound,
    WorkflowDisabled,
    WrongPlace,
)
from stepwell.http_client import database as remote
from stepwell.secrets.keyring import Keyring
from tests.engines import Engines, suspended, until
from tests.http_client.connected import Review, connected, hearing, order
from tests.server.served import asking, doubling, failing, listening


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal. Times of the API have microseconds."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < 2e-6
    if isinstance(one, msgspec.Struct):
        return type(one) is type(other) and same(msgspec.structs.asdict(one), msgspec.structs.asdict(other))
    if is_dataclass(one):
        return type(one) is type(other) and same(vars_of(one), vars_of(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, msgspec.Raw):
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    return bool(one == other)


def vars_of(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


async def listed(run: RunHandle[Any], **options: Any) -> list[RunEvent]:
    return [event async for event in run.events(**options)]


@pytest.mark.req("A4", "N2")
async def test_a_person_starts_a_graph_with_its_form(engines: Engines) -> None:
    form = {"type": "object", "required": ["amount"]}
    async with connected(engines) as (client, engine):
        drawn = {
            "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "end"}],
            "triggers": [{"id": "by_hand", "type": "manual", "form": form}],
        }
        await client.library.create(drawn, name="paid")
        await client.library.publish("paid")
        ours, theirs = await client.definition("paid"), await engine.definition("paid")
        for start in (client.start, client.library.start):
            with pytest.raises(InvalidInput, match='"amount" is a required property'):
                await start("paid", {}, trigger="manual")
        with pytest.raises(InvalidInput, match="records `api` or `manual`"):
            await client.start("paid", {}, trigger="schedule")
        run = await client.start("paid", {"amount": 1}, trigger="manual")

        assert ours.form is not None
        assert msgspec.json.decode(ours.form) == form == msgspec.json.decode(theirs.form or b"")
        assert (await run.info()).trigger == "manual"


@pytest.mark.req("A4")
async def test_a_run_is_started_and_read(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        run = await client.start(doubling, 21, key="order-42", tags={"customer": "7"}, priority=3)
        there = engine.handle(run.id)

        assert isinstance(client, Client)
        assert isinstance(run, RunHandle)
        assert await run.result(timeout="30s") == 42
        assert await run == 42
        assert await run.status() is Status.COMPLETED
        assert same(await run.info(), await there.info())
        assert (await run.info()).tags == b'{"customer":"7"}'
        assert [(e.seq, e.kind, e.path, e.data) for e in await listed(run)] == [
            (e.seq, e.kind, e.path, e.data) for e in await listed(there)
        ]
        assert await listed(run, follow=True) == await listed(run)
        assert await listed(run, after=2) == (await listed(run))[2:]
        assert [row.seq async for row in run.log()] == [row.seq async for row in there.log()]
        overview = await run.overview()
        assert (overview.number, overview.trigger, overview.steps) == (1, "api", 1)
        assert (await client.start(doubling, 21, key="order-42")).id == run.id
        with pytest.raises(KeyConflict, match="order-42"):
            await client.start(doubling, 22, key="order-42")
        found = await client.find("order-42")
        assert found is not None
        assert found.id == run.id
        assert await client.find("another") is None
        assert await client.run(doubling, 4) == 8


@pytest.mark.req("A4")
async def test_a_run_is_started_by_name_and_read_as_json(memory_engines: Engines) -> None:
    async with connected(memory_engines) as (client, _):
        assert await (await client.start("doubling", 2)).result() == 4
        assert await client.handle((await client.start("doubling", 3)).id, doubling).result() == 6
        with pytest.raises(UnknownWorkflow, match="doublin") as unknown:
            await client.start("doublin", 2)
        assert "doubling" in unknown.value.hint
        with pytest.raises(InvalidInput):
            await client.start("doubling", "much")
        with pytest.raises(InvalidInput):
            await client.start(doubling, "much")  # type: ignore[misc]
        with pytest.raises(InvalidInput, match="trigger"):
            await client.start("doubling", 2, trigger="cron")
        with pytest.raises(InvalidInput, match="option"):
            await client.start("doubling", 2, colour="red")  # type: ignore[call-overload]


@pytest.mark.req("A4")
async def test_many_runs_are_started_and_listed(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        keys = [f"k{number}" for number in range(1100)]
        runs = await client.start_many(doubling, range(1100), keys=keys)
        again: list[RunHandle[int]] = await client.start_many("doubling", list(range(1100)), keys=keys)
        async with asyncio.timeout(120):
            results = [await run.result() for run in runs]

        assert results == [number * 2 for number in range(1100)]
        assert [run.id for run in again] == [run.id for run in runs]
        rows = await client.runs(workflow="doubling", status="completed", limit=1050)
        assert len(rows) == 1050
        there = await engine.runs(workflow="doubling", status="completed", limit=1050)
        assert same(rows, there)
        older = await client.runs(before=rows[9].id, limit=5)
        assert [row.id for row in older] == [row.id for row in rows[10:15]]
        assert await client.runs(limit=0) == []
        with pytest.raises(InvalidInput) as wrong:
            await client.start_many(doubling, [1, "two"])  # type: ignore[misc]
        assert wrong.value.context["which"] == "inputs[1] of 2"


@pytest.mark.req("A4")
async def test_a_waiting_run_is_understood_and_decided(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        run = await client.start(order, 5, by="ann")
        wait = await run.waiting_for("approval", timeout="30s")
        there = engine.handle(run.id)

        assert wait == (await there.waits())[0]
        assert wait.title == "Ship it?"
        assert await run.waits() == await there.waits()
        assert await run.why() == await there.why()
        assert same(await run.state(), await there.state())
        assert same(await run.state(at=3), await there.state(at=3))
        assert same(await run.checkpoints(), await there.checkpoints())
        assert same(await run.documents(), await there.documents())
        assert await run.document("receipt") == "receipt-5"
        assert await run.document("receipt", str) == "receipt-5"
        assert (await run.info()).started_by == "ann"
        with pytest.raises(DocumentNotFound, match="bill"):
            await run.document("bill")
        with pytest.raises(NotEndedYet):
            await run.result(timeout=0.05)
        with pytest.raises(NotWaitingYet):
            await run.waiting_for("another", timeout=0.05)
        with pytest.raises(InvalidInput):
            await run.decide("perhaps")
        await run.decide(True, by="bob", reason="it is paid")
        assert await run.result() == "receipt-5"
        with pytest.raises(RunEnded):
            await run.decide(False)
        with pytest.raises(RunEnded):
            await run.waiting_for("approval", timeout="30s")
        decided = [event.data for event in await listed(run) if event.kind == "received"]
        assert [(data["by"], data["reason"]) for data in decided] == [("bob", "it is paid")]


@pytest.mark.req("A4")
async def test_messages_reach_a_run_once(engines: Engines) -> None:
    async with connected(engines) as (client, _):
        run = await client.start(listening, 2)
        for word in ("one", "one", "two"):
            await run.signal("word", word, id=word)
        assert await run.result() == ["one", "two"]
        with pytest.raises(RunEnded):
            await run.signal("word", "three")

        first, second = await client.start(hearing, "a"), await client.start(hearing, "b")
        await suspended(first)
        await suspended(second)
        assert await client.emit("paid", 2, key="b", id="2")
        assert not await client.emit("paid", 2, key="b", id="2")
        assert await second.result() == 2
        assert await first.event("gone", {"n": 1}, id="1")
        await until(lambda: first._received("signal/1"))
        assert not await first.event("gone", {"n": 1}, id="1")
        with pytest.raises(MessageConflict, match="1"):
            await first.event("gone", {"n": 2}, id="1")
        await client.emit("paid", 1, key="a")
        assert await first.result() == 1


@pytest.mark.req("A4")
async def test_a_machine_is_triggered(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        run = await client.start(Review, 3)
        wait = await run.waiting_for("accept", timeout="30s")

        assert wait == (await engine.handle(run.id).waits())[0]
        with pytest.raises(WrongPlace, match="other"):
            await run.trigger("other")
        await run.trigger("accept", "fine", by="ann")
        assert await run.result() == {"size": 3, "note": 4}
        assert [point.place for point in await run.checkpoints()][-1] == "done"


@pytest.mark.req("A4")
async def test_errors_of_runs_come_with_their_cause(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        run = await client.start(failing, "no bread")
        with pytest.raises(RunFailed) as here:
            await run.result()
        with pytest.raises(RunFailed) as there:
            await engine.handle(run.id).result()
        assert str(here.value) == str(there.value)
        assert here.value.trace == there.value.trace
        assert here.value.cause_code == there.value.cause_code

        waiting = await client.start(asking, "why?")
        await waiting.waiting_for("approval")
        assert await waiting.cancel("changed my mind")
        with pytest.raises(RunCancelled, match="changed my mind"):
            await waiting.result()
        assert not await waiting.cancel()


@pytest.mark.req("A4")
async def test_a_failed_run_is_retried_rerun_forked_and_undone(engines: Engines) -> None:
    async with connected(engines) as (client, _):
        run = await client.start(order, 5)
        with pytest.raises(NotRetryable):
            await run.retry()
        with pytest.raises(NotRemovable):
            await run.delete()
        await run.waiting_for("approval")
        await run.decide(False)
        with pytest.raises(RunFailed):
            await run.result()

        await run.retry(reason="try again")
        with pytest.raises(RunFailed):
            await run.result()
        rerun = await client.rerun(run, input=6, key="again")
        assert (await client.rerun(run, input=6, key="again")).id == rerun.id
        await rerun.waiting_for("approval")
        kept = await client.rerun_from(run, "0/approval:approval#1")
        await kept.waiting_for("approval")
        await kept.decide(True)
        assert await kept.result() == "receipt-5"
        with pytest.raises(StepNotFound):
            await client.rerun_from(run, "nothing")
        forked = await client.fork(run, at=1, input=7)
        await forked.waiting_for("approval")
        assert (await forked.info()).input == b"7"
        with pytest.raises(NotCompensable):
            await rerun.compensate()
        await run.compensate()
        with pytest.raises(RunFailed):
            await run.result()
        with pytest.raises(NotRetryable, match="compensated"):
            await run.retry()
        await run.delete(reason="done with it")
        with pytest.raises(RunNotFound):
            await run.info()


@pytest.mark.req("A4")
async def test_a_run_is_exported_and_imported(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        run = await client.start(doubling, 21)
        await run.result()
        file = await client.export(run)
        assert file == await engine.export(run.id)
        with pytest.raises(RunExists):
            await client.import_run(file)
        await run.delete()
        restored = await client.import_run(file)
        assert restored.id == run.id
        assert await restored.result() == 42


@pytest.mark.req("A4")
async def test_workflows_limits_and_keys_are_managed(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        infos, there = await client.workflows(), await engine.workflows()
        assert [info.name for info in infos] == [info.name for info in there]
        assert infos[0].kind == there[0].kind
        assert infos[0].versions == there[0].versions
        assert await client.disable("doubling", by="ann", reason="broken")
        assert not await client.disable(doubling)
        with pytest.raises(WorkflowDisabled, match="broken"):
            await client.start(doubling, 1)
        assert await client.enable("doubling")
        with pytest.raises(UnknownWorkflow):
            await client.enable("nothing")

        assert await client.hold("workflow", "doubling", by="ann", reason="a pause")
        assert not await client.hold("workflow", "doubling")
        assert same(await client.holds(), await engine.holds())
        assert (await client.holds())[0].reason == "a pause"
        assert await client.release("workflow", "doubling")
        assert await client.holds() == []

        await client.set_limit("workflow", "doubling", 3, by="ann")
        assert await client.limits() == await engine.limits()
        assert await client.drop_limit("workflow", "doubling")
        assert not await client.drop_limit("workflow", "doubling")

        await client.set_start_rate("user", 5, seconds=3600, by="ann")
        assert await client.start_rates() == await engine.start_rates()
        assert await client.drop_start_rate("user", seconds=3600)
        assert not await client.drop_start_rate("user", seconds=3600)

        engine.keyring = Keyring({"a": b"a" * 32}, current="a")
        info = await client.secrets.set("stripe", "sk_live_canary", hosts=["api.example.com"])
        assert same(list(await client.secrets.list()), list(await engine.secrets.list()))
        assert list(await client.secrets.list()) == [info]
        assert (info.version, info.hosts, info.created_by) == (1, ("api.example.com",), "local")
        assert await client.secrets.delete("stripe")
        assert not await client.secrets.delete("stripe")

        alert = await client.alerts.set("late", "overdue", workflow="order", after="2h", channel="ops")
        assert same(list(await client.alerts.list()), list(await engine.alerts.list()))
        assert list(await client.alerts.list()) == [alert]
        assert (alert.after, alert.workflow, alert.created_by) == (7200.0, "order", "local")
        assert await client.alerts.delete("late")
        assert not await client.alerts.delete("late")

        new = await client.keys.create("ci", scopes=["read", "run"], expires="90d")
        [key] = await client.keys.list()
        assert key == new.credential
        assert (key.name, key.scopes, key.created_by) == ("ci", ("read", "run"), "local")
        assert new.text.startswith("sw_key_")
        assert await client.keys.revoke(key.id)
        assert not await client.keys.revoke(key.id)


@pytest.mark.req("A4")
async def test_operators_reach_a_run(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        run = await client.start(order, 5)
        await run.waiting_for("approval")
        assert await run.hold(reason="wait a moment")
        assert not await run.hold()
        assert await run.release()
        await run.waiting_for("approval")
        await run.reassign(["bob"])
        assert (await run.remind()).path == (await run.waits())[0].path
        link = await run.approval_link("bob")
        assert link.text.startswith("sw_link_")
        assert (link.credential.run_id, link.credential.name) == (run.id, "bob")
        assert await run.cancel("enough", force=True)
        with pytest.raises(RunCancelled, match="enough"):
            await run.result()

        failed = await client.start(failing, "no bread")
        with pytest.raises(RunFailed):
            await failed.result()
        assert await failed.logs() == await engine.handle(failed.id).logs()
        assert [line async for line in failed.follow_logs()] == list(await failed.logs())
        await failed.skip("cake")
        assert await failed.result() == "cake"
        waiting = await client.start(listening, 1)
        await suspended(waiting)
        assert [use.queue for use in await client.queues()] == [use.queue for use in await engine.queues()]
        [worker], [there] = await client.workers(), await engine.workers()
        assert (worker.id, worker.name, list(worker.queues)) == (there.id, there.name, list(there.queues))
        assert "doubling@1" in worker.needs


@pytest.mark.req("A4", "K39")
async def test_a_variable_is_set_over_http(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        function = await client.start(listening, 1)
        await suspended(function)
        with pytest.raises(NotSettable, match="not a graph"):
            await function.set_variable("amount", 1)

        run = await client.start("chart", {})
        await suspended(run)
        await run.set_variable("amount", {"of": [1, 2]}, reason="wrong")
        await run.event("go")

        assert await run.result() == {"amount": {"of": [1, 2]}}
        assert (await run.state()).variables == (await engine.handle(run.id).state()).variables


@pytest.mark.req("A4")
async def test_large_payloads_arrive_whole(memory_engines: Engines) -> None:
    async with connected(memory_engines) as (client, engine):
        text = "x" * 200_000
        run = await client.start(listening, 1)
        await run.signal("word", text)

        assert await run.result() == [text]
        assert msgspec.json.decode((await run.info()).output or b"") == [text]
        [received] = [event for event in await listed(run, follow=True) if event.kind == "received"]
        assert received == next(e for e in await listed(engine.handle(run.id)) if e.kind == "received")
        with pytest.raises(AlreadyDecided):
            await (await client.start(listening, 1)).decide(True)


@pytest.mark.req("A4", "K40")
async def test_runs_and_waits_are_found_and_counted(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        run = await client.start(asking, "well?", tags={"customer": "7"}, key="order-1")
        await client.start(doubling, 1, tags={"customer": "7", "a": "b=c"})
        await run.waiting_for("approval")

        for filter in (
            {"tags": {"customer": "7", "a": "b=c"}},
            {"key": "order-1"},
            {"key_prefix": "order-"},
            {"trigger": "api", "since": 1.0, "until": 1e10},
            {"error": "nothing"},
            {"workflow": "asking", "queue": "default"},
        ):
            here, there = await client.runs(**filter), await engine.runs(**filter)
            assert [row.id for row in here] == [row.id for row in there]
        first = await client.runs(tags={"customer": "7"}, limit=1)
        assert len(await client.runs(tags={"customer": "7"}, limit=1, before=first.next)) == 1
        await until_counted(client, engine)
        span: Any = {"since": 1.0, "until": 1e10, "buckets": 4, "status": "suspended"}
        assert await client.histogram(**span) == await engine.histogram(**span)
        assert same(list(await client.waits()), list(await engine.waits()))
        assert same(list(await client.approvals()), list(await engine.approvals()))
        await run.decide("yes", by="ann", reason="checked")
        await run.result()
        decided = list(await client.decided_approvals())
        assert len(decided) == 1
        assert same(decided, list(await engine.decided_approvals()))


async def until_counted(client: Client, engine: Client) -> None:
    async def equal() -> bool:
        counts = await client.counts()
        return counts == await engine.counts() and counts.total == 2

    await until(equal)


@workflow
async def sleeping(ctx: Context, text: str) -> str:
    await ctx.sleep("30d")
    return text


@pytest.mark.req("A4", "K39")
async def test_operators_wake_discard_and_drain(engines: Engines) -> None:
    async with connected(engines, sleeping) as (client, engine):
        run = await client.start("sleeping", "awake")
        await suspended(engine.handle(run.id))
        await run.change_delay(0, reason="it is morning")
        assert await run.result("30s") == "awake"
        with pytest.raises(NotRemovable):
            await run.discard()
        graph = {
            "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "end"}],
        }
        trial = await client.start_graph(graph, {}, test=True)
        assert (await engine.handle(trial.id).info()).test
        await trial.discard()
        with pytest.raises(RunNotFound):
            await trial.info()
        with pytest.raises(InvalidRequest, match="test runs only"):
            await client.start_graph(graph)
        [worker] = await client.workers()
        assert await client.drain(worker.id, reason="old host")
        assert not await client.drain(worker.id)
        await until(lambda: nobody_works(client))
        with pytest.raises(WorkerNotFound):
            await client.drain(worker.id)


async def nobody_works(client: Client) -> bool:
    return not await client.workers()


@pytest.mark.req("A4", "G18")
async def test_graphs_are_saved_published_compared_and_started(engines: Engines) -> None:
    def graph(said: str) -> dict[str, Any]:
        end = {"id": "end", "type": "end", "data": {"output": {"said": said}}}
        nodes = [{"id": "start", "type": "start"}, end]
        return {"name": "hello", "nodes": nodes, "edges": [{"source": "start", "target": "end"}]}

    async with connected(engines) as (client, engine):
        saved = await client.library.create(graph("one"), by="ann")
        assert same(saved, await engine.library.about("hello"))
        assert saved.by == "ann"
        with pytest.raises(Conflict, match="already exists"):
            await client.library.create(graph("one"))
        assert await client.library.publish("hello", expected=saved.hash) == "1"
        second = await client.library.update("hello", graph("two"), expected=saved.hash)
        with pytest.raises(Conflict, match="changed by somebody else"):
            await client.library.update("hello", graph("three"), expected=saved.hash)
        with pytest.raises(InvalidDefinition, match="START_COUNT"):
            await client.library.update("hello", {"nodes": [], "edges": []})
        changed = await client.library.diff("hello", "published")
        assert changed == await engine.library.diff("hello", "published")
        assert changed["nodes"]["changed"] == {"end": {"data.output.said": ["one", "two"]}}
        assert await client.library.publish("hello", expected=second.hash) == "2"
        assert await client.library.get("hello", 1) == await engine.library.get("hello", 1)
        assert same(await client.library.list(), await engine.library.list())
        runs = [await client.library.start("hello", {}), await client.library.start("hello", {}, version=1)]
        assert [await run.result("30s") for run in runs] == [{"said": "two"}, {"said": "one"}]
        assert same(list(await client.versions("hello")), list(await engine.versions("hello")))
        assert same(await client.definition("hello", "1"), await engine.definition("hello", "1"))
        with pytest.raises(UnknownWorkflow):
            await client.versions("nothing")
        await client.library.delete("hello")
        with pytest.raises(UnknownWorkflow):
            await client.library.about("hello")


@pytest.mark.req("A4", "A5")
async def test_the_audit_list_and_the_database_are_read(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        for number in range(5):
            await client.start("doubling", number)

        async def written() -> bool:
            return len(await engine.audit()) == 5

        await until(written)
        assert same(list(await client.audit()), list(await engine.audit()))
        first = await client.audit(limit=2)
        rest = await client.audit(before=first.next)
        assert [entry.id for entry in [*first, *rest]] == [entry.id for entry in await engine.audit()]
        assert await remote.check(client) == []
        about, there = await remote.info(client), await database.info(engine.store)
        assert (about.schema, about.counts["runs"]) == (there.schema, 5)


@pytest.mark.req("T1", "A9")
async def test_schedules_are_managed(engines: Engines) -> None:
    async with connected(engines) as (client, engine):
        made = await client.schedules.create(
            "nightly",
            doubling,
            7,
            cron="30 2 * * *",
            timezone="Europe/Berlin",
            tags={"team": "a"},
            timeout="1h",
        )
        assert same(made, await engine.schedules.get("nightly"))
        changed = await client.schedules.update("nightly", every="90m", expected=made.revision, input=8)
        assert (changed.every, changed.cron, changed.input, changed.timeout) == (5400.0, "", 8, 3600.0)
        with pytest.raises(Conflict):
            await client.schedules.update("nightly", missed="all", expected=made.revision)
        with pytest.raises(TriggerExists):
            await client.schedules.create("nightly", "doubling", 7, every=60)
        with pytest.raises(BadCron, match="'61' is not a minute"):
            await client.schedules.create("other", "doubling", 7, cron="61 * * * *")

        assert await (await client.schedules.trigger("nightly")).result() == 16
        assert await client.schedules.pause("nightly", reason="why")
        assert not await client.schedules.pause("nightly")
        assert (await client.schedules.get("nightly")).reason == "why"
        assert await client.schedules.resume("nightly")
        since, until_ = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 5, 3, tzinfo=UTC)
        assert await client.schedules.backfill("nightly", since, until_) == (2, 2)
        for number in range(3):
            await client.schedules.create(f"s{number}", "doubling", 1, every="1h")
        page = await client.schedules.list(limit=3)
        rest = await client.schedules.list(limit=3, before=page.next)
        assert [info.name for info in [*page, *rest]] == ["nightly", "s0", "s1", "s2"]
        assert (await client.schedules.preview(cron="@daily", count=2)).words == "At 00:00 every day, UTC"
        assert await client.schedules.delete("nightly")
        assert not await client.schedules.delete("nightly")
        with pytest.raises(TriggerNotFound):
            await client.schedules.get("nightly")
