"""Claimer: takes due tickets while there are free slots, and sleeps exactly until the next is due."""

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

_log = logging.getLogger("stepwell.engine")

_CLAIM_MAX = 100
_PAUSE_MAX = 2.0
_SOLO_REST = 3
_GATHERED = 8  # a claim is worth it when one in so many slots is free,
_GATHER_SECONDS = 0.005  # or after this time
# While a herd waits it comes in groups, each when the one before has gone or had its time. Begun together
# they hold the event loop, beside a busy loop the store's thread waits for the interpreter, and the more
# they have in memory at once, the more often the garbage collector goes over all there is.
_GROUPS = 6  # a group has one in so many slots
_GROUP_SECONDS = 0.05
_BESIDE = 4  # tickets that are taken meanwhile, the fresh ones first


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
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._queues = [*queues, ""]  # '' holds what every worker can do
        self._needs = needs
        self._poll_seconds = poll_seconds
        self._solo_seconds = solo_seconds  # how long suspects may have the worker one after the other
        self._slots = slots
        self._fresh_share = FreshShare(fresh_share)
        self._budget = StartBudget(fresh_share, slots)
        self._active = active
        self._worker = worker
        self._begin = begin
        self._begin_late = begin_late  # with a lease that was asked for before
        self._wake = asyncio.Event()
        self._next_look = 0.0  # on our monotonic clock
        self.stopped = False
        self.solo_wanted = False  # a run that lost two owners waits to be taken alone
        self._solo: LeaseId | None = None  # of such a run: it has this worker for itself
        self._solo_more = False  # another one was due when it was taken
        self._series_until = 0.0  # then other runs have a turn
        self._unanswered: ClaimRequest | None = None
        self._solo_rest = 0  # sweeps to let pass
        self._solo_until = 0.0  # how long to hold back for it
        self._full = False  # there may be more than we had slots for
        self._behind = True  # something fresh may wait that is older than what is started now
        self._crowded = False  # runs that have begun wait for slots, and nothing that is fresh
        self._group_until = 0.0  # a group of the herd has its time
        self._beside = 0  # slots that were in use when it came
        self._gathering: asyncio.TimerHandle | None = None  # until more slots are free
        self.blocked = False  # runs wait for slots of limits
        self._asked = 0  # slots that the claim under way may fill
        self._asking = asyncio.Lock()

    @property
    def room(self) -> int:
        """Slots for runs that are started here: none while others wait for theirs."""
        if self.stopped or self._behind or self.solo_wanted or self._solo is not None:
            return 0
        room = self._slots - self._active() - self._asked
        return min(room, self._budget.left) if self._crowded else room

    def started(self, count: int) -> None:
        """So many runs were started here: they count to what fresh ones may have while others wait."""
        if self._crowded:
            self._budget.started(count)

    async def stop(self) -> None:
        """Ask no more; when this returns the last answer is in, and what it gave has begun."""
        self.stopped = True
        async with self._asking:
            pass

    def wake(self) -> None:
        """There may be something due."""
        self._wake.set()

    def freed(self, lease: LeaseId) -> None:
        """A slot is free again: look, if that is what we waited for."""
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
        """Ask when some slots are free: a claim for each of them would cost a transaction each."""
        if self._free() >= self._slots // _GATHERED:
            self._wake.set()
        elif self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(_GATHER_SECONDS, self._wake.set)

    # Suspects: runs that lost two owners. Each has a worker for itself until it has settled something.

    def want_solo(self) -> None:
        """A suspect waits for a worker that has nothing else to do. Asked each sweep."""
        self._solo_rest -= 1
        if self._solo_rest <= 0 and self._solo is None and not self.solo_wanted and not self.stopped:
            self._series_until = self._clock.monotonic() + self._solo_seconds
            self._want_solo()

    def moved(self, lease: LeaseId) -> bool:
        """A run that lost owners has settled something: it is a suspect no more.

        True: the next suspect is waiting, and must not share the worker with it either. It is to be given
        back, and goes on beside others as soon as those have had their turn.
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
        """At once: at one a sweep, a worker full of runs that died twice would take minutes to recover."""
        if self._series_goes_on:
            self._want_solo()

    def _want_solo(self) -> None:
        self._solo_rest = _SOLO_REST
        self.solo_wanted = True
        self._solo_until = self._clock.monotonic() + self._poll_seconds
        self._wake.set()

    def note_due(self, seconds: float) -> None:
        """A ticket of ours becomes due in so many seconds."""
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
                self._behind, self._crowded = True, False  # it may have filled slots
                _log.warning("claim not answered: %s", error.message)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE_MAX)
                more = True  # what it may have taken is waiting for us

    async def _sleep(self) -> None:
        left = self._next_look - self._clock.monotonic()
        if left > 0 and not self._wake.is_set():
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _claim(self) -> bool:
        """One look; True: look again at once."""
        active = self._active()
        if self.solo_wanted and active:
            if self._clock.monotonic() < self._solo_until:
                self._next_look = self._clock.monotonic() + self._poll_seconds
                return False  # let the others finish first
            self.solo_wanted = False  # they take too long: other runs must not wait for them
        request = self._request(active)
        begin = self._begin_late if request is self._unanswered else self._begin
        # An answer that is lost may have been a success: the same leases are asked for again, and
        # the store gives what it gave before. Otherwise nobody would drive those runs.
        self._unanswered = request
        self._asked = request.limit
        try:
            found = await self._store.claim(request)
        finally:
            self._asked = 0
        self._unanswered = None
        self.blocked = found.blocked
        if request.solo:
            self.solo_wanted = False
            self._solo_rest = 0 if found.claims else _SOLO_REST  # none: they are not for us, it seems
            if not found.claims:
                return True
        now = self._clock.monotonic()
        next_in = self._poll_seconds if found.next_in is None else min(found.next_in, self._poll_seconds)
        self._next_look = now + next_in
        for claim in found.claims:
            begin(claim, found.now)
        if request.solo:
            self._solo_more = next_in <= 0
            # Not when it was not taken up, nor for a broadcast event: no end of theirs would be told here.
            self._solo = found.claims[0].lease if self._active() > 0 else None
            if self._solo is None:
                self._next_solo()
        # next_in = 0 with nothing claimed: the tickets are being taken by somebody else right now.
        more = len(found.claims) >= request.limit or next_in <= 0
        self._weigh(request, found.claims, more)
        if next_in <= 0 and not found.claims:
            self._next_look = now + 0.005
            return False
        if more and self._crowded and not request.solo:
            if now >= self._group_until:
                self._group_until, self._beside = now + _GROUP_SECONDS, active
            self._next_look = self._group_until
            return False
        return more

    def _weigh(self, request: ClaimRequest, claims: Sequence[Claim], more: bool) -> None:
        """Who waits behind this claim? A share that fresh tickets did not use up shows that none is left."""
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
        """Slots that a claim may fill: not those that runs which are started here may need meanwhile."""
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
        """Random as a whole: 128 bits for all, and a number each."""
        first = self._ids.lease_id()
        return [LeaseId(f"{first}{number:02x}") for number in range(count)]
