"""The command line. Data goes to stdout, messages to stderr; the exit code gives the outcome."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
from typing import Any

from stepwell import __version__
from stepwell.cli.keys import add_keys
from stepwell.errors import (
    Conflict,
    DocumentNotFound,
    KeyNotFound,
    OutcomeUnknown,
    RunNotFound,
    StepNotFound,
    StepwellError,
    StoreUnavailable,
)

_INTERRUPTED = 130
_DATABASE = "SQLite file or postgresql://... (default: stepwell.db)"
_SOURCE = "file or module with workflows: flows.py, package.module or a graph's .json"
_AS_JSON: dict[str, Any] = {"action": "store_true", "help": "machine-readable output"}
_CODEC: dict[str, Any] = {
    "metavar": "MODULE:NAME",
    "help": "codec of an encrypted or compressed database (default: STEPWELL_CODEC, "
    "or the key in STEPWELL_ENCRYPTION_KEY=name:base64)",
}


def main(arguments: list[str] | None = None) -> int:
    """`stepwell VERB ...`; 0: success, 1: the check failed, 2: invalid request; more in `exit_code`."""
    parser = argparse.ArgumentParser(prog="stepwell", description="Durable workflows in Python.")
    parser.add_argument("--version", action="version", version=f"stepwell {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True)
    worker = verbs.add_parser("worker", help="run workflows until SIGTERM or Ctrl-C")
    worker.add_argument("source", help=_SOURCE)
    worker.add_argument("--database", default="stepwell.db", help=_DATABASE)
    worker.add_argument("--codec", default="", **_CODEC)
    worker.add_argument(
        "--queue", action="append", default=[], help="queue to serve, repeatable (default: default)"
    )
    check = verbs.add_parser("check", help="check that the live runs of a database replay on this code")
    check.add_argument("source", help=_SOURCE)
    check.add_argument("--against", required=True, metavar="DATABASE", help="SQLite file or postgresql://...")
    check.add_argument("--codec", default="", **_CODEC)
    add_server(verbs)
    add_keys(verbs, _DATABASE, user_name())
    add_runs(verbs)
    add_workflows(verbs)
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:
        parser.print_help()
        return 2
    options = parser.parse_args(arguments)
    try:
        if options.verb == "worker":
            from stepwell.cli.codec import named_codec
            from stepwell.cli.worker import work

            queues = options.queue or ["default"]
            return asyncio.run(work(options.source, options.database, queues, named_codec(options.codec)))
        if options.verb in ("serve", "dev"):
            from stepwell.cli.serve import dev, serve

            return serve(options) if options.verb == "serve" else dev(options)
        if options.verb == "runs":
            from stepwell.cli.runs import do

            return asyncio.run(do(options))
        if options.verb == "keys":
            from stepwell.cli.keys import do_keys

            return asyncio.run(do_keys(options))
        if options.verb == "workflows":
            from stepwell.cli.workflows import do as do_workflows

            return asyncio.run(do_workflows(options))
        from stepwell.cli.check import check_against
        from stepwell.cli.codec import named_codec

        return asyncio.run(check_against(options.source, options.against, named_codec(options.codec)))
    except StepwellError as error:
        print(f"stepwell: {error}", file=sys.stderr)
        return exit_code(error)
    except BrokenPipeError:  # the reader, such as `| head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # leaves nothing to flush at exit
        return 0
    except KeyboardInterrupt:  # while opening or importing; a running worker stops gracefully
        print("stepwell: interrupted", file=sys.stderr)
        return _INTERRUPTED


def exit_code(error: StepwellError) -> int:
    """Return the exit code for an error, so that scripts need not parse messages."""
    if isinstance(error, RunNotFound | KeyNotFound | StepNotFound | DocumentNotFound):
        return 3
    if isinstance(error, Conflict):
        return 4
    return 6 if isinstance(error, StoreUnavailable | OutcomeUnknown) else 2


def add_server(verbs: Any) -> None:
    serve = verbs.add_parser("serve", help="serve the HTTP API of a database, without workflow code")
    serve.add_argument("--database", default="stepwell.db", help=_DATABASE)
    serve.add_argument(
        "--proxy", default="", metavar="ADDRESSES", help="reverse proxies whose forwarded headers count"
    )
    serve.add_argument(
        "--user-header", default="", metavar="NAME", help="header in which these proxies name who signed in"
    )
    serve.add_argument(
        "--groups-header", default="", metavar="NAME", help="header with the roles of that person"
    )
    serve.add_argument(
        "--proxy-admin",
        action="append",
        default=[],
        metavar="NAME",
        help="person with all scopes, repeatable",
    )
    dev = verbs.add_parser("dev", help="serve the HTTP API and run the workflows of a file, with reload")
    dev.add_argument("source", help=_SOURCE)
    dev.add_argument(
        "--database", default="", help="SQLite file or postgresql://... (default: .stepwell/dev.db)"
    )
    dev.add_argument("--fd", type=int, default=None, help=argparse.SUPPRESS)
    for verb in (serve, dev):
        verb.add_argument("--codec", default="", **_CODEC)
        verb.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        verb.add_argument("--port", type=int, default=None, help="port (default: 8710, or the next free one)")
        verb.add_argument(
            "--host-name", action="append", default=[], help="name under which it is reached, repeatable"
        )
        verb.add_argument("--no-auth", action="store_true", help="need no token; on loopback only")


def add_runs(verbs: Any) -> None:
    runs = verbs.add_parser("runs", help="list, inspect and control runs")
    what, shared = _with_database(runs)

    def add(name: str, help: str, *, run: bool = True) -> argparse.ArgumentParser:
        verb: argparse.ArgumentParser = what.add_parser(name, help=help, parents=[shared])
        if run:
            verb.add_argument("run", help="run id")
        return verb

    as_json = _AS_JSON
    listed = add("list", "list the newest runs", run=False)
    listed.add_argument("--workflow", default="", help="only runs of this workflow")
    listed.add_argument("--status", action="append", default=[], help="only runs in this status (repeatable)")
    listed.add_argument("--limit", type=int, default=50, help="maximum number of runs (default: 50)")
    listed.add_argument("--json", **as_json)
    get = add("get", "show a run, where it stands and why it does not move")
    get.add_argument("--json", **as_json)
    events = add("events", "print the log of a run")
    events.add_argument("-f", "--follow", action="store_true", help="keep printing until the run ends")
    events.add_argument("--json", **as_json)
    signal = add("signal", "send a signal to a run")
    signal.add_argument("name", help="name of the signal")
    signal.add_argument("--payload", metavar="JSON", help="payload as JSON, or @file")
    signal.add_argument("--id", default="", help="makes the signal safe to repeat: the same id counts once")
    _add_who(signal)
    export = add("export", "write a run and all runs below it as one JSON file")
    export.add_argument("-o", "--output", default="-", help="output file (default: -, stdout)")
    imported = add("import", "restore exported runs", run=False)
    imported.add_argument("file", help="exported file; - is stdin")
    _add_who(imported)
    _add_who(add("retry", "retry a failed or timed-out run from where it stopped"), reason=True)
    _add_who(add("compensate", "undo the completed steps of a failed or timed-out run"), reason=True)
    _add_who(add("cancel", "ask a run to clean up and end"), reason=True)
    rerun = add("rerun", "start a new run with the same input, or from one of its steps")
    rerun.add_argument("--from-step", metavar="STEP", help="keep all results recorded before this step")
    rerun.add_argument("--input", metavar="JSON", help="a different input as JSON, or @file")
    _add_who(rerun, reason=True)
    fork = add("fork", "start a new run from an event of this run's log")
    fork.add_argument("--at", type=int, required=True, metavar="SEQ", help="last event to keep")
    fork.add_argument("--input", metavar="JSON", help="a different input as JSON, or @file")
    fork.add_argument("--state", metavar="JSON", help="a different machine state as JSON, or @file")
    _add_who(fork, reason=True)
    _add_who(add("delete", "delete a run that has ended, and all runs below it"), reason=True)


def add_workflows(verbs: Any) -> None:
    workflows = verbs.add_parser("workflows", help="list workflows, and let them accept runs or not")
    what, shared = _with_database(workflows)
    listed = what.add_parser("list", help="list the workflows by name", parents=[shared])
    listed.add_argument("--json", **_AS_JSON)
    show = what.add_parser("show", help="show a workflow", parents=[shared])
    show.add_argument("workflow", help="its name")
    show.add_argument("--json", **_AS_JSON)
    for name, help in (
        ("disable", "refuse new runs of a workflow; its live runs continue"),
        ("enable", "accept new runs of a workflow again"),
    ):
        verb = what.add_parser(name, help=help, parents=[shared])
        verb.add_argument("workflow", help="its name")
        _add_who(verb, reason=True)


def _with_database(verb: argparse.ArgumentParser) -> tuple[Any, argparse.ArgumentParser]:
    """Add the options that say where runs are, and return a parent with them: they may follow the verb."""
    shared = argparse.ArgumentParser(add_help=False)
    for parser, given in ((verb, True), (shared, False)):
        hidden = argparse.SUPPRESS
        parser.add_argument("--database", default="stepwell.db" if given else hidden, help=_DATABASE)
        parser.add_argument("--codec", default="" if given else hidden, **_CODEC)
        parser.add_argument(
            "--workspace", default="" if given else hidden, help="workspace (default: default)"
        )
    return verb.add_subparsers(dest="what", required=True), shared


def _add_who(verb: argparse.ArgumentParser, *, reason: bool = False) -> None:
    verb.add_argument("--by", default=user_name(), help="who does it (default: your user name)")
    if reason:
        verb.add_argument("--reason", default="", help="why; recorded with who did it")


def user_name() -> str:
    """Return the name of the user of the operating system; '' if it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # such as a container with an unknown user id
        return ""


if __name__ == "__main__":
    sys.exit(main())
