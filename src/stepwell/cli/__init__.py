"""The command line. Data goes to stdout, messages to stderr; the exit code gives the outcome."""

from __future__ import annotations

import os
import sys
from typing import Any


def main(arguments: list[str] | None = None) -> int:
    """`stepwell VERB ...`. Returns the exit code, which docs/cli.md lists."""
    from typer.exceptions import Abort, TyperException

    from stepwell.cli.app import root
    from stepwell.cli.failure import report, report_usage

    _print_anything(sys.stdout, sys.stderr)
    arguments = sys.argv[1:] if arguments is None else arguments
    program = root()
    try:
        code = program.main(args=program.hoisted(arguments), prog_name="stepwell", standalone_mode=False)
        sys.stdout.flush()  # flushed here, where a closed pipe is handled
    except TyperException as error:
        return report_usage(error, as_json="--json" in arguments)
    except (Abort, EOFError):
        print("stepwell: stopped; nothing was changed", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `| head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # leaves nothing to flush at exit
        return 0
    except KeyboardInterrupt:  # while opening or importing; a running worker stops gracefully
        print("stepwell: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        return report(error, as_json="--json" in arguments)
    return code if isinstance(code, int) else 0


def _print_anything(*streams: Any) -> None:
    """Escape characters that the terminal's encoding lacks, so that printing never fails."""
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
