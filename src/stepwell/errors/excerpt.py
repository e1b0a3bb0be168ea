"""Excerpt: what an error repeats of a value that somebody gave. The value may be of any size and kind."""

from __future__ import annotations

LENGTH_MAX = 200  # characters
_CUT = "..."


def excerpt(value: object) -> str:
    """The value as Python writes it, if that is short; else its beginning."""
    if isinstance(value, str | bytes | bytearray):
        return shortened(repr(value[:LENGTH_MAX]), cut=len(value) > LENGTH_MAX)
    try:
        return shortened(repr(value))
    except Exception as error:  # nested too deep, or a class of somebody else's that fails at it
        return f"<{type(value).__name__}, which cannot be shown: {type(error).__name__}>"


def shortened(text: str, *, cut: bool = False) -> str:
    """Text as it is, without quotes; `cut`: its end is missing already."""
    cut = cut or len(text) > LENGTH_MAX
    return whole(text[: LENGTH_MAX - len(_CUT)] + _CUT if cut else text)


def whole(text: str) -> str:
    """Text that can be printed: halves of characters (lone surrogates) stand in it as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
