"""Checked by mypy --strict and pyright: every inference here must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from stepwell import (
    Context,
    Engine,
    Machine,
    Retry,
    RunHandle,
    StepContext,
    SyncClient,
    SyncContext,
    SyncRunHandle,
    Workflow,
    run_stateless,
    step,
    transition,
    workflow,
)
from stepwell.client import RunEvent
from stepwell.domain.commit import RunRow
from stepwell.domain.limits import Limit
from stepwell.domain.state import OpenWait
from stepwell.domain.why import Reason


@dataclass
class Order:
    id: int = 0


@dataclass
class Receipt:
    id: str


async def charge(order: Order, note: str = "") -> Receipt:
    return Receipt(str(order.id))


def weigh(order: Order) -> float:
    return 1.0


@step
async def ship(order: Order) -> Receipt:
    return Receipt("s")


@step(retry=Retry(3), timeout="20s")
def pack(me: StepContext, order: Order, boxes: int = 1) -> list[str]:
    return [me.key]


async def refund(receipt: Receipt, order: Order) -> None: ...


async def forget(me: StepContext, receipt: Receipt) -> None: ...


@step(compensate=refund)
async def pay(order: Order) -> Receipt:
    return Receipt("p")


@step(compensate=forget, retry=Retry(2))
def note(me: StepContext, order: Order) -> Receipt:
    me.save("order", order)
    return Receipt("n")


@workflow
async def fulfil(ctx: Context, order: Order) -> Receipt:
    assert_type(await ctx.step(charge, order), Receipt)
    assert_type(await ctx.step(charge, order, note="x"), Receipt)
    assert_type(await ctx.step(weigh, order), float)
    assert_type(await ctx.step(ship, order), Receipt)
    assert_type(await ctx.step(pack, order, boxes=2), list[str])
    assert_type(await ctx.step(pay, order), Receipt)
    assert_type(await ctx.step(note, order), Receipt)
    assert_type(await ctx.document("order", Order), Order)
    assert_type(await ctx.step(pack.options(timeout=5), order), list[str])
    assert_type(await ctx.step.on(queue="gpu")(ship, order), Receipt)
    assert_type(await ctx.signal("go", Order), Order)
    assert_type(await ctx.event("new", Order, key="7"), Order)
    assert_type(await ctx.approval(Order), Order)
    assert_type(await ctx.map(charge_one, [order]), list[Receipt])
    assert_type(await ctx.map(weigh, [order]), list[float])
    assert_type(await ctx.all(ctx.step(weigh, order), ctx.step(weigh, order)), list[float])
    assert_type(await ctx.first(ctx.step(weigh, order), ctx.step(weigh, order)), float)
    assert_type(await ctx.run(count, 3), int)
    child = await ctx.start(count, 3)
    assert_type(await child.result(), int)
    return await ctx.step(charge, order)


async def charge_one(order: Order) -> Receipt:
    return Receipt("1")


@workflow(version="2", timeout="1h")
async def count(ctx: Context, n: int) -> int:
    return n


@workflow
async def tick(ctx: Context) -> str:
    return "tick"


@workflow
def plain(ctx: SyncContext, order: Order) -> str:
    assert_type(ctx.step(charge, order), Receipt)
    assert_type(ctx.step(pack, order), list[str])
    assert_type(ctx.signal("x", int), int)
    assert_type(ctx.event("x", int), int)
    assert_type(ctx.run(count, 1), int)
    return "plain"


class Packing(Machine[Order]):
    @transition("start", "end")
    async def take(self, ctx: Context, order: Order) -> None:
        assert_type(self.state, Order)
        assert_type(await ctx.step(charge, order), Receipt)


@workflow
async def packs(ctx: Context, order: Order) -> Order:
    assert_type(await ctx.run(Packing, order), Order)
    return order


async def machines(engine: Engine, order: Order) -> None:
    run = await engine.start(Packing, order, key="k")
    assert_type(run, RunHandle[Order])
    assert_type(await run.result(), Order)
    assert_type(engine.handle("id", Packing), RunHandle[Order])
    assert_type(await run_stateless(Packing, order), Order)
    assert_type(await run_stateless(count, 1), int)
    Engine("app.db", workflows=[Packing, count])


def plainly(client: SyncClient, order: Order) -> None:
    assert_type(client.start(fulfil, order, key="k", delay="5m"), SyncRunHandle[Receipt])
    assert_type(client.start(tick), SyncRunHandle[str])
    assert_type(client.start("by name", {}, version="2"), SyncRunHandle[Any])
    assert_type(client.start_many(count, [1, 2], keys=["a", "b"], by="ana"), list[SyncRunHandle[int]])
    assert_type(client.run(count, 1, tags={"customer": "7"}), int)
    old = client.start(count, 1)
    assert_type(client.rerun(old, input=2, version="3", key="k"), SyncRunHandle[int])
    assert_type(client.rerun_from(old, "ship", outputs={"0/charge#1": 1}), SyncRunHandle[int])
    assert_type(client.fork(old, at=3, state={}, input=1, key="k"), SyncRunHandle[int])
    client.runs(workflow="count", status=["failed"], limit=5)
    assert_type(old.result("5s"), int)
    assert_type(old.info(), RunRow)
    assert_type(old.why(), Reason)
    assert_type(old.cancel("late"), bool)
    assert_type(old.waiting_for("approve", timeout="5s"), OpenWait)
    assert_type(old.document("order", Order), Order)
    assert_type(old.document("order"), Any)
    for event in old.events(after=1, follow=True):
        assert_type(event, RunEvent)
    assert_type(client.emit("paid", key="7"), bool)
    assert_type(client.limits(), list[Limit])


async def outside(engine: Engine, order: Order) -> None:
    assert_type(fulfil, Workflow[Order, Receipt])
    assert_type(count, Workflow[int, int])
    run = await engine.start(fulfil, order, key="k")
    assert_type(run, RunHandle[Receipt])
    assert_type(await run.result(), Receipt)
    assert_type(await (await engine.start(plain, order)).result(), str)
    assert_type(await (await engine.start(tick)).result(), str)
    assert_type(await engine.run(count, 1), int)
    assert_type(engine.handle("id", count), RunHandle[int])
    assert_type(await engine.start("by name", {}), RunHandle[Any])
    assert_type(await engine.rerun(run, input=order), RunHandle[Receipt])
    assert_type(await engine.rerun_from(run, "pay"), RunHandle[Receipt])
    assert_type(await engine.fork(run, at=3, outputs={"0/pay#1": 1}), RunHandle[Receipt])
    assert_type(await engine.fork("id", at=3), RunHandle[Any])
    assert_type(await run.document("order", Order), Order)
    assert_type(await run.waiting_for("approve", timeout="5s"), OpenWait)
    assert_type(await ship(order), Receipt)
