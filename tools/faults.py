"""make faults: kill, freeze and break things under load, then one page of what was done and found.

    python -m tools.faults [--seeds 0:500] [--storm-seconds 70] [--json FILE]

The tests of tests/faults do the work, with their checks; this collects their figures, runs the
simulator and prints the page. Exit code 1: something was found.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.faults.figures import REPORT_VARIABLE, Figures, histogram, read
from tools.recovery import BEFORE, measured, measured_before
from tools.recovery import compared as recovery_lines

ROOT = Path(__file__).parents[1]
LIMIT_RUNS = "2004"  # of six workflows that share a limit
SIMULATOR = "tests.simulation.simulator"
NOT_TESTED = (
    "power loss and torn writes (R5); failover, restart loops, cut and slow networks (R6)",
    "full disks, I/O errors, clock jumps, exhausted descriptors and pools (R7)",
    "old and new versions side by side (R8); more than one machine; hours of load",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", default="0:500", help="range of the simulator's seeds")
    parser.add_argument(
        "--storm-seconds", default="70", help="how long new runs come while workers are killed"
    )
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--without-before", action="store_true", help="measure recovery only as it is now")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "figures"
        report.touch()
        tests, summary = run_tests(report, options.storm_seconds)
        made = read(report)
    simulator, simulated = run_simulator(options.seeds)
    recovery, recovered = recovery_lines(
        None if options.without_before else measured_before(), measured(ROOT / "src")
    )
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in made], indent=1), encoding="utf-8")
    print("\n".join(page(made, summary, simulated, recovery, time.monotonic() - began)))
    return 1 if tests or simulator or not recovered or any(one.violations for one in made) else 0


def run_tests(report: Path, storm_seconds: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "tests/faults"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={
            **os.environ,
            REPORT_VARIABLE: str(report),
            "STEPWELL_STORM_SECONDS": storm_seconds,
            "STEPWELL_LIMIT_RUNS": LIMIT_RUNS,
            "STEPWELL_EFFORT": "all",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout)
    return done.returncode, done.stdout.strip().splitlines()[-1]


def run_simulator(seeds: str) -> tuple[int, str]:
    source = str(ROOT / "src")
    sys.path.insert(0, source)
    if importlib.util.find_spec(SIMULATOR) is None:
        return 0, "not there"
    done = subprocess.run(
        [sys.executable, "-m", SIMULATOR, "--seeds", seeds],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (done.stdout if done.stdout.strip() else done.stderr).strip().splitlines()
    return done.returncode, "\n    ".join(lines[-12:]) or "silent"


def page(made: list[Figures], tests: str, simulated: str, recovery: list[str], seconds: float) -> list[str]:
    faults: Counter[str] = Counter()
    for one in made:
        faults.update(one.faults)
    runs = sum(one.runs for one in made)
    effects = sum(one.effects for one in made)
    explained = sum(one.repeats_explained for one in made)
    violations = sum(one.violations for one in made)
    return [
        f"FAULTS  {seconds:.0f} s, {versions()}",
        "",
        "Faults injected",
        *(f"    {count:6}  {kind}" for kind, count in sorted(faults.items())),
        f"    {faults.total():6}  in all",
        "",
        "Under them",
        f"    {runs:6}  runs, {sum(one.operations for one in made)} events, {effects} effects in the ledger",
        f"    {violations:6}  violations: runs lost, outcomes recorded twice, wrong results, broken rules",
        f"    {explained:6}  effects repeated where a fault explains it ({explained / max(effects, 1):.2%})",
        f"    {sum(one.repeats_unexplained for one in made):6}  effects repeated without a fault",
        f"    {sum(one.condemned for one in made):6}  runs set aside after three lost workers",
        f"    0 in {runs} runs seen: with 95 % confidence less than 1 run in {runs // 3 or 1} (3/N)"
        if not violations
        else "    no bound: there were violations",
        "",
        "By test",
        *(
            f"    {one.store:9} {one.what:28} {one.runs:5} runs  {sum(one.faults.values()):4} faults"
            f"  {one.repeats_explained:4} repeats  {one.violations:3} violations"
            for one in made
        ),
        "",
        "From a kill to the next owner's first event",
        *latencies(made, "take_overs"),
        "",
        "How late timers fired (with their workers being killed)",
        *latencies(made, "lateness"),
        "",
        f"Recovery, at {BEFORE} -> now",
        *recovery,
        "",
        f"Tests      {tests}",
        f"Simulator  {simulated}",
        "",
        "Not tested",
        *(f"    {line}" for line in NOT_TESTED),
    ]


def latencies(made: list[Figures], what: str) -> list[str]:
    return [
        f"    {one.store:9} {one.what:28} {histogram(getattr(one, what))}"
        for one in made
        if getattr(one, what)
    ]


def versions() -> str:
    import apsw
    import asyncpg

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"commit {commit or 'unknown'}, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}, {postgres_version()}, asyncpg {asyncpg.__version__}, "
        f"Linux {platform.release()}, {os.cpu_count()} cores"
    )


def postgres_version() -> str:
    from tools.postgres import account, binaries

    program = binaries.find(account.choose()) / "postgres"
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
