"""Output: the one place that prints. Tables in a terminal, plain columns in a pipe, JSON with --json."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stepwell.cli.failure import NOT_FOUND
from stepwell.cli.text import cells, fitted, printable, styled
from stepwell.errors import InvalidRequest

_GAP = "  "
_WIDE = 120  # from this width on, tables show more columns


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. A pipe gets `plain`, uncut; a terminal gets `short`, cut to fit its line."""

    title: str
    plain: Callable[[Any], str]
    short: Callable[[Any], str] | None = None
    style: Callable[[Any], str] | None = None
    width: int = 0  # 0: as wide as its widest cell
    share: int = 0  # share of the remaining width, for long texts
    wide: bool = False  # only in wide terminals and pipes
    whole: bool = False  # never cut: half an id is useless

    def text(self, row: Any) -> str:
        return printable((self.short or self.plain)(row))


class Output:
    """Data goes to stdout, messages to stderr."""

    def __init__(self, *, as_json: bool = False, color: bool = True) -> None:
        self.as_json = as_json
        self.terminal = sys.stdout.isatty() and not as_json
        forced = bool(os.environ.get("FORCE_COLOR"))
        self.color = color and not os.environ.get("NO_COLOR") and (self.terminal or forced)
        self.color_allowed = color
        self.width, self.height = shutil.get_terminal_size((100, 24))
        self._headed: list[tuple[Column, int]] = []

    # Data

    def json(self, value: object) -> None:
        """Print one JSON value on one line."""
        print(encoded(value), flush=True)

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line of data. Control characters in it become escapes."""
        text = printable(text, keep="\n\t")
        print(styled(text, style) if self.color else text)

    def fields(self, data: dict[str, Any], *, shown: dict[str, Any] | None = None) -> None:
        """Print an object as JSON, or its non-empty fields one a line. `shown` replaces some for people."""
        if self.as_json:
            self.json(data)
            return
        data = {**data, **(shown or {})}
        rows = [(name, value) for name, value in data.items() if value not in (None, "", {}, [], False)]
        width = max((len(name) for name, _ in rows), default=0) + 2
        for name, value in rows:
            text = value if isinstance(value, str) else encoded(value)
            head = f"{name:<{width}}"
            print((styled(head, "dim") if self.color else head) + printable(text))

    def heading(self, columns: Sequence[Column]) -> None:
        """Print the heading of a table before its rows are known, if a person is waiting."""
        if self.terminal and all(column.width for column in columns):
            self._headed = self._layout(columns, None)
            self._print_heading(self._headed)
            sys.stdout.flush()

    def table(self, columns: Sequence[Column], rows: Sequence[Any], *, empty: str, end: str = "") -> None:
        """Print rows as a table; `empty` if there are none, `end` after them."""
        if not self.terminal:
            if rows:
                self._print_plain(columns, rows)
            else:
                self.say(empty)
            return
        layout = self._headed or self._layout(columns, rows)
        if rows and not self._headed:
            self._print_heading(layout)
        for row in rows:
            print(_GAP.join(self._cell(column, row, width) for column, width in layout).rstrip())
        sys.stdout.flush()
        self.say(end if rows else empty)

    def _cell(self, column: Column, row: Any, width: int) -> str:
        text = column.text(row)
        text = text if column.whole and len(text) > width else fitted(text, width)
        return styled(text, column.style(row)) if column.style is not None and self.color else text

    def _print_heading(self, layout: list[tuple[Column, int]]) -> None:
        text = _GAP.join(fitted(column.title, width) for column, width in layout).rstrip()
        print(styled(text, "bold") if self.color else text)

    def _print_plain(self, columns: Sequence[Column], rows: Sequence[Any]) -> None:
        texts = [[printable(column.plain(row)) for column in columns] for row in rows]
        for line in aligned([[column.title for column in columns], *texts]):
            print(line)

    def _layout(self, columns: Sequence[Column], rows: Sequence[Any] | None) -> list[tuple[Column, int]]:
        columns = [column for column in columns if self.width >= _WIDE or not column.wide]
        natural = {
            column.title: max([len(column.title), *(cells(column.text(row)) for row in rows or ())])
            for column in columns
            if rows is not None or not column.width
        }
        fixed = {c.title: natural.get(c.title, c.width) for c in columns if not c.share}
        left = self.width - sum(fixed.values()) - len(_GAP) * (len(columns) - 1)
        shared = sorted((c for c in columns if c.share), key=lambda c: bool(not c.width))
        shares = sum(c.share for c in shared)
        widths = dict(fixed)
        for column in shared:
            width = max(8, left * column.share // shares)
            most = natural.get(column.title, column.width or width)
            widths[column.title] = width = min(width, max(most, len(column.title)))
            left, shares = left - width, shares - column.share
        return [(column, widths[column.title]) for column in columns]

    # Messages

    def say(self, text: str = "", style: str = "") -> None:
        """Print a message on stderr."""
        if not text:
            return
        text = printable(text, keep="\n")
        color = self.color_allowed and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        sys.stdout.flush()
        print(styled(text, style) if color else text, file=sys.stderr, flush=True)

    def changed(self, name: str, done: bool, yes: str, no: str) -> None:
        """Say whether a command changed the thing of that name."""
        if self.as_json:
            self.json({"name": name, "changed": done})
        else:
            self.say(f"{name} {yes if done else no}")

    def deleted(self, name: str, done: bool, *, names: str) -> int:
        """Say whether it was deleted; return the exit code. The command `names` lists what there is."""
        if self.as_json:
            self.json({"name": name, "deleted": done})
        else:
            self.say(f"{name} is deleted" if done else f"{name} does not exist; see {names}")
        return 0 if done else NOT_FOUND

    def confirm(self, question: str, *, yes: bool) -> bool:
        """Ask before an action that cannot be undone. Without a terminal only --yes confirms."""
        if yes:
            return True
        if not sys.stdin.isatty():
            raise InvalidRequest(f"{question} Nobody is here to answer", hint="add --yes to confirm it")
        print(f"{printable(question)} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show progress: a bar in a terminal, else a line for each tenth."""
        if sys.stderr.isatty() and not self.as_json:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            console = Console(stderr=True, no_color=not self.color_allowed or None)
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            with Progress(*columns, console=console) as bar:
                task = bar.add_task(what, total=total)
                yield lambda count: bar.advance(task, count)
            return
        yield _Tenths(what, total).advance


class _Tenths:
    """Progress for output that is not a terminal."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._done = self._said = 0

    def advance(self, count: int) -> None:
        self._done += count
        tenth = 10 * self._done // max(self._total, 1)
        if tenth > self._said and self._total >= 10:
            self._said = tenth
            print(f"{self._what}: {self._done} of {self._total}", file=sys.stderr, flush=True)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows as columns as wide as their widest cells."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(
            cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def encoded(value: object) -> str:
    """Return a value as JSON on one line. What JSON lacks, such as infinity, is null."""
    import msgspec

    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate, which a file name may contain
        import json

        return json.dumps(msgspec.to_builtins(value))
