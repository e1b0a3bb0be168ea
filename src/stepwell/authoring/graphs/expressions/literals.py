"""Literals: strings and numbers, with CEL's escapes."""

from __future__ import annotations

import re

from stepwell.errors import BadExpression

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1

SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
# After a backslash: how many digits of which base follow.
CODES = {"x": (2, 16), "X": (2, 16), "u": (4, 16), "U": (8, 16)}
DIGITS = {8: re.compile("[0-3][0-7]{2}"), 16: re.compile("[0-9a-fA-F]*")}


def read_string(source: str, start: int) -> tuple[str, int]:
    """The text of the literal that begins at `start`, and where it ends."""
    at = start
    while source[at] not in "'\"":
        at += 1
    prefix = source[start:at].lower()
    if "b" in prefix:
        raise BadExpression(
            "there are no bytes, values are those of JSON", column=start + 1, hint="write a plain string"
        )
    if prefix == "rr":
        raise BadExpression("one r before a string is enough", column=start + 1)
    quote = source[at] * 3 if source.startswith(source[at] * 3, at) else source[at]
    at += len(quote)
    parts: list[str] = []
    while not source.startswith(quote, at):
        if at >= len(source) or (len(quote) == 1 and source[at] in "\r\n"):
            raise BadExpression(
                "this string is never closed", column=start + 1, hint=f"close it with {quote}"
            )
        if source[at] == "\\" and prefix != "r":
            text, at = _escape(source, at)
            parts.append(text)
        else:
            parts.append(source[at])
            at += 1
    return "".join(parts), at + len(quote)


def _escape(source: str, at: int) -> tuple[str, int]:
    letter = source[at + 1 : at + 2]
    if letter in SIMPLE:
        return SIMPLE[letter], at + 2
    if letter in CODES:
        length, base = CODES[letter]
        digits = source[at + 2 : at + 2 + length]
        if len(digits) == length and DIGITS[base].fullmatch(digits):
            return _character(int(digits, base), at), at + 2 + length
    if octal := DIGITS[8].match(source, at + 1):
        return _character(int(octal[0], 8), at), at + 4
    raise BadExpression(
        f"\\{letter} is not an escape",
        column=at + 1,
        hint="write \\\\ for a backslash, or a raw string: r'\\d+'",
    )


def _character(code: int, at: int) -> str:
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise BadExpression(f"there is no character with the code {code:#x}", column=at + 1)
    return chr(code)


def read_number(source: str, start: int, text: str) -> tuple[int | float, int]:
    """The number and where it ends; the sign belongs to the parser, so 2^63 is still allowed here."""
    end = start + len(text)
    after = source[end : end + 1]
    if after in ("u", "U"):
        raise BadExpression("there are no unsigned numbers", column=start + 1, hint=f"write {text}")
    if after.isalnum() or after == "_":
        raise BadExpression(f"{text}{after} is neither a number nor a name", column=start + 1)
    if text[:2] in ("0x", "0X"):
        return _integer(int(text, 16), start), end
    if text.isdigit():
        # Python refuses to parse very long digit strings; none that long fits anyway.
        return _integer(int(text) if len(text.lstrip("0")) <= 20 else INTEGER_MAX + 2, start), end
    value = float(text)
    if value == float("inf"):
        raise BadExpression(f"{text} is too large for a number", column=start + 1)
    return value, end


def _integer(value: int, start: int) -> int:
    if value > INTEGER_MAX + 1:
        raise BadExpression(
            "integers have 64 bits: this one is too large",
            column=start + 1,
            hint="write 1e20 for a large number",
        )
    return value
