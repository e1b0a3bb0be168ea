"""Process ids as Linux tells them: the children of one process, and whether one runs or stands still."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def children(pid: int) -> list[int]:
    return [int(path.name) for path in PROC.glob("[0-9]*") if _fields(path)[1:2] == [str(pid)]]


def running(pid: int) -> bool:
    """False also for a dead process that nobody has collected yet."""
    state = _fields(PROC / str(pid))[:1]
    return bool(state) and state != ["Z"]


def stopped(pid: int) -> bool:
    """By SIGSTOP, until somebody continues it."""
    return _fields(PROC / str(pid))[:1] == ["T"]


def _fields(path: Path) -> list[str]:
    """State, parent and so on; nothing when the process is gone."""
    try:
        text = (path / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name before it may contain anything
