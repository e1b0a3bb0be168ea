"""Checks: what must be true afterwards, read from the public history and the ledger only.

The rules on histories (I1, I2, I6, I7, I8, I11, I12, I16) are those of `tests.simulation.checker`, which the
simulator uses too. Here are those that only real processes show: the right result or a death for each lost
owner (I1), effects that repeat only if a fault explains it (I3), nothing run without a claim (I4) or recorded
by another owner (I7), and nothing left over (I18).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from stepwell import RunEvent
from tests.faults.fleet import Fault
from tests.faults.workload import EFFECTS, REMOTE
from tests.simulation.checker import checker
from tests.simulation.checker import evidence as shared

ENDINGS = {"completed", "failed", "cancelled", "timed_out"}
LEDGER_LAG = 500_000_000  # ns: entries that a process sent before it was hit are read a little later
WAKE_LAG = 5_000_000_000  # ns: until a thawed process knows what happened meanwhile
STEP_NAME = re.compile(r"([a-z_]+)(#\d+)?(\[\d+\])?$")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the ledger."""

    n: int
    key: str
    run: str
    path: str
    attempt: int
    lease: str
    pid: int
    phase: str
    mode: str
    applied: bool
    at: int


@dataclass(slots=True)
class Story:
    """One run as seen from outside at the end."""

    id: str
    shape: str
    status: str
    result: Any
    expected: Any
    events: list[RunEvent]
    folded: str
    output: Any  # from the run's row
    tickets: int
    signals: list[str] = field(default_factory=list)  # keys of messages that were accepted


@dataclass(slots=True)
class Evidence:
    stories: list[Story]
    entries: list[Entry]
    faults: list[Fault]
    identities: dict[str, int]
    wall_ns: int = 0  # wall clock minus monotonic clock


@dataclass(slots=True)
class Findings:
    violations: list[str] = field(default_factory=list)
    operations: int = 0
    effects: int = 0
    repeats_explained: int = 0
    repeats_unexplained: int = 0
    condemned: int = 0  # set aside after three lost owners
    take_overs: list[float] = field(default_factory=list)  # seconds from the kill to the next owner
    lateness: list[float] = field(default_factory=list)  # seconds between due and fired


def read_ledger(file: Path) -> list[Entry]:
    text = file.read_bytes() if file.exists() else b""
    lines = text[: text.rfind(b"\n") + 1].splitlines()  # the last may be half written
    return [Entry(**json.loads(line)) for line in lines]


def check(evidence: Evidence) -> Findings:
    findings = Findings()
    by_run: dict[str, list[Entry]] = defaultdict(list)
    for entry in evidence.entries:
        if entry.phase == "start":
            by_run[entry.run].append(entry)
    for story in evidence.stories:
        starts = by_run.pop(story.id, [])
        findings.operations += len(story.events)
        findings.effects += len(starts)
        problems = [
            *_ended_as_expected(story, evidence),
            *_claimed_before_effect(story, starts, evidence),
            *_effect_behind_result(story, starts),
            *_repeats(story, starts, evidence, findings),
        ]
        findings.lateness.extend(_lateness(story))
        if story.folded != story.status:
            problems.append(f"I16 the log says {story.folded}, the run is {story.status}")
        if story.tickets:
            problems.append(f"I18 {story.tickets} tickets are left")
        findings.take_overs.extend(take_over_seconds(story, evidence))
        findings.condemned += sum(
            event.kind == "failed" and event.data["error"]["code"] == "WORKER_CRASHED"
            for event in story.events
        )
        findings.violations.extend(f"{story.shape} {story.id}: {problem}" for problem in problems)
    findings.violations.extend(f"I4 effects of a run nobody knows: {run}" for run in by_run)
    findings.violations.extend(f"{broken.run}: {broken}" for broken in checker.check(_public(evidence)))
    return findings


def _public(evidence: Evidence) -> shared.Evidence:
    """The evidence for the simulator's checker: everything in the histories."""
    return shared.Evidence(
        histories=[
            shared.History(
                story.id, [shared.entry_of_event(e) for e in story.events], story.status, story.output
            )
            for story in evidence.stories
        ],
        accepted=[story.id for story in evidence.stories],
        signals=[
            shared.Sent(story.id, key, key.removeprefix("signal/").split("-")[0])
            for story in evidence.stories
            for key in story.signals
        ],
    )


def write_down(file: Path, evidence: Evidence, findings: Findings) -> None:
    """Write the whole story of every run that broke a rule, for debugging."""
    lines: list[str] = [*findings.violations]
    for story in evidence.stories:
        if any(story.id in violation for violation in findings.violations):
            lines.append(f"\n{story.shape} {story.id} {story.status} {story.result} ({story.expected})")
            lines.extend(
                f"{e.seq} {e.at.timestamp():.3f} {e.kind} {e.path} {e.attempt} {e.data}" for e in story.events
            )
            lines.extend(str(entry) for entry in evidence.entries if entry.run == story.id)
    lines.extend(f"{fault} wall {(fault.at + evidence.wall_ns) / 1e9:.3f}" for fault in evidence.faults)
    lines.extend(f"{pid} {worker}" for worker, pid in evidence.identities.items())
    file.write_text("\n".join(lines) if findings.violations else "none", encoding="utf-8")


