"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stepwell.errors import InvalidFile, InvalidRequest

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="Id, the beginning of an id, @last, @failed or @waiting.")
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who does it; else your user name.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with who did it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Most rows to print.", min=0)]
Input = Annotated[
    str | None, typer.Option("--input", metavar="JSON", help="Input as JSON, @FILE, or - for stdin.")
]
Source = Annotated[
    str,
    typer.Argument(metavar="FILE", help="Workflows: flows.py, package.module, or a graph's .json or .yaml."),
]
Metrics = Annotated[
    str,
    typer.Option(
        "--metrics",
        metavar="[ADDRESS:]PORT",
        help="Show Prometheus metrics there; on loopback unless an address is given.",
        envvar="STEPWELL_METRICS",
    ),
]
LogAs = Annotated[
    str, typer.Option("--log-format", metavar="FORMAT", help="text, or json: one object a line on stderr.")
]
Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", help="Name of the workflow.")]
OneWorkflow = Annotated[
    str, typer.Option("--workflow", "-w", metavar="NAME", help="Only runs of this workflow.")
]
Statuses = Annotated[
    list[str],
    typer.Option("--status", "-s", metavar="STATUS", help="Only runs in this status, such as failed."),
]
Since = Annotated[
    str, typer.Option("--since", metavar="DURATION", help="Only runs created since, such as 24h ago.")
]


Tags = Annotated[list[str], typer.Option("--tag", metavar="NAME=VALUE", help="Only runs with this tag.")]
ErrorWords = Annotated[
    str, typer.Option("--error", metavar="WORDS", help="Only runs whose error has all of these words.")
]


def json_value(option: str, text: str, hint: str = "put text in double quotes: '\"text\"'") -> Any:
    """Return the value of an option that takes JSON, @FILE, or - for stdin."""
    import msgspec

    data = read_bytes(text.removeprefix("@")) if text.startswith("@") or text == "-" else text
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidRequest(f"{option} is not JSON: {error}", hint=hint) from None


def pairs(option: str, texts: list[str]) -> dict[str, Any]:
    """Return NAME=VALUE pairs as an object; a value that is not JSON is text."""
    import msgspec

    values: dict[str, Any] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name:
            whole = " or --input for all of it as JSON" if option == "--field" else ""
            raise InvalidRequest(
                f"{option} {text!r} is not NAME=VALUE", hint=f"write {option} amount=12{whole}"
            )
        try:
            values[name] = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            values[name] = value
    return values


def read_bytes(where: str) -> bytes:
    if where == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(where).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidFile(
            f"{where} cannot be read: {reason}", hint="name a file that you can read; - is stdin"
        ) from None


def write_bytes(where: str, data: bytes) -> None:
    if where == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data + b"\n")
        return
    try:
        Path(where).write_bytes(data + b"\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidRequest(
            f"{where} cannot be written: {reason}", hint="name another file; - is stdout"
        ) from None


def metrics_place(text: str) -> tuple[str, int] | None:
    """Return the address and port of --metrics; None without it."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InvalidRequest(f"--metrics is {text!r}", hint="give a port, or ADDRESS:PORT: --metrics 9710")
    return host.strip("[]") or "127.0.0.1", int(port)


def log_format(text: str) -> Literal["text", "json"]:
    if text == "json":
        return "json"
    if text != "text":
        raise InvalidRequest(f"--log-format is {text!r}", hint="use text or json")
    return "text"
