"""The command line. Data goes to stdout, talk to stderr; the exit code tells the outcome."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import Any

from stepwell import __version__
from stepwell.errors import (
    Conflict,
    DocumentNotFound,
    OutcomeUnknown,
    RunNotFound,
    StepNotFound,
    StepwellError,
    StoreUnavailable,
)

_INTERRUPTED = 130
_CODEC: dict[str, Any] = {
    "metavar": "MODULE:NAME",
    "help": "of an encrypted database (STEPWELL_CODEC); or its key in STEPWELL_ENCRYPTION_KEY=name:base64",
}


def main(arguments: list[str] | None = None) -> int:
    """`stepwell VERB ...`; 0: fine, 1: the answer is no, 2: asked wrongly; more in `exit_code`."""
    parser = argparse.ArgumentParser(prog="stepwell", description="Durable workflows in Python.")
    parser.add_argument("--version", action="version", version=f"stepwell {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True)
    worker = verbs.add_parser("worker", help="run the workflows of a file or module until SIGTERM")
    worker.add_argument("source", help="flows.py, package.module or a graph's .json")
    worker.add_argument("--database", default="stepwell.db", help="a SQLite file or postgresql://...")
    worker.add_argument("--codec", default="", **_CODEC)
    worker.add_argument("--queue", action="append", default=[], help="serve this queue (repeatable)")
    check = verbs.add_parser("check", help="replay the live runs of a database on this code")
    check.add_argument("source", help="flows.py, package.module or a graph's .json")
    check.add_argument(
        "--against", required=True, metavar="DATABASE", help="a SQLite file or postgresql://..."
    )
    check.add_argument("--codec", default="", **_CODEC)
    add_runs(verbs)
    asked = sys.argv[1:] if arguments is None else arguments
    if not asked:
        parser.print_help()
        return 2
    given = parser.parse_args(asked)
    try:
        if given.verb == "worker":
            from stepwell.cli.codec import named_codec
            from stepwell.cli.worker import work

            queues = given.queue or ["default"]
            return asyncio.run(work(given.source, given.database, queues, named_codec(given.codec)))
        if given.verb == "runs":
            from stepwell.cli.runs import do

            return asyncio.run(do(given))
        from stepwell.cli.check import check_against
        from stepwell.cli.codec import named_codec

        return asyncio.run(check_against(given.source, given.against, named_codec(given.codec)))
    except StepwellError as error:
        print(f"stepwell: {error}", file=sys.stderr)
        return exit_code(error)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush at exit
        return 0
    except KeyboardInterrupt:  # while it opens or imports; a worker that works stops in peace
        print("stepwell: interrupted", file=sys.stderr)
        return _INTERRUPTED


def exit_code(error: StepwellError) -> int:
    """What a script can tell apart without reading our words."""
    if isinstance(error, RunNotFound | StepNotFound | DocumentNotFound):
        return 3
    if isinstance(error, Conflict):
        return 4
    return 6 if isinstance(error, StoreUnavailable | OutcomeUnknown) else 2


def add_runs(verbs: Any) -> None:
    where: dict[str, Any] = {"help": "a SQLite file or postgresql://..."}
    runs = verbs.add_parser(
        "runs", help="list, look at, signal, cancel, retry, rerun, fork, export or delete runs"
    )
    runs.add_argument("--database", default="stepwell.db", **where)
    runs.add_argument("--codec", default="", **_CODEC)
    what = runs.add_subparsers(dest="what", required=True)
    here = argparse.ArgumentParser(add_help=False)  # the option may stand behind the verb too
    here.add_argument("--database", default=argparse.SUPPRESS, **where)
    here.add_argument("--codec", default=argparse.SUPPRESS, **_CODEC)

    def add(name: str, help: str) -> argparse.ArgumentParser:
        verb: argparse.ArgumentParser = what.add_parser(name, help=help, parents=[here])
        return verb

    as_json: dict[str, Any] = {"action": "store_true", "help": "for programs"}
    listed = add("list", "the newest runs")
    listed.add_argument("--workflow", default="", help="of this one only")
    listed.add_argument("--status", action="append", default=[], help="in this one only (repeatable)")
    listed.add_argument("--limit", type=int, default=50, help="so many at most")
    listed.add_argument("--json", **as_json)
    get = add("get", "what a run is, where it stands, and why it does not move")
    get.add_argument("run")
    get.add_argument("--json", **as_json)
    events = add("events", "the log of a run")
    events.add_argument("run")
    events.add_argument("-f", "--follow", action="store_true", help="until it ends")
    events.add_argument("--json", **as_json)
    json = "as JSON, or @file"
    signal = add("signal", "leave a signal for a run")
    signal.add_argument("run")
    signal.add_argument("name")
    signal.add_argument("--payload", metavar="JSON", help=json)
    signal.add_argument("--id", default="", help="the same id counts once")
    export = add("export", "write a run and those below it as one JSON file")
    export.add_argument("run")
    export.add_argument("-o", "--output", default="-", help="the file; - is stdout")
    add("import", "bring exported runs back").add_argument("file", help="- is stdin")
    add("retry", "send a run on that failed or timed out").add_argument("run")
    add("compensate", "undo what a failed run did and kept").add_argument("run")
    cancel = add("cancel", "ask a run to clean up and end")
    cancel.add_argument("run")
    cancel.add_argument("--reason", default="", help="what its log and its error say")
    rerun = add("rerun", "start a new run like this one, or from one of its steps on")
    rerun.add_argument("run")
    rerun.add_argument("--from-step", metavar="STEP", help="what came before this step is taken over")
    rerun.add_argument("--input", metavar="JSON", help=f"another input, {json}")
    fork = add("fork", "start a new run from a place in the log of this one")
    fork.add_argument("run")
    fork.add_argument("--at", type=int, required=True, metavar="SEQ", help="the last event that counts")
    fork.add_argument("--input", metavar="JSON", help=f"another input, {json}")
    fork.add_argument("--state", metavar="JSON", help=f"another state of a machine, {json}")
    add("delete", "remove a run that has ended, and those below it").add_argument("run")


if __name__ == "__main__":
    sys.exit(main())
