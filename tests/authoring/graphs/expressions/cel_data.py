"""The conformance data of CEL as test cases: a reader of the small part of textproto that it uses.

The data belongs to the CEL project and is not in this repository. `STEPWELL_CEL_SPEC` names a folder with its
`*.textproto` files. `test_language.py` covers every operator, macro and function without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "STEPWELL_CEL_SPEC"
ABSENT = f"{VARIABLE} is not set: it names the folder of CEL's conformance tests (*.textproto)"

TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<bare>[-+A-Za-z0-9_./]+)
      | (?P<sign>[{}<>\[\]:;,])""",
    re.VERBOSE,
)
ESCAPE = re.compile(
    rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}

# A message is its fields in order; a field may stand several times.
Message = list[tuple[str, Any]]


class NotJson(Exception):
    """A value of CEL that JSON has not."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    expression: str
    message: Message

    def field(self, name: str) -> Any:
        return first(self.message, name)


def folder() -> Path | None:
    """The folder that the variable names. None: it is not set, so nobody asks for these cases."""
    named = os.environ.get(VARIABLE, "")
    return Path(named) if named else None


def cases(data: Path) -> list[Case]:
    """All cases in the folder. A folder without any is a mistake, never a quiet pass."""
    paths = sorted(data.glob("*.textproto"))
    if not paths:
        raise FileNotFoundError(f"{VARIABLE} names {data}, which has no *.textproto files")
    return [case for path in paths for case in read_cases(path)]


def read_cases(path: Path) -> Iterator[Case]:
    file = read(path.read_text(encoding="utf-8"))
    for section in every(file, "section"):
        for test in every(section, "test"):
            name = "/".join(
                [text(first(file, "name")), text(first(section, "name")), text(first(test, "name"))]
            )
            yield Case(name, text(first(test, "expr")), test)


def every(message: Message, name: str) -> list[Any]:
    return [value for key, value in message if key == name]


def first(message: Message, name: str) -> Any:
    return next(iter(every(message, name)), None)


def text(value: Any) -> str:
    assert isinstance(value, bytes)
    return value.decode()


def json_value(message: Message) -> Any:
    """The JSON value of a cel.expr.Value; NotJson for bytes, unsigned numbers, messages and types."""
    [(kind, value)] = message
    match kind:
        case "null_value":
            return None
        case "bool_value":
            return value == "true"
        case "int64_value":
            return int(value)
        case "double_value":
            return float(value)
        case "string_value":
            return text(value)
        case "list_value":
            return [json_value(item) for item in every(value, "values")]
        case "map_value":
            entries = [
                (json_value(first(entry, "key")), json_value(first(entry, "value")))
                for entry in every(value, "entries")
            ]
            if any(not isinstance(key, str) for key, _ in entries):
                raise NotJson("map with other keys than strings")
            return dict(entries)
    raise NotJson(kind)


def read(source: str) -> Message:
    words = [match for match in TOKEN.finditer(source) if match.lastgroup != "skip"]
    assert sum(len(match[0]) for match in TOKEN.finditer(source)) == len(source), "some text was not read"
    message, at = _message([match[0] for match in words], 0, None)
    assert at == len(words)
    return message


def _message(words: list[str], at: int, closing: str | None) -> tuple[Message, int]:
    message: Message = []
    while at < len(words) and words[at] != closing:
        if words[at] in (",", ";"):
            at += 1
            continue
        name, at = _name(words, at)
        value: Any
        if words[at] == ":":
            at += 1
        if words[at] in "{<":
            value, at = _message(words, at + 1, "}" if words[at] == "{" else ">")
            at += 1
        elif words[at] == "[":
            while words[at] != "]":
                value, at = _message(words, at + 2, "}")
                at += 1
                message.append((name, value))
            at += 1
            continue
        elif words[at][0] in "\"'":
            parts = []
            while words[at][0] in "\"'":
                parts.append(_unescaped(words[at][1:-1]))
                at += 1
            value = b"".join(parts)
        else:
            value = words[at]
            at += 1
        message.append((name, value))
    return message, at


def _name(words: list[str], at: int) -> tuple[str, int]:
    if words[at] != "[":
        return words[at], at + 1
    end = words.index("]", at)  # a type in brackets: the body of an Any
    return "".join(words[at : end + 1]), end + 1


def _unescaped(written: str) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 16)])
        if match[2]:
            return bytes([int(match[2], 8)])
        if match[3] or match[4]:
            return chr(int(match[3] or match[4], 16)).encode()
        return LETTERS.get(match[5], match[5])

    return ESCAPE.sub(one, written.encode())
