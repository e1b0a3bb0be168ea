"""`make bench`: Stepwell and the floor below it, side by side.

python -m bench.run --works W1 W2 --repeat 1 --quick
"""

from __future__ import annotations

import argparse
import sys

from bench.contest import hold_and_print, home_side

WORKS = ("W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.run", description=__doc__)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    return hold_and_print("bench", home_side(), asked.works, repeat=asked.repeat, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
