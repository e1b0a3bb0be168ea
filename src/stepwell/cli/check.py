"""`stepwell check FILE --against DB`: would the live runs of a database go on with this code?"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING

from stepwell.cli.codec import store_of
from stepwell.cli.source import Found, collect, must_exist
from stepwell.client import Client
from stepwell.domain.commit import LogRow, RunRow
from stepwell.domain.events import Accepted, read_as
from stepwell.domain.program import Program, former_needs, needs_of
from stepwell.domain.status import Status
from stepwell.engine.dry_replay import check_replay
from stepwell.errors import InvalidDefinition, LogDamaged
from stepwell.store.payloads import PayloadCodec
from stepwell.system import SystemClock, SystemIds

if TYPE_CHECKING:
    from stepwell.authoring.graphs.workflow import GraphTools

_LIVE = (Status.PENDING, Status.RUNNING, Status.SUSPENDED)
_PAGE = 500


async def check_against(source: str, database: str, codec: PayloadCodec | None = None) -> int:
    """Prints each run that would trip or that has no workflow here; 1 if there is one."""
    found = collect(source)
    must_exist(database)
    store = store_of(database, codec)
    await store.open()
    try:
        check = Check(found, source, Client(store, SystemIds()))
        last = ""
        while page := await check.client.runs(status=_LIVE, before=last, limit=_PAGE):
            last = page[-1].id
            for run in page:
                await check.look_at(run)
    finally:
        await store.close()
    return check.told()


class Check:
    def __init__(self, found: Found, source: str, client: Client) -> None:
        self.client = client
        self._found = found
        self._source = source
        self._programs = {needs: w for w in found.workflows for needs in former_needs(w)}
        self._programs |= {needs_of(w.definition): w for w in found.workflows}
        self._replayed = self._plain = self._tripped = self._missing = 0

    async def look_at(self, run: RunRow) -> None:
        try:
            await self._replay(run)
        except LogDamaged as damage:
            self._tripped += 1
            self._tell(run, damage.message)

    async def _replay(self, run: RunRow) -> None:
        log = [row async for row in self.client.handle(run.id).log()]
        try:
            program = await self._program(run, log)
        except InvalidDefinition as error:  # a graph with types of nodes or steps that are not here
            self._missing += 1
            self._tell(run, f"{self._source} cannot run its graph: {error.message}")
            return
        if program is None:
            self._missing += 1
            self._tell(run, f"{self._source} does not have this workflow in this version")
            return
        self._replayed += not program.sync
        self._plain += program.sync
        problem = await check_replay(program, run.id, log, clock=SystemClock(), ids=SystemIds())
        if problem is not None:
            self._tripped += 1
            self._tell(run, problem.message)

    async def _program(self, run: RunRow, log: list[LogRow]) -> Program | None:
        """A graph run goes on from the graph that it began with, whatever the source makes of it now."""
        program = self._programs.get(f"{run.workflow}@{run.version}")
        if run.kind != "graph":
            return program
        body = bytes(read_as(Accepted, log[0]).graph)
        if body == b"null":
            stored = await self.client.store.read_definition(run.workspace, run.workflow, run.version)
            if program is not None or stored is None:
                return program
            body = stored.body
        return self._graphs.from_run(body)

    @cached_property
    def _graphs(self) -> GraphTools:
        from stepwell.authoring.graphs.workflow import GraphTools

        return GraphTools(self._found.nodes, {step.spec.name: step.spec for step in self._found.steps})

    def _tell(self, run: RunRow, what: str) -> None:
        print(f"{run.id} {run.workflow}@{run.version}: {what}")

    def told(self) -> int:
        print(f"{self._replayed} live runs replayed, {self._tripped} do not fit", file=sys.stderr)
        if self._missing:
            lack = f"{self._missing} live runs are of workflows or versions that {self._source} does not have"
            print(lack, file=sys.stderr)
        if self._plain:
            print(f"{self._plain} live runs of plain functions were not replayed", file=sys.stderr)
        return 1 if self._tripped or self._missing else 0
