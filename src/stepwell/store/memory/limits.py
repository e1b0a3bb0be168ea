"""Limits of the memory store, and how much of them is used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from stepwell.domain.admission import FreeSlots, clear_blocked_owners, requested_lanes
from stepwell.domain.commit import (
    NewRun,
)
from stepwell.domain.lanes import Lane, LaneUse, coverage_of
from stepwell.domain.limits import Limit, LimitScope
from stepwell.domain.rates import StoredRate, WindowKey
from stepwell.store.base import SOLO_LOSSES
from stepwell.store.memory.tables import Tables, Ticket
from stepwell.store.memory.verb import transaction


class MemoryLimits(Tables):
    @transaction("put_limit")
    async def put_limit(self, limit: Limit) -> None:
        self._limits[limit.scope] = limit

    @transaction("drop_limit")
    async def drop_limit(self, scope: LimitScope) -> bool:
        return self._limits.pop(scope, None) is not None

    async def read_limits(self) -> Sequence[Limit]:
        return [self._limits[scope] for scope in sorted(self._limits)]

    @transaction("put_start_rate")
    async def put_start_rate(self, rate: StoredRate) -> None:
        self._start_rates[WindowKey(rate.per, rate.seconds)] = rate

    @transaction("drop_start_rate")
    async def drop_start_rate(self, per: str, seconds: float) -> bool:
        return self._start_rates.pop(WindowKey(per, seconds), None) is not None

    async def read_start_rates(self) -> Sequence[StoredRate]:
        return [self._start_rates[key] for key in sorted(self._start_rates)]

    async def read_lanes(self) -> Sequence[LaneUse]:
        use: dict[str, Counter[str]] = defaultdict(Counter)
        for ticket in self._tickets.values():
            if ticket.lane and (ticket.lease is not None or ticket.started):
                use[ticket.lane]["leased" if ticket.lease is not None else "resting"] += 1
        return [LaneUse(lane, counts["leased"], counts["resting"]) for lane, counts in sorted(use.items())]

    def _slots(self) -> FreeSlots:
        lanes = [ticket for ticket in self._tickets.values() if ticket.lane]
        leased = Counter(t.lane for t in lanes if t.lease is not None)
        resting = Counter(t.lane for t in lanes if t.lease is None and t.started)
        return FreeSlots(self._limits.values(), leased, resting, self._scope_holds())

    def _owned_within_limits(self, runs: Sequence[NewRun]) -> Sequence[NewRun]:
        """Return the runs; their starter owns those of lanes that have a free slot."""
        if not requested_lanes(runs):
            return runs
        now = self._clock()
        waiting = any(
            ticket.lane
            and ticket.lease is None
            and ticket.held is None
            and ticket.due_at <= now
            and ticket.losses < SOLO_LOSSES
            for ticket in self._tickets.values()
        )
        return clear_blocked_owners(runs, self._slots(), waiting=waiting)

    def _give_lanes(self, open_tickets: Sequence[Ticket]) -> None:
        """Assign lanes to runs within reach of a limit that was set: owned ones, and those about to be."""
        coverage = coverage_of(self._limits.values(), self._scope_holds())
        if not coverage:
            return
        owned = [t for t in self._tickets.values() if t.lease is not None and not t.path]
        for ticket in [*owned, *open_tickets]:
            run = self._runs.get(ticket.run_id)
            if run is None or ticket.lane or not coverage.covers(ticket.queue, ticket.needs):
                continue
            row = run.row
            exempt = row.test or bool(ticket.path)
            lane = Lane(row.workspace, row.workflow, ticket.queue, child=bool(row.parent), exempt=exempt)
            ticket.lane = lane.text
