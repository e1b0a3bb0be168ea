"""Rules for effects (I3, I4): compare the ledger with the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.checker.evidence import Evidence, Execution, Fault, History, Violation


def effects(evidence: Evidence) -> Iterator[Violation]:
    by_run: dict[str, list[Execution]] = defaultdict(list)
    for execution in evidence.executions:
        by_run[execution.run].append(execution)
    known = {history.run: history for history in evidence.histories}
    costly = [fault for fault in evidence.faults if fault.costly]
    for run, executions in by_run.items():
        history = known.get(run)
        if history is None or not history.entries:
            yield Violation("I4", run, "steps ran for a run that does not exist")
            continue
        remote = {e.path for e in history.entries if e.kind == "step_scheduled"}
        yield from _leases(history, [x for x in executions if x.path not in remote])
        yield from _bases(history, executions, evidence.clock_slack)
        yield from _repeats(history, executions, costly, evidence.lease_seconds)


def _leases(history: History, executions: list[Execution]) -> Iterator[Violation]:
    """I4: every execution has a lease that the log knows; no attempt ran twice under one lease."""
    leases = {e.data["lease"] for e in history.entries if e.kind in ("claimed", "lease_lost")}
    seen: set[tuple[str, int, str]] = set()
    # An owner whose run was ended by force may have begun, and never written so.
    forced = history.entries[-1].data.get("forced", False)
    for x in executions:
        if x.lease not in leases and not forced:
            yield Violation("I4", history.run, f"{x.path} ran under lease {x.lease[:8]}, unknown to the log")
        if (x.path, x.attempt, x.lease) in seen:
            yield Violation("I3", history.run, f"{x.path} attempt {x.attempt} ran twice under one lease")
        seen.add((x.path, x.attempt, x.lease))


def _bases(history: History, executions: list[Execution], slack: float) -> Iterator[Violation]:
    """No effect begins before the result that led to it is in the log."""
    recorded = {str(e.data.get("result")): e.at for e in history.entries if e.kind == "step_completed"}
    for x in executions:
        if not x.basis:
            continue
        at = recorded.get(x.basis)
        if at is None:
            yield Violation("I3", history.run, f"{x.path} acted on {x.basis!r}, which was never recorded")
        elif x.began < at - slack:
            yield Violation(
                "I3", history.run, f"{x.path} began {at - x.began:.3f} s before its cause was written"
            )


def _repeats(
    history: History, executions: list[Execution], costly: list[Fault], lease_seconds: float
) -> Iterator[Violation]:
    """I3: there are more executions than recorded attempts only if a fault explains each of them."""
    facts: dict[str, int] = defaultdict(int)
    final: set[str] = set()
    for entry in history.entries:
        if entry.kind in ("step_completed", "step_failed") and not entry.data.get("skipped"):
            facts[entry.path] += 1
            if entry.kind == "step_completed" or entry.data.get("retry_in") is None:
                final.add(entry.path)
    paths: dict[str, list[Execution]] = defaultdict(list)
    for x in executions:
        paths[x.path].append(x)
    # A failure interrupts the steps that run beside it; when a person retries the run, or a transition is
    # retried, those run again.
    sent_on = sum(entry.kind in ("retried", "transition_failed") for entry in history.entries)
    for path, runs in paths.items():
        # A step that was no longer awaited (cancel, a lost race) has no fact of its own.
        extra = len(runs) - facts[path] - (path not in final)
        if extra > 0:
            excuse = sent_on + sum(_overlaps(fault, runs, lease_seconds) for fault in costly)
            if extra > excuse:
                text = f"{path} ran {len(runs)} times for {facts[path]} facts, {excuse} faults explain it"
                yield Violation("I3", history.run, text)


def _overlaps(fault: Fault, runs: list[Execution], lease_seconds: float) -> bool:
    """Whether the fault hit a worker while, or shortly before, it ran this step."""
    first = min(x.began for x in runs)
    last = max(x.began for x in runs)
    hit = not fault.worker or any(x.worker in ("", fault.worker) for x in runs)
    return hit and fault.begin <= last and fault.end + 2 * lease_seconds >= first


def repeats(evidence: Evidence) -> int:
    """How many effects were repeated after a loss: the price of the faults."""
    seen: set[tuple[str, str, int]] = set()
    count = 0
    for x in evidence.executions:
        if (x.run, x.path, x.attempt) in seen:
            count += 1
        seen.add((x.run, x.path, x.attempt))
    return count