def _is_condemned(story: Story) -> bool:
    return any(e.kind == "failed" and e.data["error"]["code"] == "WORKER_CRASHED" for e in story.events[-1:])


def _ended_as_expected(story: Story, evidence: Evidence) -> Iterator[str]:
    wanted = "cancelled" if story.expected is None else "completed"
    if _is_condemned(story) and _was_struck_thrice(story, evidence):
        return  # K33 cannot know that it was us; a run of its own is retried, a child is replaced
    if story.status not in ENDINGS:
        yield f"I1 it is {story.status} and has not ended"
    elif story.status != wanted:
        yield f"I1 it ended as {story.status}: {story.events[-1].data}"
    elif story.result != story.expected:
        yield f"I1 it came to {story.result}, not {story.expected}"


def _was_struck_thrice(story: Story, evidence: Evidence) -> bool:
    begin, end = (event.at.timestamp() for event in (story.events[0], story.events[-1]))
    kills = [(fault.at + evidence.wall_ns) / 1e9 for fault in evidence.faults if fault.kind == "kill"]
    return sum(begin <= kill <= end for kill in kills) >= 3


def leases(events: Sequence[RunEvent]) -> Iterator[tuple[RunEvent, str]]:
    """Each event with the lease it was written under."""
    lease = ""
    for event in events:
        if event.kind == "claimed":
            lease = event.data["lease"]
        yield event, lease


def _claimed_before_effect(story: Story, starts: list[Entry], evidence: Evidence) -> Iterator[str]:
    owners = {e.data["lease"]: e.data["worker"] for e in story.events if e.kind == "claimed"}
    for entry in starts:
        if _step(entry.path) in REMOTE:
            continue
        owner = owners.get(entry.lease)
        if owner is None:
            # The first step begins while the commit with Claimed is written: a fault may come between.
            if not _struck(evidence.faults, entry.pid, entry.at, None):
                yield f"I4 {entry.path} ran under {entry.lease}, which is not in the log"
        elif evidence.identities.get(owner, entry.pid) != entry.pid:
            yield f"I4 {entry.path} ran in {entry.pid} under a lease of another process"


def _effect_behind_result(story: Story, starts: list[Entry]) -> Iterator[str]:
    recorded = {(entry.path, entry.attempt, entry.lease) for entry in starts}
    far = {(entry.path, entry.attempt) for entry in starts}
    for event, lease in leases(story.events):
        name = _step(event.path)
        if event.kind == "step_completed" and name in EFFECTS:
            known = (
                (event.path, event.attempt) in far
                if name in REMOTE
                else (event.path, event.attempt, lease) in recorded
            )
            if not known:
                yield f"I7 {event.path} is recorded under lease {lease}, which never ran it"


def _lateness(story: Story) -> Iterator[float]:
    due: dict[str, float] = {}
    for event in story.events:
        if event.kind == "timer_set":
            due[event.path] = event.at.timestamp() + event.data["seconds"]
        elif event.kind == "timer_fired":
            yield event.at.timestamp() - due[event.path]


def _repeats(story: Story, starts: list[Entry], evidence: Evidence, findings: Findings) -> Iterator[str]:
    failed = {(e.path, e.attempt) for e in story.events if e.kind == "step_failed"}
    by_path: dict[str, list[Entry]] = defaultdict(list)
    for entry in starts:
        by_path[entry.path].append(entry)
    for path, entries in by_path.items():
        if sum(entry.applied for entry in entries) != 1 and entries[0].mode == "idempotent":
            yield f"I3 {path} was applied {sum(entry.applied for entry in entries)} times"
        for before, after in pairwise(entries):
            if (path, before.attempt) in failed and after.attempt > before.attempt:
                continue  # a recorded failure and its next attempt
            faults = evidence.faults
            if _struck(faults, before.pid, before.at, after.at) or _woke(faults, before.at, after):
                findings.repeats_explained += 1
            else:
                findings.repeats_unexplained += 1
                yield f"I3 {path} ran again at {after.at} without a fault since {before.at}"


def _struck(faults: list[Fault], pid: int, since: int, until: int | None) -> bool:
    """Between its two entries. The ledger may read an entry long after its process was killed."""
    return any(
        fault.pid in (pid, 0)
        and (fault.kind == "kill" or fault.until + LEDGER_LAG >= since)
        and (until is None or fault.at <= until)
        for fault in faults
    )


def _woke(faults: list[Fault], since: int, late: Entry) -> bool:
    """It had begun the step and was frozen; another worker did it; and it continued before it knew that."""
    return any(
        fault.kind == "freeze"
        and fault.pid == late.pid
        and fault.at <= since
        and late.at <= fault.until + WAKE_LAG
        for fault in faults
    )


def take_over_seconds(story: Story, evidence: Evidence) -> Iterator[float]:
    """From the death of an owner to the first event of the next one."""
    killed = {fault.pid: fault.at + evidence.wall_ns for fault in evidence.faults if fault.kind == "kill"}
    owners: dict[str, str] = {}
    for event in story.events:
        if event.kind == "claimed":
            owners[event.data["lease"]] = event.data["worker"]
        elif event.kind == "lease_lost":
            pid = evidence.identities.get(owners.get(event.data["lease"], ""), 0)
            if pid in killed:
                yield event.at.timestamp() - killed[pid] / 1e9


def _step(path: str) -> str:
    named = STEP_NAME.search(path)
    return named.group(1) if named else ""
