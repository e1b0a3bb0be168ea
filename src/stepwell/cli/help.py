"""Help: the page of a command or group, without boxes, so that it reads the same in a terminal and a file."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from stepwell.cli.text import styled

_GAP = 2
_NAMES_MAX = 30
_WIDTH_MAX = 110


def command_help(command: Any, ctx: Any) -> str:
    """Return the help of one command: what it does, how to call it, its options and examples."""
    parameters = [p for p in command.get_params(ctx) if not getattr(p, "hidden", False)]
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    options = [p for p in parameters if p.param_type_name == "option"]
    own = [p for p in options if p.name not in _SHARED]
    shared = [p for p in options if p.name in _SHARED]
    names = " ".join(_argument_name(p) for p in arguments)
    parts = [
        _paragraphs(command.help or ""),
        _section("Usage", [f"  {ctx.command_path} {names + ' ' if names else ''}[OPTIONS]"]),
        _section("Arguments", _rows((_argument_name(p), p.help or "") for p in arguments)),
        _section("Options", _rows(_option_row(p) for p in own)),
        _section("Shared options", _rows(_option_row(p) for p in shared)),
        _section("Examples", [f"  {example}" for example in command.examples]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def group_help(group: Any, ctx: Any) -> str:
    """Return the help of a group: its commands."""
    parts = [
        _paragraphs(group.help or ""),
        _section("Usage", [f"  {ctx.command_path} COMMAND [OPTIONS]"]),
        _section("Commands", _rows(group.summaries())),
        f"See `{ctx.command_path} COMMAND --help` for options and examples.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def sections_help(title: str, usage: str, sections: dict[str, list[tuple[str, str]]], end: str) -> str:
    """Return the first page: all commands, grouped by purpose."""
    width = max(len(name) for rows in sections.values() for name, _ in rows)
    parts = [title, _section("Usage", [f"  {usage}"])]
    parts += [_section(name, _rows(rows, width)) for name, rows in sections.items()]
    return "\n\n".join([*parts, end]) + "\n"


_SHARED = ("database", "server", "workspace", "codec", "api_key", "json", "no_color", "help")


def _argument_name(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    many = "..." if parameter.nargs != 1 else ""
    return f"{name}{many}" if parameter.required else f"[{name}]{many}"


def _option_row(option: Any) -> tuple[str, str]:
    names = ", ".join(sorted(option.opts, key=len))
    if option.secondary_opts:
        names += " / " + ", ".join(option.secondary_opts)
    value = "" if option.is_flag else f" {(option.metavar or option.name).upper()}"
    text = option.help or ""
    default = option.default
    if (
        not option.is_flag
        and option.show_default
        and isinstance(default, str | int | float)
        and default != ""
    ):
        text += f" Default: {default}."
    if option.multiple:
        text += " Repeatable."
    if option.required:
        text += " Required."
    return names + value, text.strip()


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([_heading(title), *lines]) if lines else ""


def _heading(title: str) -> str:
    return styled(title, "bold") if _coloured() else title


def _coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and "--no-color" not in sys.argv


def _rows(rows: Iterable[tuple[str, str]], width: int = 0) -> list[str]:
    rows = list(rows)
    if not rows:
        return []
    width = max(width, min(_NAMES_MAX, max(len(name) for name, _ in rows)))
    indent = " " * (2 + width + _GAP)
    lines = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(24, _columns() - len(indent))) or [""]
        if len(name) > width:
            lines.append(f"  {name}")
            lines += [indent + line for line in wrapped]
        else:
            lines.append(f"  {name:<{width}}{' ' * _GAP}{wrapped[0]}".rstrip())
            lines += [indent + line for line in wrapped[1:]]
    return lines


def _paragraphs(text: str) -> str:
    return "\n\n".join(textwrap.fill(part, _columns()) for part in text.strip().split("\n\n"))


def _columns() -> int:
    return max(40, min(_WIDTH_MAX, shutil.get_terminal_size().columns))
