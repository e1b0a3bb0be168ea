"""Scene: a store and a clock, with short methods for what the rules do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from msgspec import Raw

from stepwell.domain.commit import (
    Claim,
    ClaimRequest,
    Claims,
    Commit,
    Committed,
    Delivery,
    Finish,
    LogRow,
    Message,
    NewEvent,
    NewRun,
    Outcome,
    Owned,
    Park,
    RunFilter,
    RunRow,
    TicketRow,
    WorkerInfo,
)
from stepwell.domain.events import Claimed, Completed, Received, StepCompleted, StepStarted, written
from stepwell.domain.ids import NEEDS_EMIT, LeaseId, RunId, WorkerId
from stepwell.domain.status import Status
from stepwell.store.base import Store
from stepwell.testing.clock import FakeClock

MakeStore = Callable[[FakeClock], Store]

LEASE_SECONDS = 15.0
HEARTBEAT_SECONDS = 5.0
QUEUE = "default"
NEEDS = "order@1"
NOTHING = b"null"

Rules = TypeVar("Rules")


class Scene:
    """Ids count up, so a failure reads the same on every store."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self._count = 0

    def fresh(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count:04d}"

    # Runs

    def new_run(self, **changes: Any) -> NewRun:
        run_id = changes.pop("id", None) or self.fresh("r")
        values: dict[str, Any] = {
            "workflow": "order",
            "version": "1",
            "kind": "function",
            "queue": QUEUE,
            "needs": NEEDS,
            "accepted": b'{"workflow":"order","version":"1"}',
            "input": b'{"n":1}',
            "key": f"key-{run_id}",
            "digest": "same",
            "root": run_id,
        }
        return NewRun(id=RunId(run_id), **{**values, **changes})

    async def start(self, **changes: Any) -> RunId:
        [started] = await self.store.start([self.new_run(**changes)])
        assert started.created
        return started.run_id

    async def owned(self, **changes: Any) -> Claim:
        """A new run owned by worker w1, without a commit of its own."""
        run_id = await self.start(**changes)
        [claim] = await self.claim_as(await self.worker(), queues=(changes.get("queue", QUEUE),))
        assert claim.run_id == run_id
        return claim

    async def begun(self, **changes: Any) -> Claim:
        """A new run whose owner has committed Claimed: head 2."""
        claim = await self.owned(**changes)
        await self.ok(self.member(claim, self.claimed(claim)))
        return claim._replace(head=2)

    async def suspended(self, **changes: Any) -> RunId:
        """A run that has begun and waits for a message."""
        claim = await self.begun(**changes)
        await self.ok(self.member(claim, self.done("a"), then=self.park(claim)))
        return claim.run_id

    async def failed(self, **changes: Any) -> RunId:
        claim = await self.begun(**changes)
        await self.ok(self.member(claim, self.done("a"), then=self.finish(claim, Status.FAILED)))
        return claim.run_id

    # What owners write

    def claimed(self, claim: Claim, worker: str = "w1") -> NewEvent:
        return written(Claimed(lease=claim.lease, worker=worker))

    def begins(self, name: str) -> NewEvent:
        return written(StepStarted(step=name), name)

    def done(self, name: str, result: bytes = b"1") -> NewEvent:
        return written(StepCompleted(result=Raw(result)), name, 1)

    def received(self, key: str, n: int) -> NewEvent:
        return written(Received(key=key, n=n, what="signal"))

    def completed(self) -> NewEvent:
        return written(Completed())

    def member(self, claim: Claim, *events: NewEvent, head: int | None = None, **parts: Any) -> Commit:
        return Commit(
            run_id=claim.run_id,
            lease=parts.pop("lease", claim.lease),
            head=claim.head if head is None else head,
            events=events,
            **parts,
        )

    def park(self, claim: Claim, status: Status = Status.SUSPENDED, **parts: Any) -> Park:
        return Park(seen=parts.pop("seen", claim.wakes), status=status, **parts)

    def finish(self, claim: Claim, status: Status = Status.COMPLETED, **parts: Any) -> Finish:
        return Finish(seen=parts.pop("seen", claim.wakes), status=status, **parts)

    async def commit(self, commit: Commit) -> Committed:
        [committed] = await self.store.commit([commit])
        return committed

    async def ok(self, commit: Commit) -> Committed:
        committed = await self.commit(commit)
        assert committed.outcome is Outcome.OK, committed
        return committed

    # Messages

    def signal(self, run_id: str, key: str = "s1", payload: bytes = NOTHING) -> Message:
        return Message(run_id=RunId(run_id), key=key, kind="signal", name="go", payload=payload)

    async def deliver(self, message: Message) -> Delivery:
        [delivery] = await self.store.deliver([message])
        return delivery

    # Workers

    async def worker(
        self, id: str = "w1", lease_seconds: float = LEASE_SECONDS, *, leaving: bool = False
    ) -> WorkerId:
        info = WorkerInfo(
            id=WorkerId(id),
            lease_seconds=lease_seconds,
            name=f"host:{id}",
            queues=(QUEUE,),
            needs=(NEEDS,),
            leaving=leaving,
        )
        await self.store.register(info)
        return info.id

    async def beaten(self, worker: str) -> Sequence[Owned] | None:
        """A heartbeat: what this worker owns; None: it was reaped."""
        beat = await self.store.heartbeat(WorkerId(worker))
        return None if beat is None else list(beat.owned)

    async def claims(
        self,
        worker: str,
        *,
        limit: int = 100,
        fresh: int = 0,
        solo: bool = False,
        queues: Sequence[str] = (QUEUE,),
        needs: Sequence[str] = (NEEDS,),
    ) -> Claims:
        leases = [LeaseId(self.fresh("lease")) for _ in range(limit)]
        request = ClaimRequest(
            worker=WorkerId(worker),
            queues=queues,
            needs=needs,
            limit=limit,
            leases=leases,
            fresh=fresh,
            solo=solo,
        )
        return await self.store.claim(request)

    def request(self, worker: str, leases: Sequence[LeaseId]) -> ClaimRequest:
        """Claim with the same leases again, as after a lost answer."""
        return ClaimRequest(
            worker=WorkerId(worker), queues=(QUEUE,), needs=(NEEDS,), limit=len(leases), leases=leases
        )

    async def claim_as(self, worker: str, **request: Any) -> Sequence[Claim]:
        return (await self.claims(worker, **request)).claims

    async def claim_events(self, worker: str) -> Sequence[Claim]:
        return await self.claim_as(worker, queues=("",), needs=(NEEDS_EMIT,))

    async def claimed_ids(self, worker: str, **request: Any) -> list[str]:
        return [claim.run_id for claim in await self.claim_as(worker, **request)]

    async def beat(self, worker: str, seconds: float) -> None:
        """Let time pass while that worker keeps its lease and the contact with the store."""
        beats = max(1, round(seconds / HEARTBEAT_SECONDS))
        for _ in range(beats):
            self.clock.advance(seconds / beats)
            assert await self.store.heartbeat(WorkerId(worker)) is not None

    async def lose(self, worker: str = "w1", witness: str = "w9") -> None:
        """Let that worker die and be reaped while another one lives."""
        await self.worker(witness)
        await self.beat(witness, 2 * LEASE_SECONDS)
        reaped = await self.store.reap()
        assert reaped.workers == 1, f"{worker} should have been reaped: {reaped}"

    # Reads

    async def log(self, run_id: str) -> Sequence[LogRow]:
        return await self.store.read_log(RunId(run_id))

    async def kinds(self, run_id: str) -> list[str]:
        return [row.kind for row in await self.log(run_id)]

    async def run(self, run_id: str) -> RunRow:
        row = await self.store.read_run(RunId(run_id))
        assert row is not None
        return row

    async def ticket(self, run_id: str, path: str = "") -> TicketRow:
        [row] = [row for row in await self.store.read_tickets(RunId(run_id)) if row.path == path]
        return row

    async def inbox_keys(self, run_id: str) -> list[str]:
        return [row.key for row in await self.store.read_inbox(RunId(run_id))]

    async def everything(self) -> dict[str, object]:
        """Everything that can be read, to show that a refusal wrote nothing."""
        runs = await self.store.list_runs(RunFilter(limit=1000))
        rows: dict[str, object] = {
            "workers": sorted((w.id, w.lease_until) for w in await self.store.list_workers()),
            "definitions": await self.store.list_definitions("default"),
        }
        for run in runs:
            rows[run.id] = (
                run,
                list(await self.log(run.id)),
                list(await self.store.read_tickets(run.id)),
                list(await self.store.read_inbox(run.id)),
            )
        return rows


def checked(rule: Callable[[Rules, Scene], Awaitable[None]]) -> Callable[[Rules, MakeStore], None]:
    """Make an async rule a test that pytest can run: on a new store, in a loop of its own."""

    @wraps(rule)
    def test(self: Rules, make_store: MakeStore) -> None:
        async def play() -> None:
            clock = FakeClock()
            store = make_store(clock)
            await store.open()
            try:
                await rule(self, Scene(store, clock))
            finally:
                await store.close()

        asyncio.run(play())

    # pytest reads the parameters to find the fixtures; `wraps` would show it those of the rule.
    del test.__wrapped__
    assert list(inspect.signature(test).parameters) == ["self", "make_store"]
    return test
