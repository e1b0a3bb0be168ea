"""`make bench`: Stepwell and the floor below it, side by side, against the bars.

python -m bench.run --works W1 W2 --repeat 1 --quick
"""

from __future__ import annotations

import argparse
import sys
import time

from bench.bars import at_that_pace, verdicts
from bench.contest import ROOT, hold, home_side, keep, medians, say, settings

WORKS = ("W1", "W2", "W3", "W4", "W4c", "W5", "W6", "W7", "W7r", "W8", "W9", "W10", "W11")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.run", description=__doc__)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()

    began = time.monotonic()
    lines = hold(home_side(), asked.works, repeat=asked.repeat, quick=asked.quick)
    found = medians(lines)
    print("\nsettings")
    print("\n".join(settings(lines)))
    print(f"\nmedians of {asked.repeat}" + ("; QUICK: too little work to judge by" if asked.quick else ""))
    print("\n".join(verdicts(found, at_that_pace(lines))))
    path = keep("bench", lines, found)
    say(f"{time.monotonic() - began:.0f} s; kept in {path.relative_to(ROOT)}")
    return 0 if lines else 1


if __name__ == "__main__":
    sys.exit(main())
