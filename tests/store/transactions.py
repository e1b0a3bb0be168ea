"""One example of every transaction: arranged, ready to be called, and again with the same key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain.commit import (
    ClaimRequest,
    Commit,
    Definition,
    DrainRequest,
    NewTicket,
    NewWait,
    PublishedEvent,
    WorkerInfo,
    WorkflowSwitch,
)
from stepwell.domain.events import StepScheduled, written
from stepwell.domain.ids import LeaseId, RunId, WorkerId
from stepwell.domain.limits import Limit
from stepwell.domain.messages import EndNotice, step_ended
from stepwell.domain.rates import RatedStart, StoredRate, Window
from stepwell.domain.records import RecordPlace, creating
from stepwell.domain.scope_holds import ScopeHold
from stepwell.domain.triggers.trigger import Firing
from stepwell.testing.store_suite import Scene
from stepwell.testing.stores.access import credential
from stepwell.testing.stores.records import people
from stepwell.testing.stores.scene import LEASE_SECONDS, NEEDS, QUEUE
from stepwell.testing.stores.secrets import stored
from stepwell.testing.stores.transactions import transact
from stepwell.testing.stores.triggers import ORDER, runs_of, schedule

Call = Callable[[], Awaitable[Any]]
EVENT = PublishedEvent("e1", "paid", "", b"1", 0.0)
LIMIT = Limit(kind="queue", name=QUEUE, limit=3)
RATE = StoredRate("user", 60.0, 5, "ann")


async def start(scene: Scene) -> Call:
    runs = [scene.new_run(), scene.new_run()]
    return lambda: scene.store.start(runs)


async def start_within(scene: Scene) -> Call:
    rated = RatedStart([scene.new_run(), scene.new_run()], [Window("workflow default/order", 2, 60.0)])
    return lambda: scene.store.start_within(rated)


async def put_limit(scene: Scene) -> Call:
    return lambda: scene.store.put_limit(LIMIT)


async def switch(scene: Scene) -> Call:
    row = WorkflowSwitch("default", "order", False, "ann", b'"full"')
    return lambda: scene.store.switch(row)


async def put_trigger(scene: Scene) -> Call:
    row = schedule(scene)
    return lambda: scene.store.put_trigger(row, expected=0)


async def drop_trigger(scene: Scene) -> Call:
    await scene.store.put_trigger(schedule(scene), expected=0)
    return lambda: scene.store.drop_trigger("default", "schedule", "nightly")


async def fire_due(scene: Scene) -> Call:
    await scene.store.put_definitions([ORDER])
    await scene.store.put_trigger(schedule(scene), expected=0)
    scene.clock.advance(60.0)
    return lambda: scene.store.fire_due(runs_of(scene).fire)


async def advance_trigger(scene: Scene) -> Call:
    await scene.store.put_definitions([ORDER])
    row = schedule(scene)
    await scene.store.put_trigger(row, expected=0)
    run = runs_of(scene).run(row, ORDER, scene.clock(), run_id=RunId("a" * 32), key="k")
    firing = Firing(row, [run], None, 7.0, b'{"started":1}', run.id)
    return lambda: scene.store.advance_trigger(firing, before=row.state)


async def drop_limit(scene: Scene) -> Call:
    await scene.store.put_limit(LIMIT)
    return lambda: scene.store.drop_limit(LIMIT.scope)


async def put_start_rate(scene: Scene) -> Call:
    return lambda: scene.store.put_start_rate(RATE)


async def drop_start_rate(scene: Scene) -> Call:
    await scene.store.put_start_rate(RATE)
    return lambda: scene.store.drop_start_rate(RATE.per, RATE.seconds)


async def claim(scene: Scene) -> Call:
    await scene.start()
    await scene.start()
    request = ClaimRequest(
        worker=await scene.worker(),
        queues=[QUEUE],
        needs=[NEEDS],
        limit=5,
        leases=[LeaseId(f"lease{number}") for number in range(5)],
    )
    return lambda: scene.store.claim(request)


async def commit(scene: Scene) -> Call:
    """One member that keeps to itself, one that reaches out, one that ends."""
    target = await scene.suspended()
    plain, reaching, ending = await scene.begun(), await scene.begun(), await scene.begun()
    batch = [
        scene.member(plain, scene.done("a")),
        scene.member(
            reaching,
            scene.done("a"),
            deliveries=[scene.signal(target)],
            starts=[scene.new_run()],
            then=scene.park(reaching),
        ),
        scene.member(ending, scene.completed(), then=scene.finish(ending)),
    ]
    return lambda: scene.store.commit(batch)


async def transacting(scene: Scene) -> Call:
    owned = await scene.begun()
    written_once: Commit = scene.member(owned, scene.done("tx"))
    return lambda: transact(scene, lambda _: None, lambda _: written_once)


async def deliver(scene: Scene) -> Call:
    messages = [scene.signal(await scene.suspended()), scene.signal(await scene.suspended())]
    return lambda: scene.store.deliver(messages)


async def cancel(scene: Scene) -> Call:
    parent = await scene.suspended()
    run_id = await scene.start(parent=parent, parent_path="c")
    return lambda: scene.store.cancel(run_id, "why")


async def retry(scene: Scene) -> Call:
    run_id = await scene.failed()
    return lambda: scene.store.retry(run_id)


async def hold(scene: Scene) -> Call:
    run_id = await scene.suspended()
    return lambda: scene.store.hold(run_id, by="ann", reason="why")


async def hold_scope(scene: Scene) -> Call:
    hold = ScopeHold("workflow", "default", "order", True, "ann", b'"why"')
    return lambda: scene.store.hold_scope(hold)


async def force_end(scene: Scene) -> Call:
    claim = await scene.begun(parent=await scene.suspended(), parent_path="c")
    await scene.ok(scene.member(claim, starts=[scene.new_run(parent=claim.run_id, parent_path="d")]))
    return lambda: scene.store.force_end(claim.run_id, "why")


async def emit(scene: Scene) -> Call:
    return lambda: scene.store.emit(EVENT)


async def fan_out(scene: Scene) -> Call:
    waiting = await scene.begun()
    waits = [NewWait(path="w", kind="event", name="paid")]
    parked = scene.member(waiting, scene.begins("w"), waits_opened=waits, then=scene.park(waiting))
    await scene.ok(parked)
    await scene.store.emit(EVENT)
    [event] = await scene.claim_events("w1")
    return lambda: scene.store.fan_out(event)


async def register(scene: Scene) -> Call:
    worker = WorkerInfo(id=WorkerId("w7"), lease_seconds=LEASE_SECONDS)
    return lambda: scene.store.register(worker)


async def finish_remote(scene: Scene) -> Call:
    owner = await scene.begun()
    scheduled = written(StepScheduled(step="x", queue="gpu"), "x", 1)
    ticket = NewTicket(path="x", queue="gpu", needs="step:x", seq=3)
    await scene.ok(scene.member(owner, scheduled, tickets_opened=[ticket], then=scene.park(owner)))
    [remote] = await scene.claim_as("w1", queues=["gpu"], needs=["step:x"])
    result = step_ended(owner.run_id, "x", 1, EndNotice(status="completed", result=Raw(b"1")))
    return lambda: scene.store.finish_remote(remote, result)


async def reroute(scene: Scene) -> Call:
    run_id = await scene.start()
    return lambda: scene.store.reroute(run_id, needs=NEEDS, to="unserved")


async def heartbeat(scene: Scene) -> Call:
    await scene.begun()
    scene.clock.advance(5.0)
    return lambda: scene.store.heartbeat(WorkerId("w1"))


async def drain(scene: Scene) -> Call:
    worker = await scene.worker()
    return lambda: scene.store.drain(worker, DrainRequest(by="ann", reason="why"))


async def deregister(scene: Scene) -> Call:
    await scene.begun()
    return lambda: scene.store.deregister(WorkerId("w1"))


async def reap(scene: Scene) -> Call:
    await scene.begun()
    await scene.worker("w2")
    await scene.beat("w2", 2 * LEASE_SECONDS)
    return scene.store.reap


async def define(scene: Scene) -> Call:
    definitions = [Definition(name="order", version=version, kind="function") for version in ("1", "2")]
    return lambda: scene.store.put_definitions(definitions)


async def access(scene: Scene) -> Call:
    return lambda: scene.store.put_credential(credential())


async def put_secret(scene: Scene) -> Call:
    return lambda: scene.store.put_secret(stored())


async def put_collection(scene: Scene) -> Call:
    return lambda: scene.store.put_collection(people(), expected=0)


async def change_record(scene: Scene) -> Call:
    await scene.store.put_collection(people(), expected=0)
    place = RecordPlace("create", "default", "people", "r1")
    return lambda: scene.store.change_record(place, creating("r1", b'{"email":"a@x"}'))


async def restore(scene: Scene) -> Call:
    run_id = await scene.suspended()
    copies = await scene.store.read_tree(run_id)
    copies = [replace(copy, id=RunId("r9000"), key="again") for copy in copies]
    return lambda: scene.store.restore(copies)


async def remove(scene: Scene) -> Call:
    run_id = await scene.failed()
    return lambda: scene.store.remove(run_id)


async def purge(scene: Scene) -> Call:
    await scene.failed()
    scene.clock.advance(10.0)
    return lambda: scene.store.purge(5.0)


TRANSACTIONS: dict[str, Callable[[Scene], Awaitable[Call]]] = {
    "start": start,
    "start_within": start_within,
    "claim": claim,
    "reroute": reroute,
    "commit": commit,
    "transact": transacting,
    "deliver": deliver,
    "cancel": cancel,
    "retry": retry,
    "hold": hold,
    "hold_scope": hold_scope,
    "force_end": force_end,
    "emit": emit,
    "fan_out": fan_out,
    "register": register,
    "finish_remote": finish_remote,
    "heartbeat": heartbeat,
    "drain": drain,
    "deregister": deregister,
    "reap": reap,
    "define": define,
    "access": access,
    "secrets": put_secret,
    "collections": put_collection,
    "records": change_record,
    "switch": switch,
    "put_limit": put_limit,
    "drop_limit": drop_limit,
    "put_start_rate": put_start_rate,
    "drop_start_rate": drop_start_rate,
    "put_trigger": put_trigger,
    "drop_trigger": drop_trigger,
    "fire_due": fire_due,
    "advance_trigger": advance_trigger,
    "restore": restore,
    "remove": remove,
    "purge": purge,
}
