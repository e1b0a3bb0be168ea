"""Claimer: claims due tickets while there are free slots, and sleeps exactly until the next one is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from stepwell.domain.commit import Claim, ClaimRequest
from stepwell.domain.ids import Ids, LeaseId, WorkerId
from stepwell.domain.shares import FreshShare, StartBudget
from stepwell.errors import StoreError
from stepwell.store.base import Store
from stepwell.system import Clock
from stepwell.telemetry.measures import WorkerMeasures

_log = logging.getLogger("stepwell.engine")

_CLAIM_MAX = 100
_PAUSE_MAX = 2.0
_SOLO_REST = 3
_GATHERED = 8  # a claim is worth its cost when one in eight slots is free,
_GATHER_SECONDS = 0.005  # or after this time
# Many timers that are due at once come in groups, each when the one before has gone or had its time. Begun
# together they hold the event loop, beside a busy loop the store's thread waits for the interpreter, and the
# more of them are in memory, the more often the garbage collector scans the whole heap.
_GROUPS = 6  # a group has a sixth of the slots
_GROUP_SECONDS = 0.05
_BESIDE = 4  # tickets to take meanwhile, fresh ones first


class Claimer:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        queues: Sequence[str],
        needs: Sequence[str],
        poll_seconds: float,
        solo_seconds: float,
        fresh_share: float,
        slots: int,
        active: Callable[[], int],
        worker: Callable[[], WorkerId],
        begin: Callable[[Claim, float], None],
        begin_late: Callable[[Claim, float], None],
        measures: WorkerMeasures,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._queues = [*queues, ""]  # '' holds tickets that every worker can take
        self._needs = needs
        self._poll_seconds = poll_seconds
        self._solo_seconds = solo_seconds  # how long suspects may have the worker to themselves in a row
        self._slots = slots
        self._fresh_share = FreshShare(fresh_share)
        self._budget = StartBudget(fresh_share, slots)
        self._active = active
        self._worker = worker
        self._begin = begin
        self._measures = measures
        self._begin_late = begin_late  # with a lease that was requested earlier
        self._wake = asyncio.Event()
        self._next_look = 0.0  # on our monotonic clock
        self.stopped = False
        self.solo_wanted = False  # a run that lost two owners waits to be taken alone
        self._solo: LeaseId | None = None  # of such a run: it has this worker to itself
        self._solo_more = False  # another one was due when it was taken
        self._series_until = 0.0  # after that, other runs have a turn
        self._unanswered: ClaimRequest | None = None
        self._solo_rest = 0  # how many sweeps to let pass
        self._solo_until = 0.0  # how long to hold other runs back for it
        self._full = False  # more tickets may be due than we had slots for
        self._behind = True  # a fresh ticket may wait that is older than the runs started now
        self._crowded = False  # only runs that have begun wait for slots, no fresh ones
        self._group_until = 0.0  # until then a group of the herd has its turn
        self._beside = 0  # slots in use when the group came
        self._gathering: asyncio.TimerHandle | None = None  # until more slots are free
        self.blocked = False  # runs wait for slots of limits
        self._asked = 0  # how many slots the claim under way may fill
        self._asking = asyncio.Lock()

    @property
    def room(self) -> int:
        """How many slots local starts may take: none while older tickets wait."""
        if self.stopped or self._behind or self.solo_wanted or self._solo is not None:
            return 0
        room = self._slots - self._active() - self._asked
        return min(room, self._budget.left) if self._crowded else room

    def started(self, count: int) -> None:
        """Count local starts: while other runs wait, they use up the share of fresh runs."""
        self._measures.claimed += count
        if self._crowded:
            self._budget.started(count)

    async def stop(self) -> None:
        """Stop claiming; when this returns, the last answer has arrived and its runs have begun."""
        self.stopped = True
        async with self._asking:
            pass

    def wake(self) -> None:
        """Something may be due: look now."""
        self._wake.set()

    def freed(self, lease: LeaseId) -> None:
        """A slot is free again: claim, if we waited for that."""
        if lease == self._solo:
            self._solo = None
            self._next_solo()
        if self.solo_wanted:
            self._wake.set()
        elif self._full:
            self._gather()
        elif self._group_until and self._active() <= self._beside:
            self._group_until = 0.0
            self._wake.set()

    def _gather(self) -> None:
        """Claim when several slots are free: a claim for each of them would cost a transaction each."""
        if self._free() >= self._slots // _GATHERED:
            self._wake.set()
        elif self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(_GATHER_SECONDS, self._wake.set)

    # Suspects: runs that lost two owners. Each has a worker to itself until it has settled something.

    def want_solo(self) -> None:
        """A suspect waits for a worker that has nothing else to do. Called at each sweep."""
        self._solo_rest -= 1
        if self._solo_rest <= 0 and self._solo is None and not self.solo_wanted and not self.stopped:
            self._series_until = self._clock.monotonic() + self._solo_seconds
            self._want_solo()

    def moved(self, lease: LeaseId) -> bool:
        """A run that lost owners has settled something: it is no longer a suspect.

        True: the next suspect is waiting, and must not share the worker with this run either. Release the
        run; it continues beside others as soon as the suspects have had their turn.
        """
        if lease != self._solo:
            return False
        if self._series_goes_on:
            return True
        self._solo = None
        self._wake.set()
        return False

    @property
    def _series_goes_on(self) -> bool:
        return self._solo_more and not self.stopped and self._clock.monotonic() < self._series_until

    def _next_solo(self) -> None:
        """Take the next suspect at once: at one a sweep, many suspects would take minutes to recover."""
        if self._series_goes_on:
            self._want_solo()

    def _want_solo(self) -> None:
        self._solo_rest = _SOLO_REST
        self.solo_wanted = True
        self._solo_until = self._clock.monotonic() + self._poll_seconds
        self._wake.set()

    def note_due(self, seconds: float) -> None:
        """A ticket that we can take becomes due in this many seconds."""
        when = self._clock.monotonic() + seconds
        if when < self._next_look:
            self._next_look = when
            self._wake.set()

    async def run(self) -> None:
        pause = 0.05
        more = True
        while True:
            if not more:
                await self._sleep()
            self._wake.clear()
            if self._gathering is not None:
                self._gathering.cancel()
                self._gathering = None
            self._full = self.stopped or self._solo is not None or self._free() <= 0
            if self._full:
                more = False
                self._behind = self._behind or not self._crowded
                self._next_look = self._clock.monotonic() + self._poll_seconds
                continue
            try:
                async with self._asking:
                    more = await self._claim()
                pause = 0.05
            except StoreError as error:
                self._behind, self._crowded = True, False  # the claim may have filled slots
                _log.warning("claim not answered: %s", error.message)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE_MAX)
                more = True  # tickets that it may have taken are waiting for us

    async def _sleep(self) -> None:
        left = self._next_look - self._clock.monotonic()
        if left > 0 and not self._wake.is_set():
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _claim(self) -> bool:
        """Claim once; True: claim again at once."""
        active = self._active()
        if self.solo_wanted and active:
            if self._clock.monotonic() < self._solo_until:
                self._next_look = self._clock.monotonic() + self._poll_seconds
                return False  # let the others finish first
            self.solo_wanted = False  # they take too long: other runs must not wait any longer
        request = self._request(active)
        begin = self._begin_late if request is self._unanswered else self._begin
        # A lost answer may have been a success: ask again with the same leases, and the store returns what it
        # gave before. Otherwise nobody would drive those runs.
        self._unanswered = request
        self._asked = request.limit
        try:
            answer = await self._store.claim(request)
        finally:
            self._asked = 0
        self._unanswered = None
        self._measures.claims += 1
        self._measures.claimed += len(answer.claims)
        self.blocked = answer.blocked
        if request.solo:
            self.solo_wanted = False
            self._solo_rest = 0 if answer.claims else _SOLO_REST  # none: they are probably not for us
            if not answer.claims:
                return True
        now = self._clock.monotonic()
        next_in = self._poll_seconds if answer.next_in is None else min(answer.next_in, self._poll_seconds)
        self._next_look = now + next_in
        for claim in answer.claims:
            begin(claim, answer.now)
        if request.solo:
            self._solo_more = next_in <= 0
            # Only if an activation started: fan-outs and rejected claims never report an end.
            self._solo = answer.claims[0].lease if self._active() > 0 else None
            if self._solo is None:
                self._next_solo()
        # next_in = 0 with nothing claimed: another worker is taking the tickets right now.
        more = len(answer.claims) >= request.limit or next_in <= 0
        self._weigh(request, answer.claims, more)
        if next_in <= 0 and not answer.claims:
            self._next_look = now + 0.005
            return False
        if more and self._crowded and not request.solo:
            if now >= self._group_until:
                self._group_until, self._beside = now + _GROUP_SECONDS, active
            self._next_look = self._group_until
            return False
        return more

    def _weigh(self, request: ClaimRequest, claims: Sequence[Claim], more: bool) -> None:
        """Note who waits after this claim. If fresh tickets did not use up their share, none is left."""
        fresh = sum([1 for claim in claims if claim.head <= 1])
        self._budget.claimed(len(claims) - fresh)
        if not more:
            self._behind = self._crowded = False
        elif request.fresh and claims:
            self._behind = fresh >= request.fresh
            self._crowded = not self._behind
        elif not self._crowded:
            self._behind = True

    def _free(self) -> int:
        """How many slots a claim may fill: not those reserved for local starts."""
        reserved = self._budget.reserved if self._crowded else 0
        return self._slots - self._active() - reserved

    def _request(self, active: int) -> ClaimRequest:
        worker = self._worker()
        if self._unanswered is not None and self._unanswered.worker == worker:
            return self._unanswered
        limit, fresh = self._wanted(active)
        return ClaimRequest(
            worker=worker,
            queues=self._queues,
            needs=self._needs,
            limit=limit,
            leases=self._leases(limit),
            fresh=fresh,
            solo=self.solo_wanted,
        )

    def _wanted(self, active: int) -> tuple[int, int]:
        """How many tickets to ask for, and how many of them are for fresh runs first."""
        if self.solo_wanted:
            return 1, 0
        if not self._crowded:  # not all that are free: runs may be started here meanwhile
            limit = -(-(self._slots - active) * 3 // 4)
        elif self._clock.monotonic() < self._group_until:
            limit = max(1, min(self._free(), _BESIDE))
            return limit, limit
        else:
            limit = min(self._free(), self._slots // _GROUPS)
        limit = max(1, min(limit, _CLAIM_MAX))
        return limit, self._fresh_share.of(limit)

    def _leases(self, count: int) -> list[LeaseId]:
        """Lease ids: 128 random bits for all of them, and a number each."""
        first = self._ids.lease_id()
        return [LeaseId(f"{first}{number:02x}") for number in range(count)]
