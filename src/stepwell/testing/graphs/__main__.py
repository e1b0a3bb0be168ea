"""`python -m stepwell.testing.graphs CASES.json [--store URL]`: one JSON line for each case.

The lines go to standard output. Differences from a case's `expect` go to standard error, and the exit
code is then 1, as it is if a case cannot run (`broken` in its line); a file without cases gives 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from stepwell.errors import InvalidInput
from stepwell.testing.graphs.cases import Case, case_bodies, verdict
from stepwell.testing.graphs.runner import run_case


def main(arguments: list[str] | None = None) -> int:
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m stepwell.testing.graphs", description=description)
    parser.add_argument("cases", help="a JSON file of cases")
    parser.add_argument("--store", default="", help="a SQLite file or postgresql:// URL; memory by default")
    options = parser.parse_args(arguments)
    try:
        bodies = case_bodies(options.cases)
    except InvalidInput as error:
        parser.error(str(error))
    wrong = 0
    for place, body in enumerate(bodies, 1):
        line, faults = _played(body, options.store)
        print(json.dumps(line), flush=True)
        for fault in faults:
            print(f"{line['id'] or f'case {place}'}: {fault}", file=sys.stderr)
        wrong += bool(faults)
    if wrong:
        print(f"{wrong} of {len(bodies)} cases differ from what they expect", file=sys.stderr)
    return 1 if wrong else 0


def _played(body: Any, store: str) -> tuple[dict[str, Any], list[str]]:
    """The line of a case, and its differences from the expected one."""
    try:
        case = Case.read(body)
        line = run_case(case, store)
        return line, verdict(case, line)
    except Exception as error:  # the other cases still run
        named = str(body.get("id", "")) if isinstance(body, dict) else ""
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        broken = f"{type(cause).__name__}: {cause}"
        return {"id": named, "broken": broken}, [f"cannot run: {broken.splitlines()[0]}"]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
