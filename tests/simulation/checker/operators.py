"""Rules for operators (I19): what was acknowledged to one of them holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.checker.evidence import Evidence, Execution, History, Violation


def operators(evidence: Evidence) -> Iterator[Violation]:
    told: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in evidence.operated:
        told[one.run].append((one.what, one.key))
    executions: dict[str, list[Execution]] = defaultdict(list)
    for execution in evidence.executions:
        executions[execution.run].append(execution)
    for history in evidence.histories:
        if history.entries:
            yield from _told(history, told.get(history.run, []))
            yield from _held(history, executions.get(history.run, []), evidence.clock_slack)
            yield from _skipped(history, executions.get(history.run, []), evidence.clock_slack)


def _told(history: History, told: list[tuple[str, str]]) -> Iterator[Violation]:
    """What was acknowledged is in the log."""
    kinds = [entry.kind for entry in history.entries]
    last = history.entries[-1]
    unconsumed = {key for entry in history.entries for key in entry.data.get("unconsumed", ())}
    taken = {entry.data["key"] for entry in history.entries if entry.kind == "variable_set"}
    for what, key in told:
        if what == "held" and "held" not in kinds and not any(k.startswith("hold/") for k in unconsumed):
            yield Violation("I19", history.run, "a hold was acknowledged and is lost")
        elif what == "forced" and last.kind not in ("completed", "cancelled", "failed", "timed_out"):
            yield Violation("I19", history.run, f"was ended by force and continued with {last.kind}")
        elif what == "set" and key not in taken and key not in unconsumed:
            yield Violation("I19", history.run, f"{key} was acknowledged and is lost")


def _held(history: History, executions: list[Execution], slack: float) -> Iterator[Violation]:
    """A held run begins no step until it is released."""
    held: float | None = None
    periods: list[tuple[float, float]] = []
    for entry in history.entries:
        if entry.kind == "held":
            if held is not None:
                yield Violation("I19", history.run, f"held again at {entry.seq} without a release")
            held = entry.at
        elif entry.kind == "released":
            if held is None:
                yield Violation("I19", history.run, f"released at {entry.seq} although it was not held")
            else:
                periods.append((held, entry.at))
            held = None
        elif entry.kind == "cancel_requested":  # that releases it
            if held is not None:
                periods.append((held, entry.at))
            held = None
    # An owner that was lost meanwhile may have begun something that nobody will ever hear of.
    lost = {entry.data["lease"] for entry in history.entries if entry.kind == "lease_lost"}
    for began, ended in periods:
        for x in executions:
            if x.lease not in lost and began + slack < x.began < ended - slack:
                text = f"{x.path} began {x.began - began:.3f} s after the run was held"
                yield Violation("I19", history.run, text)


def _skipped(history: History, executions: list[Execution], slack: float) -> Iterator[Violation]:
    """A skipped step does not run again."""
    for entry in history.entries:
        if entry.kind == "step_completed" and entry.data.get("skipped"):
            later = [x for x in executions if x.path == entry.path and x.began > entry.at + slack]
            if later:
                yield Violation("I19", history.run, f"{entry.path} ran again after it was skipped")
