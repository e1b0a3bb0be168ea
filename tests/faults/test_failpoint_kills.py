"""kill -9 at failpoints of every transaction on both stores; a clean process finishes what is left.

`make test` takes a third of the points, `make test-all` and `make faults` take every one.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest

from stepwell import Engine, failpoints
from stepwell.domain.status import Status
from stepwell.errors import WorkflowDisabled
from tests.effort import rotating
from tests.faults import forks
from tests.faults.all_transactions import EXPECTED, WORKFLOWS, retired
from tests.faults.checks import Entry, Evidence, Findings, check, read_ledger
from tests.faults.client import collected
from tests.faults.environment import Environment, on_postgres, on_sqlite
from tests.faults.figures import Figures, note
from tests.faults.fleet import ROOT, Fault, LedgerProcess, worker_env
from tests.faults.forks import KILLED, Life
from tools.postgres.cluster import Cluster

NO_SWEEPS = {"STEPWELL_REAP_SECONDS": "3600"}

# Some transactions happen often: kill at a later hit, too.
POINTS = rotating(
    [
        *((name, 1) for name in sorted(failpoints.NAMES)),
        *(
            (f"{transaction}.{moment}", 4)
            for transaction in ("commit", "claim")
            for moment in failpoints.MOMENTS
        ),
        *((f"transact.{moment}", 2) for moment in failpoints.MOMENTS),  # a record's
    ]
)


@dataclass(slots=True)
class Victim:
    point: str
    hit: int
    url: str
    code: int = 0
    since: int = 0
    until: int = 0
    said: str = ""

    @property
    def name(self) -> str:
        return f"{self.point}:{self.hit}"


class KillCase:
    """Many small databases, one victim each."""

    def __init__(self, environment: Environment, urls: Iterator[str]) -> None:
        self._env = worker_env(environment.url, environment.ledger.port, environment.folder / "identities")
        self.victims = [Victim(point, hit, next(urls)) for point, hit in POINTS]
        self._folder = environment.folder

    def kill_all(self) -> None:
        deaths = forks.lived(
            [self._lives(victim) for victim in self.victims], self._env, self._folder / "log"
        )
        for victim, death in zip(self.victims, deaths, strict=True):
            victim.code, victim.since, victim.until = death.code, death.since, death.until
            victim.said = self._said(victim).read_text(encoding="utf-8")

    def _lives(self, victim: Victim) -> list[Life]:
        said = str(self._said(victim))
        script, point = "tests.faults.all_transactions:main", f"{victim.point}=kill:{victim.hit}"
        if not victim.point.startswith("reap."):
            return [Life(script, ["visit", victim.url], point, said)]
        # A worker must have died before. On SQLite its file lock shows that at once, otherwise the lease; a
        # sweep that finds no dead worker passes no failpoint.
        return [
            Life(script, ["visit", victim.url], "commit.after=kill:2", f"{said}.before"),
            Life(script, ["reap", victim.url], point, said, NO_SWEEPS),
        ]

    def _said(self, victim: Victim) -> Path:
        return self._folder / f"{victim.name}.said"

    def finish_all(self) -> str:
        """Finish all of them in one clean process; returns what it could not finish."""
        urls = [victim.url for victim in self.victims]
        command = [sys.executable, "-m", "tests.faults.all_transactions", "finish", *urls]
        with open(self._folder / "finish.log", "wb") as errors:
            done = subprocess.run(
                command, env=self._env, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, check=True
            )
        return "\n".join(line for line in done.stdout.decode().splitlines() if line.startswith("stuck"))


async def findings(victim: Victim, ledger: list[Entry], kept: dict[str, int]) -> Findings:
    async with Engine(victim.url, workflows=WORKFLOWS, worker=False) as engine:
        stories = [
            story
            for key, expected in EXPECTED.items()
            for story in await collected(engine, key, expected, {"little": lambda n: n + 1})
        ]
        records = [str(record.data["run"]) for record in await engine.records.find("kept")]
    for line in victim.said.splitlines():
        word, *rest = line.split() or [""]
        if word == "started" and len(rest) == 2:  # a kill may cut its last line
            run = next(story.id for story in stories if story.shape == rest[0])
            assert run == rest[1], f"{victim.name}: an accepted run was replaced"
        elif word == "signalled" and rest:
            next(story for story in stories if story.id == rest[0]).signals.append("signal/go")
    runs = {story.id for story in stories}
    entries = [entry for entry in ledger if entry.run in runs]
    killed = [Fault("kill", pid, victim.since, victim.until) for pid in {entry.pid for entry in entries}]
    result = check(Evidence(stories=stories, entries=entries, faults=killed, identities={}))
    everything = next(story.id for story in stories if story.shape == "everything")
    if (times := kept.get(everything, 0)) != 1:
        result.violations.append(f"the transactional step's own write is there {times} times")
    if sorted(records) != sorted(["visited", everything]):
        result.violations.append(f"the records are of {records}")
    return result


async def acknowledged(victim: Victim) -> None:
    """Before anybody repeats a call: what an operator was told holds."""
    async with Engine(victim.url, worker=False) as engine:
        if "disabled retired\n" in victim.said:
            with pytest.raises(WorkflowDisabled):
                await engine.start(retired, 1)
        for line in victim.said.splitlines(keepends=True):
            match line.removesuffix("\n").split(" ") if line.endswith("\n") else []:
                case ["held", run]:
                    assert (await engine.handle(run).info()).held, victim.name
                case ["held_workflow", name]:
                    assert [(hold.kind, hold.name) for hold in await engine.holds()] == [("workflow", name)]
                case ["skipped", run]:
                    state = await engine.handle(run).state()
                    assert state.error is None, victim.name
                    assert bytes(state.outputs["0/fail_always#1"]) == b"5", victim.name
                case ["forced", run]:
                    state = await engine.handle(run).state()
                    assert (state.status, state.forced) == (Status.CANCELLED, True), victim.name
                case _:
                    pass


async def still_held(victim: Victim) -> None:
    """After a clean process has done everything, what was held before has still not begun."""
    async with Engine(victim.url, worker=False) as engine:
        [run] = await engine.runs(workflow="held_too")
        assert run.status is Status.PENDING, victim.name
    if "held " not in victim.said:
        return
    async with Engine(victim.url, worker=False) as engine:
        [run] = await engine.runs(workflow="held")
        assert (run.status, run.held) == (Status.PENDING, True), victim.name


async def each_slot_once(victim: Victim) -> None:
    """Every slot from the first to the last has a run: none is lost, and its key allows no second one."""
    async with Engine(victim.url, worker=False) as engine:
        keys = sorted(row.key for row in await engine.runs(trigger="schedule", limit=1000))
    slots: dict[str, list[float]] = {}
    for key in keys:
        _, schedule, slot = key.split("/")
        slots.setdefault(schedule, []).append(datetime.fromisoformat(slot.replace("Z", "+00:00")).timestamp())
    assert slots, victim.name
    for times in slots.values():  # by schedule: one may have been deleted and made anew
        assert times == [times[0] + number for number in range(len(times))], victim.name


def play(case: KillCase, environment: Environment) -> None:
    case.kill_all()

    unreached = [victim.name for victim in case.victims if victim.code != KILLED]
    assert unreached == [], "these points were never reached"
    for victim in case.victims:
        asyncio.run(acknowledged(victim))
    assert case.finish_all() == ""
    for victim in case.victims:
        asyncio.run(still_held(victim))
        asyncio.run(each_slot_once(victim))
    violations = {}
    made = Figures(what="kill -9 at every failpoint", store=environment.store, faults={})
    made.faults["kills at a failpoint"] = len(case.victims)
    ledger = read_ledger(environment.ledger.file)
    kept = environment.kept() if environment.store == "postgres" else {}
    for victim in case.victims:
        if environment.store == "sqlite":
            kept = replace(environment, url=victim.url).kept()
        result = asyncio.run(findings(victim, ledger, kept))
        made.add(result, runs=len(EXPECTED) + 1)
        if result.violations:
            violations[victim.name] = result.violations
    note(made)
    assert violations == {}


@pytest.mark.slow
@pytest.mark.req("R2", "R3", "K14", "K39")
def test_sqlite_survives_a_kill_at_every_failpoint(tmp_path: Path, ledger: LedgerProcess) -> None:
    environment = on_sqlite(tmp_path, ledger)

    play(KillCase(environment, (str(tmp_path / f"{n}.db") for n in range(1000))), environment)


@pytest.mark.slow
@pytest.mark.req("R2", "R3", "K14", "K39")
def test_postgres_survives_a_kill_at_every_failpoint(
    postgres_cluster: Cluster, tmp_path: Path, ledger: LedgerProcess
) -> None:
    database = postgres_cluster.databases.create()
    environment = on_postgres(database, tmp_path, ledger)

    play(KillCase(environment, (f"{database}?schema=victim{n}" for n in range(1000))), environment)

    postgres_cluster.databases.drop(database)
