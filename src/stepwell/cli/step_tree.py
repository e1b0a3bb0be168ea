"""StepTree: the steps of a run, folded from its events for a person who watches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwell.cli.text import MARKS, STYLES, duration_text, printable

if TYPE_CHECKING:
    from stepwell.client import RunEvent

_ENDS = {"completed": "completed", "failed": "failed", "cancelled": "cancelled", "timed_out": "timed_out"}
_OUTCOMES = {"answered": "completed", "timed_out": "timed_out", "withdrawn": "cancelled"}
_NAME_MAX = 32


@dataclass(slots=True)
class StepLine:
    """A step, wait, child, transition or node of a run."""

    path: str
    name: str
    status: str = "running"
    attempt: int = 0
    began: float | None = None
    ended: float | None = None
    note: str = ""
    depth: int = 0

    @property
    def settled(self) -> bool:
        return self.ended is not None

    def texts(self, now: float) -> tuple[str, str, str]:
        """Return its mark and name, its duration, and what there is to say about it."""
        mark = f"{'  ' * self.depth}{MARKS.get(self.status, '·')} {self.name}"
        end = self.ended if self.ended is not None else now
        took = duration_text(end - self.began) if self.began is not None else ""
        attempt = f"attempt {self.attempt}" if self.attempt > 1 else ""
        return mark, took, "  ".join(text for text in (attempt, self.note) if text)


@dataclass(slots=True)
class StepTree:
    """Takes events one by one. `changed` is the line that the last event changed."""

    lines: dict[str, StepLine] = field(default_factory=dict)
    status: str = "pending"
    progress: str = ""
    began: float | None = None
    ended: float | None = None
    result: Any = None
    error: dict[str, Any] = field(default_factory=dict)
    seq: int = 0
    _last_at: float | None = None  # the time of the previous event
    _free_since: float | None = None  # since when nothing has been open: the next step begins there

    def take(self, event: RunEvent) -> StepLine | None:
        """Take in one event, and return the line that it changed."""
        self.seq = event.seq
        at, data = event.at.timestamp(), event.data
        if event.kind in _ENDS and not event.path:
            self._end(event.kind, data, at)
            return None
        idle = all(line.settled or line.status == "suspended" for line in self.lines.values())
        self._free_since, self._last_at = (self._last_at if idle else None), at
        kind, _, what = event.kind.rpartition("_")
        act = getattr(self, f"_{event.kind}", None) or getattr(self, f"_any_{what}", None)
        if act is None:
            return None
        line: StepLine | None = act(event, data, at, kind)
        if line is not None and event.attempt:
            line.attempt = event.attempt
        return line

    def _end(self, kind: str, data: dict[str, Any], at: float) -> None:
        self.status, self.ended = kind, at
        self.result, self.error = data.get("result"), data.get("error") or {}
        for line in self.lines.values():
            if not line.settled:
                line.status, line.ended = "cancelled", at

    def _accepted(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> None:
        self.began = at

    def _claimed(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> None:
        self.status = "running"
        self._last_at = data.get("since") or at  # it is recorded later, with the worker's first commit

    def _retried(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> None:
        self.status, self.ended, self.error = "running", None, {}

    def _progress(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> None:
        done, total = data.get("done", 0), data.get("total")
        count = f"{done:g} of {total:g}" if total is not None else f"{done:g}"
        self.progress = " ".join(filter(None, [count, printable(str(data.get("text", "")))]))

    # Lines

    def _line(self, event: RunEvent, name: str = "", status: str = "running") -> StepLine:
        line = self.lines.get(event.path)
        if line is None:
            depth = max(0, event.path.count("/") - 1)
            shown = printable(name or _name(event.path))[:_NAME_MAX]
            line = self.lines[event.path] = StepLine(event.path, shown, depth=min(depth, 6))
            line.began = self._free_since  # a short step's start is recorded late or not at all
        line.status, line.ended = status, None
        return line

    def _settled(self, event: RunEvent, status: str, at: float, name: str = "") -> StepLine:
        line = self._line(event, name, status)
        line.ended = at
        return line

    def _step_scheduled(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine:
        line = self._line(event, str(data.get("step", "")), "pending")
        line.note = f"queue {printable(str(data.get('queue', '')))}"
        return line

    def _any_started(self, event: RunEvent, data: dict[str, Any], at: float, kind: str) -> StepLine | None:
        if kind not in ("step", "node", "child", "loop"):
            return None
        name = str(data.get("step", ""))
        line = self._line(event, f"{data['workflow']}" if kind == "child" else name)
        line.began = at if line.began is None else line.began
        line.note = ""
        if kind == "child":
            line.note = f"run {data.get('run', '')}"
        return line

    def _any_completed(self, event: RunEvent, data: dict[str, Any], at: float, kind: str) -> StepLine | None:
        if kind not in ("step", "node", "transition"):
            return None
        if kind == "transition":
            name = f"{data['source']} → {data['target']}"
            path = f"{event.path}/{event.seq}"
            line = self.lines[path] = StepLine(path, printable(name), "completed", ended=at)
            line.note = printable(str(data.get("transition", "")))
            return line
        line = self._settled(event, "completed", at)
        line.note = ""
        return line

    def _any_failed(self, event: RunEvent, data: dict[str, Any], at: float, kind: str) -> StepLine:
        error, retry_in = data.get("error") or {}, data.get("retry_in")
        line = self._line(event, str(data.get("transition", "")))
        line.note = _error_text(error)
        if retry_in is not None:
            line.status = "retrying"
            line.note += f"; again in {duration_text(retry_in)}"
        else:
            line.status, line.ended = "failed", at
        return line

    def _node_skipped(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine:
        line = self._settled(event, "skipped", at)
        line.note = "branch not taken"
        return line

    def _node_cancelled(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine:
        return self._settled(event, "cancelled", at)

    def _loop_advanced(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine:
        line = self._line(event)
        line.note = f"{data.get('done')} of {data.get('count')}"
        return line

    def _timer_set(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine | None:
        if data.get("retry"):
            return None
        line = self._line(event, "sleep", "suspended")
        line.began, line.note = at, f"for {duration_text(data.get('seconds'))}"
        return line

    def _timer_fired(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine | None:
        return self._settled(event, "completed", at) if event.path in self.lines else None

    def _wait_opened(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine:
        line = self._line(event, f"{data.get('what')} {data.get('name', '')}".strip(), "suspended")
        line.began = at
        line.note = printable(str(data.get("title", "")))
        return line

    def _wait_ended(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine:
        return self._settled(event, _OUTCOMES.get(str(data.get("outcome")), "completed"), at)

    def _child_ended(self, event: RunEvent, data: dict[str, Any], at: float, _: str) -> StepLine:
        line = self._settled(event, str(data.get("status", "completed")), at)
        if data.get("error"):
            line.note = _error_text(data["error"])
        return line


def _name(path: str) -> str:
    """Return the name in a path such as 0/charge#1, with the number only if it is not the first call."""
    name, _, number = path.rpartition("/")[2].partition("#")
    return f"{name} #{number}" if number not in ("", "1") else name


def _error_text(error: dict[str, Any]) -> str:
    kind, message = error.get("type", ""), " ".join(str(error.get("message", "")).split())
    return printable(f"{kind}: {message}" if kind and not message.startswith(kind) else message)


def style_of(status: str) -> str:
    return STYLES.get(status, "")
