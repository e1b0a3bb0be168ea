"""Search: how runs are found, and where a list continues.

A *term* is a tag of a run or a word of its error: runs are found by equal terms, in the order of creation.
A key is found by its beginning.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from stepwell.domain.commit import DEFAULT_WORKSPACE, NEVER, RunFilter, RunRow
from stepwell.domain.events import Problem
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput, excerpt

T = TypeVar("T")

WAITS = ("signal", "event", "approval", "trigger")  # waits that a person or program can answer
USUAL_TRIGGER = "api"  # most runs have this status, so it needs no index of its own
WORDS_MAX = 50  # words of one error
_WORD_MAX = 40
_TERM_MAX = 200  # bytes; a longer tag is found by its hash
_WORD = re.compile(r"\w+")
_TAG, _WORDS = "tag:", "word:"
_SURROGATES = range(0xD800, 0xE000)


class Page(list[T]):
    """Part of a list. `next` is the `before=` of the following page; '' on the last one."""

    def __init__(self, items: Iterable[T] = (), next: str = "") -> None:
        super().__init__(items)
        self.next = next


class RunCount(NamedTuple):
    """How many runs of a workflow, version and queue have this status."""

    workflow: str
    version: str
    queue: str
    status: Status
    runs: int


class BucketCount(NamedTuple):
    """How many runs created in one bucket of time have this status."""

    bucket: int  # number of the bucket, from 0
    status: Status
    runs: int


class BucketFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to count by creation time, in `buckets` buckets of `width` seconds."""

    workspace: str = DEFAULT_WORKSPACE
    workflow: str = ""
    version: str = ""
    queue: str = ""
    since: float
    width: float
    buckets: int

    @property
    def until(self) -> float:
        return self.since + self.width * self.buckets

    def bucket(self, created_at: float) -> int:
        # Rounding may put the last moment into a bucket beyond the end.
        return min(int((created_at - self.since) / self.width), self.buckets - 1)

    def takes(self, workflow: str, version: str, queue: str, created_at: float) -> bool:
        return (
            self.workflow in ("", workflow)
            and self.version in ("", version)
            and self.queue in ("", queue)
            and self.since <= created_at < self.until
        )


class WaitRow(NamedTuple):
    """An open wait that a person or program can answer.

    `opened` is its WaitOpened. `reassigned` is the last WaitReassigned of an approval, or b"".
    """

    run_id: RunId
    workflow: str
    number: int  # of the run
    path: str
    what: str  # signal | event | approval | trigger
    name: str
    key: str
    opened_at: float
    due_at: float | None
    opened: bytes
    reassigned: bytes = b""


class WaitFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which open waits to list, newest first. `before` is where the previous page ended."""

    workspace: str = DEFAULT_WORKSPACE
    whats: Sequence[str] = WAITS
    name: str = ""
    before: str = ""
    limit: int = 100

    @property
    def place(self) -> tuple[float, str, str]:
        if not self.before:
            return (NEVER, "", "")
        at, _, rest = self.before.partition("/")
        run_id, _, path = rest.partition("/")
        try:
            return (float(at), run_id, path)
        except ValueError:
            raise InvalidInput(
                f"before is {excerpt(self.before)}", hint="pass the `next` of the page before"
            ) from None


def wait_place(row: WaitRow) -> str:
    """Return where the list continues after this wait."""
    return f"{row.opened_at!r}/{row.run_id}/{row.path}"


def first_waits(rows: Iterable[WaitRow], filter: WaitFilter) -> list[WaitRow]:
    """Return the first waits, newest first."""
    return sorted(rows, key=lambda row: (row.opened_at, row.run_id, row.path), reverse=True)[: filter.limit]


class DecidedRow(NamedTuple):
    """A decided approval with its WaitOpened, WaitEnded and Received; b"" if there is none."""

    run_id: RunId
    workflow: str
    number: int  # of the run
    path: str
    name: str
    ended: int  # seq of WaitEnded
    at: float
    opened_at: float
    opened: bytes
    end: bytes
    received: bytes


class DecidedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which decided approvals to list, the last decision first. `before` is where the last page ended."""

    workspace: str = DEFAULT_WORKSPACE
    before: str = ""
    limit: int = 100

    @property
    def place(self) -> tuple[float, str, int]:
        if not self.before:
            return (NEVER, "", 0)
        try:
            at, run_id, ended = self.before.split("/")
            return (float(at), run_id, int(ended))
        except ValueError:
            raise InvalidInput(
                f"before is {excerpt(self.before)}", hint="pass the `next` of the page before"
            ) from None


def decided_place(row: DecidedRow) -> str:
    """Return where the list continues after this approval."""
    return f"{row.at!r}/{row.run_id}/{row.ended}"


class Bounds(NamedTuple):
    """A part of a list in the order of creation: since <= created_at, and (created_at, id) < (at, id)."""

    since: float
    at: float
    id: str


Group = tuple[str, str, str, str, int]  # workflow, version, queue, stored status, number of runs


def shown_counts(stored: Iterable[Group], owned: Iterable[Group]) -> list[RunCount]:
    """Return the counts by the status that people see: an owned run is running. Sorted, without zeros."""
    counts: dict[tuple[str, str, str, str], int] = {}
    for workflow, version, queue, status, n in stored:
        counts[workflow, version, queue, status] = counts.get((workflow, version, queue, status), 0) + n
    for workflow, version, queue, status, n in owned:
        for shown, change in ((status, -n), (Status.RUNNING.value, n)):
            counts[workflow, version, queue, shown] = (
                counts.get((workflow, version, queue, shown), 0) + change
            )
    return [
        RunCount(workflow, version, queue, Status(status), n)
        for (workflow, version, queue, status), n in sorted(counts.items())
        if n > 0
    ]


