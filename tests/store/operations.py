"""Operations: random but meaningful requests, the same for every store that is compared.

A `Planner` looks at the reference store only, so that most requests can succeed; some are
stale or wrong on purpose. `pick` makes the random choices.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain.commit import (
    NEVER,
    Claim,
    ClaimRequest,
    Commit,
    Finish,
    Message,
    NewEvent,
    NewRun,
    NewTicket,
    NewWait,
    Park,
    PublishedEvent,
    RunFilter,
    WorkerInfo,
)
from stepwell.domain.events import (
    Claimed,
    Continued,
    Problem,
    StepCompleted,
    StepFailed,
    StepScheduled,
    StepStarted,
    written,
)
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import NEEDS_EMIT, LeaseId, RunId, WorkerId, needs_workflow
from stepwell.domain.lanes import Lane
from stepwell.domain.limits import Hold, Limit, LimitKind
from stepwell.domain.messages import Decision, EndNotice, decide_key, step_ended
from stepwell.domain.rates import RatedStart, Window
from stepwell.domain.scope_holds import HoldKind, ScopeHold
from stepwell.domain.search import WAITS, WaitFilter
from stepwell.domain.status import Status

QUEUES = ("default", "gpu")
WORKFLOWS = ("order", "pay")
NEEDS = tuple(needs_workflow(name, "1") for name in WORKFLOWS)
REMOTE = "step:resize"
WORKERS = tuple(WorkerId(f"w{number}") for number in range(3))
EVENT_NAMES = ("paid", "sent")
WAIT_PATHS = ("ask#1", "ask#2", "evt#1", "evt#2")
ENDINGS = (Status.COMPLETED, Status.FAILED, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT)


@dataclass(slots=True)
class Held:
    """A claim as its owner sees it: it may have been lost meanwhile."""

    claim: Claim
    worker: WorkerId
    head: int
    seen: int
    inbox: list[str]
    begun: bool = False


@dataclass(slots=True)
class Planner:
    pick: random.Random
    runs: list[RunId] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    remote: list[Claim] = field(default_factory=list)
    events: list[Claim] = field(default_factory=list)
    asking: list[tuple[RunId, str]] = field(default_factory=list)  # decisions that were waited for
    now: float = 0.0
    count: int = 0

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count:05d}"

    def often(self, share: float) -> bool:
        return self.pick.random() < share

    def some_run(self) -> RunId:
        if not self.runs or self.often(0.06):
            return RunId("nobody")
        return self.pick.choice(self.runs[-6:] if self.often(0.7) else self.runs)

    # Requests

    def new_run(self) -> NewRun:
        run_id = RunId(self.fresh("r"))
        workflow, queue = self.pick.choice(WORKFLOWS), self.pick.choice(QUEUES)
        key = f"key{self.pick.randrange(6)}" if self.often(0.15) else self.pick.choice(("", f"key-{run_id}"))
        parent = self.some_run() if self.often(0.3) else ""
        return NewRun(
            id=run_id,
            workflow=workflow,
            version="1",
            kind="function",
            queue=queue,
            needs=needs_workflow(workflow, "1"),
            accepted=b"{}",
            input=b"[1]",
            key=key,
            digest=self.pick.choice(("same", "same", "other")),
            priority=self.pick.choice((0, 0, 0, 5)),
            delay=self.pick.choice((0.0, 0.0, 0.0, 5.0)),
            parent=parent,
            parent_path="child#1" if parent else "",
            root=run_id,
            test=self.often(0.1),
            lane=self._lane(workflow, queue, bool(parent)),
            tags=self.pick.choice((b"{}", b'{"team":"a"}', b'{"team":"a","env":"x"}')),
            trigger=self.pick.choice(("api", "child", "schedule")),
        )

    def run_filter(self) -> RunFilter:
        pick = self.pick.choice
        return RunFilter(
            workflow=pick(("", "", *WORKFLOWS)),
            version=pick(("", "", "1", "2")),
            queue=pick(("", "", *QUEUES)),
            statuses=pick(((), (), (Status.RUNNING,), (Status.PENDING, Status.FAILED), ENDINGS[:1])),
            prefix=pick(("", "", "", "key", "key-r")),
            parent=self.some_run() if self.often(0.1) else "",
            trigger=pick(("", "", "api", "schedule")),
            tags=pick(((), (), (("team", "a"),), (("team", "a"), ("env", "x")))),
            words=pick(((), (), ("refused",), ("refused", "again"))),
            since=pick((0.0, 0.0, self.now - 5.0)),
            until=pick((NEVER, NEVER, self.now - 1.0)),
            limit=pick((1, 3, 100)),
        )

    def wait_filter(self) -> WaitFilter:
        whats = self.pick.choice((WAITS, WAITS, ("approval",)))
        return WaitFilter(
            whats=whats, name=self.pick.choice(("", *EVENT_NAMES)), limit=self.pick.choice((1, 50))
        )

    def _lane(self, workflow: str, queue: str, child: bool) -> str:
        if self.often(0.7):
            return ""
        key, hold = self.pick.choice((("", "active"), ("k", "active"), ("k", "run")))
        limit = self.pick.choice((None, 1, 2))
        lane = Lane("default", workflow, queue, key, None, limit, 2 if key else None, child=child)
        return replace(lane, key_hold=hold).text

    def limit(self) -> Limit:
        kind: LimitKind = self.pick.choice(("workspace", "workflow", "queue"))
        name = {"workspace": "", "workflow": WORKFLOWS[0], "queue": QUEUES[0]}[kind]
        hold: Hold = self.pick.choice(("active", "active", "run"))
        limit = self.pick.choice((None, 0, 1, 3))
        return Limit(
            kind=kind, workspace="" if kind == "queue" else "default", name=name, limit=limit, hold=hold
        )

    def scope_hold(self) -> ScopeHold:
        kind: HoldKind = self.pick.choice(("workspace", "workflow", "queue"))
        name = {"workspace": "", "workflow": WORKFLOWS[0], "queue": self.pick.choice(QUEUES)}[kind]
        return ScopeHold(kind, "default", name, self.often(0.4), "ann", b'"why"')

    def rated(self) -> RatedStart:
        windows = [Window("workflow default/order", 4, 10.0), Window("user default/ann", 2, 5.0)]
        return RatedStart(self.new_runs(), self.pick.choice((windows, windows[:1])))

    def new_runs(self) -> list[NewRun]:
        runs = [self.new_run() for _ in range(self.pick.randint(1, 3))]
        return [
            replace(run, owner=self.pick.choice(WORKERS), lease=self.fresh("lease"))
            if self.often(0.2)
            else run
            for run in runs
        ]

    def renamed(self, copies: Sequence[RunCopy]) -> list[RunCopy]:
        """The same runs under new ids, or (sometimes) with a key or id that is taken."""
        ids = {copy.id: RunId(self.fresh("r")) for copy in copies}
        fresh = [
            replace(
                copy,
                id=ids[copy.id],
                key=copy.key and f"key-{ids[copy.id]}",
                parent=ids.get(RunId(copy.parent), ""),
            )
            for copy in copies
        ]
        if fresh and self.often(0.2):
            fresh[-1] = copies[-1] if self.often(0.5) else replace(fresh[-1], key=copies[-1].key)
        return fresh

    def worker_info(self, worker: WorkerId) -> WorkerInfo:
        return WorkerInfo(id=worker, lease_seconds=10.0, name=f"host:{worker}", queues=QUEUES, needs=NEEDS)

    def claim_request(self, worker: WorkerId) -> ClaimRequest:
        limit = self.pick.choice((1, 2, 5))
        queues: Sequence[str] = (*QUEUES, "")
        needs: Sequence[str] = (*NEEDS, REMOTE, NEEDS_EMIT)
        if self.often(0.2):
            queues, needs = queues[1:], needs[1:]
        return ClaimRequest(
            worker=worker,
            queues=queues,
            needs=needs,
            limit=limit,
            leases=[LeaseId(self.fresh("lease")) for _ in range(limit)],
            fresh=self.pick.choice((0, 0, 1, 2)),
            solo=self.often(0.25),
        )

    def took(self, worker: WorkerId, claims: Sequence[Claim]) -> None:
        for claim in claims:
            if claim.needs == NEEDS_EMIT:
                self.events.append(claim)
            elif claim.path:
                self.remote.append(claim)
            else:
                keys = [row.key for row in claim.inbox]
                self.held.append(Held(claim, worker, claim.head, claim.wakes, keys))

    def message(self, run_id: RunId) -> Message:
        key = f"s{self.pick.randrange(4)}" if self.often(0.4) else self.fresh("s")
        return Message(
            run_id=run_id, key=key, kind="signal", name="go", payload=b'"%d"' % self.pick.randrange(3)
        )

    def decision(self, run_id: RunId) -> Message:
        path = self.pick.choice(WAIT_PATHS[:2])
        if self.asking and self.often(0.8):
            run_id, path = self.pick.choice(self.asking[-4:])
        payload = msgspec.json.encode(Decision(token=self.pick.choice("ab"), answer=Raw(b"true")))
        return Message(
            run_id=run_id, key=decide_key(path), kind="decide", name=path, payload=payload, wait=path
        )

    def published(self) -> PublishedEvent:
        id = f"e{self.pick.randrange(8)}"
        return PublishedEvent(id, self.pick.choice(EVENT_NAMES), self.pick.choice(("", "k")), b"1", 0.0)

    def remote_result(self, claim: Claim) -> Message:
        ending = EndNotice(status="completed", result=Raw(b"1"))
        return step_ended(claim.run_id, claim.path, self.pick.choice((1, 1, 2)), ending)

    # Commits

    def batch(self) -> tuple[list[Held], list[Commit]]:
        """Members of different runs; nobody delivers to another member, whose turn is the store's choice."""
        chosen: dict[RunId, Held] = {}
        for _ in range(self.pick.randint(1, 3)):
            held = self.pick.choice(self.held[-8:])
            chosen[held.claim.run_id] = held
        members = [self.member(held, set(chosen)) for held in chosen.values()]
        return list(chosen.values()), members

    def member(self, held: Held, batch: set[RunId]) -> Commit:
        events = self._facts(held)
        commit = Commit(
            run_id=held.claim.run_id,
            lease=LeaseId("stale") if self.often(0.03) else held.claim.lease,
            head=held.head + (self.pick.choice((-1, 1)) if self.often(0.05) else 0),
            events=events,
            settled=self.often(0.5),
            consumed=[key for key in held.inbox if self.often(0.6)],
        )
        last = held.head + len(events)
        if events and events[-1].kind == "continued":
            commit.base = last
        if self.often(0.4):
            self._waits(commit)
        if self.often(0.35):
            self._reach_out(commit, batch, last)
        if self.often(0.6):
            commit.then = self._then(held)
        return commit

    def _facts(self, held: Held) -> list[NewEvent]:
        facts = [] if held.begun else [written(Claimed(lease=held.claim.lease, worker=held.worker))]
        if self.often(0.1):
            return []
        for _ in range(self.pick.randrange(3)):
            path = f"s#{self.pick.randrange(3)}"
            problem = Problem(code="X", message="no")
            facts += self.pick.choice(
                (
                    [written(StepCompleted(result=Raw(b"1")), path, 1)],
                    [written(StepStarted(step="s"), path, 1)],
                    [written(StepFailed(error=problem, retry_in=1.0), path, 1)],
                )
            )
        if self.often(0.1):
            facts.append(written(Continued(generation=1)))
        return facts

    def _then(self, held: Held) -> Park | Finish:
        seen = held.seen - 1 if self.often(0.05) else held.seen
        if self.often(0.4):
            status = self.pick.choice(ENDINGS)
            words = ("refused", "again")[: self.pick.randint(0, 2)]
            return Finish(
                seen=seen, status=status, output=b"1", where_at="end", started_at=self.now, words=words
            )
        due_in = self.pick.choice((0.0, 0.0, 2.0, 30.0, float("inf")))
        due_at = self.now + 1.0 if self.often(0.2) else float("inf")
        status = self.pick.choice((Status.SUSPENDED, Status.SUSPENDED, Status.RUNNING))
        return Park(
            seen=seen, status=status, due_in=due_in, due_at=due_at, where_at="wait", started_at=self.now
        )

    def _waits(self, commit: Commit) -> None:
        paths = self.pick.sample(WAIT_PATHS, 3)
        commit.waits_opened = [self._wait(path) for path in paths[:2]]
        commit.waits_closed = paths[2:]

    def _wait(self, path: str) -> NewWait:
        kind = "event" if path.startswith("evt") else "decision"
        since = self.now - self.pick.choice((0.0, 1.0, 5.0))
        key = self.pick.choice(("", "", "k"))
        name, timeout = self.pick.choice(EVENT_NAMES), self.pick.choice((None, 30.0))
        what = "approval" if kind == "decision" else kind
        return NewWait(path=path, kind=kind, name=name, key=key, since=since, what=what, timeout=timeout)

    def _reach_out(self, commit: Commit, batch: set[RunId], last: int) -> None:
        targets = [run for run in (self.some_run() for _ in range(2)) if run not in batch]
        commit.deliveries = [self.message(run) for run in targets]
        if self.often(0.4):
            commit.starts = [self.new_run()]
        if self.often(0.5):
            scheduled = written(StepScheduled(step="resize", queue="gpu"), "resize#1", 1)
            commit.events = [*commit.events, scheduled]
            ticket = NewTicket(path="resize#1", queue="gpu", needs=REMOTE, seq=last + 1)
            commit.tickets_opened = [ticket]
            commit.base = None
        elif self.often(0.3):
            commit.tickets_closed = ["resize#1"]
