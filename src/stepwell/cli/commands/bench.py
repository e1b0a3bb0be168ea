"""`stepwell bench`: how fast this machine is with a database, measured in a minute."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.session import CliSession
from stepwell.errors import InvalidRequest
from stepwell.system import SystemClock

if TYPE_CHECKING:
    from stepwell.app import Engine

commands = Commands()
_STEPS = 3
_SINGLE = 50  # runs, one after the other, for the latency
_CHUNK = 100


@commands.add(
    "bench",
    "stepwell bench",
    "stepwell bench --runs 5000",
    "stepwell bench --database postgresql://localhost/scratch",
)
async def bench(
    session: CliSession,
    runs: Annotated[
        int, typer.Option("--runs", "-n", metavar="N", help="Runs to measure.", min=100, max=1_000_000)
    ] = 1000,
) -> None:
    """Measure runs per second and the latency of a run.

    It uses a new SQLite file, or an empty database that you name; a database that has runs is refused. A
    run has three steps that do nothing, so the figures are those of the engine and the disk.
    """
    if session.named:
        session.need_database("bench")
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as folder:
        database = session.database if session.named else str(Path(folder) / "bench.db")
        figures = await _measured(session, database, runs)
    session.out.fields(figures)
    session.out.say("one process; more workers, larger payloads and real steps change the figures")


async def _measured(session: CliSession, database: str, runs: int) -> dict[str, Any]:
    from stepwell.app import Engine
    from stepwell.authoring.functions.step import step
    from stepwell.authoring.functions.workflow import workflow
    from stepwell.cli.session import redacted

    @step
    async def nothing(n: int) -> int:
        return n

    @workflow(name="stepwell_bench")
    async def measured(ctx: Any, n: int) -> int:
        for _ in range(_STEPS):
            n = await ctx.step(nothing, n)
        return n

    async with Engine(database, workflows=[measured], codec=session.codec) as engine:
        if await engine.runs(limit=1):
            raise InvalidRequest(
                f"{redacted(database)} has runs",
                hint="give an empty database, or none to use a new SQLite file",
            )
        latencies = await _latencies(engine, measured)
        seconds = await _throughput(session, engine, measured, runs)
    return {
        "database": "a new SQLite file" if not session.named else redacted(database),
        "runs": runs,
        "steps_per_run": _STEPS,
        "runs_per_second": round(runs / seconds, 1),
        "steps_per_second": round(runs * _STEPS / seconds, 1),
        "run_ms_p50": round(1000 * statistics.median(latencies), 2),
        "run_ms_p95": round(1000 * statistics.quantiles(latencies, n=20)[-1], 2),
    }


async def _latencies(engine: Engine, measured: Any) -> list[float]:
    clock, latencies = SystemClock(), []
    for n in range(_SINGLE):
        began = clock.monotonic()
        await engine.run(measured, n)
        latencies.append(clock.monotonic() - began)
    return latencies


async def _throughput(session: CliSession, engine: Engine, measured: Any, runs: int) -> float:
    clock = SystemClock()
    began = clock.monotonic()
    with session.out.progress("runs", runs) as advance:
        handles = []
        for at in range(0, runs, _CHUNK * 10):
            handles += await engine.start_many(measured, range(at, min(runs, at + _CHUNK * 10)))
        for at in range(0, runs, _CHUNK):
            chunk = handles[at : at + _CHUNK]
            for handle in chunk:
                await handle.result("10m")
            advance(len(chunk))
    return clock.monotonic() - began
