"""Writes docs/cli-reference.md from the commands themselves: `python -m tools.cli_reference`."""

from __future__ import annotations

import os
import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "cli-reference.md"
_SHARED = re.compile(r"Shared options\n(?:  .*\n)+\n?")
_HEAD = """# Commands

Written by `python -m tools.cli_reference`. All commands take `--json`, `--no-color` and `--help`; those that
work on a database also take `--database`, `--server`, `--workspace`, `--codec` and `--api-key`. See
[the command line](cli.md) for what they have in common.
"""


def reference() -> str:
    """Return the help of every command, as Markdown. Options that all of them share are left out."""
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        return "\n".join([_HEAD, *_parts()])
    finally:
        os.environ.pop("COLUMNS")
        if columns is not None:
            os.environ["COLUMNS"] = columns


def _parts() -> list[str]:
    from stepwell.cli.app import PLACES, root, walk

    program, parts, group = root(), [], ""
    for name, command in walk():
        if command.hidden:
            continue
        first = name.split()[0]
        if first != group:
            group = first
            parts.append(f"## `stepwell {first}`\n")
        if PLACES[first].group:
            parts.append(f"### `stepwell {name}`\n")
        parent = program.context_class(program, info_name="stepwell")
        context = command.context_class(command, info_name=name, parent=parent)
        parts.append(f"```text\n{_SHARED.sub('', command.get_help(context)).rstrip()}\n```\n")
    return parts


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    print(f"wrote {PAGE}")
