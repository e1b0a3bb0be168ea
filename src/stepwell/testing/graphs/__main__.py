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
    broken = 0
    for case in read_cases(given.cases):
        try:
            line = run_case(case, given.store)
        except Exception as error:  # the other cases are run all the same
            broken += 1
            line = {"id": case.id, "broken": f"{type(error).__name__}: {error}"}
        print(json.dumps(line), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
