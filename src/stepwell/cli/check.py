"""`stepwell check FILE --against DB`: would the live runs of a database go on with this code?"""

from __future__ import annotations

import sys

from stepwell.cli.codec import store_of
from stepwell.cli.source import collect, must_exist
from stepwell.client import Client
from stepwell.domain.commit import RunRow
from stepwell.domain.events import Problem
from stepwell.domain.problems import problem_of
from stepwell.domain.program import Program, needs_of
from stepwell.domain.status import Status
from stepwell.engine.rehearsal import rehearse
from stepwell.errors import LogDamaged
from stepwell.store.payloads import PayloadCodec
from stepwell.system import SystemClock, SystemIds

_LIVE = (Status.PENDING, Status.RUNNING, Status.SUSPENDED)
_PAGE = 500


async def check_against(source: str, database: str, codec: PayloadCodec | None = None) -> int:
    """Prints each run that would trip; 1 if there is one."""
    programs = {needs_of(w.definition): w for w in collect(source).workflows}
    must_exist(database)
    store = store_of(database, codec)
    await store.open()
    try:
        client = Client(store, SystemIds())
        checked = tripped = before = plain = 0
        last = ""
        while page := await client.runs(status=_LIVE, before=last, limit=_PAGE):
            last = page[-1].id
            for run in page:
                program = programs.get(f"{run.workflow}@{run.version}")
                if program is None:
                    before += 1
                    continue
                checked += not program.sync
                plain += program.sync
                problem = await _rehearsed(client, run, program)
                if problem is not None:
                    tripped += 1
                    print(f"{run.id} {run.workflow}@{run.version}: {problem.message}")
    finally:
        await store.close()
    print(f"{checked} live runs replayed, {tripped} do not fit", file=sys.stderr)
    if before:
        print(f"{before} live runs are of workflows or versions that {source} does not have", file=sys.stderr)
    if plain:
        print(f"{plain} live runs of plain functions were not replayed", file=sys.stderr)
    return 1 if tripped else 0


async def _rehearsed(client: Client, run: RunRow, program: Program) -> Problem | None:
    try:
        log = [row async for row in client.handle(run.id).log()]
        return await rehearse(program, run.id, log, clock=SystemClock(), ids=SystemIds())
    except LogDamaged as damage:
        return problem_of(damage)
