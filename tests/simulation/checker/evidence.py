"""Evidence: what a fault test observed from outside, as plain values for the checker.

Histories come from `run.events()` or a store's log, executions from a ledger that the steps wrote
to, the rest from the clients. Times are seconds of the database's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from stepwell.domain.commit import LogRow


class Entry(NamedTuple):
    """One event of a run's public history."""

    seq: int
    at: float
    kind: str
    path: str
    attempt: int
    data: dict[str, Any]


class Told(Protocol):
    """An event as `run.events()` returns it."""

    @property
    def seq(self) -> int: ...
    @property
    def at(self) -> datetime: ...
    @property
    def kind(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def data(self) -> dict[str, Any]: ...


def entry_of_row(row: LogRow) -> Entry:
    return Entry(row.seq, row.at, row.kind, row.path, row.attempt, msgspec.json.decode(row.payload))


def entry_of_event(event: Told) -> Entry:
    return Entry(event.seq, event.at.timestamp(), event.kind, event.path, event.attempt, event.data)


@dataclass(slots=True)
class History:
    """A run: its events, and the state in its row."""

    run: str
    entries: Sequence[Entry]
    status: str = ""  # '' if only the events are known
    output: Any = None

    @property
    def accepted(self) -> dict[str, Any]:
        return self.entries[0].data if self.entries else {}


@dataclass(slots=True)
class Execution:
    """One line of the ledger: a step's function was called. `ended` is None if it never came back."""

    run: str
    path: str
    attempt: int
    lease: str
    began: float
    ended: float | None = None
    worker: str = ""  # '' if the ledger does not know
    basis: str = ""  # the recorded result that led to this call


class Fault(NamedTuple):
    """A fault that was injected. `costly`: it may make a worker lose its lease."""

    kind: str
    begin: float
    end: float
    worker: str = ""  # '': it hit every process
    costly: bool = False


class Sent(NamedTuple):
    """A signal that was acknowledged, in the order of sending per run and name."""

    run: str
    key: str
    name: str


class Operated(NamedTuple):
    """What was acknowledged to an operator: `held`, `forced` or `set`, with the key of its message."""

    run: str
    what: str
    key: str = ""


class Seen(NamedTuple):
    """A machine as a reader saw it: the number of a checkpoint, with its place, state and documents."""

    run: str
    version: int
    place: str
    state: Any
    documents: tuple[str, ...]


class Emitted(NamedTuple):
    id: str
    name: str
    key: str
    at: float


@dataclass(slots=True)
class Wanted:
    """How a run must end: one of these statuses and, if completed, an output that fits."""

    statuses: tuple[str, ...] = ("completed",)
    fits: Callable[[Any], bool] = lambda output: True
    steps: tuple[str, ...] = ()  # names of steps that must have completed once the run had begun


@dataclass(slots=True)
class Evidence:
    histories: Sequence[History]
    executions: Sequence[Execution] = ()
    faults: Sequence[Fault] = ()
    accepted: Iterable[str] = ()  # runs whose start was acknowledged
    wanted: dict[str, Wanted] = field(default_factory=dict)
    signals: Sequence[Sent] = ()
    decisions: Sequence[Sent] = ()  # acknowledged ones, of runs whose code changes
    operated: Sequence[Operated] = ()
    emitted: Sequence[Emitted] = ()
    seen: dict[str, list[str]] = field(default_factory=dict)  # run -> statuses as they were read
    looks: Sequence[Seen] = ()
    leftovers: Sequence[str] = ()  # tickets, messages and waits that outlived their runs
    refused: Sequence[str] = ()  # operations that failed after healing
    claims_late: bool = False  # some claim was executed after its error, and perhaps after its repeat
    lease_seconds: float = 15.0
    clock_slack: float = 1e-6  # how far the ledger's clock may be from the database's


class Violation(NamedTuple):
    rule: str
    run: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule} {self.run[-8:] or '-'}: {self.text}"
