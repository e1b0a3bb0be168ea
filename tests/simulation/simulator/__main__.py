"""python -m tests.simulation.simulator: sweep seeds, replay one, or hunt the mutants."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.simulation.simulator.change_mutants import CHANGE_MUTANTS
from tests.simulation.simulator.machine_mutants import MACHINE_MUTANTS
from tests.simulation.simulator.mutants import MUTANTS, hunt
from tests.simulation.simulator.operator_mutants import OPERATOR_MUTANTS
from tests.simulation.simulator.shapes import Shape
from tests.simulation.simulator.sweep import WORLDS, sweep
from tests.simulation.simulator.world import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.simulator", description=__doc__)
    parser.add_argument("--seeds", default="0:2000", help="which seeds to sweep, first:end")
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("-v", "--verbose", action="store_true", help="with --seed: print every store call")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--mutants", action="store_true", help="plant each bug and hunt it")
    parser.add_argument("--changes", action="store_true", help="code that changes under live runs instead")
    parser.add_argument("--machines", action="store_true", help="machines and sagas instead of functions")
    parser.add_argument("--operators", action="store_true", help="what operators do instead")
    options = parser.parse_args()
    chosen = [name for name in ("changes", "machines", "operators") if getattr(options, name)]
    world = chosen[0] if chosen else "functions"
    if options.seed is not None:
        return _one(options.seed, WORLDS[world], verbose=options.verbose)
    if options.mutants:
        return _mutants()
    first, _, end = options.seeds.partition(":")
    summary = sweep(range(int(first), int(end)), jobs=options.jobs, world=world)
    for seed, violations in sorted(summary.violations.items()):
        print(f"seed {seed}: {violations[0]}" + (f" (+{len(violations) - 1})" if violations[1:] else ""))
    print(summary)
    return 1 if summary.violations else 0


def _one(seed: int, shapes: Sequence[Shape], *, verbose: bool) -> int:
    report = simulate(seed, shapes=shapes, verbose=verbose)
    for line in report.lines:
        print(line)
    for violation in report.violations:
        print(violation)
    print(
        f"seed {seed}: trace {report.trace}, {report.virtual_seconds:.1f} virtual s, {report.runs} runs, "
        f"{report.executions} effects, {report.repeats} repeated, faults {dict(report.faults)}"
    )
    return 1 if report.violations else 0


def _mutants() -> int:
    caught, every = 0, (*MUTANTS, *MACHINE_MUTANTS, *CHANGE_MUTANTS, *OPERATOR_MUTANTS)
    for mutant in every:
        report = hunt(mutant)
        caught += report is not None
        verdict = f"seed {report.seed}: {report.violations[0]}" if report else "SURVIVED"
        print(f"{mutant.name:16} {verdict}")
    print(f"mutants caught {caught}/{len(every)}")
    return 0 if caught == len(every) else 1


if __name__ == "__main__":
    sys.exit(main())
