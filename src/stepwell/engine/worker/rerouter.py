"""Rerouter: finds a worker, or an end, for runs that need what no worker registered.

A graph run continues from its stored definition, so a worker that has its node types and steps learns the
graph. A run that no live worker can serve can still end: if its cancel was requested, or if it has been due
for as long as its graph lets a run stand still. It then needs `unserved`, which every worker has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.commit import Claim, RunRow, TicketRow
from stepwell.domain.compensation import find
from stepwell.domain.ids import NEEDS_GRAPH, NEEDS_UNSERVED, RunId, needs_workflow
from stepwell.domain.program import Program, former_needs
from stepwell.engine.run.unserved import Unserved
from stepwell.errors import InvalidDefinition, StepwellError, StoreError
from stepwell.store.base import Store

_log = logging.getLogger("stepwell.engine")

_GIVEN_UP_AT_ONCE = 50  # runs of each kind in one pass
_PAGE = 1000
# How long to wait before a worker that cannot undo a run's steps cancels it: a capable one may be restarting.
_UNDO_SECONDS = 300.0
_STAND_STILL_SECONDS = 86_400.0  # for a graph that is not stored; a stored one has a setting for it

MakeProgram = Callable[[bytes], Program]


class Rerouter:
    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        needs: list[str],
        programs: Mapping[str, Program],
        graphs: MakeProgram | None,
    ) -> None:
        self._store = store
        self._queues = queues
        self._needs = needs  # grows with each graph learned
        self._programs = programs  # what this worker registered, by needs
        self._graphs = graphs
        self._learned = {needs: known for known in programs.values() for needs in former_needs(known)}
        self._unable: dict[str, float | None] = {}  # how many seconds runs may be due; None: no limit

    def program(self, claim: Claim) -> Program | None:
        """The program of a claimed run; None if the run carries a graph that cannot be run here."""
        program = self._programs.get(claim.needs)
        if program is not None:
            return program
        accepted = ev.read_as(ev.Accepted, claim.log[0])
        if bytes(accepted.graph) != b"null":
            program = self._carried(accepted)
        else:
            needs = needs_workflow(accepted.workflow, accepted.version)
            program = self._programs.get(needs) or self._learned.get(needs)
            assert program is not None or claim.needs == NEEDS_UNSERVED, f"{needs} is not here"
        if program is None and claim.needs == NEEDS_UNSERVED:
            return Unserved(accepted.workflow, accepted.version, accepted.kind)
        return program

    def _carried(self, accepted: ev.Accepted) -> Program | None:
        try:
            return None if self._graphs is None else self._graphs(bytes(accepted.graph))
        except InvalidDefinition as error:
            _log.info("graph %s cannot be run here: %s", accepted.workflow, error.message)
            return None

    async def run(
        self, every: float, announce: Callable[[], Awaitable[None]], wake: Callable[[], None]
    ) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                before = len(self._needs)
                given_up = await self.look()
                if len(self._needs) > before:
                    await announce()
                if given_up or len(self._needs) > before:
                    wake()
            except StoreError as error:
                _log.warning("could not look for runs that nobody serves: %s", error.message)

    async def look(self) -> bool:
        """Learn the graphs that can run here, and give up on runs that nobody serves; True if any."""
        for given_up in range(_GIVEN_UP_AT_ONCE):
            unable = await self.learn()
            if not unable or not await self._give_up(unable):
                return given_up > 0
        return True

    async def learn(self) -> list[TicketRow]:
        """Extend our needs by what can be served here; returns the first ticket of each other kind."""
        others = await self._store.list_others(self._queues, self._needs)
        runs = [ticket for ticket in others if not ticket.path]  # a step waits for a worker that has it
        able = [ticket.needs for ticket in runs if await self._is_able(ticket)]
        self._needs.extend(dict.fromkeys(able))
        return [ticket for ticket in runs if ticket.needs in self._unable]

    async def _is_able(self, ticket: TicketRow) -> bool:
        if ticket.needs in self._unable:
            return False
        if ticket.needs in self._learned:
            return True
        run = await self._store.read_run(ticket.run_id)
        if run is None:
            return False  # it has ended meanwhile
        body: bytes | None = None
        try:
            body = await self._body(run, ticket.needs) if run.kind == "graph" else None
            if body is not None and self._graphs is not None:
                self._learned[ticket.needs] = self._graphs(body)
                return True
        except StoreError:
            raise
        except (StepwellError, msgspec.MsgspecError) as error:
            _log.info("%s cannot be run here: %s", ticket.needs, error)
        self._unable[ticket.needs] = None if run.kind != "graph" else _stands_still(body)
        return False

    async def _body(self, run: RunRow, needs: str) -> bytes | None:
        if needs.startswith(f"{NEEDS_GRAPH}:"):
            for row in await self._store.read_log(run.id, limit=1):
                return bytes(ev.read_as(ev.Accepted, row).graph)
        definition = await self._store.read_definition(run.workspace, run.workflow, run.version)
        return None if definition is None or definition.kind != "graph" else definition.body

    # Runs that nobody serves

    async def _give_up(self, tickets: Sequence[TicketRow]) -> bool:
        """Reroute the runs whose time is up to any worker, which ends them; True: there may be more."""
        now = await self._store.now()
        live = [worker for worker in await self._store.list_workers() if worker.lease_until > now]
        given_up = False
        for ticket in tickets:
            if any(ticket.needs in w.needs and ticket.queue in w.queues for w in live):
                continue
            if not await self._is_over(ticket, now):
                continue
            if await self._store.reroute(ticket.run_id, needs=ticket.needs, to=NEEDS_UNSERVED):
                _log.warning("no worker has %s: run %s is ended without it", ticket.needs, ticket.run_id)
                given_up = True
        return given_up

    async def _is_over(self, ticket: TicketRow, now: float) -> bool:
        overdue = now - ticket.due_at
        if ticket.ending:
            return overdue >= _UNDO_SECONDS or await self._can_undo(ticket.run_id)
        limit = self._unable[ticket.needs]
        return ticket.started and limit is not None and overdue >= limit

    async def _can_undo(self, run_id: RunId) -> bool:
        """Whether this process has the compensating functions of all the run's steps that need one."""
        after = 0
        while page := await self._store.read_log(run_id, after=after, limit=_PAGE):
            after = page[-1].seq
            for row in page:
                try:
                    fact = ev.read(row).fact
                except (StepwellError, msgspec.MsgspecError):  # it may have been such a step
                    return False
                if isinstance(fact, ev.StepCompleted) and fact.undo and find(fact.undo.function) is None:
                    return False
        return True


class _Settings(msgspec.Struct, rename="camel"):
    suspend_ttl_ms: float | None = _STAND_STILL_SECONDS * 1000


class _Graph(msgspec.Struct):
    settings: _Settings = msgspec.field(default_factory=_Settings)


def _stands_still(body: bytes | None) -> float | None:
    """How many seconds a run of this graph may stand still; None: no limit."""
    try:
        limit = msgspec.json.decode(body or b"{}", type=_Graph).settings.suspend_ttl_ms
    except msgspec.MsgspecError:  # not a graph that we can read
        limit = _Settings().suspend_ttl_ms
    return None if limit is None else limit / 1000
