"""Workflows as lists show them, and workflows that accept no new runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, Engine, Machine, SyncClient, failpoints, transition, workflow
from stepwell.authoring.graphs.format.python_builder import GraphBuilder
from stepwell.domain.status import Status
from stepwell.errors import (
    ChildFailed,
    InvalidDefinition,
    OutcomeUnknown,
    StoreUnavailable,
    UnknownWorkflow,
    WorkflowDisabled,
)
from stepwell.store.payloads import Encryption
from tests.engines import Engines, suspended


@workflow
async def shipping(ctx: Context) -> Any:
    """Ship what was paid.

    It waits for the van.
    """
    return await ctx.signal("van")


@workflow(title="Refunds", version="2")
async def refunding(ctx: Context) -> str:
    return "refunded"


@workflow
async def ordering(ctx: Context) -> str:
    child = await ctx.start(refunding)
    try:
        return await child
    except ChildFailed as error:
        return error.cause_code


class Order(Machine[dict[str, Any]]):
    """An order.

    From the cart to the door.
    """

    ends = ("paid",)

    @transition("start", "paid")
    async def pay(self) -> None: ...


class Titled(Machine[dict[str, Any]], title="A machine with a title"):
    ends = ("paid",)

    @transition("start", "paid")
    async def pay(self) -> None: ...


def graph(title: str) -> dict[str, Any]:
    built = GraphBuilder("report")
    built.node("start") >> built.node("end")
    return {**built.as_dict(), "title": title, "description": "Every morning."}


@pytest.mark.req("K38", "G19")
async def test_title_description_and_who_created_it_when_survive(engines: Engines) -> None:
    async with engines.new(shipping, refunding, Order, Titled) as engine:
        await engine.library.create(graph("The report"), by="ann")
        await engine.library.publish("report", by="bob")
        await engine.library.update("report", graph("The daily report"), by="ann")
        assert await engine.library.publish("report") == "1"
        listed = {info.name: info for info in await engine.workflows()}

    texts = {name: (info.title, info.description) for name, info in listed.items()}
    assert texts == {
        "shipping": ("Ship what was paid.", "It waits for the van."),
        "refunding": ("Refunds", ""),
        "Order": ("An order.", "From the cart to the door."),
        "Titled": ("A machine with a title", ""),
        "report": ("The daily report", "Every morning."),
    }
    assert listed["report"].created_by == "bob"
    assert {info.kind for info in listed.values()} == {"function", "machine", "graph"}
    assert listed["refunding"].versions == ("2",)
    assert all(info.enabled and info.created_at for info in listed.values())


@pytest.mark.req("K38", "G19")
async def test_the_title_of_a_graph_is_not_part_of_its_version(memory_engines: Engines) -> None:
    async with memory_engines.new() as engine:
        one = engine.graphs.workflow(graph("one")).definition
        two = engine.graphs.workflow(graph("two")).definition
        await engine.library.create(graph("one"))

        assert one.version == two.version
        assert (await engine.library.get("report"))["title"] == "one"


@pytest.mark.req("K38")
def test_a_title_is_one_line_of_text() -> None:
    with pytest.raises(InvalidDefinition):
        workflow(title="two\nlines")(lambda ctx: None)


@pytest.mark.req("K39")
async def test_a_disabled_workflow_refuses_runs_at_every_door(engines: Engines) -> None:
    async with engines.new(refunding) as engine:
        known = await engine.start(refunding, key="known")
        await known.result()
        assert await engine.disable(refunding, by="ann", reason="audit")
        assert not await engine.disable("refunding", by="bob")

        doors: list[Callable[[], Awaitable[Any]]] = [
            lambda: engine.start(refunding),
            lambda: engine.start("refunding"),
            lambda: engine.start_many(refunding, [None, None]),
            lambda: engine.run(refunding),
            lambda: engine.rerun(known),
            lambda: engine.fork(known, at=1),
        ]
        for door in doors:
            with pytest.raises(WorkflowDisabled) as refused:
                await door()
            assert "ann" in refused.value.message
            assert "audit" in refused.value.message
        assert (await engine.start(refunding, key="known")).id == known.id
        assert len(await engine.runs()) == 1

        assert await engine.enable(refunding, by="cid")
        assert await engine.run(refunding) == "refunded"
        [info] = await engine.workflows()
        assert (info.enabled, info.switched_by) == (True, "cid")


@pytest.mark.req("K39")
async def test_a_graph_of_the_library_can_be_disabled(engines: Engines) -> None:
    async with engines.new() as engine:
        await engine.library.create(graph("The report"))
        await engine.library.publish("report")
        await engine.disable("report")

        with pytest.raises(WorkflowDisabled):
            await engine.library.start("report")

        await engine.enable("report")
        await (await engine.library.start("report")).result()


@pytest.mark.req("K39")
async def test_live_runs_of_a_disabled_workflow_reach_their_end(engines: Engines) -> None:
    async with engines.new(shipping) as engine:
        run = await engine.start(shipping)
        await suspended(run)
        await engine.disable(shipping)

        await run.signal("van", "came")

        assert await run.result() == "came"


@pytest.mark.req("K39", "K18")
async def test_a_child_of_a_disabled_workflow_fails_and_can_be_retried_later(engines: Engines) -> None:
    async with engines.new(ordering, refunding) as engine:
        await engine.disable(refunding)

        assert await engine.run(ordering) == "WORKFLOW_DISABLED"

        [child] = await engine.runs(workflow="refunding")
        assert child.status is Status.FAILED
        await engine.enable(refunding)
        await engine.handle(child.id).retry()
        assert await engine.handle(child.id).result() == "refunded"


@pytest.mark.req("K39")
async def test_an_unknown_name_is_refused_with_the_one_that_was_meant(memory_engines: Engines) -> None:
    async with memory_engines.new(refunding) as engine:
        with pytest.raises(UnknownWorkflow) as refused:
            await engine.disable("refundin")

        assert "refunding" in refused.value.hint


@pytest.mark.req("K39", "R2")
@pytest.mark.parametrize("moment", failpoints.MOMENTS)
async def test_a_fault_while_disabling_leaves_it_disabled_or_not_and_asking_again_works(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async with engines.new(refunding, worker=False) as engine:
        name = f"switch.{moment}"
        monkeypatch.setattr(failpoints, "hit", failpoints.parse(f"{name}=raise"))
        monkeypatch.setattr(engine, "retry_call", _once)

        with pytest.raises((StoreUnavailable, OutcomeUnknown)):
            await engine.disable(refunding, by="ann")
        monkeypatch.setattr(failpoints, "hit", None)
        written = moment in ("after", "ambiguous")
        assert (not (await engine.workflows())[0].enabled) is written

        assert await engine.disable(refunding, by="bob") is not written
        [info] = await engine.workflows()
        assert (info.enabled, info.switched_by) == (False, "ann" if written else "bob")


async def _once(call: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
    return await call(), False


@pytest.mark.req("K39")
def test_sync_code_lists_disables_and_enables(sqlite: Engines) -> None:
    with SyncClient(engine=Engine(sqlite.database, workflows=[refunding])) as client:
        assert client.disable("refunding", by="ann", reason="audit")
        [info] = client.workflows()
        assert (info.enabled, info.switched_by, info.reason) == (False, "ann", "audit")
        assert client.enable("refunding")
        assert client.run(refunding) == "refunded"


@pytest.mark.req("K39", "K42")
async def test_a_refused_child_can_be_read_and_retried_in_an_encrypted_database(
    durable_engines: Engines,
) -> None:
    codec = Encryption({"a": b"k" * 32}, current="a")
    async with durable_engines.new(ordering, refunding, codec=codec) as engine:
        await engine.disable(refunding, reason="audit")

        assert await engine.run(ordering) == "WORKFLOW_DISABLED"

        [child] = await engine.runs(workflow="refunding")
        run = engine.handle(child.id)
        assert [event.kind async for event in run.events()] == ["accepted", "failed"]
        await engine.enable(refunding)
        await run.retry()
        assert await run.result() == "refunded"
