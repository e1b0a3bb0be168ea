"""Differential: random operations on several stores; each answer and what can be read must be equal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
)
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain.commit import (
    Claims,
    Commit,
    Definition,
    DrainRequest,
    Outcome,
    RunFilter,
    RunRow,
    TicketRow,
)
from stepwell.domain.events import StepCompleted, written
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.rates import Full, RatedStart, StoredRate
from stepwell.domain.search import BucketFilter, WaitFilter, WaitRow, place_of
from stepwell.store.base import Store
from stepwell.testing.clock import FakeClock
from tests.store.operations import EVENT_NAMES, NEEDS, QUEUES, WORKERS, Planner
from tests.store.trio import Trio

Ask = Callable[[Store], Awaitable[Any]]

# Not the claim: repeated with the same leases it returns the tickets they own by then.
REPEATABLE = {
    "start",
    "start_within",
    "commit",
    "transact",
    "deliver",
    "cancel",
    "retry",
    "hold",
    "force_end",
    "emit",
    "fan_out",
    "finish_remote",
}

picks = st.integers(min_value=0, max_value=2**32)
workers = st.sampled_from(WORKERS)


class Differential(RuleBasedStateMachine):
    """`trio` holds the stores; the first is the reference."""

    def __init__(self, trio: Trio, seen: set[str]) -> None:
        super().__init__()
        self.trio = trio
        self.seen = seen
        self.clock = FakeClock()
        self.stores = trio.open(self.clock)
        self.plan = Planner(random.Random(0))
        self.asked: list[tuple[str, Ask]] = []
        self.equal = True

    def teardown(self) -> None:
        try:
            if self.equal:  # else show the first difference
                self._compare_all()
        finally:
            self.trio.close()

    # Asking all of them

    def ask(self, verb: str, ask: Ask, *touched: str) -> Any:
        answers = self.trio.run(side_by_side([ask(store) for store in self.stores]))
        self._same(answers, verb)
        if verb in REPEATABLE:
            self.asked.append((verb, ask))
        self._compare([RunId(run_id) for run_id in dict.fromkeys(touched)])
        return answers[0]

    def _same(self, answers: list[Any], what: str) -> None:
        self.equal = False
        for store, other in zip(self.stores[1:], answers[1:], strict=True):
            assert other == answers[0], f"{what} on {type(store).__name__}"
        self.equal = True

    def _compare(self, runs: list[RunId]) -> None:
        answers = self.trio.run(side_by_side([readable(store, run) for run in runs for store in self.stores]))
        for at, run_id in enumerate(runs):
            here = answers[at * len(self.stores) : (at + 1) * len(self.stores)]
            self._same(here, run_id)
            self._check(here[0])

    def _check(self, state: dict[str, Any]) -> None:
        log, tickets, inbox = state["log"], {row.path: row for row in state["tickets"]}, state["inbox"]
        assert [row.seq for row in log] == list(range(1, len(log) + 1))
        assert [row.at for row in log] == sorted(row.at for row in log)
        assert [row.n for row in inbox] == sorted({row.n for row in inbox})
        if state["run"] is not None:
            assert state["run"].status.terminal == ("" not in tickets)
        if "" in tickets and log:
            assert tickets[""].head == len(log)
            assert all(row.n <= tickets[""].wakes for row in inbox)
        leases = [row.lease for row in tickets.values() if row.lease]
        assert len(leases) == len(set(leases))

    def _compare_all(self) -> None:
        self._same([self.trio.run(overview(store)) for store in self.stores], "overview")
        self._compare(self.plan.runs)

    def saw(self, *what: str) -> None:
        self.seen.update(what)

    # Steps

    @initialize(pick=picks)
    def begin(self, pick: int) -> None:
        self._think(pick)
        for worker in WORKERS[:2]:
            self._register(worker)
        self._start()

    def _think(self, pick: int) -> None:
        self.plan.pick = random.Random(pick * 1_000_003 + self.plan.count)
        self.plan.now = self.clock()

    def _start(self) -> None:
        runs = self.plan.new_runs()
        answer = self.ask("start", lambda store: listing(store.start(runs)), *(run.id for run in runs))
        for started in answer:
            self.saw("start created" if started.created else "start known")
            if started.conflict:
                self.saw("start conflict")
            if started.created:
                self.plan.runs.append(started.run_id)
        for run, started in zip(runs, answer, strict=True):
            if started.claim is not None:
                self.saw("start owned")
                self.plan.took(WorkerId(run.owner), [started.claim])

    @rule(pick=picks)
    def start(self, pick: int) -> None:
        self._think(pick)
        self._start()

    @rule(pick=picks)
    def start_within(self, pick: int) -> None:
        self._think(pick)
        asked = self.plan.rated()
        answer = self.ask("start_within", lambda store: rated(store, asked), *(run.id for run in asked.runs))
        if isinstance(answer, Full):
            self.saw("rate full")
            return
        self.saw("rate free")
        self.plan.runs += [started.run_id for started in answer if started.created]

    @rule(pick=picks)
    def find(self, pick: int) -> None:
        self._think(pick)
        for _ in range(3):
            filter = self.plan.run_filter()
            if self.ask("list_runs", partial(paged, filter=filter)):
                self.saw("found by tag" if filter.tags else "found")
        waits = self.plan.wait_filter()
        if self.ask("list_waits", lambda store: open_waits(store, waits)):
            self.saw("wait found")
        self.ask("count_runs", lambda store: listing(store.count_runs("default")))
        buckets = BucketFilter(since=0.0, width=1e6, buckets=5000)
        self.ask("count_buckets", lambda store: listing(store.count_buckets(buckets)))

    @rule(pick=picks)
    def limit(self, pick: int) -> None:
        self._think(pick)
        limit = self.plan.limit()
        if self.plan.often(0.4):
            self.ask("drop_limit", lambda store: store.drop_limit(limit.scope))
        else:
            self.ask("put_limit", lambda store: store.put_limit(limit))

    @rule(pick=picks)
    def start_rate(self, pick: int) -> None:
        self._think(pick)
        rate = StoredRate("user", 60.0 if self.plan.often(0.5) else 3600.0, 5, "ann")
        if self.plan.often(0.4):
            self.ask("drop_start_rate", lambda store: store.drop_start_rate(rate.per, rate.seconds))
        else:
            self.ask("put_start_rate", lambda store: store.put_start_rate(rate))
        self.ask("read_start_rates", lambda store: listing(store.read_start_rates()))

    @rule(pick=picks, worker=workers)
    def claim(self, pick: int, worker: WorkerId) -> None:
        self._think(pick)
        if self.plan.often(0.5):
            self._register(worker)
        request = self.plan.claim_request(worker)
        answers: Claims = self.ask("claim", lambda store: claimed(store.claim(request)))
        self.plan.took(worker, answers.claims)
        if request.solo and answers.claims:
            self.saw("claim solo")
        self.saw("claim nothing" if not answers.claims else "claim run")
        if answers.blocked:
            self.saw("claim blocked")
        tickets = [self.trio.run(self.stores[0].read_tickets(claim.run_id)) for claim in answers.claims]
        if any(row.lane for rows in tickets for row in rows):
            self.saw("claim limited")
        if self.plan.remote:
            self.saw("claim remote")
        if self.plan.events:
            self.saw("claim event")

    @rule(pick=picks, worker=workers)
    def work(self, pick: int, worker: WorkerId) -> None:
        """What an engine does most of the time."""
        self.claim(pick, worker)
        for _ in range(3):
            self._commit()

    @rule(pick=picks)
    def commit(self, pick: int) -> None:
        self._think(pick)
        self._commit()

    def _commit(self) -> None:
        self._refresh()
        if not self.plan.held:
            return
        owners, batch = self.plan.batch()
        touched = [commit.run_id for commit in batch]
        touched += [message.run_id for commit in batch for message in commit.deliveries]
        touched += [run.id for commit in batch for run in commit.starts]
        answer = self.ask("commit", lambda store: listing(store.commit(batch)), *touched)
        for held, commit, committed in zip(owners, batch, answer, strict=True):
            self.saw(f"commit {committed.outcome}")
            if committed.outcome is Outcome.OK:
                self._went_well(held, commit)

    def _went_well(self, held: Any, commit: Commit) -> None:
        held.head = commit.head + len(commit.events)
        held.begun = held.begun or bool(commit.events)
        held.inbox = [key for key in held.inbox if key not in commit.consumed]
        self.plan.asking += [(commit.run_id, w.path) for w in commit.waits_opened if w.kind == "decision"]
        before = set(self.plan.runs)
        self.plan.runs += [run.id for run in commit.starts if run.id not in before and self._is_there(run.id)]
        if commit.then is not None:
            self.saw(f"commit {type(commit.then).__name__.lower()}")

    def _is_there(self, run_id: RunId) -> bool:
        return self.trio.run(self.stores[0].read_run(run_id)) is not None

    def _refresh(self) -> None:
        """Most owners know whether they still own and what is in the inbox; so commits can succeed."""
        reference = self.stores[0]
        for held in self.plan.held[-8:]:
            tickets = self.trio.run(listing(reference.read_tickets(held.claim.run_id)))
            if held.claim.lease not in {row.lease for row in tickets} and self.plan.often(0.7):
                self.plan.held.remove(held)
            elif self.plan.often(0.7):
                rows = self.trio.run(listing(reference.read_inbox(held.claim.run_id)))
                held.inbox = [row.key for row in rows]
                held.seen = max([held.seen, *(row.n for row in rows)])

    @rule(pick=picks, stale=st.booleans())
    def transact(self, pick: int, stale: bool) -> None:
        self._think(pick)
        if not self.plan.held:
            return
        held = self.plan.pick.choice(self.plan.held[-4:])
        commit = self.plan.member(held, {held.claim.run_id})
        commit = Commit(
            run_id=commit.run_id, lease=commit.lease, head=commit.head - stale, events=commit.events
        )
        answer = self.ask("transact", lambda store: transacted(store, commit), commit.run_id)
        self.saw(f"transact {answer.outcome}")
        if answer.outcome is Outcome.OK:
            self._went_well(held, commit)

    @rule(pick=picks)
    def repeat(self, pick: int) -> None:
        self._think(pick)
        if not self.asked:
            return
        verb, ask = self.plan.pick.choice(self.asked[-4:])
        answer = self.ask(verb, ask, *self.plan.runs[-4:])
        if verb == "commit" and any(committed.outcome is Outcome.OK for committed in answer):
            self.saw("commit recognised")

    @rule(pick=picks, decide=st.booleans())
    def deliver(self, pick: int, decide: bool) -> None:
        self._think(pick)
        runs = [self.plan.some_run() for _ in range(self.plan.pick.randint(1, 3))]
        messages = [self.plan.decision(run) if decide else self.plan.message(run) for run in runs]
        touched = [message.run_id for message in messages]
        answer = self.ask("deliver", lambda store: listing(store.deliver(messages)), *touched)
        self.saw(*(f"{'decide' if decide else 'deliver'} {delivery}" for delivery in answer))

    @rule(pick=picks)
    def cancel_or_retry(self, pick: int) -> None:
        self._think(pick)
        failed = self.trio.run(failed_runs(self.stores[0]))
        run_id = self.plan.pick.choice(failed) if failed and self.plan.often(0.5) else self.plan.some_run()
        if self.plan.often(0.4):
            row = self.trio.run(self.stores[0].read_run(run_id))
            touched = [run_id, *([row.parent] if row and row.parent else [])]
            self.saw(f"cancel {self.ask('cancel', lambda store: store.cancel(run_id, 'why'), *touched)}")
        else:
            run_id = (
                self.plan.pick.choice(failed) if failed and self.plan.often(0.8) else self.plan.some_run()
            )
            result = written(StepCompleted(result=Raw(b"2"), skipped=True), "s#1", 1)
            skipped = result if self.plan.often(0.3) else None
            log = self.trio.run(self.stores[0].read_log_end(run_id))
            head = log[-1].seq - self.plan.pick.randint(0, 1) if skipped and log else None
            outcome = self.ask("retry", lambda store: store.retry(run_id, skipped=skipped, head=head), run_id)
            self.saw(f"retry {outcome}")

    @rule(pick=picks)
    def operate(self, pick: int) -> None:
        """A run, workflow, queue or workspace is held or released, or a run is ended by force."""
        self._think(pick)
        run_id = self.plan.some_run()
        if self.plan.often(0.25):
            hold = self.plan.scope_hold()
            changed = self.ask("hold_scope", lambda store: store.hold_scope(hold))
            self.saw(f"{'hold' if hold.held else 'release'} scope {'changed' if changed else 'already'}")
            return
        if self.plan.often(0.2):
            row = self.trio.run(self.stores[0].read_run(run_id))
            touched = [run_id, *([row.parent] if row and row.parent else []), *self.plan.runs[-8:]]
            ask: Ask = lambda store: store.force_end(run_id, "why", by="ann")  # noqa: E731  # with a type
            self.saw(f"force_end {self.ask('force_end', ask, *touched)}")
            return
        held = self.plan.often(0.5)
        outcome = self.ask("hold", lambda store: store.hold(run_id, held=held, by="ann"), run_id)
        self.saw(f"{'hold' if held else 'release'} {outcome}")

    @rule(pick=picks)
    def archive(self, pick: int) -> None:
        """A run is copied under another name, removed, or swept away with the others that are old."""
        self._think(pick)
        run_id = self.plan.some_run()
        if self.plan.often(0.5):
            copies = self.ask("read_tree", lambda store: listing(store.read_tree(run_id)))
            fresh = self.plan.renamed(copies)
            answer = self.ask("restore", lambda store: listing(store.restore(fresh)), *(c.id for c in fresh))
            self.plan.runs += [started.run_id for started in answer if started.created]
            self.saw(*(f"restore {'created' if started.created else 'known'}" for started in answer))
        elif self.plan.often(0.6):
            self.saw(f"remove {self.ask('remove', lambda store: store.remove(run_id), run_id)}")
        else:
            purged = self.ask("purge", lambda store: store.purge(30.0), *self.plan.runs)
            self.saw("purge some" if purged.runs else "purge none")

    @rule(pick=picks)
    def emit(self, pick: int) -> None:
        self._think(pick)
        event = self.plan.published()
        new = self.ask("emit", lambda store: store.emit(event), event.id)
        self.saw("emit new" if new else "emit known")

    @rule(pick=picks)
    def fan_out(self, pick: int) -> None:
        self._think(pick)
        if not self.plan.events:
            return
        claim = self.plan.pick.choice(self.plan.events[-3:])
        before = self._wakes()
        self.ask("fan_out", lambda store: store.fan_out(claim), claim.run_id, *self.plan.runs)
        if self._wakes() > before:
            self.saw("fan_out delivered")

    def _wakes(self) -> int:
        return self.trio.run(wakes(self.stores[0], self.plan.runs))

    @rule(pick=picks)
    def finish_remote(self, pick: int) -> None:
        self._think(pick)
        if not self.plan.remote:
            return
        claim = self.plan.pick.choice(self.plan.remote[-3:])
        result = self.plan.remote_result(claim)
        ask: Ask = lambda store: store.finish_remote(claim, result)  # noqa: E731  # an argument with a type
        self.saw(f"finish_remote {self.ask('finish_remote', ask, claim.run_id)}")

    def _register(self, worker: WorkerId) -> None:
        info = self.plan.worker_info(worker)
        self.ask("register", lambda store: store.register(info))

    def _heartbeat(self, worker: WorkerId) -> None:
        owned = self.ask("heartbeat", lambda store: beaten(store.heartbeat(worker)))
        self.saw(
            "heartbeat reaped" if owned is None else "heartbeat owning" if owned[1:] else "heartbeat idle"
        )

    @rule(pick=picks, worker=workers)
    def let_the_others_die(self, pick: int, worker: WorkerId) -> None:
        """One worker beats for longer than a lease; then the tickets of the others are taken over."""
        self._register(worker)
        for _ in range(4):
            self.clock.advance(4.0)
            self._heartbeat(worker)
        self._reap()
        self.claim(pick, worker)

    @rule(worker=workers)
    def reap(self, worker: WorkerId) -> None:
        self._heartbeat(worker)
        self._reap()

    def _reap(self) -> None:
        reaped = self.ask("reap", lambda store: store.reap(), *self.plan.runs[-4:])
        if reaped.workers:
            self.saw("reap workers")
        if reaped.solo_due:
            self.saw("reap solo")

    @rule(worker=workers)
    def drain(self, worker: WorkerId) -> None:
        self.ask("drain", lambda store: store.drain(worker, DrainRequest(by="ann")))

    @rule(worker=workers)
    def deregister(self, worker: WorkerId) -> None:
        self.ask("deregister", lambda store: store.deregister(worker), *self.plan.runs[-4:])
        self.saw("deregister")

    @rule(pick=picks)
    def look_around(self, pick: int) -> None:
        self._think(pick)
        version, hash = str(self.plan.pick.randint(1, 3)), self.plan.pick.choice("ab")
        definition = Definition(name="order", version=version, kind="function", hash=hash)
        self.ask("define", lambda store: store.put_definitions([definition]))
        other = Definition(name="order", version=version, kind="function", hash=self.plan.pick.choice("abc"))
        expected = self.plan.pick.choice(("", "a", "b"))
        self.ask("swap", lambda store: store.swap_definition(other, expected=expected))
        self.ask("latest", lambda store: store.read_definition("default", "order"))
        self.saw("define")
        if self.ask("others", others):
            self.saw("others")
        name, key = self.plan.pick.choice(EVENT_NAMES), self.plan.pick.choice(("", "k"))
        since = self.clock() - self.plan.pick.choice((0.0, 2.0, 20.0))
        if self.ask("published", lambda store: listing(store.published(name, key, since=since))):
            self.saw("published")

    @rule(seconds=st.sampled_from((0.5, 2.0, 6.0, -3.0)))
    def clock_moves(self, seconds: float) -> None:
        if seconds < 0:
            self.clock.set_back(-seconds)
        else:
            self.clock.advance(seconds)


async def side_by_side(verbs: Sequence[Awaitable[Any]]) -> list[Any]:
    """The stores are independent: while one waits for its disk another continues."""
    return list(await asyncio.gather(*verbs))


async def listing(answer: Awaitable[Any]) -> list[Any]:
    return list(await answer)


async def beaten(answer: Awaitable[Any]) -> list[Any] | None:
    beat = await answer
    return None if beat is None else [beat.draining, *sorted(beat.owned)]


async def claimed(answer: Awaitable[Claims]) -> Claims:
    """With plain lists, for a store may use any sequence, and without lanes: see `readable`."""
    answers = await answer
    plain = [
        claim._replace(log=list(claim.log), inbox=list(claim.inbox), limited=False)
        for claim in answers.claims
    ]
    # Behind a full limit nobody looks for what is due later: a slot that comes free is a reason to look.
    next_in = answers.next_in if not answers.blocked or answers.next_in == 0.0 else None
    return answers._replace(claims=plain, next_in=next_in)


async def others(store: Store) -> list[TicketRow]:
    return [replace(row, lane="") for row in await store.list_others(QUEUES, NEEDS[:1])]


async def rated(store: Store, asked: RatedStart) -> Any:
    answer = await store.start_within(asked)
    return answer if isinstance(answer, Full) else list(answer)


async def transacted(store: Store, commit: Commit) -> Any:
    if store.sync_transactions:
        return await store.transact(lambda _: None, lambda _: commit)

    async def body(_: Any) -> None:
        return None

    async def turn(_: Any) -> Commit:
        return commit

    return await store.transact(body, turn)


async def failed_runs(store: Store) -> list[RunId]:
    return [row.id for row in await store.list_runs(RunFilter(limit=1000)) if row.status == "failed"]


async def wakes(store: Store, runs: list[RunId]) -> int:
    return sum([row.wakes for run in runs for row in await store.read_tickets(run)])


async def readable(store: Store, run_id: RunId) -> dict[str, Any]:
    run, log, tickets, inbox = await asyncio.gather(
        store.read_run(run_id), store.read_log(run_id), store.read_tickets(run_id), store.read_inbox(run_id)
    )
    # A store may decide when a ticket gets a lane, but not which tickets are claimed.
    plain = [replace(row, lane="") for row in tickets]
    return {"run": run and _numbered(run), "log": list(log), "tickets": plain, "inbox": list(inbox)}


def _numbered(run: RunRow) -> RunRow:
    """A run has a number; which one, a store may decide."""
    return replace(run, number=min(run.number, 1))


async def paged(store: Store, *, filter: RunFilter) -> list[RunRow]:
    """The first two pages of the list."""
    first = list(await store.list_runs(filter))
    if not first:
        return []
    second = await store.list_runs(replace(filter, before=place_of(first[-1], filter)))
    return [_numbered(row) for row in [*first, *second]]


async def open_waits(store: Store, filter: WaitFilter) -> list[WaitRow]:
    return [row._replace(number=min(row.number, 1)) for row in await store.list_waits(filter)]


async def overview(store: Store) -> dict[str, Any]:
    return {
        "counts": list(await store.count_runs("default")),
        "waits": await open_waits(store, WaitFilter(limit=1000)),
        "runs": [_numbered(run) for run in await store.list_runs(RunFilter(limit=1000))],
        "workers": sorted(
            (row.id, row.lease_until, row.draining is None) for row in await store.list_workers()
        ),
        "definitions": list(await store.list_definitions("default")),
        "holds": list(await store.list_holds("default")),
    }
