"""Two workspaces of one database: no verb of one reaches the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, Engine, StepContext, SyncClient, step, workflow
from stepwell.errors import InvalidInput, RunNotFound, SettingsInvalid, UnknownWorkflow, WorkflowDisabled
from tests.engines import Engines, suspended


@workflow
async def listening(ctx: Context) -> Any:
    return await ctx.event("paid")


@workflow
async def answering(ctx: Context) -> Any:
    return await ctx.approval(Any)


@workflow
async def nothing(ctx: Context) -> str:
    return "done"


@workflow
async def parent(ctx: Context) -> str:
    child = await ctx.start(nothing)
    return await child


@pytest.mark.req("K46")
async def test_every_verb_of_a_handle_refuses_a_run_of_another_workspace(engines: Engines) -> None:
    async with (
        engines.new(answering, workspace="acme") as acme,
        engines.new(worker=False) as other,
    ):
        theirs = await acme.start(answering, key="k")
        await suspended(theirs)

        def here() -> Any:
            return other.handle(theirs.id)

        async def log() -> list[Any]:
            return [row async for row in here().log()]

        async def events() -> list[Any]:
            return [event async for event in here().events()]

        verbs: list[Callable[[], Awaitable[Any]]] = [
            *(lambda: here().result(1), lambda: here().info(), lambda: here().status(), log, events),
            *(lambda: here().waits(), lambda: here().why(), lambda: here().state()),
            lambda: here().waiting_for("approval", 1),
            *(lambda: here().overview(), lambda: here().checkpoints(), lambda: here().documents()),
            *(lambda: here().document("x"), lambda: here().signal("go"), lambda: here().event("paid")),
            *(lambda: here().decide("approved"), lambda: here().trigger("pay"), lambda: here().cancel()),
            *(lambda: here().retry(), lambda: here().compensate(), lambda: here().delete()),
            *(lambda: other.rerun(theirs.id), lambda: other.rerun_from(theirs.id, "x")),
            *(lambda: other.fork(theirs.id, at=1), lambda: other.export(theirs.id)),
            *(lambda: here().trace(), lambda: other.rerun_from_node(theirs.id, "x")),
        ]
        for verb in verbs:
            with pytest.raises(RunNotFound):
                await verb()

        assert await other.find("k") is None
        assert list(await other.runs()) == []
        assert [row.id for row in await acme.runs()] == [theirs.id]
        await theirs.decide("approved")
        assert await theirs.result() == "approved"


@pytest.mark.req("K46", "K17")
async def test_an_emitted_event_stays_in_its_workspace(engines: Engines) -> None:
    async with (
        engines.new(listening, workspace="acme") as acme,
        engines.new(listening) as other,
    ):
        theirs, ours = await acme.start(listening), await other.start(listening)
        await suspended(theirs)
        await suspended(ours)

        assert await other.emit("paid", "ours", id="1")
        assert await ours.result() == "ours"
        assert (await theirs.info()).status == "suspended"
        assert await acme.emit("paid", "theirs", id="1"), "ids belong to a workspace too"
        assert await theirs.result() == "theirs"


@pytest.mark.req("K46")
async def test_keys_numbers_definitions_limits_and_switches_are_apart(engines: Engines) -> None:
    async with (
        engines.new(nothing, workspace="acme") as acme,
        engines.new(worker=False, workspace="other") as other,
    ):
        theirs = await acme.start(nothing, key="k")
        ours = await other.start(nothing, key="k")
        await acme.set_limit("workflow", "nothing", 5)
        await acme.disable("nothing")

        assert theirs.id != ours.id
        assert ((await theirs.info()).number, (await ours.info()).number) == (1, 1)
        with pytest.raises(UnknownWorkflow):
            await other.start("nothing")
        assert await other.limits() == []
        assert not await other.drop_limit("workflow", "nothing")
        with pytest.raises(WorkflowDisabled):
            await acme.start(nothing)
        last = await other.start(nothing)
        assert await last.result() == "done", "a worker serves every workspace"
        assert await ours.result() == "done"


@workflow
async def asks(ctx: Context, n: int) -> str:
    await ctx.step(keep, n)
    return str(await ctx.approval(str, name="ok"))


@step
async def keep(ctx: StepContext, n: int) -> int:
    ctx.save("note", {"n": n})
    return n


@pytest.mark.req("K46", "K40")
async def test_lists_counts_waits_and_documents_stay_in_their_workspace(engines: Engines) -> None:
    async with (
        engines.new(asks, workspace="acme") as acme,
        engines.new(worker=False, workspace="other") as other,
    ):
        run = await acme.start(asks, 7, tags={"customer": "7"})
        await run.waiting_for("ok")

        assert await run.document("note") == {"n": 7}
        with pytest.raises(RunNotFound):
            await other.handle(run.id).document("note")
        assert [row.id for row in await acme.runs(tags={"customer": "7"})] == [run.id]
        assert [wait.run for wait in await acme.approvals()] == [run.id]
        assert (await acme.counts()).total == 1
        for nothing_there in (await other.runs(), await other.runs(tags={"customer": "7"})):
            assert list(nothing_there) == []
        assert list(await other.approvals()) == []
        assert list(await other.waits()) == []
        assert (await other.counts()).total == 0
        await run.decide("yes")
        assert await run.result() == "yes"


@pytest.mark.req("K46", "K18")
async def test_a_child_is_in_the_workspace_of_its_parent(engines: Engines) -> None:
    async with engines.new(parent, nothing, workspace="acme") as acme:
        run = await acme.start(parent)
        await run.result()

        assert sorted(row.workflow for row in await acme.runs()) == ["nothing", "parent"]


@pytest.mark.req("K46", "K29")
async def test_an_imported_run_hears_events_where_it_is(engines: Engines) -> None:
    async with (
        engines.new(listening, workspace="acme") as acme,
        engines.new(listening) as other,
    ):
        run = await acme.start(listening)
        await suspended(run)
        file = await acme.export(run)
        await run.cancel()
        with pytest.raises(Exception, match="cancelled"):
            await run.result()
        await run.delete()

        moved = await other.import_run(file)
        await other.emit("paid", "here")

        assert await moved.result() == "here"


@pytest.mark.req("K46")
def test_sync_code_has_a_workspace(sqlite: Engines) -> None:
    with SyncClient(engine=Engine(sqlite.database, workflows=[nothing], workspace="acme")) as client:
        run = client.start(nothing)
        run.result()
    with SyncClient(str(sqlite.database), workspace="acme") as client:
        assert [row.id for row in client.runs()] == [run.id]
    with SyncClient(str(sqlite.database)) as client:
        assert client.runs() == []
        with pytest.raises(RunNotFound):
            client.handle(run.id).info()
    with pytest.raises(SettingsInvalid):
        SyncClient(engine=Engine(sqlite.database), workspace="acme")


@pytest.mark.req("K46")
def test_a_workspace_is_a_short_name(sqlite: Engines) -> None:
    with pytest.raises(InvalidInput):
        sqlite.new(workspace="a\nb")
