"""`python -m stepwell.testing.graphs CASES.json [--store URL]`: one JSON line for each case."""

from __future__ import annotations

import argparse
import json
import sys

from stepwell.testing.graphs.cases import read_cases
from stepwell.testing.graphs.runner import run_case


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m stepwell.testing.graphs", description=__doc__)
    parser.add_argument("cases", help="a JSON file of cases")
    parser.add_argument("--store", default="", help="a SQLite file or postgresql:// URL; memory by default")
    given = parser.parse_args(arguments)
    for case in read_cases(given.cases):
        print(json.dumps(run_case(case, given.store)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
