"""Redactor: replaces the values of opened secrets in everything that leaves the process.

It recognises a value as it is, as JSON writes it, in base64 at any offset, and percent-encoded; also its
beginning where text was cut, and its lines. A process that opened no secret pays nothing. Otherwise each
written value costs one scan, which takes the same time for a thousand secrets as for ten.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from functools import wraps
from typing import Any
from urllib.parse import quote, quote_plus
from weakref import WeakSet

import msgspec

_KNOWN_MAX = 1000  # number of values; the oldest are forgotten first
_FORGOTTEN_AT_ONCE = 250
_LONG = 100  # characters; shorter text is searched in one piece
_FEW = 100  # beginnings of forms, those of about ten values
_SHORTEST = 8  # characters of a form, or of its beginning
_GUESSES_MAX = 20  # texts that begin like a value and then differ
_CUT = re.compile(r"['\"\\]?(?:(?P<bare>\Z)|\s?\.\.\.|…|\s?\[cut\])")  # marks where text was cut
_CUT_WORD = re.compile(r"\S{0,100}?(?:\.\.\.|…|\s?\[cut\])")
_RANDOM = re.compile(
    r"[^a-z:/.@_ -]"
)  # a character that does not appear in words or public parts of addresses


class Redactor:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}  # names by value, in the order of their last opening
        self._by_form: dict[str, str] = {}  # values by form
        self._by_head: dict[str, list[str]] = {}  # forms by their beginning, the longest first
        self._words: set[int] = set()  # their beginnings, plain and in JSON: 8 bytes as a number
        self._guesses: dict[str, int] = {}  # by value: texts that begin like it and then differ
        # Finds beginnings of forms, if there are few
        self._in_text: re.Pattern[str] | None = None
        self._in_data: re.Pattern[bytes] | None = None

    @property
    def active(self) -> bool:
        return bool(self._by_head)

    def learn(self, name: str, value: str) -> None:
        """Replace this value by `[secret name]` from now on."""
        with self._lock:
            if self._names.pop(value, None) == name:
                self._names[value] = name
                return
            self._names[value] = name
            if len(self._names) > _KNOWN_MAX + _FORGOTTEN_AT_ONCE:
                self._forget()
            else:
                self._add(value)
            self._compile()
        watch_logging(self)

    def _forget(self) -> None:
        for value in list(self._names)[:-_KNOWN_MAX]:
            del self._names[value]
            self._guesses.pop(value, None)
        self._by_form, self._by_head, self._words = {}, {}, set()
        for value in self._names:
            self._add(value)

    def _add(self, value: str) -> None:
        for form in forms_of(value):
            self._by_form[form] = value
            head = form[:_SHORTEST]
            same = {form, *self._by_head.get(head, ())}
            self._by_head[head] = sorted(same, key=len, reverse=True)
            self._words.update(_word(text) for text in (head, *_within_json(head)))

    def _compile(self) -> None:
        """Use regular expressions while they are faster: their time grows with the number of forms."""
        self._in_text = self._in_data = None
        if len(self._by_head) <= _FEW:
            heads = {text for head in self._by_head for text in (head, *_within_json(head))}
            self._in_text = re.compile(f"(?={'|'.join(map(re.escape, self._by_head))})")
            self._in_data = re.compile("|".join(map(re.escape, heads)).encode())

    def redact(self, data: bytes) -> bytes:
        """Return JSON without the values; it stays valid JSON. Other data is searched as text."""
        if not self._may_hold_one(data):
            return data
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            text = data.decode("utf-8", "surrogateescape")
            return self.redact_text(text).encode("utf-8", "surrogateescape")
        redacted = self._redacted(value)
        return data if redacted == value else msgspec.json.encode(redacted)

    def redact_text(self, text: str) -> str:
        starts = self._starts(text)
        return self._without_beginnings(self._without_values(text, starts)) if starts else text

    def _may_hold_one(self, data: bytes) -> bool:
        """Return whether a form, or something similar, may begin in this data."""
        if not self._by_head:
            return False
        if self._in_data is not None:
            return self._in_data.search(data) is not None
        view = memoryview(data)
        for offset in range(8):  # compares all words of 8 bytes; each of these loops is one call
            end = offset + (len(data) - offset) // 8 * 8
            if end > offset and not self._words.isdisjoint(view[offset:end].cast("Q")):
                return True
        return False

    def _starts(self, text: str) -> list[int]:
        """Yield where forms begin in a text."""
        last = len(text) - _SHORTEST
        if last < 0:
            return []
        if self._in_text is not None:
            return [match.start() for match in self._in_text.finditer(text)]
        if last > _LONG and not self._may_hold_one(text.encode("utf-8", "surrogatepass")):
            return []
        heads = self._by_head
        return [at for at in range(last + 1) if text[at : at + _SHORTEST] in heads]

    def _forms_at(self, text: str, start: int) -> Sequence[str]:
        return self._by_head.get(text[start : start + _SHORTEST], ())

    def _without_values(self, text: str, starts: Iterable[int]) -> str:
        parts: list[str] = []
        end = 0
        for start in starts:
            if start < end:
                continue
            for form in self._forms_at(text, start):
                if text.startswith(form, start):
                    parts += [text[end:start], self._shown(form)]
                    end = start + len(form)
                    break
        return "".join([*parts, text[end:]])

    def _without_beginnings(self, text: str) -> str:
        """Replace beginnings of values where the text was cut, so that no whole value can match.

        Someone who writes texts and sees which are replaced could guess a value letter by letter. So after
        a few texts that begin like it and then differ, its beginnings stay.
        """
        for start in reversed(self._starts(text)):
            guessed = set()
            for form in self._forms_at(text, start):
                end = _end_of_common(form, text, start)
                telling, cut = _is_telling(text[start:end], form), _CUT.match(text, end)
                value = self._by_form.get(form, "")
                if cut and (telling or cut["bare"] is None):
                    if self._guesses.get(value, 0) < _GUESSES_MAX:
                        text = f"{text[:start]}{self._shown(form)}{text[end:]}"
                        break
                elif telling or _CUT_WORD.match(text, end):
                    guessed.add(value)
            else:  # it is the beginning of no form, which begin alike
                for value in guessed:
                    self._guesses[value] = self._guesses.get(value, 0) + 1
        return text

    def _shown(self, form: str) -> str:
        return f"[secret {self._names.get(self._by_form.get(form, ''), '')}]"

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {self.redact_text(key): self._redacted(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._redacted(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            redacted = self.redact_text(text)
            return value if redacted == text else redacted
        return value


def forms_of(value: str) -> Iterable[str]:
    """Return the texts in which a value can appear, except those of fewer than 8 characters."""
    data = value.encode()
    forms = {value, quote(value, safe=""), quote(value), quote_plus(value)}
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data)
        # The first characters depend on what precedes the value, the last ones on what follows it.
        begin = (0, 2, 3)[offset]
        whole = encoded[begin : 4 * ((offset + len(data)) // 3)].decode()
        forms |= {whole, whole.translate(str.maketrans("+/", "-_"))}
    forms |= _within_json(value)  # JSON inside a string
    lines = value.splitlines()
    if len(lines) > 1:  # a private key may be printed line by line
        for line in lines:
            forms |= {line.strip(), *_within_json(line.strip())}
    return [form for form in forms if len(form) >= _SHORTEST]


def _word(head: str) -> int:
    return int.from_bytes(head.encode()[:8], sys.byteorder)


def _is_telling(beginning: str, form: str) -> bool:
    """Return whether a text that ends like this was cut. `postgresql` begins addresses, but is a word."""
    return bool(_RANDOM.search(beginning)) or 2 * len(beginning) >= len(form)


def _end_of_common(form: str, text: str, start: int) -> int:
    """Return where the text stops matching the form that begins there."""
    for offset, character in enumerate(form):
        if text[start + offset : start + offset + 1] != character:
            return start + offset
    return start + len(form)


def _within_json(text: str) -> set[str]:
    """Return how a text is written inside JSON."""
    return {json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]}


_watching: WeakSet[Redactor] = WeakSet()


def without_secrets(text: str) -> str:
    """Return a text without the values that this process has opened."""
    for redactor in tuple(_watching):
        text = redactor.redact_text(text)
    return text


def watch_logging(redactor: Redactor) -> None:
    """Redact records of `logging` from now on."""
    _watching.add(redactor)
    make = logging.getLogRecordFactory()
    if getattr(make, "redacts", False):
        return

    @wraps(make)
    def redacted(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        try:
            _redact_record(record)
        except Exception:
            record.msg, record.args = "a record that could not be searched for secrets was left out", None
        return record

    redacted.redacts = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(redacted)


def _redact_record(record: logging.LogRecord) -> None:
    if not _watching:
        return
    try:
        text = shown = record.getMessage()
    except Exception:  # the arguments do not fit: the message is searched, and they are left out
        text = shown = str(record.msg)
        record.args = None
    trace = seen = ""
    if record.exc_info and record.exc_info[0] is not None:
        trace = seen = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    shown, seen = without_secrets(shown), without_secrets(seen)
    if shown != text:
        record.msg, record.args = shown, None
    if seen != trace:
        record.exc_info, record.exc_text = None, seen
