"""Text: checks for text that JSON and every database can store."""

from __future__ import annotations

from stepwell.errors import InvalidInput, excerpt

_KEY_MAX = 500
_TEXT_MAX = 4000


def is_whole(text: str) -> bool:
    """Whether it has no lone surrogates: those cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_text(text: str, what: str) -> str:
    """Return a key or name, or raise InvalidInput: it must be short and printable."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is {excerpt(text)}", hint="pass text", field=what)
    if len(text) > _KEY_MAX or not text.isprintable():
        raise InvalidInput(
            f"{what} {text[:40]!r} cannot be stored",
            hint=f"use at most {_KEY_MAX} printable characters",
            field=what,
        )
    return text


def clean(text: str) -> str:
    """Make text from outside storable: escape NUL and lone surrogates, and limit its length."""
    text = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + " ..."
