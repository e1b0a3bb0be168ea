"""Text that goes into keys and names."""

from __future__ import annotations

from stepwell.errors import InvalidInput


def checked_text(text: str, what: str) -> str:
    """Keys and names are kept as text: short, and without characters that a database refuses."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is {text!r}", hint="give text", field=what)
    if len(text) > 500 or not text.isprintable():
        raise InvalidInput(
            f"{what} {text[:40]!r} cannot be kept", hint="use at most 500 printable characters", field=what
        )
    return text
