"""Rules for machines and compensation: a transition happened completely or not at all (Hazard 25),
and the steps of a run are undone once, last first, if it ends badly (K27)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.checker.evidence import Entry, Evidence, History, Seen, Violation

PREFIX = "compensate/"
_OF_A_VISIT = frozenset(
    {"step_completed", "step_failed", "step_scheduled", "document_saved", "wait_opened", "timer_set"}
)
# Ends that undo nothing: nobody knows what the code did, and a person retries the run.
_HELD = frozenset({"WORKER_CRASHED", "CODE_CHANGED", "NOT_DURABLE"})


def machines(history: History) -> Iterator[Violation]:
    if history.accepted.get("kind") == "machine":
        yield from _checkpoints(history)
        yield from _visits(history)
        yield from _documents(history)
        yield from _backoff(history)


def _completed(history: History) -> list[Entry]:
    return [entry for entry in history.entries if entry.kind == "transition_completed"]


def _checkpoints(history: History) -> Iterator[Violation]:
    """Numbered without gaps; each begins at the place where the previous one ended."""
    place, last = "start", None
    for number, entry in enumerate(_completed(history), start=1):
        data = entry.data
        if (data["version"], data["source"]) != (number, place):
            text = (
                f"checkpoint {data['version']} from {data['source']!r} where {number} from {place!r} belongs"
            )
            yield Violation("M2", history.run, text)
        place, last = data["target"], data.get("state")
    if history.status == "completed" and history.output != last:
        yield Violation("M2", history.run, "its result is not the state of its last checkpoint")


def _visits(history: History) -> Iterator[Violation]:
    """Facts of a visit are between its checkpoints, and all of them belong to one transition or wait."""
    version, chosen = 0, ""
    for entry in history.entries:
        if entry.kind == "transition_completed":
            version, chosen = entry.data["version"], ""
        elif entry.kind in _OF_A_VISIT and not entry.path.startswith(PREFIX):
            name, _, number = entry.path.split("/")[1].partition("~")[0].rpartition("@")
            if number != str(version + 1):
                yield Violation("M3", history.run, f"{entry.kind} {entry.path} after checkpoint {version}")
            elif not name.startswith("trigger:") and name != (chosen or name):
                yield Violation("M3", history.run, f"{entry.path} beside {chosen} in one visit")
            elif not name.startswith("trigger:"):
                chosen = name


def _documents(history: History) -> Iterator[Violation]:
    """A checkpoint shows earlier documents and its own, not those of failed attempts."""
    counts: dict[str, int] = {}
    saved: dict[tuple[str, str], int] = {}
    for entry in history.entries:
        if entry.kind == "document_saved":
            saved[entry.path, entry.data["name"]] = entry.attempt
        elif entry.kind == "transition_completed":
            for (path, name), attempt in saved.items() if entry.data.get("error") is None else ():
                direct = path.rpartition("/")[2].startswith("save:")
                mine = "/".join(path.split("/")[:2]).partition("~")[0] == entry.path
                if mine and (not direct or attempt == entry.attempt):
                    counts[name] = counts.get(name, 0) + 1
            saved.clear()
            wanted = {f"{name}@{version}" for name, version in counts.items()}
            if set(entry.data.get("documents", ())) != wanted:
                text = f"checkpoint {entry.data['version']} shows {entry.data.get('documents')}, not {wanted}"
                yield Violation("K25", history.run, text)


def _backoff(history: History) -> Iterator[Violation]:
    """The next attempt is never early."""
    due: dict[str, float] = {}
    for entry in history.entries:
        path = "/".join(entry.path.split("/")[:2]).partition("~")[0]
        if entry.kind == "transition_failed" and entry.data.get("retry_in") is not None:
            due[path] = entry.at + entry.data["retry_in"]
        elif path in due and entry.at < due.pop(path) - 1e-6:
            yield Violation("M5", history.run, f"{entry.kind} {entry.path} came before its time")


def looks(evidence: Evidence) -> Iterator[Violation]:
    """Every reader of a machine saw exactly one of its checkpoints."""
    known = {history.run: history for history in evidence.histories}
    for seen in evidence.looks:
        done = _completed(known[seen.run]) if seen.run in known else []
        here = done[seen.version - 1] if seen.version <= len(done) else None
        if here is None or seen != Seen(
            seen.run,
            here.data["version"],
            here.data["target"],
            here.data.get("state"),
            tuple(sorted(here.data.get("documents", ()))),
        ):
            yield Violation("M3", seen.run, f"a reader saw {seen[1:]}, which is not a checkpoint of its log")


def undoing(history: History) -> Iterator[Violation]:
    """Recorded steps with a compensation are undone once, in reverse order, if the run ends badly."""
    done: list[str] = []
    undone: list[str] = []
    begun = ended = 0
    for entry in history.entries:
        if entry.kind == "step_completed" and entry.path.startswith(PREFIX):
            undone.append(entry.path.removeprefix(PREFIX))
        elif entry.kind == "step_completed" and entry.data.get("undo") is not None:
            done.append(entry.path)
        elif entry.kind == "continued":
            done.clear()  # continuing as new settles the steps before
        begun += entry.kind == "compensation_started"
        ended += entry.kind == "compensation_completed"
    last = history.entries[-1] if history.entries else None
    if last is None or last.kind not in ("failed", "cancelled", "timed_out"):
        return
    if not begun and (last.data.get("error") or {}).get("code") in _HELD:
        return
    failed = [e.path for e in history.entries if e.kind == "compensation_completed" and e.data.get("failed")]
    if undone != done[::-1] and not failed:
        yield Violation("K27", history.run, f"did {done}, undid {undone}")
    if begun != ended or begun > 1 or bool(done) != bool(begun):
        yield Violation("K27", history.run, f"began to undo {begun} times and was done {ended} times")
