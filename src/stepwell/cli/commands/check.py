"""`stepwell check FILE --against DB`: check that the live runs of a database replay on this code."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import Source
from stepwell.cli.session import CliSession
from stepwell.cli.source import Programs, collect
from stepwell.client import Client
from stepwell.domain.commit import LogRow, RunRow
from stepwell.domain.events import Accepted, read_as
from stepwell.domain.program import Program, former_needs, needs_of
from stepwell.domain.status import Status
from stepwell.engine.dry_replay import check_replay
from stepwell.errors import InvalidDefinition, LogDamaged
from stepwell.system import SystemClock, SystemIds

if TYPE_CHECKING:
    from stepwell.authoring.graphs.workflow import GraphTools

_LIVE = (Status.PENDING, Status.RUNNING, Status.SUSPENDED)
_PAGE = 500


commands = Commands()


@commands.add(
    "check", "stepwell check flows.py --against app.db", "stepwell check flows.py --database app.db --json"
)
async def check(
    session: CliSession,
    source: Source,
    against: Annotated[
        str, typer.Option("--against", metavar="DATABASE", help="The database; the same as --database.")
    ] = "",
) -> int:
    """Check that the live runs of a database replay on this code, before you deploy it.

    Prints each run that does not fit or whose workflow is missing; the exit code is then 1.
    """
    programs = collect(source)
    session.use(against)
    async with session.client() as client:
        check = Check(programs, source, client, session)
        last = ""
        while True:
            page = await check.client.runs(status=_LIVE, before=last, limit=_PAGE)
            for run in page:
                await check.check_run(run)
            last = page.next
            if not last:
                break
    return check.report()


class Check:
    """Replays runs on the programs of a source, and counts those that fit."""

    def __init__(self, programs: Programs, source: str, client: Client, session: CliSession) -> None:
        self.client = client
        self._out = session.out
        self._problems: list[dict[str, Any]] = []
        self._source = source
        self._nodes = programs.nodes
        self._steps = programs.steps
        self._workflows = {needs: w for w in programs.workflows for needs in former_needs(w)}
        self._workflows |= {needs_of(w.definition): w for w in programs.workflows}
        self._replayed = self._sync = self._misfits = self._missing = 0

    async def check_run(self, run: RunRow) -> None:
        try:
            await self._replay(run)
        except LogDamaged as damage:
            self._misfits += 1
            self._print(run, damage.message)

    async def _replay(self, run: RunRow) -> None:
        log = [row async for row in self.client.handle(run.id).log()]
        try:
            program = await self._program(run, log)
        except InvalidDefinition as error:  # its node types or steps are not in the source
            self._missing += 1
            self._print(run, f"{self._source} cannot run its graph: {error.message}")
            return
        if program is None:
            self._missing += 1
            self._print(run, f"{self._source} does not have this workflow in this version")
            return
        self._replayed += not program.sync
        self._sync += program.sync
        problem = await check_replay(program, run.id, log, clock=SystemClock(), ids=SystemIds())
        if problem is not None:
            self._misfits += 1
            self._print(run, problem.message)

    async def _program(self, run: RunRow, log: list[LogRow]) -> Program | None:
        """Return the program of a run; a graph run keeps the graph that it began with."""
        program = self._workflows.get(f"{run.workflow}@{run.version}")
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

        return GraphTools(self._nodes, {step.spec.name: step.spec for step in self._steps})

    def _print(self, run: RunRow, problem: str) -> None:
        data = {"id": run.id, "workflow": run.workflow, "version": run.version, "problem": problem}
        self._problems.append(data)
        if not self._out.as_json:
            self._out.line(f"{run.id} {run.workflow}@{run.version}: {problem}")

    def report(self) -> int:
        """Print the counts; return the exit code."""
        if self._out.as_json:
            counts = {"replayed": self._replayed, "misfits": self._misfits, "missing": self._missing}
            self._out.json({**counts, "not_replayed": self._sync, "problems": self._problems})
        lines = [f"live runs replayed: {self._replayed}, of which do not fit: {self._misfits}"]
        if self._missing:
            lines.append(f"live runs whose workflow or version {self._source} does not have: {self._missing}")
        if self._sync:
            lines.append(f"live runs of sync workflows, not replayed: {self._sync}")
        self._out.say("\n".join(lines))
        return 1 if self._misfits or self._missing else 0
