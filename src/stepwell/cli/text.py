"""Text: times, durations, statuses and values as people read them in a terminal."""

from __future__ import annotations

import sys
import unicodedata
from datetime import UTC, datetime

MARKS = {
    "pending": "○",
    "running": "▶",
    "suspended": "◐",
    "completed": "✓",
    "failed": "✕",
    "cancelled": "⊘",
    "timed_out": "◷",
    "held": "■",
    "retrying": "↻",
    "skipped": "·",
}
STYLES = {
    "pending": "dim",
    "running": "yellow",
    "suspended": "magenta",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
    "timed_out": "red",
    "held": "cyan",
    "retrying": "yellow",
    "skipped": "dim",
}
_ANSI = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}
_DIRECTIONS = {*"\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}  # reorders a line


def styled(text: str, style: str) -> str:
    """Return the text with a terminal's codes for a style."""
    code = _ANSI.get(style)
    return text if code is None or not text else f"\x1b[{code}m{text}\x1b[0m"


def marked(status: str) -> str:
    """Return a status as a terminal shows it: a mark and the word."""
    return f"{MARKS.get(status, '·')} {status}"


def printable(text: str, keep: str = "") -> str:
    """Return text that cannot control a terminal: control characters become escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or not _commands(c) else _escaped(c) for c in text)


def _commands(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cs")
        or character in _DIRECTIONS
        or character in "\u2028\u2029"
    )


def _escaped(character: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character) or f"\\u{ord(character):04x}"


def time_text(at: float | None) -> str | None:
    """Format a time to the second, in UTC; the log has more digits."""
    try:
        return None if not at else f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):  # NEVER is infinite
        return None


def short_time(at: float | None, now: float) -> str:
    """Format a time for a list: today the clock, else the day."""
    try:
        if not at:
            return ""
        then, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    except (OverflowError, ValueError, OSError):
        return ""
    if then.date() == today.date():
        return f"{then:%H:%M:%S}"
    return f"{then:%d %b %H:%M}" if then.year == today.year else f"{then:%Y-%m-%d}"


def duration_text(seconds: float | None) -> str:
    """Format a duration with two units at most: 0.4s, 12s, 3m05s, 2h10m, 4d02h."""
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def cells(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def fitted(text: str, width: int) -> str:
    """Return the text padded or cut to a width. A cut ends with an ellipsis."""
    size = cells(text)
    if size <= width:
        return text + " " * (width - size)
    while text and cells(text) > width - 1:
        text = text[:-1]
    return text + "…" + " " * (width - 1 - cells(text))


def program_name() -> str:
    """Return how the user calls this program."""
    return "python -m stepwell" if sys.argv[0].endswith("__main__.py") else "stepwell"
