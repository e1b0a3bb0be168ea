"""Checker: reads histories and the ledger, nothing else, and reports which promises were broken.

The rules are I1 to I19 of docs/internals/reliability.md. It serves the simulator and the tests that kill real
processes alike; `check(evidence)` returns the violations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from stepwell.domain.status import RETRYABLE, TERMINAL, Status
from tests.simulation.checker.changes import changes
from tests.simulation.checker.effects import effects
from tests.simulation.checker.evidence import Evidence, History, Violation, Wanted
from tests.simulation.checker.machines import looks, machines, undoing
from tests.simulation.checker.messages import messages
from tests.simulation.checker.operators import operators

ENDINGS = frozenset({"completed", "failed", "cancelled", "timed_out"})
SETTLED = frozenset({"step_completed", "step_failed"})


def check(evidence: Evidence) -> list[Violation]:
    """Every broken promise."""
    violations: list[Violation] = []
    for history in evidence.histories:
        for rule in (order, finals, times, automaton, row, machines, undoing):
            violations.extend(rule(history))
        violations.extend(ownership(history, claims_late=evidence.claims_late))
    violations.extend(acceptance(evidence))
    violations.extend(endings(evidence))
    violations.extend(messages(evidence))
    violations.extend(changes(evidence))
    violations.extend(effects(evidence))
    violations.extend(operators(evidence))
    violations.extend(looks(evidence))
    violations.extend(Violation("I18", "", f"left over: {text}") for text in evidence.leftovers)
    violations.extend(Violation("I17", "", f"refused after healing: {text}") for text in evidence.refused)
    return violations


def acceptance(evidence: Evidence) -> Iterator[Violation]:
    """I1: an acknowledged run exists and ends; one run for each key."""
    known = {history.run: history for history in evidence.histories}
    for run in evidence.accepted:
        if run not in known or not known[run].entries:
            yield Violation("I1", run, "was acknowledged and does not exist")
    keys: dict[str, str] = {}
    for history in evidence.histories:
        if not history.entries:
            continue
        if history.entries[-1].kind not in ENDINGS:
            last = history.entries[-1]
            yield Violation("I1", history.run, f"never ended; its log stops at {last.seq} {last.kind}")
        key = history.accepted.get("key", "")
        if key and keys.setdefault(key, history.run) != history.run:
            yield Violation("I1", history.run, f"key {key!r} also started {keys[key]}")


def endings(evidence: Evidence) -> Iterator[Violation]:
    """The result is that of the workflow, each branch with its own answers."""
    for history in evidence.histories:
        wanted = evidence.wanted.get(history.run)
        if wanted is not None and history.entries and history.entries[-1].kind in ENDINGS:
            yield from _ending(history, wanted)
    for run, statuses in evidence.seen.items():
        for before, after in pairwise(statuses):
            if Status(before) in TERMINAL and before not in ("failed", after):
                yield Violation("I11", run, f"was seen {before}, then {after}")
            # pending after running is fine: an owner died before it wrote anything
            if after == "pending" and before not in ("pending", "running"):
                yield Violation("I11", run, f"was seen {before}, then pending")


def _ending(history: History, wanted: Wanted) -> Iterator[Violation]:
    last = history.entries[-1]
    if last.kind not in wanted.statuses:
        why = last.data.get("error", last.data)
        yield Violation("END", history.run, f"is {last.kind}, not {'/'.join(wanted.statuses)}: {why}")
    elif last.kind == "completed" and not wanted.fits(last.data.get("result")):
        yield Violation("END", history.run, f"has the wrong result {last.data.get('result')!r}")
    done = {e.path.rsplit("/", 1)[-1].split("#")[0] for e in history.entries if e.kind == "step_completed"}
    if done:  # its code had begun
        for name in wanted.steps:
            if name not in done:
                yield Violation("END", history.run, f"ended without its step {name}")


def order(history: History) -> Iterator[Violation]:
    """I6: seq is 1..n without gaps, time never goes back."""
    at = 0.0
    for expected, entry in enumerate(history.entries, start=1):
        if entry.seq != expected:
            yield Violation("I6", history.run, f"seq {entry.seq} where {expected} belongs")
            return
        if entry.at < at:
            yield Violation("I6", history.run, f"event {entry.seq} is {at - entry.at:.3f} s before the last")
        at = entry.at
    if history.entries and history.entries[0].kind != "accepted":
        yield Violation("I6", history.run, f"begins with {history.entries[0].kind}")


def ownership(history: History, *, claims_late: bool = False) -> Iterator[Violation]:
    """I7: an owner writes only between its Claimed and the next; a lost lease never writes again.

    `claims_late`: a claim was repeated and its first copy executed after that, so a run may have been
    taken twice under one lease, the second time without a trace in its log.
    """
    claimed: set[str] = set()
    lost: set[str] = set()
    owner = ""
    for entry in history.entries:
        if entry.kind == "claimed":
            lease = entry.data["lease"]
            if lease in claimed or lease in lost:
                yield Violation("I7", history.run, f"lease {lease[:8]} was claimed again at {entry.seq}")
            claimed.add(lease)
            owner = lease
        elif entry.kind == "lease_lost":
            lease = entry.data["lease"]
            if lease in lost:
                yield Violation("I7", history.run, f"lease {lease[:8]} was lost twice, at {entry.seq}")
            if lease in claimed and lease != owner and not claims_late:
                yield Violation(
                    "I7", history.run, f"lease {lease[:8]} was lost at {entry.seq}, not the owner's"
                )
            lost.add(lease)
            owner = ""
        elif entry.kind in ("retried", "accepted", "cancelled", "held", "released"):
            continue
        elif not owner:
            yield Violation("I7", history.run, f"event {entry.seq} {entry.kind} has no owner")


def finals(history: History) -> Iterator[Violation]:
    """I2: one final fact for each path; attempts grow."""
    done: dict[str, int] = {}
    attempts: dict[str, int] = {}
    failure = ""
    lost: list[str] = []  # failed or withdrawn since the last transition
    children: set[str] = set()  # not ended: a failure cancels them, and a retry starts them again
    for entry in history.entries:
        if entry.data.get("skipped"):
            done[entry.path] = entry.seq  # by a person: no attempt of its own
        elif entry.kind in SETTLED:
            if entry.path in done:
                text = f"{entry.path} was settled at {done[entry.path]} and again at {entry.seq}"
                yield Violation("I2", history.run, text)
            if entry.attempt <= attempts.get(entry.path, 0):
                text = f"{entry.path}: attempt {entry.attempt} after {attempts[entry.path]}"
                yield Violation("I2", history.run, text)
            attempts[entry.path] = entry.attempt
            if entry.kind == "step_completed" or entry.data.get("retry_in") is None:
                done[entry.path] = entry.seq
            if entry.kind == "step_failed":
                lost.append(entry.path)
        elif entry.kind in ("timer_fired", "child_started", "child_ended", "wait_ended"):
            name = f"{entry.kind} {entry.path}"
            if name in done:
                yield Violation("I2", history.run, f"{name} at {done[name]} and again at {entry.seq}")
            done[name] = entry.seq
            if entry.kind == "child_started" and not entry.data.get("detached"):
                children.add(entry.path)
            elif entry.kind == "child_ended":
                children.discard(entry.path)
            if entry.data.get("outcome") in ("withdrawn", "timed_out") or "error" in entry.data:
                lost += [name, f"child_started {entry.path}"]
        elif entry.kind == "failed":
            failure = entry.data["error"].get("path", "")
        elif entry.kind == "transition_failed":  # failed calls in it run again, completed ones do not
            for name in lost:
                done.pop(name, None)
            lost.clear()
        elif entry.kind == "retried":
            for name in (failure, f"child_started {failure}", f"child_ended {failure}"):
                done.pop(name, None)
            for path in children:
                done.pop(f"child_started {path}", None)
            children.clear()


def times(history: History) -> Iterator[Violation]:
    """I8: timers, retries and time limits are never early."""
    due: dict[str, float] = {}
    for entry in history.entries:
        data = entry.data
        if entry.kind == "timer_set":
            due[f"timer {entry.path}"] = entry.at + data["seconds"]
        elif entry.kind == "wait_opened" and data.get("timeout") is not None:
            due[f"wait {entry.path}"] = entry.at + data["timeout"]
        elif entry.kind == "step_failed" and data.get("retry_in") is not None:
            due[f"step {entry.path}"] = entry.at + data["retry_in"]
        elif entry.kind == "timer_fired":
            yield from _early(history, entry.at, due.get(f"timer {entry.path}"), entry.path)
        elif entry.kind == "wait_ended" and data["outcome"] == "timed_out":
            yield from _early(history, entry.at, due.get(f"wait {entry.path}"), entry.path)
        elif entry.kind in ("step_started", "step_scheduled", "step_completed"):
            yield from _early(history, entry.at, due.pop(f"step {entry.path}", None), entry.path)


def _early(history: History, at: float, due: float | None, path: str) -> Iterator[Violation]:
    if due is not None and at < due - 1e-6:
        yield Violation("I8", history.run, f"{path} is {due - at:.3f} s early")


def automaton(history: History) -> Iterator[Violation]:
    """I11: nothing follows an end, but a failed or timed-out run may be retried."""
    ended = ""
    for entry in history.entries:
        if ended and not (ended in RETRYABLE and entry.kind == "retried"):
            yield Violation("I11", history.run, f"{entry.kind} at {entry.seq} after {ended}")
        ended = entry.kind if entry.kind in ENDINGS else ""


def row(history: History) -> Iterator[Violation]:
    """I16: the fold of the history equals the run's row."""
    if not history.status or not history.entries:
        return
    last = history.entries[-1]
    if last.kind in ENDINGS:
        if history.status != last.kind:
            yield Violation("I16", history.run, f"its row says {history.status}, its log {last.kind}")
        if last.kind == "completed" and history.output != last.data.get("result"):
            yield Violation("I16", history.run, "its row has another output than its log")
    elif Status(history.status) in TERMINAL:
        yield Violation(
            "I16", history.run, f"its row says {history.status}, its log continues with {last.kind}"
        )


def by_rule(violations: list[Violation]) -> dict[str, int]:
    """How often each rule was broken."""
    counts: dict[str, int] = defaultdict(int)
    for violation in violations:
        counts[violation.rule] += 1
    return dict(sorted(counts.items()))
