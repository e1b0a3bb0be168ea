"""Statement: one SQL statement with `:name` parameters, in the form that each database wants.

Parameters are bound, never written into the text. The parser only knows names and quotes; the database
knows what the statement means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepwell.databases.errors import QueryError

LENGTH_MAX = 65_536
_PART = re.compile(
    r"""
      (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | \[[^\]:]*[A-Za-z_ ][^\]:]*\] )
    | (?P<escaped> \b[eE]'(?:[^'\\]|\\.|'')*' )
    | (?P<dollar> \$(?P<tag>[A-Za-z_]*)\$.*?\$(?P=tag)\$ )
    | (?P<comment> --[^\n]* | /\*.*?\*/ )
    | (?P<cast> :: )
    | (?P<name> :[A-Za-z_][A-Za-z0-9_]* )
    | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)


# Statements that change the session, end the transaction, or reach files and programs of the server.
_OF_SESSIONS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(copy|do|set|reset|load|begin|start|commit|end|rollback|abort|savepoint|release|prepare|execute"
    r"|deallocate|discard|listen|unlisten|lock|checkpoint|security|import|declare|fetch|close)\b",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    names: tuple[str, ...]  # names of its parameters, in the order of their first use

    @classmethod
    def parsed(cls, sql: str) -> Statement:
        """Parse the text. QueryError if it is not exactly one statement."""
        if len(sql) > LENGTH_MAX:
            raise QueryError("SQL_ERROR", f"the statement is longer than {LENGTH_MAX:,} characters")
        if "{{" in sql:
            raise QueryError(
                "SQL_TEMPLATE",
                "the statement has a template",
                hint="write :name in the statement, and give the value in params",
            )
        names: dict[str, None] = {}
        ended = False
        at = 0
        for part in _PART.finditer(sql):
            _check_open(sql[at : part.start()])
            ended = _ends(ended, sql[at : part.start()], part["comment"] is None and part["end"] is None)
            at = part.end()
            if part["end"]:
                ended = True
            elif part["name"]:
                names[part["name"][1:]] = None
        _check_open(sql[at:])
        _ends(ended, sql[at:], False)
        if not sql.strip(" \t\r\n;"):
            raise QueryError("SQL_ERROR", "there is no statement")
        return cls(sql.rstrip("; \t\r\n"), tuple(names))

    def values(self, params: Mapping[str, Any]) -> list[Any]:
        """Return the values in the order of the names. QueryError if one is missing or unknown."""
        missing = [name for name in self.names if name not in params]
        unused = [name for name in params if name not in self.names]
        if missing or unused:
            raise QueryError(
                "SQL_PARAMS",
                f"missing parameters: {', '.join(missing) or 'none'}; unused: {', '.join(unused) or 'none'}",
                hint="give a value for every :name of the statement, and no others",
            )
        return [params[name] for name in self.names]

    def check_kind(self) -> None:
        """Refuse a statement that changes the session or reaches files of the server."""
        verb = _OF_SESSIONS.match(self.text)
        if verb:
            raise QueryError(
                "SQL_FORBIDDEN",
                f"{verb[1].upper()} would change the session, or reach files of the server",
                hint="write a statement that reads or changes rows",
            )

    def numbered(self) -> str:
        """Return the text with $1, $2 ... instead of names."""
        order = {name: number for number, name in enumerate(self.names, 1)}

        def replaced(part: re.Match[str]) -> str:
            return f"${order[part['name'][1:]]}" if part["name"] else part[0]

        return _PART.sub(replaced, self.text)


def _ends(ended: bool, between: str, more: bool) -> bool:
    """Return whether the statement has ended. QueryError if something follows its end."""
    if ended and (between.strip() or more):
        raise QueryError(
            "SQL_ONE_STATEMENT", "there is more than one statement", hint="use a node for each statement"
        )
    return ended


def _check_open(between: str) -> None:
    if "'" in between or '"' in between or "/*" in between or "\0" in between:
        raise QueryError("SQL_ERROR", "a quote or comment of the statement is not closed")
