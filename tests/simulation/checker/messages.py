"""Rules for messages (I12): signals, decisions and broadcast events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.checker.evidence import Emitted, Entry, Evidence, History, Violation


@dataclass(slots=True)
class Box:
    """What one run received and took, according to its history."""

    received: dict[str, str] = field(default_factory=dict)  # key -> name
    order: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # name -> keys
    taken: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    rejected: set[str] = field(default_factory=set)
    unconsumed: set[str] = field(default_factory=set)
    repeated: list[str] = field(default_factory=list)
    last_n: int = 0


def messages(evidence: Evidence) -> Iterator[Violation]:
    sent: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for signal in evidence.signals:
        sent[signal.run].append((signal.name, signal.key))
    emitted = _in_their_order(evidence.emitted)
    for history in evidence.histories:
        box = box_of(history)
        for key in box.repeated:
            yield Violation("I12", history.run, f"message {key} was taken twice")
        yield from _in_order(history, box)
        yield from _acknowledged(history, box, sent.get(history.run, []))
        if emitted:
            yield from _events(history, emitted)


def box_of(history: History) -> Box:
    box = Box()
    for entry in history.entries:
        data = entry.data
        if entry.kind == "received":
            _receive(box, data["key"], data)
        elif entry.kind == "wait_ended" and data.get("received"):
            key = data["received"]
            name = box.received.get(key, "?")
            if key in box.taken[name]:
                box.repeated.append(key)
            box.taken[name].append(key)
        elif entry.kind == "continued":
            _carry(box, entry)
        elif "unconsumed" in data:
            box.unconsumed.update(data["unconsumed"])
    return box


def _receive(box: Box, key: str, data: dict[str, object]) -> None:
    if data.get("rejected"):
        box.rejected.add(key)
        return
    if key in box.received and key not in box.rejected:
        box.repeated.append(key)
    name = str(data.get("name", ""))
    box.received[key] = name
    box.order[name].append(key)


def _carry(box: Box, entry: Entry) -> None:
    """Signals that were not taken are carried over under new keys, in order."""
    generation = entry.data["generation"]
    waiting = defaultdict(list)
    for name, keys in box.order.items():
        waiting[name] = [k for k in keys if k not in box.taken[name] and k not in box.rejected]
    for place, carried in enumerate(entry.data.get("carried", [])):
        key = f"carried/{generation}/{place}"
        before = waiting[carried["name"]].pop(0) if waiting[carried["name"]] else None
        if before is None:
            box.repeated.append(key)
            continue
        name = carried["name"]
        box.taken[name].append(before)
        box.order[name].append(key)
        box.received[key] = name


def _in_order(history: History, box: Box) -> Iterator[Violation]:
    n = 0
    for entry in history.entries:
        place = entry.data.get("n", 0) if entry.kind == "received" else 0
        if place and place <= n:
            yield Violation("I12", history.run, f"message {entry.data['key']} was read out of order")
        n = max(n, place)
        if entry.kind in ("failed",):
            n = 0  # a retried run has a new inbox
    for name, taken in box.taken.items():
        places = [box.order[name].index(key) for key in taken if key in box.order[name]]
        if places != sorted(places):
            yield Violation("I12", history.run, f"signals {name!r} were taken out of order")


def _acknowledged(history: History, box: Box, sent: list[tuple[str, str]]) -> Iterator[Violation]:
    """Each acknowledged signal is received once; then it is taken, or listed at the end."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for name, key in sent:
        by_name[name].append(key)
        if key not in box.received and key not in box.unconsumed:
            yield Violation("I12", history.run, f"signal {key} was acknowledged and is lost")
    for name, keys in by_name.items():
        places = [box.order[name].index(key) for key in keys if key in box.order[name]]
        if places != sorted(places):
            yield Violation("I12", history.run, f"signals {name!r} were received out of order")
        for key in box.order[name]:
            if key not in box.taken[name] and key not in box.unconsumed and key not in box.rejected:
                yield Violation("I12", history.run, f"signal {key} is neither taken nor listed as unconsumed")


def _events(history: History, emitted: Mapping[str, list[Emitted]]) -> Iterator[Violation]:
    """A wait takes the first event since the run's start that fits it and was not taken: in the order of
    all, each once, none passed over."""
    waits: dict[str, dict[str, Any]] = {}
    taken: set[str] = set()
    for entry in history.entries:
        data = entry.data
        if entry.kind == "wait_opened" and data["what"] == "event":
            waits[entry.path] = data
        elif entry.kind == "received" and data["what"] == "event" and not data.get("rejected"):
            wait, key = waits[data["name"]], data["key"]
            since = history.entries[0].at
            left = (e for e in emitted[wait["name"]] if e.at >= since and f"evt/{e.id}" not in taken)
            next_one = next((e for e in left if wait.get("key", "") in ("", e.key)), None)
            if next_one is None or f"evt/{next_one.id}" != key:
                missed = f"event {next_one.id} was missed" if next_one else "it had taken all"
                yield Violation("I12", history.run, f"{key} was taken, but {missed}")
            taken.add(key)


def _in_their_order(events: Sequence[Emitted]) -> dict[str, list[Emitted]]:
    by_name: dict[str, list[Emitted]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.at):
        by_name[event.name].append(event)
    return by_name
