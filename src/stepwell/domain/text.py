"""Text: what JSON and every database can keep of it."""

from __future__ import annotations

from stepwell.errors import InvalidInput, excerpt

_KEY_MAX = 500
_TEXT_MAX = 4000


def is_whole(text: str) -> bool:
    """No halves of characters (lone surrogates): those cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_text(text: str, what: str) -> str:
    """Keys and names are kept as text: short, and without characters that a database refuses."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is {excerpt(text)}", hint="give text", field=what)
    if len(text) > _KEY_MAX or not text.isprintable():
        raise InvalidInput(
            f"{what} {text[:40]!r} cannot be kept",
            hint=f"use at most {_KEY_MAX} printable characters",
            field=what,
        )
    return text


def clean(text: str) -> str:
    """Text that somebody else wrote, as far as it can be kept: no NUL, no half characters, not endless."""
    text = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + " ..."
