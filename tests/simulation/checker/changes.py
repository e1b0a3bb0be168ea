"""Rules for code that changes under live runs: no decision is lost, and no new step comes first."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.checker.evidence import Evidence, History, Violation

CHANGING = "changing"  # the workflow whose code is replaced; its last release is right
_OPENED = frozenset({"wait_opened", "timer_set"})
INSERTED = "fee"  # the name of the step that a later release puts before a wait


def changes(evidence: Evidence) -> Iterator[Violation]:
    known = {history.run: history for history in evidence.histories}
    decided: dict[str, set[str]] = {}
    for decision in evidence.decisions:
        decided.setdefault(decision.run, set()).add(decision.key)
    for run, keys in decided.items():
        if run in known:
            for key in sorted(keys):
                yield from _decision(known[run], key)
    for history in evidence.histories:
        if history.accepted.get("workflow") == CHANGING:
            yield from _inserted(history)
            yield from _left_behind(history)


def _decision(history: History, key: str) -> Iterator[Violation]:
    """K36: an accepted decision is taken, or the run failed with CODE_CHANGED and its log has it."""
    received = [e.data for e in history.entries if e.kind == "received" and e.data["key"] == key]
    if any(data.get("rejected") for data in received):
        yield Violation("K36", history.run, f"{key} was accepted and then rejected")
    elif not received:
        yield Violation("K36", history.run, f"{key} was accepted and is not in the log")
    elif not any(e.kind == "wait_ended" and e.data.get("received") == key for e in history.entries):
        last = history.entries[-1]
        if last.data.get("error", {}).get("code") != "CODE_CHANGED":
            yield Violation("K36", history.run, f"{key} was accepted and not taken; the run is {last.kind}")


def _inserted(history: History) -> Iterator[Violation]:
    """K36: a step that new code puts before an open wait does not begin after that wait."""
    opened: dict[str, int] = {}
    for entry in history.entries:
        scope, _, name = entry.path.rpartition("/")
        if entry.kind in _OPENED:
            opened.setdefault(scope, entry.seq)
        elif name.startswith(f"{INSERTED}#") and scope in opened:
            text = f"{entry.path} came at {entry.seq}, after the wait opened at {opened[scope]}"
            yield Violation("K36", history.run, text)


def _left_behind(history: History) -> Iterator[Violation]:
    """F8: the last release is guarded, so it can finish every run that does not have the inserted step."""
    last = history.entries[-1]
    done = any(f"/{INSERTED}#" in entry.path for entry in history.entries)
    if last.kind == "failed" and not done:
        yield Violation("K36", history.run, f"the guarded code cannot finish it: {last.data.get('error')}")
