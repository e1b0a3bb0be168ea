"""`python -m stepwell.testing.graphs CASES.json [--store URL]`: one JSON line for each case.

A case that cannot be run has `broken` in its line, and the exit code is 1; a file without cases is 2. What
a case expects is not looked at: that is for whoever reads the lines.
"""

from __future__ import annotations

import argparse
import json
import sys

from stepwell.errors import InvalidInput
from stepwell.testing.graphs.cases import Case, case_bodies
from stepwell.testing.graphs.runner import run_case


def main(arguments: list[str] | None = None) -> int:
    told = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m stepwell.testing.graphs", description=told)
    parser.add_argument("cases", help="a JSON file of cases")
    parser.add_argument("--store", default="", help="a SQLite file or postgresql:// URL; memory by default")
    given = parser.parse_args(arguments)
    try:
        bodies = case_bodies(given.cases)
    except InvalidInput as error:
        parser.error(str(error))
    broken = 0
    for body in bodies:
        try:
            line = run_case(Case.read(body), given.store)
        except Exception as error:  # the other cases are run all the same
            broken += 1
            named = body.get("id", "") if isinstance(body, dict) else ""
            line = {"id": str(named), "broken": f"{type(error).__name__}: {error}"}
        print(json.dumps(line), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