OwnedRun = tuple[str, str, str, str, float]  # workflow, version, queue, stored status, creation time


def shown_buckets(
    stored: Iterable[tuple[int, str, int]], owned: Iterable[OwnedRun], filter: BucketFilter
) -> list[BucketCount]:
    """Return the counts by bucket and the status that people see. Sorted, without zeros."""
    counts: dict[tuple[int, str], int] = {}

    def add(bucket: int, status: str, n: int) -> None:
        counts[bucket, status] = counts.get((bucket, status), 0) + n

    for bucket, status, n in stored:
        add(min(max(bucket, 0), filter.buckets - 1), status, n)
    for workflow, version, queue, status, created_at in owned:
        if filter.takes(workflow, version, queue, created_at):
            add(filter.bucket(created_at), status, -1)
            add(filter.bucket(created_at), Status.RUNNING.value, 1)
    return [BucketCount(bucket, Status(status), n) for (bucket, status), n in sorted(counts.items()) if n > 0]


# Terms


def tag_terms(tags: bytes) -> list[str]:
    """Return the terms under which a run's tags are stored: plain, or as the codec marks them."""
    if tags in (b"{}", b""):
        return []
    try:
        members = msgspec.json.decode(tags, type=dict[str, str | list[str]])
    except msgspec.DecodeError:
        return []  # not tags, so nothing is found by them
    return [
        tag_term(name, value) if isinstance(value, str) else mark_term(value[0])
        for name, value in members.items()
    ]


def tag_term(name: str, value: str) -> str:
    text = msgspec.json.encode([name, value])
    if len(text) > _TERM_MAX:
        return f"{_TAG}{hashlib.sha256(text).hexdigest()}"
    return f"{_TAG}{text.decode()}"


def mark_term(mark: str) -> str:
    return f"{_TAG}{mark}"


def word_terms(words: Iterable[str]) -> list[str]:
    return [f"{_WORDS}{word}" for word in words]


def words_of(text: str) -> tuple[str, ...]:
    """Return the distinct words of a text in lower case. Words have letters, digits and underscores."""
    words = dict.fromkeys(word[:_WORD_MAX] for word in _WORD.findall(text.casefold()))
    return tuple(words)[:WORDS_MAX]


def error_words(problem: Problem | None) -> tuple[str, ...]:
    """Return the words by which a failed run is found: those of its error's code, type and message."""
    return () if problem is None else words_of(f"{problem.code} {problem.type} {problem.message}")


def words_of_error(error: bytes | None) -> tuple[str, ...]:
    """Return the words of an error as it is stored; none if it is not readable."""
    try:
        return error_words(msgspec.json.decode(error, type=Problem)) if error else ()
    except msgspec.DecodeError:
        return ()


def terms_of(filter: RunFilter) -> list[str]:
    """Return the terms that a run must have; the first one has the fewest runs, most likely."""
    words = sorted(filter.words, key=len, reverse=True)
    tags = [tag_term(name, value) for name, value in filter.tags]
    return [*word_terms(words), *[mark_term(mark) for mark in filter.marks], *tags]


# Places in a list


def key_end(prefix: str) -> str:
    """Return the first text after all texts with this prefix."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= 0x10FFFF:
            return prefix[:place] + chr(code)
    return chr(0x10FFFF) * 501  # longer than any key


def bounds_of(filter: RunFilter) -> Bounds:
    until = Bounds(filter.since, filter.until, "")
    if not filter.before or filter.prefix:
        return until
    at, _, run_id = filter.before.partition("/")
    try:
        place = Bounds(filter.since, float(at), run_id)
    except ValueError:
        raise InvalidInput(
            f"before is {excerpt(filter.before)}", hint="pass the `next` of the page before, or a run's id"
        ) from None
    return min(until, place)


def place_of(row: RunRow, filter: RunFilter) -> str:
    """Return where the list continues after this run."""
    return row.key if filter.prefix else f"{row.created_at!r}/{row.id}"


def in_order(rows: Iterable[RunRow], filter: RunFilter) -> list[RunRow]:
    """Sort newest first, or by key with the last one first if runs are found by key."""
    if filter.prefix:
        return sorted(rows, key=lambda row: row.key, reverse=True)
    return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)


def fits(row: RunRow, queue: str, terms: Sequence[str], filter: RunFilter) -> bool:
    """Return whether the list includes this run, which is in that queue and has these terms."""
    bounds = bounds_of(filter)
    return (
        row.workspace == filter.workspace
        and filter.workflow in ("", row.workflow)
        and filter.version in ("", row.version)
        and filter.queue in ("", queue)
        and (not filter.statuses or row.status in filter.statuses)
        and filter.key in ("", row.key)
        and filter.parent in ("", row.parent)
        and row.id.startswith(filter.id_prefix)
        and filter.trigger in ("", row.trigger)
        and bounds.since <= row.created_at
        and (row.created_at, row.id) < (bounds.at, bounds.id)
        and (not filter.prefix or (row.key.startswith(filter.prefix) and row.key < key_limit(filter)))
        and set(terms_of(filter)) <= set(terms)
    )


def key_limit(filter: RunFilter) -> str:
    """Return the key before which the keys of this page come."""
    return filter.before or key_end(filter.prefix)
