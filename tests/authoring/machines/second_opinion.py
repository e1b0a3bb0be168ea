"""A second opinion on machines: what one must do, written from the requirements and not from the engine.

It knows no log and no commits. A body is played from its top whenever its machine goes on, over what the
visit has been answered so far; that is all that an engine may keep of an attempt (Hazard 25).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Op = tuple[Any, ...]
State = dict[str, Any]

STEP_RETRY = {"note": (1, 0.0), "pay": (2, 3.0), "tidy": (1, 0.0)}  # attempts, delay
UNDOES = {"pay": "repay"}
_EPS = 1e-6


@dataclass
class Way:
    """A transition: `waits` for a trigger that brings a number; tried `attempts` times, 2 s apart."""

    name: str
    source: str
    target: str
    ops: list[Op]
    waits: bool = False
    attempts: int = 1
    on_error: str = ""


@dataclass
class Chart:
    ways: list[Way]
    holds: bool


class Blocked(Exception):
    def __init__(self, kind: str, due: float | None = None) -> None:
        self.kind, self.due = kind, due


class Failure(Exception):
    pass


class Stopped(Exception):
    """The body heard of a cancel."""


@dataclass
class Visit:
    chosen: str = ""
    payload: Any = None
    attempt: int = 0
    under_way: bool = False
    failures: int = 0
    retry_at: float | None = None
    done: dict[str, str] = field(default_factory=dict)  # steps and signals, by path
    broken: dict[str, tuple[int, float]] = field(default_factory=dict)  # steps between two attempts
    timers: dict[str, float] = field(default_factory=dict)
    saved: list[tuple[str, str, str, int]] = field(default_factory=list)  # path, name, value, attempt or 0


@dataclass
class Model:
    chart: Chart
    broken: set[str]  # what fails now, shared with the real steps
    place: str = "start"
    version: int = 0
    state: State = field(default_factory=lambda: {"n": 0, "log": []})
    documents: dict[str, tuple[int, str]] = field(default_factory=dict)
    status: str = "pending"
    visit: Visit = field(default_factory=Visit)
    signals: list[str] = field(default_factory=list)
    undoable: list[tuple[str, str]] = field(default_factory=list)
    undone: bool = False
    effects: list[str] = field(default_factory=list)
    history: dict[int, tuple[str, State, dict[str, tuple[int, str]]]] = field(default_factory=dict)
    blocked: Blocked | None = None
    now: float = 0.0

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    @property
    def offers(self) -> list[str]:
        at_trigger = self.blocked is not None and self.blocked.kind == "trigger"
        return [w.name for w in self.chart.ways if w.source == self.place and w.waits] if at_trigger else []

    # Going on

    def go(self, now: float, *, woken: bool = False) -> None:
        self.now = now
        waits = self.blocked
        if waits is not None and not woken and (waits.due is None or waits.due > now + _EPS):
            return
        while not self.ended:
            self.blocked = None
            try:
                self._move()
            except Blocked as blocked:
                self.blocked = blocked
                self.status = "running" if blocked.kind == "retry" else "suspended"
                return

    def _move(self) -> None:
        if self.place == "end":
            self.status = "completed"
            return
        visit = self.visit
        ways = [way for way in self.chart.ways if way.source == self.place]
        if not visit.chosen:
            if ways[0].waits:
                raise Blocked("trigger")
            visit.chosen = ways[0].name
        if visit.retry_at is not None and visit.retry_at > self.now + _EPS:
            raise Blocked("retry", visit.retry_at)
        visit.retry_at = None
        if not visit.under_way:
            visit.attempt, visit.under_way = visit.attempt + 1, True
        way = next(way for way in ways if way.name == visit.chosen)
        try:
            state = self._body(way)
        except Failure:
            visit.under_way = False
            self._failed(way)
        else:
            self._arrive(way.target, state, failed=False)

    def _failed(self, way: Way) -> None:
        visit = self.visit
        visit.failures += 1
        if visit.failures < way.attempts:
            visit.retry_at = self.now + 2.0 * 2 ** (visit.failures - 1)
            visit.broken.clear()
        elif way.on_error:
            self._arrive(way.on_error, self.state, failed=True)
        else:
            self._end("failed", undo=not self.chart.holds)

    def _arrive(self, place: str, state: State, *, failed: bool) -> None:
        documents = dict(self.documents)
        for _, name, value, attempt in self.visit.saved:
            if not failed and attempt in (0, self.visit.attempt):
                documents[name] = (documents.get(name, (0, ""))[0] + 1, value)
        self.place, self.state, self.documents = place, state, documents
        self.version, self.visit = self.version + 1, Visit()
        self.history[self.version] = (place, copy.deepcopy(state), documents)

    def _end(self, status: str, *, undo: bool) -> None:
        self.status, self.blocked = status, None
        if undo and self.undoable:
            self.effects += [f"{UNDOES[name]} {result}" for name, result in reversed(self.undoable)]
            self.undone = True

    # A body, from its top

    def _body(self, way: Way, *, cancelled: bool = False) -> State:
        state = copy.deepcopy(self.state)
        state["n"] += self.visit.payload or 1
        counts: dict[str, int] = {}

        def path(what: str) -> str:
            counts[what] = counts.get(what, 0) + 1
            return f"0/{way.name}@{self.version + 1}/{what}#{counts[what]}"

        self._play(way.ops, state, path, cancelled)
        return state

    def _play(self, ops: list[Op], state: State, path: Callable[[str], str], cancelled: bool) -> None:
        visit = self.visit
        for op in ops:
            match op:
                case ("step", name):
                    state["log"].append(self._step(path(name), name, str(state["n"])))
                case ("save", name):
                    self._save(path(f"save:{name}"), name, str(state["n"]), visit.attempt)
                case ("save_attempt",):
                    name = f"attempt{visit.attempt}"
                    self._save(path(f"save:{name}"), name, "tried", visit.attempt)
                case ("fail_until", attempt):
                    if visit.attempt < attempt:
                        raise Failure
                case ("sleep", seconds):
                    here = path("sleep")
                    due = visit.timers.setdefault(here, self.now + seconds)
                    if here not in visit.done and due > self.now + _EPS:
                        raise Blocked("sleep", due)
                    visit.done[here] = ""
                case ("signal",):
                    here = path("signal:word")
                    if here not in visit.done and not self.signals:
                        raise Blocked("signal")
                    if here not in visit.done:
                        visit.done[here] = self.signals.pop(0)
                    state["log"].append(visit.done[here])
                case ("try", inner):
                    self._try(inner, state, path, cancelled)

    def _try(self, ops: list[Op], state: State, path: Callable[[str], str], cancelled: bool) -> None:
        try:
            self._play(ops, state, path, cancelled)
        except Blocked:
            if not cancelled:
                raise
            self._step(path("tidy"), "tidy", "")
            raise Stopped from None
        except Failure:
            self._step(path("tidy"), "tidy", "")
            raise
        state["log"].append(self._step(path("tidy"), "tidy", ""))

    def _step(self, path: str, name: str, argument: str) -> str:
        visit = self.visit
        if path in visit.done:
            return visit.done[path]
        failures, due = visit.broken.get(path, (0, 0.0))
        if due > self.now + _EPS:
            raise Blocked("retry", due)
        attempts, delay = STEP_RETRY[name]
        if name in self.broken:
            if failures + 1 >= attempts:
                raise Failure
            visit.broken[path] = (failures + 1, self.now + delay)
            raise Blocked("retry", self.now + delay)
        result = visit.done[path] = f"{name}({argument})"
        self.effects.append(result)
        if name == "note":
            visit.saved.append((path, "noted", argument, 0))
        if name in UNDOES:
            self.undoable.append((name, result))
        return result

    def _save(self, path: str, name: str, value: str, attempt: int) -> None:
        found = (path, name, value, attempt)
        if found not in self.visit.saved:
            self.visit.saved = [one for one in self.visit.saved if one[:2] != (path, name)] + [found]

    # What people do

    def trigger(self, name: str, payload: int) -> None:
        self.visit.chosen, self.visit.payload = name, payload
        self.go(self.now, woken=True)

    def signal(self, word: str) -> None:
        self.signals.append(word)
        self.go(self.now, woken=True)

    def cancel(self) -> None:
        if not self.ended:
            if self.blocked is not None and self.visit.under_way:
                way = next(way for way in self.chart.ways if way.name == self.visit.chosen)
                try:
                    self._body(way, cancelled=True)
                except (Blocked, Failure, Stopped):
                    pass
            self._end("cancelled", undo=True)

    def retry(self) -> None:
        """Only of a run that failed and kept what it did."""
        self.status = "running"
        self.visit.failures, self.visit.retry_at = 0, None
        self.visit.broken.clear()
        self.go(self.now)

    def fork(self, version: int, state: State) -> Model:
        """Another run from a checkpoint, with another state."""
        place, _, documents = self.history[version]
        new = Model(
            self.chart, self.broken, place, version, copy.deepcopy(state), dict(documents), now=self.now
        )
        new.history = {v: past for v, past in self.history.items() if v < version}
        new.history[version] = (place, copy.deepcopy(state), dict(documents))
        return new
