"""Redactor: replaces the values of opened secrets in everything that leaves the process.

It knows a value as it is, as JSON writes it, in base64 at any offset, and percent-encoded; also its beginning
where a text was cut, and its lines. A process that opened no secret pays nothing; one that did pays one scan
for each value written.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import threading
import traceback
from collections.abc import Iterable
from functools import wraps
from typing import Any
from urllib.parse import quote, quote_plus
from weakref import WeakSet

import msgspec

_KNOWN_MAX = 1000  # values; the oldest are forgotten first
_SHORTEST = 8  # characters of a form, or of the beginning of one
_CUT = re.compile(r"['\"\\]?(?:(?P<bare>\Z)|\s?\.\.\.|…|\s?\[cut\])")  # what follows where a text was cut
_RANDOM = re.compile(r"[^a-z:/.@_ -]")  # a character that words and public parts of addresses do not have


class Redactor:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}  # name by value, in the order in which they were last opened
        self._by_form: dict[str, str] = {}  # name by form
        self._text: re.Pattern[str] | None = None
        self._heads: re.Pattern[str] | None = None  # how forms begin
        self._by_head: dict[str, list[str]] = {}
        self._bytes: re.Pattern[bytes] | None = None  # whole forms
        self._seen: re.Pattern[bytes] | None = None  # how they begin; None: nothing to look for

    @property
    def active(self) -> bool:
        return self._seen is not None

    def learn(self, name: str, value: str) -> None:
        """From now on this value is replaced by `[secret name]`."""
        with self._lock:
            if self._names.pop(value, None) == name:
                self._names[value] = name
                return
            self._names[value] = name
            while len(self._names) > _KNOWN_MAX:
                del self._names[next(iter(self._names))]
            self._compile()
        watch_logging(self)

    def _compile(self) -> None:
        forms: dict[str, str] = {}
        heads: dict[str, list[str]] = {}
        scanned: set[bytes] = set()
        seen: set[bytes] = set()
        for value, name in self._names.items():
            for form in forms_of(value):
                forms[form] = name
                heads.setdefault(form[:_SHORTEST], []).append(form)
                scanned.update(text.encode() for text in _within_json(form))
                seen.update(text.encode() for text in _within_json(form[:_SHORTEST]))
        longest = sorted(forms, key=len, reverse=True)
        self._by_form, self._by_head = forms, heads
        self._text = re.compile("|".join(map(re.escape, longest)))
        self._heads = re.compile("|".join(map(re.escape, heads)))
        self._bytes = re.compile(b"|".join(map(re.escape, sorted(scanned, key=len, reverse=True))))
        self._seen = re.compile(b"|".join(map(re.escape, seen)))

    def redact(self, data: bytes) -> bytes:
        """Return JSON without the values; it stays valid JSON. Other data is searched as bytes."""
        if self._seen is None or self._bytes is None or not self._seen.search(data):
            return data
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return self._bytes.sub(b"[secret]", data)
        redacted = self._redacted(value)
        return data if redacted == value else msgspec.json.encode(redacted)

    def redact_text(self, text: str) -> str:
        if self._text is None or self._heads is None or not self._heads.search(text):
            return text
        return self._without_beginnings(self._text.sub(self._replacement, text))

    def _without_beginnings(self, text: str) -> str:
        """Replace the beginnings of values where the text was cut: there is no whole value to look for."""
        assert self._heads is not None
        for match in reversed(list(self._heads.finditer(text))):
            for form in self._by_head[match[0]]:
                end = _end_of_common(form, text, match.start())
                cut = _CUT.match(text, end)
                if cut and (cut["bare"] is None or _is_telling(text[match.start() : end], form)):
                    text = f"{text[: match.start()]}[secret {self._by_form[form]}]{text[end:]}"
                    break
        return text

    def _replacement(self, match: re.Match[str]) -> str:
        return f"[secret {self._by_form.get(match[0], '')}]"

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
    """Return the texts in which a value can appear; those of fewer than 8 characters are left out."""
    data = value.encode()
    forms = {value, quote(value, safe=""), quote(value), quote_plus(value)}
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data)
        # The first characters depend on what stands before the value, the last ones on what follows it.
        begin = (0, 2, 3)[offset]
        whole = encoded[begin : 4 * ((offset + len(data)) // 3)].decode()
        forms |= {whole, whole.translate(str.maketrans("+/", "-_"))}
    forms |= _within_json(value)  # JSON that is text
    lines = value.splitlines()
    if len(lines) > 1:  # such as a private key, printed line by line
        forms.update(line.strip() for line in lines)
    return [form for form in forms if len(form) >= _SHORTEST]


def _is_telling(beginning: str, form: str) -> bool:
    """Whether a text that just ends like this was cut: `postgresql` is how an address begins, and a word."""
    return bool(_RANDOM.search(beginning)) or 2 * len(beginning) >= len(form)


def _end_of_common(form: str, text: str, start: int) -> int:
    """Return where the text stops to be like the form that begins there."""
    for offset, character in enumerate(form):
        if text[start + offset : start + offset + 1] != character:
            return start + offset
    return start + len(form)


def _within_json(text: str) -> set[str]:
    """Return how a text is written inside JSON."""
    return {json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]}


_watching: WeakSet[Redactor] = WeakSet()


def watch_logging(redactor: Redactor) -> None:
    """From now on records of `logging` are redacted too."""
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
    text = shown = record.getMessage()
    trace = seen = ""
    if record.exc_info and record.exc_info[0] is not None:
        trace = seen = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    for redactor in tuple(_watching):
        shown, seen = redactor.redact_text(shown), redactor.redact_text(seen)
    if shown != text:
        record.msg, record.args = shown, None
    if seen != trace:
        record.exc_info, record.exc_text = None, seen
