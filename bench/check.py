"""`make bench-check`: has a change made Stepwell slower? W1, W9 and W11 on both stores.

    python -m bench.check                 ratios to the floor, beside those kept in bench/ratios.json
    python -m bench.check --base COMMIT   this code and that commit's in turn, in one run
    python -m bench.check --keep          measure and keep the ratios

A ratio is the median of Stepwell's rate over the rate of the floor timed right before and after it; beside
a commit, the median of many short bursts, each over the other's burst next to it (`bench.turns`).
Exit code 1: a work is slower than `SLOWER` of what it is compared with.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.contest import OURS, ROOT, Contestant, Line, figures_of, hold, say
from bench.pace import FLOOR_THEN
from bench.turns import ratios as turns_of

WORKS = ("W1", "W9", "W11")
KEPT = ROOT / "bench" / "ratios.json"
SLOWER = 0.95  # than another commit in the same run
SLOWER_THAN_KEPT = 0.8  # than ratios of other days: the machine's mood is in them
BASE = "base"
TURNS, QUICK_TURNS = 20, 8  # of each version in one round

Ratios = dict[str, dict[str, float]]  # "W1 sqlite" -> by contestant


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS, help="which works to measure")
    parser.add_argument("--base", default="", help="a commit to compare with, measured in turn")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each work")
    parser.add_argument("--quick", action="store_true", help="too little work to judge by")
    parser.add_argument("--keep", action="store_true", help="keep the ratios in bench/ratios.json")
    options = parser.parse_args()

    if options.base:
        return beside(options.base, options.works, rounds=options.repeat, quick=options.quick)
    lines = hold([_side(OURS, ROOT)], options.works, repeat=options.repeat, quick=options.quick)
    ratios = ratios_of(lines)
    before = kept()
    print("\n".join(verdicts(ratios, before, SLOWER_THAN_KEPT)))
    if options.keep:
        keep(ratios)
    return 1 if not ratios or slower(ratios, before, SLOWER_THAN_KEPT) else 0


def beside(base: str, works: Sequence[str], *, rounds: int, quick: bool) -> int:
    turns = QUICK_TURNS if quick else TURNS
    found = turns_of(_side(OURS, ROOT), _side(BASE, checkout(base)), works, rounds=rounds, turns=turns)
    print(f"{'':<14}{'rate':>8}{'+-':>8}{'processor':>11}{'pairs':>7}   beside {base}; above 1 is faster")
    late = [key for key, ratio in found.items() if ratio.wall < SLOWER]
    for key, ratio in sorted(found.items()):
        text = f"{key:<14}{ratio.wall:>8.3f}{ratio.error:>8.3f}{ratio.cpu:>11.3f}{ratio.pairs:>7}"
        print(text + ("  SLOWER" if key in late else ""))
    print(f"slower than {SLOWER} x: {', '.join(late) or 'none'}")
    return 1 if late else 0


def _side(name: str, root: Path) -> Contestant:
    return Contestant(name=name, module="bench.stepwell_bench", works=None, root=root)


def checkout(commit: str) -> Path:
    """The commit's files in a work tree of their own, below .bench."""
    name = _git("rev-parse", "--short", f"{commit}^{{commit}}")
    folder = ROOT / ".bench" / "commits" / name
    if not folder.exists():
        _git("worktree", "add", "--detach", str(folder), name)
    return folder


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def ratios_of(lines: Sequence[Line]) -> Ratios:
    """The median ratio to the floor for each work, store and contestant."""
    gathered: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        floor = float(str(line["pace"])) * FLOOR_THEN[str(line["store"])]
        for figure, value in figures_of(line).items():
            if figure.endswith("_per_second"):
                key = f"{line['work']} {line['store']}"
                gathered.setdefault(key, {}).setdefault(str(line["who"]), []).append(value / floor)
    return {
        key: {who: statistics.median(values) for who, values in sides.items()}
        for key, sides in gathered.items()
    }


def slower(ratios: Ratios, before: Mapping[str, float], bar: float) -> list[str]:
    return [key for key in ratios if key in before and ratios[key][OURS] < bar * before[key]]


def verdicts(ratios: Ratios, before: Mapping[str, float], bar: float) -> list[str]:
    rows = [f"{'':<14}{'of the floor':>14}{'before':>10}{'now/before':>12}"]
    late = slower(ratios, before, bar)
    for key, rates in sorted(ratios.items()):
        text = f"{key:<14}{rates[OURS]:>14.3f}"
        if key in before:
            text += f"{before[key]:>10.3f}{rates[OURS] / before[key]:>12.2f}"
        rows.append(text + ("  SLOWER" if key in late else ""))
    rows.append(f"slower than {bar} x: {', '.join(late) or 'none'}")
    return rows


def kept() -> dict[str, float]:
    if not KEPT.exists():
        say(f"{KEPT.relative_to(ROOT)} is missing: run with --keep once")
        return {}
    ratios: dict[str, float] = json.loads(KEPT.read_text(encoding="utf-8"))
    return ratios


def keep(ratios: Ratios) -> None:
    rounded = {key: round(rates[OURS], 3) for key, rates in sorted(ratios.items())}
    KEPT.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
    say(f"kept in {KEPT.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
