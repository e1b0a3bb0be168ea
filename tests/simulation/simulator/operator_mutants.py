"""Planted bugs in what operators do; hunted with shapes of their own."""

from __future__ import annotations

from typing import Any

import msgspec

from stepwell.domain.commit import (
    CancelOutcome,
    ClaimRequest,
    Claims,
    HoldOutcome,
    InboxRow,
    RetryOutcome,
)
from stepwell.domain.events import Cancelled
from stepwell.domain.holds import read_hold
from stepwell.domain.ids import RunId
from stepwell.domain.messages import VariableRequest
from stepwell.engine.run.waits import Waits
from stepwell.store.memory import MemoryStore
from tests.simulation.simulator.mutants import Mutant
from tests.simulation.simulator.operators import OPERATORS


class TakesHeld(MemoryStore):
    async def claim(self, request: ClaimRequest) -> Claims:
        held = [(ticket, ticket.held) for ticket in self._tickets.values()]
        for ticket, _ in held:
            ticket.held = None
        answer = await super().claim(request)
        for ticket, mark in held:
            ticket.held = mark
        return answer


class NeverReleases(MemoryStore):
    async def hold(self, run_id: RunId, *, held: bool = True, **who: Any) -> HoldOutcome:
        return await super().hold(run_id, held=held, **who) if held else HoldOutcome.CHANGED


class SparesChildren(MemoryStore):
    async def force_end(self, run_id: RunId, reason: str, **who: Any) -> CancelOutcome:
        run, ticket = self._runs.get(run_id), self._tickets.get((run_id, ""))
        if run is None or ticket is None:
            return CancelOutcome.ALREADY
        self._end(run, ticket, Cancelled(reason=reason, forced=True), bytes)
        return CancelOutcome.ENDED


class ForceForgets(MemoryStore):
    """The run is marked as ended, but its owner keeps its ticket."""

    async def force_end(self, run_id: RunId, reason: str, **who: Any) -> CancelOutcome:
        ticket = self._tickets.get((run_id, ""))
        outcome = await super().force_end(run_id, reason, **who)
        if ticket is not None and ticket.lease is not None:
            self._tickets[run_id, ""] = ticket
        return outcome


class RetriesOnly(MemoryStore):
    async def retry(self, run_id: RunId, *, skipped: Any = None, **who: Any) -> RetryOutcome:
        return await super().retry(run_id, **who)


def _hold_unheard(self: Waits, row: InboxRow) -> None:
    """The log says that it is held; its owner works on."""
    self._run.record(read_hold(row.payload).fact)


def _set_unwritten(self: Waits, row: InboxRow) -> None:
    """The value is there until the next replay."""
    asked = msgspec.json.decode(row.payload, type=VariableRequest)
    if self._run.calls.on_variable is not None:
        self._run.calls.on_variable(asked.name, asked.value)


OPERATOR_MUTANTS: tuple[Mutant, ...] = (
    Mutant("takes_held", "a claim takes what is held", TakesHeld, shapes=OPERATORS),
    Mutant("never_releases", "a release changes nothing", NeverReleases, shapes=OPERATORS),
    Mutant(
        "hold_unheard",
        "an owner that is asked to stop begins the next step",
        patches=((Waits, "_take_hold", _hold_unheard),),
        shapes=OPERATORS,
    ),
    Mutant("spares_children", "children of a forced run live on", SparesChildren, shapes=OPERATORS),
    Mutant("force_forgets", "an owner writes after the forced end", ForceForgets, shapes=OPERATORS),
    Mutant("retries_only", "a skipped step runs again", RetriesOnly, shapes=OPERATORS),
    Mutant(
        "set_unwritten",
        "a variable is set, and not in the log",
        patches=((Waits, "_set_variable", _set_unwritten),),
        shapes=OPERATORS,
    ),
)
